//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// collector is the OTLP receiver of the OpenTelemetry Collector.
type collector struct {
	*process
	address string
	out     *output
}

// output keeps what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startCollector starts a receiver at an address, HOST:PORT.
func startCollector(t *testing.T, address string) *collector {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(installed(t, "collector"), "collector"), "-listen", address)
	c := &collector{address: address, out: &output{}}
	cmd.Stdout = c.out
	c.process, _ = launch(t, cmd, func(line string) string {
		at, _ := strings.CutPrefix(strings.TrimSpace(line), "listening ")
		return at
	})
	return c
}

// batch is what one request brought to the receiver.
type batch struct {
	Authorization []string        `json:"authorization"`
	Traces        json.RawMessage `json:"traces"` // OTLP/JSON
}

func (c *collector) batches(t *testing.T) []batch {
	t.Helper()
	text := c.out.String()
	text = text[:strings.LastIndexByte(text, '\n')+1] // the last line may still be on its way
	var list []batch
	for line := range strings.Lines(text) {
		var b batch
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatalf("the collector wrote %q: %v", line, err)
		}
		list = append(list, b)
	}
	return list
}

// spans are all that came, as OTLP/JSON has them.
func (c *collector) spans(t *testing.T) []gjson.Result {
	t.Helper()
	var list []gjson.Result
	for _, b := range c.batches(t) {
		for _, of := range gjson.GetBytes(b.Traces, "resourceSpans.#.scopeSpans.#.spans|@flatten").Array() {
			list = append(list, of.Array()...)
		}
	}
	return list
}

// trace is the trace with the spans of that run, in the order of their beginning.
func (c *collector) trace(t *testing.T, run string) []gjson.Result {
	t.Helper()
	all := c.spans(t)
	root := slices.IndexFunc(all, func(s gjson.Result) bool {
		return s.Get("kind").Int() == kindServer && attributes(s)["toolgate.run_id"] == run
	})
	if root < 0 {
		t.Fatalf("no request of run %s among %d spans", run, len(all))
	}
	list := slices.DeleteFunc(all, func(s gjson.Result) bool { return s.Get("traceId").Str != all[root].Get("traceId").Str })
	slices.SortStableFunc(list, func(a, b gjson.Result) int {
		return strings.Compare(a.Get("startTimeUnixNano").Str, b.Get("startTimeUnixNano").Str) // of equal length until 2286
	})
	return list
}

// Kinds of spans in OTLP.
const (
	kindInternal = 1
	kindServer   = 2
	kindClient   = 3
)

// attributes are those of a span or an event, as text.
func attributes(s gjson.Result) map[string]string {
	m := map[string]string{}
	for _, a := range s.Get("attributes").Array() {
		a.Get("value").ForEach(func(_, v gjson.Result) bool {
			m[a.Get("key").Str] = v.String()
			return true
		})
	}
	return m
}

// varying are the parts of a tree that no two runs have in common.
var varying = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(server\.port = )\d+`), "${1}PORT"},
	{regexp.MustCompile(`(time_to_first_chunk = )[\d.e-]+`), "${1}SECONDS"},
	{regexp.MustCompile(`(run|req)_[0-9A-Z]{26}`), "${1}_ID"},
	{regexp.MustCompile(`(gen_ai\.response\.id|gen_ai\.tool\.call\.id) = \S+`), "$1 = ID"},
}

// tree shows spans as they stand below each other, with all that they say.
func tree(spans []gjson.Result) string {
	known := map[string]bool{}
	for _, s := range spans {
		known[s.Get("spanId").Str] = true
	}
	var b strings.Builder
	var show func(parent, indent string)
	show = func(parent, indent string) {
		for _, s := range spans {
			above := s.Get("parentSpanId").Str
			foreign := above != "" && !known[above]
			if above != parent && (parent != "" || !foreign) {
				continue
			}
			kind := map[int64]string{kindInternal: "internal", kindServer: "server", kindClient: "client"}[s.Get("kind").Int()]
			fmt.Fprintf(&b, "%s%s (%s)", indent, s.Get("name").Str, kind)
			if foreign {
				fmt.Fprintf(&b, " below %s of %s", above, s.Get("traceId").Str)
			}
			if s.Get("status.code").Int() == 2 { // STATUS_CODE_ERROR
				b.WriteString(" FAILED" + s.Get("status.message").Str)
			}
			b.WriteByte('\n')
			var lines []string
			for name, value := range attributes(s) {
				lines = append(lines, fmt.Sprintf("%s  %s = %s\n", indent, name, value))
			}
			slices.Sort(lines)
			for _, e := range s.Get("events").Array() {
				lines = append(lines, fmt.Sprintf("%s  ! %s %v\n", indent, e.Get("name").Str, attributes(e)))
			}
			b.WriteString(strings.Join(lines, ""))
			show(s.Get("spanId").Str, indent+"    ")
		}
	}
	show("", "")
	text := b.String()
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.by)
	}
	return text
}

// traced is a gateway that sends its spans somewhere, with all that it asks.
type traced struct {
	*gateway
	model *provider
	mu    sync.Mutex
	told  map[string]string // traceparent that a tool was sent, by tool
}

const (
	// toolSecret is in the header of a tool.
	toolSecret = "secret-of-the-postal-service"
	// collectorSecret is what the collector's operator wants of those who send spans.
	collectorSecret = "secret-of-the-collector"
)

const tracedConfig = `
server: {listen: "127.0.0.1:0"}
auth: {keys: [{name: web, sha256: "${KEY_SUM}"}]}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 2, base: 1ms, max: 1ms}}
models:
  assistant: {upstream: scripted, model: large}
tools:
  lookup_cep:
    description: Look up the city of a postal code.
    parameters: {cep: string}
    retry: {attempts: 1}
    http:
      url: "${SERVICE}/postal/{cep}"
      headers: {X-Secret: "${TOOL_SECRET}"}
mcp_servers:
  notes: {url: "${SERVICE}/mcp"}
`

const tracedScript = `
conversations:
  - when: 'Where is (?P<cep>\d+)'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]
      - {text: "It is in {tool}."}
  - when: 'Take a note'
    turns:
      - calls: [{name: notes__echo, arguments: {}}]
      - {text: "Done."}
  - when: 'fall over'
    turns: [{status: 500, error: out of memory}, {status: 500, error: out of memory}]
`

// serveTraced starts a gateway whose section trace is more than the endpoint.
func serveTraced(t *testing.T, address, more string) *traced {
	t.Helper()
	w := &traced{told: map[string]string{}}
	tell := func(tool, parent string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told[tool] = parent
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Say hello."}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		parent, _ := req.Params.Meta["traceparent"].(string)
		tell("notes__echo", parent)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	mux.HandleFunc("GET /postal/{cep}", func(rw http.ResponseWriter, r *http.Request) {
		tell("lookup_cep "+r.PathValue("cep"), r.Header.Get("Traceparent"))
		if r.PathValue("cep") == brokenCEP {
			http.Error(rw, "table of Picos is locked", http.StatusServiceUnavailable)
			return
		}
		_, _ = rw.Write([]byte("Picos"))
	})
	service := httptest.NewServer(mux)
	t.Cleanup(service.Close)
	w.model = newProvider(t, scripted(t, tracedScript))
	sum := sha256.Sum256([]byte(clientKey))
	w.gateway = serve(t, tracedConfig+`trace: {otlp_endpoint: "http://`+address+`", otlp_headers: {Authorization: "${COLLECTOR_SECRET}"}`+more+"}\n",
		"UPSTREAM="+w.model.URL, "SERVICE="+service.URL, "OPERATOR_KEY="+operatorKey, "KEY_SUM="+hex.EncodeToString(sum[:]),
		"TOOL_SECRET="+toolSecret, "COLLECTOR_SECRET="+collectorSecret)
	w.awaitLog(t, "mcp server is there")
	return w
}

// asks sends a question, and gives the id of its run.
func (w *traced) asks(t *testing.T, text string, stream bool, header ...string) (run string, r reply) {
	t.Helper()
	header = append(header, "Content-Type", "application/json", "Authorization", "Bearer "+clientKey)
	r = send(t, http.DefaultClient, newRequest(t, http.MethodPost, w.url+"/v1/chat/completions", strings.NewReader(question("assistant", text, stream)), header...))
	return readTrace(t, r.header.Get(traceHeader))["id"], r
}

// The ids of a span that a client began, and of its trace.
const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
)

// TestTraces has the built gateway send the spans of several runs to a real receiver: how they stand below each other,
// and all that they say, which is nothing of what was asked, called and answered.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := startCollector(t, strings.TrimPrefix(closedAddress(t), "http://"))
	w := serveTraced(t, c.address, "")

	toolRun, r := w.asks(t, "Where is 64600001?", false)
	if r.status != http.StatusOK || !strings.Contains(r.body, "Picos") {
		t.Fatalf("the answer: %d %s", r.status, r.body)
	}
	clientsRun, _ := w.asks(t, "Where is 64600002?", false, "Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01", "Tracestate", "vendor=1", "X-Request-Id", "of-the-client")
	streamRun, r := w.asks(t, "Where is 64600003?", true)
	if !strings.HasSuffix(strings.TrimSpace(r.body), "data: [DONE]") {
		t.Errorf("the stream ends with %q", r.body[max(0, len(r.body)-200):])
	}
	failingRun, _ := w.asks(t, "Where is "+brokenCEP+"?", false)
	mcpRun, _ := w.asks(t, "Take a note", false)
	downRun, r := w.asks(t, "Please fall over", false)
	if r.status != http.StatusBadGateway {
		t.Errorf("a provider that fails: %d %s", r.status, r.body)
	}
	w.asks(t, "Where is 64600009?", false, "Traceparent", "00-"+strings.Repeat("a", 32)+"-"+clientSpan+"-00")
	w.end(t) // at once: what waits for the next batch is sent at the end

	t.Run("a run with a tool", func(t *testing.T) {
		spans := c.trace(t, toolRun)
		equalTrees(t, tree(spans), serverSpan("", "req_ID")+modelSpan("tool_calls", false)+toolSpan("ok")+modelSpan("stop", false))
		if err := clocks(spans); err != nil {
			t.Error(err)
		}
	})
	t.Run("in the trace of the client", func(t *testing.T) {
		spans := c.trace(t, clientsRun)
		equalTrees(t, tree(spans), serverSpan(" below "+clientSpan+" of "+clientTrace, "of-the-client")+
			modelSpan("tool_calls", false)+toolSpan("ok")+modelSpan("stop", false))
		asked := w.model.requests("Where is 64600002?")
		if len(asked) != 2 {
			t.Fatalf("the model was asked %d times, want twice", len(asked))
		}
		for _, a := range asked {
			begunBy(t, spans, "POST", a.header.Get("Traceparent"))
			if got := a.header.Get("Tracestate"); got != "vendor=1" {
				t.Errorf("Tracestate upstream = %q, want the client's", got)
			}
		}
		begunBy(t, spans, "execute_tool lookup_cep", w.told["lookup_cep 64600002"])
	})
	t.Run("a stream", func(t *testing.T) {
		equalTrees(t, tree(c.trace(t, streamRun)), serverSpan("", "req_ID")+modelSpan("tool_calls", true)+toolSpan("ok")+modelSpan("stop", true))
	})
	t.Run("a tool that fails", func(t *testing.T) {
		equalTrees(t, tree(c.trace(t, failingRun)), serverSpan("", "req_ID")+modelSpan("tool_calls", false)+toolSpan("unavailable")+modelSpan("stop", false))
	})
	t.Run("a tool of an MCP server", func(t *testing.T) {
		spans := c.trace(t, mcpRun)
		begunBy(t, spans, "execute_tool notes__echo", w.told["notes__echo"])
	})
	t.Run("a provider that fails", func(t *testing.T) {
		equalTrees(t, tree(c.trace(t, downRun)), downTree)
	})
	t.Run("a client that does not sample", func(t *testing.T) {
		for _, s := range c.spans(t) {
			if s.Get("traceId").Str == strings.Repeat("a", 32) {
				t.Errorf("%s of that trace was sent", s.Get("name").Str)
			}
		}
		if got := w.told["lookup_cep 64600009"]; !strings.HasPrefix(got, "00-"+strings.Repeat("a", 32)) || !strings.HasSuffix(got, "-00") {
			t.Errorf("Traceparent of the tool = %q, want the client's trace, not sampled", got)
		}
	})
	t.Run("what it is of, and what is not in it", func(t *testing.T) {
		batches := c.batches(t)
		for _, b := range batches {
			if !slices.Equal(b.Authorization, []string{collectorSecret}) {
				t.Errorf("Authorization of the collector = %q, want that of otlp_headers", b.Authorization)
			}
			of := attributes(gjson.GetBytes(b.Traces, "resourceSpans.0.resource"))
			if of["service.name"] != "toolgate" || of["service.version"] == "" || of["telemetry.sdk.language"] != "go" {
				t.Errorf("the resource is %v", of)
			}
			noneOf(t, string(b.Traces), "Where is", "64600001", brokenCEP, "Picos", "/postal", "locked", "out of memory", "Take a note", "hello",
				toolSecret, operatorKey, clientKey, collectorSecret)
		}
		if len(batches) == 0 {
			t.Error("nothing came")
		}
	})
}

// TestTracesWithContent turns on arguments and results. What is secret stays so.
func TestTracesWithContent(t *testing.T) {
	t.Parallel()
	c := startCollector(t, strings.TrimPrefix(closedAddress(t), "http://"))
	w := serveTraced(t, c.address, ", content: true")
	run, _ := w.asks(t, "Where is 64600001?", false)
	secret, _ := w.asks(t, "Where is 64600002, and not "+toolSecret, false)
	w.end(t)

	for _, s := range c.trace(t, run) {
		if s.Get("name").Str != "execute_tool lookup_cep" {
			continue
		}
		if got := attributes(s); got["gen_ai.tool.call.arguments"] != `{"cep":"64600001"}` || got["gen_ai.tool.call.result"] != "Picos" {
			t.Errorf("the call's span has %v, want its arguments and its result", got)
		}
	}
	if len(c.trace(t, secret)) == 0 || !strings.Contains(c.out.String(), "gen_ai.tool.call.arguments") {
		t.Error("no arguments came")
	}
	for _, b := range c.batches(t) {
		noneOf(t, string(b.Traces), toolSecret, operatorKey, clientKey, collectorSecret)
	}
}

// TestACollectorThatIsAway is restarted while a gateway wants to send. What waited arrives.
func TestACollectorThatIsAway(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(closedAddress(t), "http://")
	first := startCollector(t, address)
	w := serveTraced(t, address, "")
	before, _ := w.asks(t, "Where is 64600001?", false)
	await(t, "the first spans arrive", func() bool { return len(first.spans(t)) == 6 })
	if len(first.trace(t, before)) != 6 {
		t.Error("the spans are of another trace")
	}
	first.end(t)

	tried := refuseOnce(t, address)
	after, _ := w.asks(t, "Where is 64600002?", false)
	within(t, "an attempt to send", tried)
	second := startCollector(t, address)

	await(t, "what waited arrives", func() bool { return len(second.spans(t)) == 6 })
	if len(second.trace(t, after)) != 6 {
		t.Error("the spans are of another trace")
	}
	await(t, "all is counted as sent", func() bool {
		return strings.Contains(get(t, w.url+"/metrics").body, `gateway_trace_spans_total{outcome="exported"} 12`)
	})
	for _, outcome := range []string{"failed", "dropped"} {
		if !strings.Contains(get(t, w.url+"/metrics").body, `gateway_trace_spans_total{outcome="`+outcome+`"} 0`) {
			t.Errorf("spans were %s", outcome)
		}
	}
	if strings.Contains(w.text(), "spans do not reach") {
		t.Error("the log says that spans do not arrive")
	}
}

// refuseOnce stands at an address until somebody comes, cuts the connection and leaves. tried is closed then.
func refuseOnce(t *testing.T, address string) (tried <-chan struct{}) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends with the listener
		conn, err := l.Accept()
		_ = l.Close()
		if err != nil {
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset, and no state that keeps the port
		_ = conn.Close()
		close(done)
	}()
	t.Cleanup(func() { _ = l.Close() })
	return done
}

// begunBy asserts that a traceparent names one of the spans of that name.
func begunBy(t *testing.T, spans []gjson.Result, name, parent string) {
	t.Helper()
	for _, s := range spans {
		if s.Get("name").Str == name && parent == "00-"+s.Get("traceId").Str+"-"+s.Get("spanId").Str+"-01" {
			return
		}
	}
	t.Errorf("traceparent %q is of no span %q in\n%s", parent, name, tree(spans))
}

// serverSpan is how the span of a request reads that was answered.
func serverSpan(below, request string) string {
	return `POST /v1/chat/completions (server)` + below + `
  client.address = 127.0.0.1
  http.request.method = POST
  http.response.status_code = 200
  http.route = /v1/chat/completions
  toolgate.caller = web
  toolgate.model = assistant
  toolgate.request_id = ` + request + `
  toolgate.run_id = run_ID
  toolgate.stop = completed
  url.path = /v1/chat/completions
  url.scheme = http
`
}

// modelSpan is how a call of the provider reads that went well at once.
func modelSpan(finish string, stream bool) string {
	asked, answered := "", ""
	if stream {
		asked = "      gen_ai.request.stream = true\n"
		answered = "      gen_ai.response.time_to_first_chunk = SECONDS\n"
	}
	return `    chat large (client)
      gen_ai.operation.name = chat
      gen_ai.provider.name = openai
      gen_ai.request.model = large
` + asked + `      gen_ai.response.finish_reasons = {"values":[{"stringValue":"` + finish + `"}]}
      gen_ai.response.id = ID
      gen_ai.response.model = large
` + answered + `      gen_ai.usage.input_tokens = 10
      gen_ai.usage.output_tokens = 5
      server.address = 127.0.0.1
      server.port = PORT
      toolgate.upstream = scripted
        POST (client)
          http.request.method = POST
          http.response.status_code = 200
          server.address = 127.0.0.1
          server.port = PORT
`
}

// toolSpan is how the call of lookup_cep reads.
func toolSpan(outcome string) string {
	head := "    execute_tool lookup_cep (internal)\n"
	if outcome != "ok" {
		head = "    execute_tool lookup_cep (internal) FAILED\n      error.type = " + outcome + "\n"
	}
	return head + `      gen_ai.operation.name = execute_tool
      gen_ai.tool.call.id = ID
      gen_ai.tool.name = lookup_cep
      gen_ai.tool.type = function
      toolgate.outcome = ` + outcome + `
      toolgate.run_id = run_ID
      toolgate.tool.kind = http
`
}

// downTree is how a run reads whose provider failed twice.
const downTree = `POST /v1/chat/completions (server) FAILED
  client.address = 127.0.0.1
  error.type = 502
  http.request.method = POST
  http.response.status_code = 502
  http.route = /v1/chat/completions
  toolgate.caller = web
  toolgate.model = assistant
  toolgate.request_id = req_ID
  toolgate.run_id = run_ID
  toolgate.stop = upstream_error
  url.path = /v1/chat/completions
  url.scheme = http
    chat large (client) FAILED
      error.type = 500
      gen_ai.operation.name = chat
      gen_ai.provider.name = openai
      gen_ai.request.model = large
      server.address = 127.0.0.1
      server.port = PORT
      toolgate.upstream = scripted
        POST (client) FAILED
          error.type = 500
          http.request.method = POST
          http.response.status_code = 500
          server.address = 127.0.0.1
          server.port = PORT
        POST (client) FAILED
          error.type = 500
          http.request.method = POST
          http.request.resend_count = 1
          http.response.status_code = 500
          server.address = 127.0.0.1
          server.port = PORT
`

// clocks says which span ends before it begins, or outlives the one above it.
func clocks(spans []gjson.Result) error {
	by := map[string]gjson.Result{}
	for _, s := range spans {
		by[s.Get("spanId").Str] = s
	}
	for _, s := range spans {
		begin, end := s.Get("startTimeUnixNano").Uint(), s.Get("endTimeUnixNano").Uint()
		above, ok := by[s.Get("parentSpanId").Str]
		if begin == 0 || end < begin || ok && (begin < above.Get("startTimeUnixNano").Uint() || end > above.Get("endTimeUnixNano").Uint()) {
			return fmt.Errorf("%s is from %d to %d, not within %s", s.Get("name"), begin, end, above.Raw)
		}
	}
	return nil
}

func equalTrees(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// noneOf asserts that a text has none of some others, as they are, in base64 or in hexadecimal.
func noneOf(t *testing.T, text string, others ...string) {
	t.Helper()
	for _, o := range others {
		for _, form := range []string{o, base64.StdEncoding.EncodeToString([]byte(o)), hex.EncodeToString([]byte(o))} {
			if strings.Contains(text, form) {
				t.Errorf("%q is in what was sent: %s", form, text)
			}
		}
	}
}
