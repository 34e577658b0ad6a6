package mcptool

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/tool"
)

func TestAProgramsToolsAreListedAndCalled(t *testing.T) {
	for _, mode := range []string{"newest", "older", "noise", "slow", "older noise slow"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := start(t, program(mode, "")).ready()
			_, tools := r.lists()
			echo, ok := named(tools, "echo")
			if !ok {
				t.Fatalf("tools = %v, want echo among them", tools)
			}
			if echo.Name != "it__echo" || echo.Description != "Says it again." || !echo.ReadOnly || !echo.Idempotent || echo.Server != "it" {
				t.Errorf("echo = %+v", echo)
			}
			const want = `{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"}},"required":["zeta"]}`
			got := string(echo.Schema.JSON())
			if i := strings.Index(got, "zeta"); i < 0 || i > strings.Index(got, "alpha") {
				t.Errorf("schema = %s, want as %s: what is required comes first", got, want)
			}
			text, err := r.call(t.Context(), "echo", tool.Call{Args: args(t, `{"zeta":"ü<>&","alpha":9007199254740993}`)})
			if want := `{"alpha":9007199254740993,"zeta":"ü<>&"}`; err != nil || text != want {
				t.Errorf("echo = %q, %v; want %q", text, err, want)
			}
			if text := r.say("progress"); text != "done" {
				t.Errorf("progress = %q", text)
			}
			if mode == "noise" {
				until(t, "noise in the log", func() bool {
					logs := r.logs.String()
					return strings.Contains(logs, "Welcome to the noisy server!") && strings.Contains(logs, "noise on stderr")
				})
			}
		})
	}
}

func TestOutcomesOfCalls(t *testing.T) {
	r := start(t, program("", "")).ready()
	for id, want := range map[string]string{
		"structured": `{"city":"São <Paulo>","n":3}`,
		"picture":    "Here it is:\n[image image/png, 4033 bytes]",
		"echo":       "{}",
		"meta":       "",
	} {
		if got := r.say(id); got != want {
			t.Errorf("%s = %q, want %q", id, got, want)
		}
	}
	if got, err := r.call(t.Context(), "meta", tool.Call{IdempotencyKey: "tg_1"}); got != "tg_1" || err != nil {
		t.Errorf("the key in _meta = %q, %v", got, err)
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ctx, _ := (*span.Tracer)(nil).Begin(t.Context(), http.Header{"Traceparent": {parent}}, "", false)
	if got, err := r.call(ctx, "parent", tool.Call{}); got != parent || err != nil {
		t.Errorf("traceparent in _meta = %q, %v", got, err)
	}
	_, err := r.call(t.Context(), "fail", tool.Call{})
	if e := failure(t, err, tool.Business, TypeMCP); e.Message != "no note about that" {
		t.Errorf("message = %q", e.Message)
	}
	_, err = r.call(t.Context(), "nothing_like_it", tool.Call{})
	if e := failure(t, err, tool.Business, TypeMCP); !strings.Contains(e.Message, "nothing_like_it") {
		t.Errorf("message of an unknown tool = %q", e.Message)
	}
}

func TestOutcomesThatNoLibraryMakes(t *testing.T) {
	r := start(t, program("raw", ", prefix: ''")).ready()
	_, tools := r.lists()
	if file, ok := named(tools, "file"); ok {
		t.Errorf("a tool whose schema reads files is offered: %+v", file)
	}
	if look, ok := named(tools, "look"); !ok || len(look.Warnings) != 1 || strings.Contains(string(look.Schema.JSON()), "(?=") || look.Description != "look" || look.Name != "look" {
		t.Errorf("look = %+v, want it without its pattern, and a warning", look)
	}
	if logs := r.logs.String(); !strings.Contains(logs, `tool \"file\" is left out`) || !strings.Contains(logs, `tool \"look\": `) {
		t.Errorf("log has no warnings of the list:\n%s", logs)
	}
	tests := []struct {
		id    string
		class tool.Class
		kind  string
	}{
		{"big", tool.InvalidResult, tool.TypeDecode},
		{"big_last", tool.InvalidResult, tool.TypeDecode},
		{"odd", tool.InvalidResult, tool.TypeDecode},
		{"closing", tool.Failed, TypeMCP},
		{"unknown", tool.Business, TypeMCP},
		{"broken", tool.Failed, TypeMCP},
		{"input", tool.Failed, TypeMCP},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			_, err := r.call(t.Context(), tt.id, tool.Call{})
			wants(t, err, tt.class, tt.kind)
		})
	}
	if n, _ := r.lists(); n != 1 {
		t.Errorf("the list was told %d times, want once: none of this ends a session", n)
	}
}

func TestOldServersThatTakeTheNewHandshakeAmiss(t *testing.T) {
	for _, mode := range []string{"raw mute", "raw fragile"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			start(t, program(mode, ", list_timeout: 1s")).ready()
			s, err := New("it", load(t, program(mode, ", list_timeout: 1s")), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if tools, err := s.Connect(t.Context()); err != nil || len(tools) == 0 {
				t.Errorf("Connect() = %v, %v", tools, err)
			}
		})
	}
}

func TestACallIsCanceledAtTheServerAndTheSessionGoesOn(t *testing.T) {
	for _, mode := range []string{"newest", "older"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := start(t, program(mode, "")).ready()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := r.call(ctx, "wait", tool.Call{})
			wants(t, err, tool.Timeout, tool.TypeTimeout)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the call took %v", took)
			}
			gone, leave := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, leave)
			_, err = r.call(gone, "wait", tool.Call{})
			wants(t, err, tool.Failed, tool.TypeInternal)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error = %v, want context.Canceled in it", err)
			}
			until(t, "both cancellations at the server", func() bool { return r.say("canceled") == "2" })
			if n, _ := r.lists(); n != 1 {
				t.Errorf("the list was told %d times, want once", n)
			}
		})
	}
}

func TestAListThatChangesIsToldOnce(t *testing.T) {
	for _, mode := range []string{"newest", "older"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := start(t, program(mode, "")).ready()
			r.say("more")
			until(t, "the new tool", func() bool { _, tools := r.lists(); _, ok := named(tools, "added"); return ok })
			if got := r.say("added"); got != "new" {
				t.Errorf("added = %q", got)
			}
			r.say("less")
			until(t, "its end", func() bool { n, tools := r.lists(); _, ok := named(tools, "added"); return !ok && n == 3 })
		})
	}
}

func TestAServerThatDiesInACallIsBack(t *testing.T) {
	r := start(t, program("", "")).ready()
	_, err := r.call(t.Context(), "die", tool.Call{})
	wants(t, err, tool.Unavailable, tool.TypeConnect)
	if !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("error = %v, want the exit status and the end of stderr", err)
	}
	// The very next call waits for the server to be back.
	if got := r.say("echo"); got != "{}" {
		t.Errorf("echo = %q", got)
	}
	until(t, "the tools", func() bool { n, tools := r.lists(); return n == 3 && len(tools) > 0 })
	if list := r.told[1]; len(list) != 0 {
		t.Errorf("told when it died: %v, want nothing", list)
	}
}

func TestAServerThatDiesAgainAndAgainIsNotStartedWithoutPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "starts")
	r := start(t, program("crash", "")[:len(program("crash", ""))-2]+", MCPTOOL_STARTS: "+quote(path)+"}, required: true}", func(s *Server) {
		s.pace.base, s.pace.max = 200*time.Millisecond, 400*time.Millisecond
	})
	until(t, "three starts", func() bool { return starts(t, path) >= 3 })
	if r.Ready() || !r.Required() {
		t.Errorf("Ready() = %v, Required() = %v", r.Ready(), r.Required())
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no database at db:5432") {
		t.Errorf("Err() = %v, want the exit status and stderr", err)
	}
	if n := strings.Count(r.logs.String(), "level=WARN"); n > 2 {
		t.Errorf("%d warnings of the same failure:\n%s", n, r.logs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := r.call(ctx, "echo", tool.Call{})
	wants(t, err, tool.Unavailable, tool.TypeConnect)
	if n, _ := r.lists(); n != 0 {
		t.Errorf("lists of a server that was never there: %d", n)
	}
}

func TestAServerThatNeverAnswers(t *testing.T) {
	for _, mode := range []string{"deaf", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := start(t, program(mode, ", list_timeout: 200ms"))
			until(t, "the failure", func() bool { return r.Err() != nil && errors.Is(r.Err(), errNoAnswer) })
			began := time.Now()
			r.stop()
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("Run took %v to end", took)
			}
		})
	}
}

func TestAServerThatHangsLaterLosesItsTools(t *testing.T) {
	r := start(t, program("", ", list_timeout: 1s")).ready()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := r.call(ctx, "hang", tool.Call{})
	wants(t, err, tool.Timeout, tool.TypeTimeout)
	until(t, "tools gone and back", func() bool { n, tools := r.lists(); return n == 3 && len(tools) > 0 })
	if got := r.say("echo"); got != "{}" {
		t.Errorf("echo = %q", got)
	}
}

func TestAProgramGetsNoOtherEnvironment(t *testing.T) {
	t.Setenv("MCPTOOL_SECRET", "hunter2")
	dir := t.TempDir()
	r := start(t, program("", ", cwd: "+quote(dir))).ready()
	allowed := map[string]bool{"PATH": true, "HOME": true, "MCPTOOL_SERVER": true, "PWD": true}
	for line := range strings.Lines(r.say("env")) {
		if name, _, _ := strings.Cut(line, "="); !allowed[name] {
			t.Errorf("the program has %q", line)
		}
	}
	if got, _ := filepath.EvalSymlinks(dir); r.say("cwd") != got {
		t.Errorf("cwd = %q, want %q", r.say("cwd"), got)
	}
}

func TestAProgramIsLookedForBesideTheFile(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(dir, "server")); err != nil {
		t.Fatal(err)
	}
	r := start(t, `{command: ./server, env: {MCPTOOL_SERVER: ""}}`, func(s *Server) { s.config.dir = dir }).ready()
	if got, _ := filepath.EvalSymlinks(dir); r.say("cwd") != got {
		t.Errorf("cwd = %q, want %q", r.say("cwd"), got)
	}
}

func TestNothingOfAProgramOutlivesRun(t *testing.T) {
	for _, mode := range []string{"", "lingers"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := start(t, program(mode, "")).ready()
			pid, err := strconv.Atoi(r.say("child"))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			r.stop()
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("Run took %v to end", took)
			}
			until(t, "the end of the grandchild", func() bool { return !alive(pid) })
		})
	}
}

// alive says whether there is a process that is no zombie: nobody may reap orphans where tests run.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestCallsEndWithRun(t *testing.T) {
	r := start(t, program("", "")).ready()
	failed := make(chan error)
	go func() {
		_, err := r.call(context.Background(), "wait", tool.Call{})
		failed <- err
	}()
	time.Sleep(50 * time.Millisecond)
	r.stop()
	wants(t, <-failed, tool.Unavailable, tool.TypeConnect)
	_, err := r.call(t.Context(), "echo", tool.Call{})
	wants(t, err, tool.Unavailable, tool.TypeConnect)
	if r.Ready() || r.Err() == nil {
		t.Errorf("Ready() = %v, Err() = %v after Run", r.Ready(), r.Err())
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	s, err := New("it", load(t, "{command: no-such-program-at-all}"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "is the program installed") {
		t.Errorf("Connect() = %v", err)
	}
}

func TestAListWithoutEndIsRefused(t *testing.T) {
	s, err := New("it", load(t, program("raw endless", "")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(t.Context()); !errors.Is(err, errManyTools) {
		t.Errorf("Connect() = %v, want %v", err, errManyTools)
	}
}

func TestFilesChoiceOfTools(t *testing.T) {
	r := start(t, program("", ", prefix: 'x_', tools: {include: ['e*', meta, fail], exclude: [env], set: {fail: {timeout: 1s}, gone: {}}}")).ready()
	_, tools := r.lists()
	var got []string
	for _, tool := range tools {
		got = append(got, tool.Name)
		if (tool.ID == "fail") != (tool.Set != nil) {
			t.Errorf("%s: Set = %v", tool.ID, tool.Set)
		}
	}
	if want := "x_echo x_fail x_meta"; strings.Join(got, " ") != want {
		t.Errorf("tools = %v, want %s", got, want)
	}
	if logs := r.logs.String(); !strings.Contains(logs, `tools.set has \"gone\"`) {
		t.Errorf("no word of an entry that fits nothing:\n%s", logs)
	}
}

func TestAGrandchildThatHoldsThePipesOpenHoldsNothingUp(t *testing.T) {
	r := start(t, program("", "")).ready()
	r.say("daemon")
	began := time.Now()
	_, err := r.call(t.Context(), "die", tool.Call{})
	wants(t, err, tool.Unavailable, tool.TypeConnect)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the end of the server showed after %v", took)
	}
	r.say("echo")
}

func TestTwoServersWithTheSameToolsLiveApart(t *testing.T) {
	a, b := start(t, program("", ", prefix: a_")).ready(), start(t, program("", ", prefix: b_")).ready()
	_, ofA := a.lists()
	_, ofB := b.lists()
	for i := range ofA {
		if ofA[i].ID != ofB[i].ID || ofA[i].Name != "a_"+ofA[i].ID || ofB[i].Name != "b_"+ofB[i].ID {
			t.Errorf("%s and %s", ofA[i].Name, ofB[i].Name)
		}
	}
	_, err := a.call(t.Context(), "die", tool.Call{})
	wants(t, err, tool.Unavailable, tool.TypeConnect)
	if n, _ := b.lists(); n != 1 || b.say("echo") != "{}" {
		t.Error("the end of one server touched the other")
	}
}

func TestACallWaitsForTheFirstSession(t *testing.T) {
	r := start(t, program("slow", ""))
	if got := r.say("echo"); got != "{}" {
		t.Errorf("echo = %q", got)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	r := start(t, program("", "")).ready()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want := `{"zeta":"` + strconv.Itoa(i) + `"}`
			if got, err := r.call(t.Context(), "echo", tool.Call{Args: args(t, want)}); got != want || err != nil {
				t.Errorf("echo = %q, %v; want %q", got, err, want)
			}
		})
	}
	wg.Wait()
}
