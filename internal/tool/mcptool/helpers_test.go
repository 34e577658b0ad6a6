package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// load reads the YAML of one server, which must have no fault.
func load(t testing.TB, yaml string) *ServerConfig {
	t.Helper()
	f := config.Parse("f.yaml", t.TempDir(), []byte(yaml), os.LookupEnv)
	c := &ServerConfig{}
	f.Decode(c)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	return c
}

// program is the YAML of a server that is this test binary, behaving as mode says. more are further keys.
func program(mode, more string) string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return "{command: " + quote(exe) + ", env: {MCPTOOL_SERVER: " + quote(mode) + "}" + more + "}"
}

func quote(s string) string { return string(tool.EncodeJSON(s)) }

// quick is a pace for tests.
var quick = pace{
	debounce: 20 * time.Millisecond, poll: 100 * time.Millisecond, base: 20 * time.Millisecond, max: 100 * time.Millisecond,
	settled: time.Hour, idle: time.Hour,
}

// running is a server whose Run is under way, and what it has told.
type running struct {
	*Server
	t    testing.TB
	logs *buffer
	stop func()

	mu    sync.Mutex
	told  [][]Tool
	heard chan struct{}
}

// buffer is a bytes.Buffer for many goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start makes the server of a YAML text and runs it until the test ends.
func start(t testing.TB, yaml string, change ...func(*Server)) *running {
	t.Helper()
	r := &running{t: t, logs: &buffer{}, heard: make(chan struct{}, 1)}
	transport := &http.Transport{}
	s, err := New("it", load(t, yaml), Options{
		Logger:    slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Transport: transport,
		OnTools: func(server string, tools []Tool) {
			if server != "it" {
				t.Errorf("OnTools is told of server %q", server)
			}
			r.mu.Lock()
			r.told = append(r.told, tools)
			r.mu.Unlock()
			poke(r.heard)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.pace = quick
	for _, f := range change {
		f(s)
	}
	r.Server = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
		transport.CloseIdleConnections()
	})
	t.Cleanup(r.stop)
	return r
}

// until waits for something.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// ready waits for the server's tools.
func (r *running) ready() *running {
	r.t.Helper()
	until(r.t, "the server", r.Ready)
	return r
}

// lists are how many times OnTools was told, and what it was told last.
func (r *running) lists() (int, []Tool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) == 0 {
		return 0, nil
	}
	return len(r.told), r.told[len(r.told)-1]
}

// named is the tool with that ID.
func named(tools []Tool, id string) (Tool, bool) {
	for _, t := range tools {
		if t.ID == id {
			return t, true
		}
	}
	return Tool{}, false
}

// call calls a tool by its ID.
func (r *running) call(ctx context.Context, id string, c tool.Call) (string, error) {
	result, err := r.Caller(Tool{Server: "it", ID: id}).Call(ctx, c)
	return result.Text, err
}

// say is a call that must go well.
func (r *running) say(id string) string {
	r.t.Helper()
	text, err := r.call(r.t.Context(), id, tool.Call{})
	if err != nil {
		r.t.Fatalf("%s: %v", id, err)
	}
	return text
}

// wants fails the test unless err is an error of that class and type.
func wants(t testing.TB, err error, class tool.Class, kind string) {
	t.Helper()
	_ = failure(t, err, class, kind)
}

// failure is err as an error of that class and type.
func failure(t testing.TB, err error, class tool.Class, kind string) *tool.Error {
	t.Helper()
	e := tool.AsError(err)
	if err == nil || e.Class != class || e.Type != kind {
		t.Fatalf("error = %v, want class %s and type %q", err, class, kind)
	}
	return e
}

// starts is how often the programs that note it in path were started.
func starts(t testing.TB, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func testLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func args(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// asCall is a call of somebody with those fields, of which "header:NAME" are headers of the client's request.
func asCall(fields map[string]any) tool.Call {
	c := tool.Call{Caller: map[string]any{}, Headers: http.Header{}}
	for name, v := range fields {
		if header, ok := strings.CutPrefix(name, "header:"); ok {
			c.Headers.Set(header, v.(string))
		} else {
			c.Caller[name] = v
		}
	}
	return c
}
