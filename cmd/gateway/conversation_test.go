package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/trace"
)

var update = flag.Bool("update", false, "rewrite the expected parts of golden files")

// TestConversations runs the golden conversations: one txtar each, in testdata/conversations. It begins with what it
// guards, in prose. Then come what is given:
//
//	config.yaml      laid into a gateway in this process; UPSTREAM and TOOLS are addresses of test servers
//	request.json     the client's body; request.headers its headers, one a line
//	upstream-N       what the model answers to call N: JSON, or the bytes of a stream; upstream-N.status its status
//	tool-N           what the tools' server answers to call N; tool-N.status its status
//
// and what must come out, which -update rewrites:
//
//	asked-N.json     what the provider got beyond the client's own members: messages behind the client's, names of all tools
//	called-N         method, path and body of a tool's request
//	response         status, and the body
//	trace            the trace, without times
//	spans            where config.yaml has trace.otlp_endpoint, what got to ${OTLP}
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := converse(t, a)
			if *update {
				if err := os.WriteFile(file, txtar.Format(&txtar.Archive{Comment: a.Comment, Files: append(given(a), got...)}), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := expected(a)
			if diff := cmp.Diff(asMap(want), asMap(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var expectedFile = regexp.MustCompile(`^(asked-\d+\.json|called-\d+|response|trace|spans)$`)

func given(a *txtar.Archive) (files []txtar.File) {
	for _, f := range a.Files {
		if !expectedFile.MatchString(f.Name) {
			files = append(files, f)
		}
	}
	return files
}

func expected(a *txtar.Archive) (files []txtar.File) {
	for _, f := range a.Files {
		if expectedFile.MatchString(f.Name) {
			files = append(files, f)
		}
	}
	return files
}

func asMap(files []txtar.File) map[string]string {
	m := map[string]string{}
	for _, f := range files {
		m[f.Name] = string(f.Data)
	}
	return m
}

// converse plays a conversation and gives what came out of it.
func converse(t *testing.T, a *txtar.Archive) []txtar.File {
	t.Helper()
	files := asMap(a.Files)
	r := &recorder{t: t, files: files, request: []byte(files["request.json"])}
	upstream := httptest.NewServer(http.HandlerFunc(r.upstream))
	defer upstream.Close()
	tools := httptest.NewServer(http.HandlerFunc(r.tool))
	defer tools.Close()
	env := map[string]string{"UPSTREAM": upstream.URL, "TOOLS": tools.URL}
	var spans *receiver
	var g *gateway
	if strings.Contains(files["config.yaml"], "${OTLP}") {
		spans = newReceiver(t)
		env["OTLP"] = spans.URL
		g, _ = tracingGateway(t, files["config.yaml"], env)
	} else {
		g = newTestGateway(t, files["config.yaml"], env)
	}
	front := httptest.NewServer(g.server.Handler(true))
	defer front.Close()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/v1/chat/completions", bytes.NewReader(r.request))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for line := range strings.Lines(files["request.headers"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		req.Header.Set(name, value)
	}
	resp, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	header := resp.Trailer.Get(trace.Header)
	if header == "" {
		header = resp.Header.Get(trace.Header)
	}
	r.flush()
	r.add("response", fmt.Sprintf("%d\n%s\n", resp.StatusCode, bytes.TrimSpace(settle(body))))
	r.add("trace", string(settle([]byte(header)))+"\n")
	if spans != nil {
		front.Close() // the request's span has ended then
		g.tracer.Close()
		r.add("spans", spans.tree())
	}
	return r.out
}

// newTestGateway is the gateway of a configuration, without a listener of its own.
func newTestGateway(t *testing.T, yaml string, env map[string]string) *gateway {
	t.Helper()
	c, err := check(config.Parse("gateway.yaml", t.TempDir(), []byte(yaml), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}))
	if err != nil {
		t.Fatal(err)
	}
	c.Log.Level = "error"
	g, err := newGateway(c)
	if err != nil {
		t.Fatal(err)
	}
	g.after = c.close
	t.Cleanup(g.close)
	return g
}

// recorder plays provider and tools, and notes what they were asked.
type recorder struct {
	t       *testing.T
	files   map[string]string
	request []byte
	mu      sync.Mutex
	asked   int
	called  int
	pending []string // requests of tools since the provider was last asked; side by side they come in any order
	out     []txtar.File
}

// flush notes the tools' requests of a turn, in an order that is the same each time.
func (r *recorder) flush() {
	slices.Sort(r.pending)
	for i, request := range r.pending {
		r.add(fmt.Sprintf("called-%d", r.called-len(r.pending)+i+1), request)
	}
	r.pending = nil
}

func (r *recorder) add(name, data string) {
	r.out = append(r.out, txtar.File{Name: name, Data: []byte(data)})
}

func (r *recorder) upstream(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.flush()
	r.add(fmt.Sprintf("asked-%d.json", r.asked), r.beyond(body))
	r.play(w, fmt.Sprintf("upstream-%d", r.asked))
}

func (r *recorder) tool(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called++
	r.pending = append(r.pending, strings.TrimSpace(fmt.Sprintf("%s %s %s", req.Method, req.URL.RequestURI(), body))+"\n")
	r.play(w, fmt.Sprintf("tool-%d", r.called))
}

func (r *recorder) play(w http.ResponseWriter, name string) {
	data, ok := r.files[name]
	if !ok {
		r.t.Errorf("the conversation has no %s", name)
	}
	kind := "application/json"
	if !json.Valid([]byte(data)) {
		kind = "text/plain"
	}
	if strings.HasPrefix(data, "data:") || strings.HasPrefix(data, ":") {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	if status := strings.TrimSpace(r.files[name+".status"]); status != "" {
		var code int
		if _, err := fmt.Sscan(status, &code); err != nil {
			r.t.Errorf("%s.status: %v", name, err)
		}
		w.WriteHeader(code)
	}
	_, _ = io.WriteString(w, data)
}

// beyond is what a request to the provider has that the client's has not: changed or added members, and of messages
// those behind the client's.
func (r *recorder) beyond(body []byte) string {
	var client, sent map[string]json.RawMessage
	if err := json.Unmarshal(r.request, &client); err != nil {
		r.t.Error(err)
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		r.t.Errorf("the provider got no JSON: %v: %s", err, body)
		return ""
	}
	var before, after []json.RawMessage
	_ = json.Unmarshal(client["messages"], &before)
	_ = json.Unmarshal(sent["messages"], &after)
	more := map[string]any{}
	for k, v := range sent {
		if string(v) != string(client[k]) {
			more[k] = v
		}
	}
	if len(after) > len(before) {
		more["messages"] = after[len(before):]
	}
	for k := range client {
		if sent[k] == nil {
			more[k] = "(taken out)"
		}
	}
	if sent["tools"] != nil {
		more["tools"] = names(sent["tools"])
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(more); err != nil {
		r.t.Error(err)
	}
	return marks.ReplaceAllString(b.String(), "⟦${1}data ID⟧")
}

// marks are those around results, whose IDs are different each time.
var marks = regexp.MustCompile(`⟦(end of )?data [a-z2-7]{16}⟧`)

// names are those of a request's tools.
func names(tools json.RawMessage) string {
	var list []string
	for _, t := range gjson.ParseBytes(tools).Array() {
		list = append(list, t.Get("function.name").String())
	}
	return strings.Join(list, ", ")
}

var settling = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`run_[0-9A-Z]{26}`), "run_ID"},
	{regexp.MustCompile(`chatcmpl-[0-9A-Z]{26}`), "chatcmpl-ID"},
	{regexp.MustCompile(`\b((?:upstream_|start_)?ms"?[=:])\d+`), "${1}0"},
	{regexp.MustCompile(`"created":1[0-9]{9}`), `"created":1`},
	{regexp.MustCompile(`"started_at":"[^"]*"`), `"started_at":"T"`},
	{regexp.MustCompile(`"request_id":"[^"]*"`), `"request_id":"R"`},
}

// settle takes out what is different each time.
func settle(b []byte) []byte {
	for _, s := range settling {
		b = s.re.ReplaceAll(b, []byte(s.to))
	}
	return b
}
