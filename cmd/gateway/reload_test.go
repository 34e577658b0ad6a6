package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/mask"
)

// reloading is a gateway that serves a configuration of files, and reads it again.
type reloading struct {
	*reloader
	t     *testing.T
	file  string
	url   string
	log   *lines
	asked chan os.Signal
	stop  func()
}

// lines is a log. It may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// quick is for tests: only what they mean to wait for takes time.
var quick = pace{calm: 10 * time.Millisecond, look: 50 * time.Millisecond, settle: 5 * time.Second, cut: time.Second}

// serveFile serves the configuration in file until the test ends.
func serveFile(t *testing.T, file string, p pace) *reloading {
	t.Helper()
	return serveFileWith(t, file, p, func(*reloader) {})
}

// serveFileWith is serveFile with a change of the reloader before it starts.
func serveFileWith(t *testing.T, file string, p pace, change func(*reloader)) *reloading {
	t.Helper()
	f := source(file).read()
	c, err := check(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(c)
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	*g.log = *slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: g.level, ReplaceAttr: mask.Attr(g.hidden.masker.Load)}))
	g.after = c.close
	g.start(t.Context())
	r := newReloader(g, source(file), f)
	r.pace = p
	change(r)
	asked := make(chan os.Signal, 1)
	stop := r.start(t.Context(), asked)
	front := httptest.NewServer(g.server.Handler(true))
	var once sync.Once
	s := &reloading{reloader: r, t: t, file: file, url: front.URL, log: log, asked: asked}
	s.stop = func() {
		once.Do(func() {
			front.Close()
			stop()
			g.close()
		})
	}
	t.Cleanup(s.stop)
	return s
}

// models are the names at /v1/models.
func (s *reloading) models() string {
	s.t.Helper()
	return joined(gjson.Get(s.get("/v1/models"), "data.#.id"))
}

func joined(list gjson.Result) string {
	var names []string
	for _, n := range list.Array() {
		names = append(names, n.Str)
	}
	return strings.Join(names, " ")
}

func (s *reloading) get(path string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// patience bounds every wait for something that takes a moment.
const patience = 20 * time.Second

// await waits until what it asks for is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (s *reloading) awaitModels(want string) {
	s.t.Helper()
	await(s.t, "models "+want+"; the log:\n"+s.log.String(), func() bool { return s.models() == want })
}

// hup asks for a reading and waits for it.
func (s *reloading) hup() {
	s.t.Helper()
	count := func() int {
		return strings.Count(s.log.String(), `"configuration reloaded"`) + strings.Count(s.log.String(), `"configuration not reloaded`)
	}
	before := count()
	s.asked <- syscall.SIGHUP
	await(s.t, "the end of the reading", func() bool { return count() > before })
}

// hupQuietly is hup for a configuration that logs no success.
func (s *reloading) hupQuietly() {
	s.t.Helper()
	before := testutil.ToFloat64(s.g.metrics.reloadedAt)
	s.asked <- syscall.SIGHUP
	await(s.t, "the end of the reading", func() bool { return testutil.ToFloat64(s.g.metrics.reloadedAt) > before })
}

func (s *reloading) success() float64 { return testutil.ToFloat64(s.g.metrics.reloaded) }

// oneModel is a configuration with a model of that name.
func oneModel(name string) string {
	return "upstreams: {up: {base_url: http://127.0.0.1:9/v1}}\nmodels: {" + name + ": {upstream: up}}\n"
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rename puts a text in the place of a file as editors do.
func rename(t *testing.T, file, text string) {
	t.Helper()
	write(t, file+".new", text)
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// onlyEvents leaves the system's word as the one way in which a change is seen.
var onlyEvents = pace{calm: quick.calm, look: time.Hour, settle: quick.settle, cut: quick.cut}

func TestChangeOfTheFileIsSeen(t *testing.T) {
	for name, replace := range map[string]func(*testing.T, string, string){"written in place": write, "another in its place": rename} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "gateway.yaml")
			write(t, file, oneModel("a"))
			s := serveFile(t, file, onlyEvents)
			s.awaitModels("a")
			for _, model := range []string{"b", "c"} {
				replace(t, file, oneModel(model))
				s.awaitModels(model)
			}
		})
		t.Run(name+", without a word of the system", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "gateway.yaml")
			write(t, file, oneModel("a"))
			s := serveFileWith(t, file, quick, func(r *reloader) {
				r.watch.close()
				r.watch.notify = nil
			})
			replace(t, file, oneModel("b"))
			s.awaitModels("b")
		})
	}
}

// A volume of a ConfigMap: gateway.yaml leads through ..data, a link that is replaced as a whole.
func TestSwapOfAConfigMapIsSeen(t *testing.T) {
	dir := t.TempDir()
	publish := func(version, yaml string) {
		t.Helper()
		folder := filepath.Join(dir, "..version_"+version)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "gateway.yaml"), yaml)
		old, _ := os.Readlink(filepath.Join(dir, "..data"))
		if err := os.Symlink("..version_"+version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if old != "" {
			if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("1", oneModel("a"))
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.Symlink(filepath.Join("..data", "gateway.yaml"), file); err != nil {
		t.Fatal(err)
	}
	s := serveFile(t, file, onlyEvents)
	for i, model := range []string{"b", "c", "d"} {
		publish(fmt.Sprint(i+2), oneModel(model))
		s.awaitModels(model)
	}
}

func TestChangeOfAFileThatTheConfigurationNamesIsSeen(t *testing.T) {
	const csv = "code,text\na,first\n"
	dir, other := t.TempDir(), t.TempDir()
	file, secret, table, parameters := filepath.Join(dir, "gateway.yaml"), filepath.Join(other, "key"), filepath.Join(other, "table.csv"), filepath.Join(dir, "p.json")
	write(t, secret, "first-key-of-the-provider")
	write(t, table, csv)
	write(t, parameters, `{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`)
	write(t, file, `
upstreams: {up: {base_url: http://127.0.0.1:9/v1, api_key: "${file:`+secret+`}"}}
tools:
  explain:
    description: Explain a code.
    parameters: {$file: p.json}
    table: {file: `+table+`, key_column: code, value_column: text, key: "{code}"}
`)
	s := serveFile(t, file, onlyEvents)
	for path, text := range map[string]string{
		secret: "second-key-of-the-provider", table: csv + "b,second\n", parameters: `{"type":"object","properties":{"code":{"type":"string","maxLength":3}},"required":["code"]}`,
	} {
		before := strings.Count(s.log.String(), "configuration reloaded")
		rename(t, path, text)
		await(t, "a reading after a change of "+path, func() bool { return strings.Count(s.log.String(), "configuration reloaded") > before })
	}
	if tools := s.get("/gateway/tools"); !strings.Contains(tools, "maxLength") {
		t.Errorf("the tools are as before: %s", tools)
	}
}

func TestInvalidFileChangesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a"))
	s := serveFile(t, file, quick)

	rename(t, file, oneModel("b")+"modelz: {}\nbudget: {max_steps: many}\n")
	await(t, "gateway_config_reload_success 0", func() bool { return s.success() == 0 })
	if got := s.models(); got != "a" {
		t.Errorf("models %q, want those of the valid file", got)
	}
	for _, want := range []string{`gateway.yaml:3:1: modelz`, `gateway.yaml:4:21: budget.max_steps`, `"faults":2`} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, s.log)
		}
	}
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "gateway.yaml:") && gjson.Get(line, "level").Str != "ERROR" {
			t.Errorf("a fault is logged as %s", line)
		}
	}
	time.Sleep(5 * quick.look)
	if n := strings.Count(s.log.String(), "configuration not reloaded"); n != 1 {
		t.Errorf("the same invalid file was read %d times", n)
	}

	rename(t, file, oneModel("b"))
	s.awaitModels("b")
	await(t, "gateway_config_reload_success 1", func() bool { return s.success() == 1 })
}

// A file that comes in pieces is read when it is whole.
func TestHalfWrittenFileIsNotRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a"))
	slow := quick
	slow.calm = 300 * time.Millisecond
	s := serveFile(t, file, slow)

	text := oneModel("b")
	for i := 1; i <= 10; i++ {
		write(t, file, text[:len(text)*i/10])
		time.Sleep(30 * time.Millisecond)
	}
	s.awaitModels("b")
	if strings.Contains(s.log.String(), "not reloaded") {
		t.Errorf("half a file was read: %s", s.log)
	}
}

func TestFileThatIsTheSameIsReadOnlyWhenAsked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a"))
	s := serveFile(t, file, quick)
	rename(t, file, oneModel("a"))
	if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * quick.look)
	if strings.Contains(s.log.String(), "reloaded") {
		t.Errorf("a file with the same content was read: %s", s.log)
	}
	s.hup()
	if !strings.Contains(s.log.String(), `"reason":"SIGHUP"`) {
		t.Errorf("the log lacks the reading that was asked for: %s", s.log)
	}
}

func TestFileThatVanishesAndComesBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a"))
	s := serveFile(t, file, quick)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	await(t, "gateway_config_reload_success 0", func() bool { return s.success() == 0 })
	write(t, file, oneModel("a"))
	await(t, "gateway_config_reload_success 1", func() bool { return s.success() == 1 })
}

func TestKeysThatTakeEffectAtTheNextStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a")+"server: {listen: \"127.0.0.1:0\"}\n")
	s := serveFile(t, file, quick)
	rename(t, file, oneModel("b")+"server: {listen: \"127.0.0.1:1\", admin_listen: \"127.0.0.1:2\", shutdown_grace: 7s}\nlog: {format: text, level: warn}\n")
	s.awaitModels("b")
	for _, key := range []string{"server.listen", "server.admin_listen", "log.format"} {
		await(t, "a word of the log on "+key, func() bool { return strings.Contains(s.log.String(), `"key":"`+key+`"`) })
	}
	if s.g.log.Enabled(t.Context(), slog.LevelInfo) {
		t.Error("the level of the log is as before")
	}
	if got := s.grace(); got != 7*time.Second {
		t.Errorf("grace %s, want the new 7s", got)
	}
}

// A file without keys is fine on this machine alone; the listener that other machines reach stays.
func TestFileWithoutKeysIsRefusedWhereTheListenerStaysOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a")+"server: {listen: \"0.0.0.0:8080\"}\nauth: {keys: [{name: web, sha256: "+strings.Repeat("0a", 32)+"}]}\n")
	s := serveFile(t, file, quick)
	rename(t, file, oneModel("b"))
	await(t, "gateway_config_reload_success 0", func() bool { return s.success() == 0 })
	if !strings.Contains(s.log.String(), "no auth is configured") {
		t.Errorf("the log does not say why: %s", s.log)
	}
}

// The log hides the secrets of the configuration in force, and of the one before while somebody is served by it.
func TestLogHidesOldSecretsAndNew(t *testing.T) {
	const first, second = "first-secret-of-the-operator", "second-secret-of-the-operator"
	asked, goOn := make(chan struct{}), make(chan struct{})
	up := provider(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-goOn
	})
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	yaml := func(key string) string {
		return "upstreams: {up: {base_url: " + up + "/v1, api_key: " + key + "}}\nmodels: {m: {upstream: up}}\n"
	}
	write(t, file, yaml(first))
	s := serveFile(t, file, quick)
	ended := s.ask(t, question)
	<-asked
	rename(t, file, yaml(second))
	s.hup()
	s.g.log.Info("both", slog.String("text", first+" "+second))
	close(goOn)
	<-ended
	if text := s.log.String(); strings.Contains(text, first) || strings.Contains(text, second) {
		t.Errorf("the log has a secret: %s", text)
	}
	await(t, "the old secret is no longer hidden", func() bool { return s.g.hidden.masker.Load().Known(first+second) == first+mask.Mask })
}

// provider is a model's server, which answers every request in one piece after before.
func provider(t *testing.T, before http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		before(w, r)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "created": 1, "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}},
		})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const question = `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`

// ask sends a chat completion, and gives its status and body when it has ended.
func (s *reloading) ask(t *testing.T, body string) <-chan string {
	ended := make(chan string, 1)
	go func() { // ends with the request
		resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			ended <- ""
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		ended <- fmt.Sprint(resp.StatusCode, " ", string(b))
	}()
	return ended
}
