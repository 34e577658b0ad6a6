package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/breaker"
)

// epochs are configurations that can be told from each other: in number n, the provider's name of the model, the
// instructions and what the only tool finds in a database of its own are all "gN".
type epochs struct {
	dir, upstream, more string
}

// newEpochs makes the databases of the first n configurations.
func newEpochs(t *testing.T, upstream string, n int) *epochs {
	t.Helper()
	e := &epochs{dir: t.TempDir(), upstream: upstream}
	for i := range n {
		db, err := sql.Open("sqlite", filepath.Join(e.dir, fmt.Sprintf("g%d.db", i)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf("CREATE TABLE epoch (name TEXT); INSERT INTO epoch VALUES ('g%d')", i)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func (e *epochs) file() string { return filepath.Join(e.dir, "gateway.yaml") }

func (e *epochs) yaml(n int) string {
	return fmt.Sprintf(`
upstreams: {up: {base_url: %s/v1, retry: {attempts: 1}}}
databases: {d: {url: "sqlite:g%d.db"}}
models: {m: {upstream: up, model: g%d, instructions: "of g%d"}}
tools:
  epoch:
    description: Tell the epoch.
    parameters: {}
    cache: 1ms
    sql: {database: d, query: SELECT name FROM epoch}
%s`, e.upstream, n, n, n, e.more)
}

// teller is a provider whose model calls the tool, and answers with what it has seen of the configuration: its own name
// in both steps, the instructions and the tool's result. What it streams comes in pieces.
type teller struct {
	answers chan struct{} // if not nil, an answer goes on after its first piece when this brings something
	begun   chan struct{}
}

func (p *teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	model, stream := gjson.GetBytes(body, "model").Str, gjson.GetBytes(body, "stream").Bool()
	var delta map[string]any
	finish := "stop"
	if last := gjson.GetBytes(body, "messages.@reverse.0"); last.Get("role").Str == "tool" {
		call := gjson.GetBytes(body, "messages.#(tool_calls).tool_calls.0.id").Str
		delta = map[string]any{"role": "assistant", "content": strings.Join([]string{
			model, call, gjson.GetBytes(body, "messages.0.content").Str, last.Get("content").Str,
		}, "|")}
	} else {
		finish = "tool_calls"
		delta = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"index": 0, "id": "call_" + model, "type": "function", "function": map[string]any{"name": "epoch", "arguments": "{}"},
		}}}
	}
	reply := map[string]any{"id": "x", "created": 1, "model": model}
	if !stream {
		reply["object"] = "chat.completion"
		reply["choices"] = []any{map[string]any{"index": 0, "message": delta, "finish_reason": finish}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	reply["object"] = "chat.completion.chunk"
	chunk := func(delta any, finish any) {
		reply["choices"] = []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}
		b, _ := json.Marshal(reply)
		fmt.Fprintf(w, "data: %s\n\n", b)
		_ = http.NewResponseController(w).Flush()
	}
	if text, ok := delta["content"].(string); ok {
		head, tail, _ := strings.Cut(text, "|")
		chunk(map[string]any{"role": "assistant", "content": head}, nil)
		if p.answers != nil {
			p.begun <- struct{}{}
			<-p.answers
		}
		delta = map[string]any{"content": "|" + tail}
	}
	chunk(delta, nil)
	chunk(map[string]any{}, finish)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// epochOf is the configuration that an answer tells of, or an error where parts of it are of several.
func epochOf(answer string) (string, error) {
	parts := strings.Split(answer, "|")
	if len(parts) != 4 {
		return "", fmt.Errorf("%q is no answer", answer)
	}
	g := parts[0]
	if parts[1] != "call_"+g || parts[2] != "of "+g || gjson.Get(parts[3], "@this").Raw == "" || !strings.Contains(parts[3], `"`+g+`"`) {
		return "", fmt.Errorf("%q is of several configurations", answer)
	}
	return g, nil
}

// say sends the question and gives the answer, of a stream the text of all its pieces. client keeps connections.
func say(ctx context.Context, client *http.Client, url string, stream bool) (string, error) {
	body := question
	if stream {
		body = strings.Replace(body, "{", `{"stream":true,`, 1)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	if !stream {
		return gjson.GetBytes(text, "choices.0.message.content").Str, nil
	}
	if !strings.Contains(string(text), "data: [DONE]") {
		return "", fmt.Errorf("the stream has no end: %s", text)
	}
	answer := ""
	for line := range strings.Lines(string(text)) {
		data, _ := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		answer += gjson.Get(data, "choices.0.delta.content").Str
	}
	return answer, nil
}

// Clients make runs and streams while the configuration is replaced again and again. None is refused or cut off, each is
// served by one configuration from its beginning to its end, and nobody gets an older one than somebody had before.
func TestReloadsUnderLoad(t *testing.T) {
	const reloads, clients = 50, 8
	up := httptest.NewServer(&teller{})
	t.Cleanup(up.Close)
	e := newEpochs(t, up.URL, reloads+1)
	write(t, e.file(), e.yaml(0))
	s := serveFile(t, e.file(), pace{calm: time.Millisecond, look: time.Hour, settle: quick.settle, cut: quick.cut})

	var wg sync.WaitGroup
	var made atomic.Int64
	done := make(chan struct{})
	var mu sync.Mutex
	seen := map[string]bool{}
	for i := range clients {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			newest := -1
			for {
				select {
				case <-done:
					return
				default:
				}
				answer, err := say(context.WithoutCancel(t.Context()), client, s.url, i%2 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				g, err := epochOf(answer)
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				if _, err := fmt.Sscanf(g, "g%d", &n); err != nil || n < newest {
					t.Errorf("%s after g%d", g, newest)
				}
				newest = n
				mu.Lock()
				seen[g] = true
				mu.Unlock()
				made.Add(1)
			}
		})
	}
	for n := 1; n <= reloads; n++ {
		rename(t, e.file(), e.yaml(n))
		await(t, "configuration in force", func() bool { return strings.Count(s.log.String(), `"configuration reloaded"`) >= n })
		before := made.Load()
		await(t, "a run that began with it", func() bool { return made.Load() > before+clients || t.Failed() })
	}
	close(done)
	wg.Wait()
	if !t.Failed() && len(seen) < reloads { // g0 may have had no time
		t.Errorf("configurations that served: %v", slices.Sorted(maps.Keys(seen)))
	}
	t.Logf("%d runs by %d configurations", made.Load(), len(seen))
}

// A stream that began before a reload ends as it would have; its tools and its database are there to its end. Then what
// the old configuration had is closed.
func TestStreamEndsOnTheConfigurationThatItBeganWith(t *testing.T) {
	p := &teller{answers: make(chan struct{}), begun: make(chan struct{})}
	up := httptest.NewServer(p)
	t.Cleanup(up.Close)
	e := newEpochs(t, up.URL, 2)
	write(t, e.file(), e.yaml(0))
	s := serveFile(t, e.file(), quick)
	old := s.g.generation
	ended := make(chan string)
	go func() { // ends with the stream
		answer, err := say(t.Context(), &http.Client{}, s.url, true)
		if err != nil {
			t.Error(err)
		}
		ended <- answer
	}()
	<-p.begun
	rename(t, e.file(), e.yaml(1))
	s.hup()
	if answer, err := say(t.Context(), &http.Client{}, s.url, false); err != nil || !strings.HasPrefix(answer, "g1|") {
		t.Errorf("a run after the reload: %q, %v, want one by g1", answer, err)
	}
	if err := old.config.databases.Ping(t.Context(), "d"); err != nil {
		t.Errorf("the database of a stream under way: %v", err)
	}
	close(p.answers)
	if answer := <-ended; !strings.HasPrefix(answer, "g0|") {
		t.Errorf("the stream's answer is %q", answer)
	}
	await(t, "the old database is closed", func() bool { return old.config.databases.Ping(t.Context(), "d") != nil })
}

// A stream that is only passed through may take longer than any run. It ends as it would have, though what the runs of
// its configuration needed is closed by then.
func TestLongPassThroughOutlastsItsConfiguration(t *testing.T) {
	p := &teller{answers: make(chan struct{}), begun: make(chan struct{})}
	up := httptest.NewServer(p)
	t.Cleanup(up.Close)
	e := newEpochs(t, up.URL, 2)
	e.more = "budget: {max_seconds: 0.05}\nserver: {shutdown_grace: 10ms}\n"
	write(t, e.file(), e.yaml(0))
	s := serveFile(t, e.file(), quick)
	old := s.g.generation
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"},{"role":"tool","tool_call_id":"x","content":"end"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Gateway-Tools", "none")
	ended := make(chan string)
	go func() { // ends with the stream
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			close(ended)
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		ended <- string(body)
	}()
	<-p.begun
	rename(t, e.file(), e.yaml(1))
	await(t, "the old database is closed", func() bool { return old.config.databases.Ping(t.Context(), "d") != nil })
	close(p.answers)
	if body := <-ended; !strings.Contains(body, "|end") || !strings.Contains(body, "[DONE]") {
		t.Errorf("the stream came as %q", body)
	}
}

// A hundred reloads leave neither goroutines nor files nor memory that grows with them.
func TestReloadsLeaveNothing(t *testing.T) {
	http.DefaultClient.CloseIdleConnections()
	before := goleak.IgnoreCurrent() // what other tests have left is theirs
	up := httptest.NewServer(&teller{})
	t.Cleanup(up.Close)
	server := newMCP(t)
	e := newEpochs(t, up.URL, 2)
	e.more = "mcp_servers: {kept: {url: " + server.URL + "/kept}, changed: {url: " + server.URL + "/changed, headers: {X-Epoch: EPOCH}}}\n"
	yaml := func(n int) string { return strings.ReplaceAll(e.yaml(n%2), "EPOCH", fmt.Sprint("e", n)) }
	write(t, e.file(), yaml(0))
	never := pace{calm: time.Hour, look: time.Hour, settle: quick.settle, cut: quick.cut}
	s := serveFile(t, e.file(), never)
	client := &http.Client{Transport: &http.Transport{}}
	listed := func() { // a session can't be ended before its server has told its id
		t.Helper()
		await(t, "the tools of both servers", func() bool {
			tools := s.tools()
			return strings.Contains(tools, "kept__where") && strings.Contains(tools, "changed__where")
		})
	}
	listed()
	reload := func(n int) {
		t.Helper()
		write(t, e.file(), yaml(n))
		s.hup()
		listed()
		if _, err := say(t.Context(), client, s.url, n%3 == 0); err != nil {
			t.Fatal(err)
		}
	}
	settled := func() (goroutines, files int) {
		client.CloseIdleConnections()
		s.g.transport.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
		time.Sleep(100 * time.Millisecond)
		return runtime.NumGoroutine(), openFiles()
	}
	for n := 1; n <= 5; n++ {
		reload(n)
	}
	goroutines, files := settled()
	for n := 6; n <= 105; n++ {
		reload(n)
	}
	await(t, "as many goroutines and files as before", func() bool {
		g, f := settled()
		return g <= goroutines+5 && f <= files+5
	})
	if got := server.sessions("/kept"); got != 1 {
		t.Errorf("a server whose entry stays began %d sessions, want 1", got)
	}
	await(t, "106 sessions and 105 ends of a server whose entry changes", func() bool {
		return server.sessions("/changed") == 106 && server.ends("/changed") == 105
	})
	s.stop()
	client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	server.Close()
	up.Close()
	goleak.VerifyNone(t, before)
}

// openFiles is how many files the process has open, 0 where the system does not tell.
func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// mcpFixture is an MCP server at any path, which counts its sessions.
type mcpFixture struct {
	*httptest.Server
	mu    sync.Mutex
	began map[string]int
	ended map[string]int
}

func newMCP(t *testing.T) *mcpFixture {
	t.Helper()
	f := &mcpFixture{began: map[string]int{}, ended: map[string]int{}}
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "fixture", Version: "1"}, nil)
		s.AddTool(&mcp.Tool{Name: "where", Description: "Tell the path.", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.URL.Path}}}, nil
			})
		return s
	}, nil)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		f.mu.Lock()
		switch {
		case gjson.GetBytes(body, "method").Str == "initialize":
			f.began[r.URL.Path]++
		case r.Method == http.MethodDelete:
			f.ended[r.URL.Path]++
		}
		f.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *mcpFixture) sessions(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.began[path]
}

func (f *mcpFixture) ends(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[path]
}

func (s *reloading) tools() string {
	s.t.Helper()
	return joined(gjson.Get(s.get("/gateway/tools"), "data.#.name"))
}

// Tools of MCP servers are there in the first request after a reload, of servers that stay and of new ones; of one that
// is no more they are gone.
func TestToolsOfMCPServersAcrossReloads(t *testing.T) {
	server := newMCP(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	yaml := func(names ...string) string {
		text := oneModel("m") + "mcp_servers:\n"
		for _, name := range names {
			text += "  " + name + ": {url: " + server.URL + "/" + name + "}\n"
		}
		return text
	}
	write(t, file, yaml("a", "b"))
	s := serveFile(t, file, pace{calm: time.Hour, look: time.Hour, settle: quick.settle, cut: quick.cut})
	await(t, "the tools of the start", func() bool { return s.tools() == "a__where b__where" })

	write(t, file, yaml("b", "c"))
	s.hup()
	if got := s.tools(); got != "b__where c__where" {
		t.Errorf("tools %q, want those of b and c", got)
	}
	await(t, "the end of a's session", func() bool { return server.ends("/a") == 1 })
	if server.sessions("/b") != 1 || server.ends("/b") != 0 {
		t.Errorf("b began %d sessions and ended %d, want one that goes on", server.sessions("/b"), server.ends("/b"))
	}
	write(t, file, oneModel("m"))
	s.hup()
	if got := s.tools(); got != "" {
		t.Errorf("tools %q, want none", got)
	}
	await(t, "the ends of b and c", func() bool { return server.ends("/b") == 1 && server.ends("/c") == 1 })
}

// A server that can't be reached keeps nobody from the rest of the new configuration.
func TestReloadWithAnMCPServerThatIsDown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a"))
	s := serveFile(t, file, pace{calm: time.Hour, look: time.Hour, settle: 200 * time.Millisecond, cut: quick.cut})
	write(t, file, oneModel("b")+"mcp_servers: {down: {url: \"http://127.0.0.1:9\", required: true}}\n")
	s.hup()
	if got := s.models(); got != "b" {
		t.Errorf("models %q, want b", got)
	}
	if got := s.get("/readyz"); !strings.Contains(got, "not_ready") {
		t.Errorf("/readyz = %s, want that the required server is missed", got)
	}
}

// The gauge of an open breaker stayed open for ever when a reload took what it stands for away.
func TestMetricOfBreakersFollowsTheGenerationInForce(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := breaker.NewMetrics(reg)
	old, next := newBreakers(m), newBreakers(m)
	old.changed("stays", breaker.Closed)
	old.show(nil)
	old.changed("stays", breaker.Opened)
	old.changed("goes", breaker.Opened)
	next.changed("stays", breaker.Closed)
	next.changed("comes", breaker.Closed)
	gauge := func() string {
		text := ""
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, x := range f.GetMetric() {
				text += fmt.Sprintf("%s=%v ", x.GetLabel()[0].GetValue(), x.GetGauge().GetValue())
			}
		}
		return text
	}
	if got := gauge(); got != "goes=2 stays=2 " {
		t.Errorf("before the reload %s", got)
	}
	next.show(old)
	old.changed("stays", breaker.HalfOpen)
	old.changed("goes", breaker.HalfOpen)
	if got := gauge(); got != "comes=0 stays=0 " {
		t.Errorf("after the reload %s", got)
	}
	next.changed("comes", breaker.Opened)
	if got := gauge(); got != "comes=2 stays=0 " {
		t.Errorf("after a change %s", got)
	}
}

// Counters go on over reloads, and kept runs stay.
func TestWhatOutlivesAReload(t *testing.T) {
	up := httptest.NewServer(&teller{})
	t.Cleanup(up.Close)
	e := newEpochs(t, up.URL, 2)
	write(t, e.file(), e.yaml(0))
	s := serveFile(t, e.file(), pace{calm: time.Hour, look: time.Hour, settle: quick.settle, cut: quick.cut})
	if _, err := say(t.Context(), &http.Client{}, s.url, false); err != nil {
		t.Fatal(err)
	}
	id := ""
	for line := range strings.Lines(s.log.String()) {
		if run := gjson.Get(line, "run_id").Str; run != "" {
			id = run
		}
	}
	write(t, e.file(), e.yaml(1)+"log: {level: warn}\n")
	s.hupQuietly()
	if _, err := say(t.Context(), &http.Client{}, s.url, false); err != nil {
		t.Fatal(err)
	}
	if got := s.get("/gateway/runs/" + id); gjson.Get(got, "id").Str != id {
		t.Errorf("the run of before the reload: %s", got)
	}
	if got := s.get("/metrics"); !strings.Contains(got, `gateway_runs_total{model="m",stop="completed"} 2`) {
		t.Errorf("the counter of runs began anew: %s", got)
	}
	if problems, err := testutil.GatherAndLint(s.g.registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
	if s.g.log.Enabled(t.Context(), slog.LevelInfo) {
		t.Error("the level of the log is as before")
	}
}
