//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

const wireConfig = `
server: {listen: "127.0.0.1:0", max_body: 64KiB}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}}
  down: {base_url: "${CLOSED}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 1000}}
  page: {base_url: "${PAGE}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 1000}}
  error_page: {base_url: "${PAGE}/502", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 1000}}
models:
  assistant: {upstream: scripted}
  down: {upstream: down}
  page: {upstream: page}
  error_page: {upstream: error_page}
  page_without_tools: {upstream: error_page, tools: []}
tools:` + cepTool

// bad is a request that can't be served, and what its client has to read.
type bad struct {
	path        string // default /v1/chat/completions
	header      []string
	body        string
	chunked     bool // the length is not told in advance
	status      int
	kind        string // error.type
	param, code string // "" is null
	closes      bool   // HTTP/1.1 leaves no way to go on with the connection
}

func badRequests() map[string]bad {
	const invalid = "invalid_request_error"
	hello := question("assistant", "Hello", false)
	long := question("assistant", strings.Repeat("a", 100<<10), false)
	huge := question("assistant", strings.Repeat("a", 8<<20), false)
	list := map[string]bad{
		"no body":                      {body: "", status: 400, kind: invalid},
		"JSON cut off":                 {body: `{"model":"assistant","messages":[{"role":"user"`, status: 400, kind: invalid},
		"text behind the JSON":         {body: hello + "x", status: 400, kind: invalid},
		"two JSON documents":           {body: hello + hello, status: 400, kind: invalid},
		"a list in place of an object": {body: "[" + hello + "]", status: 400, kind: invalid},
		"single quotes":                {body: `{'model': 'assistant'}`, status: 400, kind: invalid},
		"no messages":                  {body: `{"model":"assistant"}`, status: 400, kind: invalid, param: "messages"},
		"empty messages":               {body: `{"model":"assistant","messages":[]}`, status: 400, kind: invalid, param: "messages"},
		"messages that are a text":     {body: `{"model":"assistant","messages":"Hello"}`, status: 400, kind: invalid, param: "messages"},
		"no model":                     {body: `{"messages":[{"role":"user","content":"Hello"}]}`, status: 400, kind: invalid, param: "model"},
		"model twice":                  {body: `{"model":"assistant","model":"down","messages":[{"role":"user","content":"Hello"}]}`, status: 400, kind: invalid, param: "model"},
		"stream that is a text":        {body: `{"model":"assistant","stream":"yes","messages":[{"role":"user","content":"Hello"}]}`, status: 400, kind: invalid, param: "stream"},
		"unknown model":                {body: question("gpt-17", "Hello", false), status: 404, kind: invalid, param: "model", code: "model_not_found"},
		"a form":                       {header: []string{"Content-Type", "application/x-www-form-urlencoded"}, body: hello, status: 415, kind: invalid, code: "unsupported_media_type"},
		"over the limit":               {body: long, status: 413, kind: invalid, code: "request_too_large"},
		"over the limit, chunked":      {body: long, chunked: true, status: 413, kind: invalid, code: "request_too_large"},
		"far over the limit":           {body: huge, status: 413, kind: invalid, code: "request_too_large", closes: true},
		"unknown endpoint":             {path: "/v1/assistants", body: "{}", status: 404, kind: invalid, code: "unknown_url"},
		"outside of /v1":               {path: "/chat/completions", body: hello, status: 404, kind: invalid, code: "unknown_url"},
		"a budget of nothing":          {header: []string{"X-Gateway-Max-Steps", "0"}, body: hello, status: 400, kind: invalid, param: "X-Gateway-Max-Steps"},
		"provider down":                {body: question("down", "Hello", false), status: 502, kind: "upstream_error", code: "upstream_error"},
		"provider answers a page":      {body: question("page", "Hello", false), status: 502, kind: "upstream_error", code: "upstream_error"},
		"provider fails with a page":   {body: question("error_page", "Hello", false), status: 502, kind: "upstream_error", code: "upstream_error"},
		"the same without tools":       {body: question("page_without_tools", "Hello", false), status: 502, kind: "upstream_error", code: "upstream_error"},
	}
	for _, name := range []string{"provider down", "provider fails with a page", "the same without tools"} {
		b := list[name]
		b.body = strings.Replace(b.body, `"stream":false`, `"stream":true`, 1)
		list[name+", stream"] = b
	}
	return list
}

// TestBadInput sends what can't be served. Each gets a JSON error of OpenAI's shape, and a good request on the same
// connection is served after it.
func TestBadInput(t *testing.T) {
	model := newProvider(t, scripted(t, "conversations: [{turns: [{text: Hello.}]}]"))
	page := newProvider(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if strings.HasPrefix(r.URL.Path, "/502/") {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = io.WriteString(w, "<html><body><h1>balancer-7.internal</h1></body></html>")
	}))
	closed := closedAddress(t)
	g := serve(t, wireConfig, "UPSTREAM="+model.URL, "SERVICE="+closed, "CLOSED="+closed, "PAGE="+page.URL, "OPERATOR_KEY="+operatorKey)
	for name, tt := range badRequests() {
		t.Run(name, func(t *testing.T) {
			client := oneConnection(t)
			client.good(t, g)

			req := tt.request(t, g)
			if got := client.send(t, req); got.status != tt.status {
				t.Errorf("reply = %d %s, want %d", got.status, got.body, tt.status)
			} else {
				checkError(t, got, tt)
			}

			client.good(t, g)
			if n := client.dialed; (n == 1) == tt.closes {
				t.Errorf("the client had to connect %d times, closes = %t", n, tt.closes)
			}
		})
	}
}

func (b bad) request(t *testing.T, g *gateway) *http.Request {
	t.Helper()
	path := b.path
	if path == "" {
		path = "/v1/chat/completions"
	}
	var body io.Reader = strings.NewReader(b.body)
	if b.chunked {
		body = io.MultiReader(body) // of a type whose length net/http does not know
	}
	return newRequest(t, http.MethodPost, g.url+path, body, append([]string{"Content-Type", "application/json"}, b.header...)...)
}

// checkError checks that a reply is an error of OpenAI's shape that tells nothing of what stands behind the gateway.
func checkError(t *testing.T, got reply, want bad) {
	t.Helper()
	if kind := got.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", kind)
	}
	if got.header.Get("X-Request-Id") == "" {
		t.Error("X-Request-Id is missing")
	}
	var keys []string
	e := gjson.Get(got.body, "error")
	e.ForEach(func(key, _ gjson.Result) bool {
		keys = append(keys, key.Str)
		return true
	})
	if !gjson.Valid(got.body) || !cmp.Equal(keys, []string{"message", "type", "param", "code"}) || e.Get("message").Str == "" {
		t.Errorf("body = %s, want error with message, type, param and code", got.body)
	}
	if e.Get("type").Str != want.kind || e.Get("param").Str != want.param || e.Get("code").Str != want.code {
		t.Errorf("body = %s, want type %q, param %q, code %q", got.body, want.kind, want.param, want.code)
	}
	for _, inner := range []string{"127.0.0.1", "balancer-7", operatorKey, "goroutine"} {
		if strings.Contains(got.body, inner) {
			t.Errorf("body = %s, which tells of %q", got.body, inner)
		}
	}
}

// connection is a client that keeps one connection as long as the server lets it.
type connection struct {
	http.Client
	dialed int
}

func oneConnection(t *testing.T) *connection {
	t.Helper()
	c := &connection{}
	transport := &http.Transport{MaxConnsPerHost: 1}
	c.Transport = transport
	t.Cleanup(transport.CloseIdleConnections)
	return c
}

func (c *connection) send(t *testing.T, req *http.Request) reply {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			c.dialed++
		}
	}}
	return send(t, &c.Client, req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
}

// good makes a request that has to be answered.
func (c *connection) good(t *testing.T, g *gateway) {
	t.Helper()
	got := c.send(t, g.request(t, question("assistant", "Hello", false)))
	if got.status != http.StatusOK || gjson.Get(got.body, "choices.0.message.content").Str != "Hello." {
		t.Fatalf("a good request got %d %s", got.status, got.body)
	}
}

// TestNoHTTP sends what is not even HTTP, or ends in the middle, and asserts that the gateway serves on.
func TestNoHTTP(t *testing.T) {
	model := newProvider(t, scripted(t, "conversations: [{turns: [{text: Hello.}]}]"))
	closed := closedAddress(t)
	g := serve(t, wireConfig, "UPSTREAM="+model.URL, "SERVICE="+closed, "CLOSED="+closed, "PAGE="+closed, "OPERATOR_KEY="+operatorKey)
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
	tests := map[string]struct{ sent, want string }{
		"TLS":                     {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP/1.1 400 "},
		"no line of HTTP":         {"hello\r\n\r\n", "HTTP/1.1 400 "},
		"two lengths":             {head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "HTTP/1.1 400 "},
		"bad chunk":               {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400 "},
		"header over 64 KiB":      {head + "X-Long: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		"body that ends too soon": {head + "Content-Length: 1000\r\n\r\n{", "HTTP/1.1 400 "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var d net.Dialer
			conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, tt.sent) // the gateway may have hung up already
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			_, err = io.Copy(&got, conn)
			if !strings.HasPrefix(got.String(), tt.want) {
				t.Errorf("reply = %.200q, %v, want it to begin with %q", got.String(), err, tt.want)
			}
			if n := len(model.requests("Hello")); n > 0 {
				t.Errorf("the provider was asked %d times, want never", n)
			}
		})
	}
	if got := g.ask(t, question("assistant", "Hello", false)); got.status != http.StatusOK {
		t.Errorf("a good request got %d %s", got.status, got.body)
	}
}
