//go:build e2e && realmodel

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/sse"
)

// realConfig has the model in each way of telling it of tools. How long it takes depends on what else the machine does.
const realConfig = `
server: {listen: "127.0.0.1:0"}
upstreams:
  local:
    base_url: ${MODEL}/v1
    api_key: ${OPERATOR_KEY}
    first_byte_timeout: 10m
    idle_timeout: 10m
    retry: {attempts: 1}
budget: {max_seconds: 600, max_steps: 6}
models:
  untouched: {upstream: local, tools: []}
  native: {upstream: local, tool_calling: native}
  "*": {upstream: local, tool_calling: prompt}
tools:
  order_status:
    description: Look up the status of an order of the shop, and the city where it is.
    parameters:
      order_id: {type: string, description: "The order's number, such as A-1001."}
    http:
      url: ${SHOP}/orders/{order_id}
`

// TestRealModel asks a small model that runs on this machine, Qwen2.5-Coder-1.5B, which writes what models write and not
// what the author of a script thinks they do. It always takes the likeliest token, so that its answers stay the same.
func TestRealModel(t *testing.T) {
	m := startModel(t)
	t.Run("pass-through", m.testPassThrough)
	t.Run("prompt", m.testPrompt)
	t.Run("native", m.testNative)
	t.Run("structured", m.testStructured)
}

// realModel is a server that runs a model.
type realModel struct{ url string }

// startModel starts the server that model-setup.sh installed. It has one slot and keeps nothing of a request for the
// next, as either changes how the sums are split, with them the last digits, and then and now a word.
func startModel(t *testing.T) realModel {
	t.Helper()
	dir := absolute(t, filepath.Join(root(), ".cache", "model"))
	for _, file := range []string{"llama-server", "model.gguf"} {
		if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
			t.Skipf("there is no %s in %s: make real-model installs it", file, dir)
		}
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(dir, "llama-server"), "--model", filepath.Join(dir, "model.gguf"),
		"--host", "127.0.0.1", "--port", "0", "--jinja", "--ctx-size", "8192", "--parallel", "1", "--threads", "2",
		"--temp", "0", "--seed", "1", "--no-cache-prompt")
	_, at := launch(t, cmd, func(line string) string {
		_, at, _ := strings.Cut(line, "listening on ")
		return strings.TrimSpace(at)
	})
	return realModel{at}
}

// orders is a shop's service, which knows of orders what no model can.
type orders struct {
	*httptest.Server
	mu     sync.Mutex
	called []string
}

func newOrders(t *testing.T) *orders {
	t.Helper()
	o := &orders{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := strings.TrimPrefix(r.URL.Path, "/orders/")
		o.mu.Lock()
		o.called = append(o.called, number)
		o.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"order_id": number, "status": "shipped", "city": "Rotterdam"})
	}))
	t.Cleanup(o.Close)
	return o
}

// since are the numbers that were asked for since that many calls.
func (o *orders) since(n int) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.called[n:])
}

// shop is a gateway between the model and a shop's service.
type shop struct {
	*gateway
	orders *orders
}

func (m realModel) shop(t *testing.T) shop {
	t.Helper()
	at, err := url.Parse(m.url)
	if err != nil {
		t.Fatal(err)
	}
	model := newProvider(t, httputil.NewSingleHostReverseProxy(at))
	o := newOrders(t)
	t.Cleanup(func() {
		for _, a := range model.asked {
			if t.Failed() {
				t.Logf("the model was asked %s", a.body.Raw)
			}
		}
	})
	return shop{serve(t, realConfig, "MODEL="+model.URL, "SHOP="+o.URL, "OPERATOR_KEY="+operatorKey), o}
}

// orderQuestion can only be answered with the tool.
const orderQuestion = "What is the status of order A-1042, and in which city is it?"

func (m realModel) testPassThrough(t *testing.T) {
	s := m.shop(t)
	request := fields{"model": "untouched", "max_tokens": 200, "messages": user("Count from one to ten in words.")}

	want, got := answer(t, m.url, request), answer(t, s.url, request)
	if got != want || want == "" {
		t.Errorf("the answer is %q, want that of the model itself, %q", got, want)
	}
	if got := streamed(t, s.url, request); got.text != want || got.pieces < 5 {
		t.Errorf("the stream says %q in %d pieces, want %q in several", got.text, got.pieces, want)
	}
}

func (m realModel) testPrompt(t *testing.T) {
	s := m.shop(t)
	request := fields{"model": "qwen", "messages": user(orderQuestion)}
	for _, mode := range []mode{plain, stream} {
		t.Run(string(mode), func(t *testing.T) {
			before := len(s.orders.since(0))
			var got string
			if mode == stream {
				got = streamed(t, s.url, request).text
			} else {
				got = answer(t, s.url, request)
			}
			s.checkLookedUp(t, before)
			if !strings.Contains(got, "Rotterdam") || !strings.Contains(got, "shipped") {
				t.Errorf("the answer is %q, want what the tool said: shipped, Rotterdam", got)
			}
		})
	}
}

// testNative leaves it to the server's template to tell the model of the tools, and to the server to find the calls in
// what it writes. That template leads this model astray: it writes calls as text, and after a result once more. So this
// asserts what holds whatever a model writes.
func (m realModel) testNative(t *testing.T) {
	s := m.shop(t)
	request := fields{"model": "native", "messages": user(orderQuestion)}
	for _, mode := range []mode{plain, stream} {
		t.Run(string(mode), func(t *testing.T) {
			before := len(s.orders.since(0))
			got := ask(t, s.url, request, mode == stream)
			checkShown(t, withoutComments(got.body))
			if got.status != http.StatusOK && gjson.Get(got.body, "error.message").Str == "" {
				t.Errorf("reply = %d %s, want an answer or an error", got.status, got.body)
			}
			for _, number := range s.orders.since(before) {
				if number != "A-1042" {
					t.Errorf("order %s was looked up, want none but A-1042", number)
				}
			}
		})
	}
}

// testStructured asks for an answer of a schema that needs the tool. The server takes a schema together with tools and
// lets the model write nothing but the answer, so the tools have to be told of in a message.
func (m realModel) testStructured(t *testing.T) {
	s := m.shop(t)
	schema := json.RawMessage(`{"type":"object","properties":{"status":{"type":"string"},"city":{"type":"string"}},` +
		`"required":["status","city"],"additionalProperties":false}`)
	request := fields{
		"model": "qwen", "messages": user(orderQuestion),
		"response_format": fields{"type": "json_schema", "json_schema": fields{"name": "order", "strict": true, "schema": schema}},
	}
	for _, mode := range []mode{plain, stream} {
		t.Run(string(mode), func(t *testing.T) {
			before := len(s.orders.since(0))
			var got string
			if mode == stream {
				got = streamed(t, s.url, request).text
			} else {
				got = answer(t, s.url, request)
			}
			s.checkLookedUp(t, before)
			var order map[string]string
			if err := json.Unmarshal([]byte(got), &order); err != nil {
				t.Fatalf("the answer %q is no object of texts: %v", got, err)
			}
			if diff := cmp.Diff(map[string]string{"status": "shipped", "city": "Rotterdam"}, order); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// checkLookedUp checks that since that many calls the order of orderQuestion was looked up once.
func (s shop) checkLookedUp(t *testing.T, before int) {
	t.Helper()
	if diff := cmp.Diff([]string{"A-1042"}, s.orders.since(before)); diff != "" {
		t.Errorf("orders that were looked up (-want +got):\n%s", diff)
	}
}

// fields are those of a JSON object.
type fields = map[string]any

func user(text string) []fields { return []fields{{"role": "user", "content": text}} }

// answer asks for a chat completion in one piece and gives its text.
func answer(t *testing.T, url string, request fields) string {
	t.Helper()
	body := complete(t, url, request, false)
	checkShown(t, body)
	if kind := gjson.Get(body, "choices.0.finish_reason").Str; kind != "stop" {
		t.Errorf("finish_reason = %q in %s, want stop", kind, body)
	}
	return gjson.Get(body, "choices.0.message.content").Str
}

// pieces is the text of a stream, and in how many pieces it came.
type pieces struct {
	text   string
	pieces int
}

// streamed asks for a stream and reads it to its end.
func streamed(t *testing.T, url string, request fields) (got pieces) {
	t.Helper()
	body := complete(t, url, request, true)
	last := ""
	for r := sse.NewReader(strings.NewReader(body), 0); ; {
		data, err := r.Next()
		if err != nil {
			break
		}
		last = string(data)
		checkShown(t, last) // not the comments: one is the trace, which names the tools
		if piece := gjson.GetBytes(data, "choices.0.delta.content").Str; piece != "" {
			got.text += piece
			got.pieces++
		}
	}
	if last != "[DONE]" {
		t.Errorf("the stream ends with %s, want [DONE]", last)
	}
	// What is cut in two between chunks shows in the text alone.
	checkShown(t, got.text)
	return got
}

// withoutComments is a stream without its comments: one is the trace, which names the tools.
func withoutComments(body string) string {
	var b strings.Builder
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, ":") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// checkShown looks for what belongs between the gateway and the model.
func checkShown(t *testing.T, text string) {
	t.Helper()
	for _, bad := range []string{"tool_call", "<tool", "tool_response", "final_answer"} {
		if strings.Contains(text, bad) {
			t.Errorf("the client sees %s: %s", bad, text)
		}
	}
}

// complete asks for a chat completion and gives the body of the reply, which has to be a good one.
func complete(t *testing.T, url string, request fields, stream bool) string {
	t.Helper()
	got := ask(t, url, request, stream)
	if got.status != http.StatusOK {
		t.Fatalf("reply = %d %s, want 200", got.status, got.body)
	}
	return got.body
}

// ask asks for a chat completion.
func ask(t *testing.T, url string, request fields, stream bool) reply {
	t.Helper()
	all := fields{"temperature": 0, "seed": 1, "stream": stream}
	maps.Copy(all, request)
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	// Not under patience: on a busy machine a turn takes minutes.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return send(t, http.DefaultClient, req)
}
