//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// exchange is a request that a hostile server has read, and the reply that it would have got of a good one.
type exchange struct {
	net.Conn
	kind string // the good reply's content type
	body []byte
}

// fault is what a hostile server does in place of sending the good reply. The connection is closed afterwards.
type fault struct {
	name string // also the first segment of its path
	do   func(x *exchange)
}

func (x *exchange) send(text string) bool {
	_, err := io.WriteString(x, text)
	return err == nil
}

// hang waits until the other side leaves.
func (x *exchange) hang() { _, _ = io.Copy(io.Discard, x) }

// reset makes the end of the connection a reset in place of an orderly end.
func (x *exchange) reset() {
	if c, ok := x.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
}

func (x *exchange) header(more ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: " + x.kind + "\r\n" + strings.Join(more, "\r\n") + "\r\n\r\n"
}

func (x *exchange) sized() string { return x.header("Content-Length: " + strconv.Itoa(len(x.body))) }

func (x *exchange) half() string { return string(x.body[:len(x.body)/2]) }

// chunk is one of the chunked coding.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

const chunked = "Transfer-Encoding: chunked"

// endless sends a text again and again until the other side leaves. It pauses now and then, so that it does not take the
// machine from everybody else.
func (x *exchange) endless(text string) {
	times := max(1, (64<<10)/len(text))
	many := strings.Repeat(text, times)
	for x.send(many) {
		time.Sleep(2 * time.Millisecond)
	}
}

// trickle sends a text a byte at a time.
func (x *exchange) trickle(text string) {
	for i := range len(text) {
		if !x.send(text[i : i+1]) {
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// whole replies with a status and a body, and keeps the connection.
func whole(status int, kind, body string, header ...string) func(*exchange) {
	return func(x *exchange) {
		head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), kind, len(body))
		for _, h := range header {
			head += h + "\r\n"
		}
		x.send(head + "\r\n" + body)
	}
}

// sends replies with these bytes and nothing else.
func sends(text string) func(*exchange) { return func(x *exchange) { x.send(text) } }

// event is an event of a chat completion's stream with that delta.
func event(delta string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
}

const (
	sseHead   = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	failed    = `{"error":{"message":"try again later","type":"server_error","param":null,"code":null}}`
	page      = "<!DOCTYPE html><html><body><h1>Welcome to the machine</h1></body></html>"
	applyJSON = "application/json"
)

// bomb is a gigabyte of zeros, packed.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 1 << 10 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return b.String()
})

// faults are what servers do to their clients.
func faults() []fault {
	return []fault{
		{"hang", (*exchange).hang},
		{"hang-after-header", func(x *exchange) { x.send(x.sized()); x.hang() }},
		{"hang-in-body", func(x *exchange) { x.send(x.sized() + x.half()); x.hang() }},
		{"hang-in-header", func(x *exchange) { x.send("HTTP/1.1 200 OK\r\nContent-"); x.hang() }},
		{"reset-before-header", func(x *exchange) { x.reset() }},
		{"reset-after-header", func(x *exchange) { x.send(x.sized()); time.Sleep(20 * time.Millisecond); x.reset() }},
		{"reset-in-body", func(x *exchange) { x.send(x.sized() + x.half()); time.Sleep(20 * time.Millisecond); x.reset() }},
		{"close-before-header", func(*exchange) {}},
		{"trickle-header", func(x *exchange) { x.trickle(x.sized()) }},
		{"trickle-body", func(x *exchange) { x.send(x.sized()); x.trickle(string(x.body)) }},
		{"trickle-chunked", func(x *exchange) {
			x.send(x.header(chunked))
			for _, b := range x.body {
				if !x.send(chunk(string(rune(b)))) {
					return
				}
				time.Sleep(30 * time.Millisecond)
			}
		}},
		{"cut", func(x *exchange) { x.send(x.sized() + x.half()) }},
		{"cut-without-length", func(x *exchange) { x.send(x.header("Connection: close") + x.half()) }},
		{"cut-chunked", func(x *exchange) { x.send(x.header(chunked) + chunk(x.half())) }},
		{"cut-in-a-chunk", func(x *exchange) { x.send(x.header(chunked) + "fff\r\n" + x.half()) }},
		{"cut-orderly", func(x *exchange) { x.send(x.header(chunked) + chunk(x.half()) + "0\r\n\r\n") }},
		{"not-http", sends("SSH-2.0-OpenSSH_9.7\r\n")},
		{"not-http-long", func(x *exchange) { x.endless("220 mail.example.com ESMTP ready") }},
		{"binary", sends(strings.Repeat("\x16\x03\x01\x00\xff", 400))},
		{"binary-body", whole(200, "application/octet-stream", strings.Repeat("\x00\xff\xfe\x80", 4000))},
		{"html", whole(200, "text/html", page)},
		{"html-as-json", whole(200, applyJSON, page)},
		{"html-502", whole(502, "text/html", page)},
		{"wrong-json", whole(200, applyJSON, `{"choices":[{"message":[1,2,{"content":7}]}],"usage":"much"}`)},
		{"deep-json", whole(200, applyJSON, strings.Repeat("[", 500_000))},
		{"empty", whole(200, applyJSON, "")},
		{"no-content", sends("HTTP/1.1 204 No Content\r\n\r\n")},
		{"not-modified", sends("HTTP/1.1 304 Not Modified\r\n\r\n")},
		{"switching", func(x *exchange) {
			x.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			x.hang()
		}},
		{"redirect-to-itself", whole(307, "text/plain", "", "Location: /redirect-to-itself/v1/chat/completions")},
		{"length-too-long", func(x *exchange) {
			x.send(x.header("Content-Length: "+strconv.Itoa(len(x.body)+1000)) + string(x.body))
		}},
		{"length-too-short", func(x *exchange) {
			x.send(x.header("Content-Length: "+strconv.Itoa(len(x.body)/3)) + string(x.body))
		}},
		{"length-negative", func(x *exchange) { x.send(x.header("Content-Length: -5") + string(x.body)) }},
		{"length-twice", func(x *exchange) { x.send(x.header("Content-Length: 5", "Content-Length: 6") + string(x.body)) }},
		{"length-absurd", func(x *exchange) { x.send(x.header("Content-Length: 9223372036854775807")); x.endless(" ") }},
		{"chunk-size-invalid", func(x *exchange) { x.send(x.header(chunked) + "zz\r\n" + string(x.body)) }},
		{"chunk-size-absurd", func(x *exchange) {
			x.send(x.header(chunked) + "7fffffffffffffff\r\n")
			x.endless(" ")
		}},
		{"chunk-extension-endless", func(x *exchange) { x.send(x.header(chunked) + "5;"); x.endless("x=y;") }},
		{"chunks-empty-trailer-endless", func(x *exchange) { x.send(x.header(chunked) + "0\r\n"); x.endless("X-Trailer: x\r\n") }},
		{"header-huge", func(x *exchange) { x.send(x.header("X-Big: " + strings.Repeat("b", 8<<20))) }},
		{"header-endless", func(x *exchange) { x.send("HTTP/1.1 200 OK\r\n"); x.endless("X-More: more\r\n") }},
		{"header-line-endless", func(x *exchange) { x.send("HTTP/1.1 200 OK\r\nX-Line: "); x.endless("more ") }},
		{"body-endless", func(x *exchange) { x.send(x.header(chunked)); x.endless(chunk(strings.Repeat(" ", 64<<10))) }},
		{"body-endless-json", func(x *exchange) {
			x.send(x.header(chunked) + chunk(`{"choices":[{"message":{"content":"`))
			x.endless(chunk(strings.Repeat("more ", 12<<10)))
		}},
		{"gzip-bomb", func(x *exchange) {
			x.send(x.header("Content-Encoding: gzip", "Content-Length: "+strconv.Itoa(len(bomb()))) + bomb())
		}},
		{"gzip-of-nothing", func(x *exchange) {
			x.send(x.header("Content-Encoding: gzip", "Content-Length: 4") + "\x1f\x8b\x08\x00")
		}},
		{"coding-unknown", func(x *exchange) { x.send(x.header("Content-Encoding: br", "Content-Length: 4") + "abcd") }},
		{"continue-endless", func(x *exchange) { x.endless("HTTP/1.1 100 Continue\r\n\r\n") }},
		{"early-hints-endless", func(x *exchange) { x.endless("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n") }},
		{"429", whole(429, applyJSON, failed)},
		{"429-in-ten-years", whole(429, applyJSON, failed, "Retry-After: 315360000")},
		{"429-in-the-year-9999", whole(429, applyJSON, failed, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT")},
		{"429-in-no-time", whole(429, applyJSON, failed, "Retry-After: -1e308")},
		{"429-page", whole(429, "text/html", page)},
		{"500", whole(500, applyJSON, failed)},
		{"503-empty", whole(503, "text/plain", "")},
		{"500-endless", func(x *exchange) {
			x.send("HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n" + chunked + "\r\n\r\n")
			x.endless(chunk(strings.Repeat("error ", 10<<10)))
		}},
		{"500-cut", sends("HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\n{")},
		{"429-cut", sends("HTTP/1.1 429 Oh\r\nContent-Length: 100\r\n\r\n{")},
		{"500-hang", func(x *exchange) { x.send("HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\n"); x.hang() }},
		{"status-999", whole(999, applyJSON, failed)},
		{"closes-idle", func(x *exchange) { x.send(x.sized() + string(x.body)); time.Sleep(time.Millisecond) }},
		{"resets-idle", func(x *exchange) { x.send(x.sized() + string(x.body)); time.Sleep(50 * time.Millisecond); x.reset() }},
		{"sends-more-when-idle", func(x *exchange) { x.send(x.sized() + string(x.body) + "HTTP/1.1 200 OK\r\n\r\nmore") }},
		{"sse-line-endless", func(x *exchange) { x.send(sseHead + "data: "); x.endless("more") }},
		{"sse-event-endless", func(x *exchange) { x.send(sseHead); x.endless("data: more\n") }},
		{"sse-comments-endless", func(x *exchange) { x.send(sseHead); x.endless(": more\n\n") }},
		{"sse-text-endless", func(x *exchange) { x.send(sseHead); x.endless(event(`{"content":"a"}`)) }},
		{"sse-empty-endless", func(x *exchange) { x.send(sseHead); x.endless(event(`{}`)) }},
		{"sse-calls-endless", func(x *exchange) {
			x.send(sseHead)
			for i := 0; ; i++ {
				if !x.send(event(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call%d","type":"function","function":{"name":"t_none","arguments":"{}"}}]}`, i, i))) {
					return
				}
			}
		}},
		{"sse-call-of-index-absurd", sends(sseHead + event(`{"tool_calls":[{"index":2000000000,"id":"x","type":"function","function":{"name":"t_none","arguments":"{}"}}]}`) + "data: [DONE]\n\n")},
		{"sse-garbage", sends(sseHead + "data: {\"choices\": garbage\n\n")},
		{"sse-garbage-later", sends(sseHead + event(`{"content":"`+strings.Repeat("many words ", 30)+`"}`) + "data: garbage\n\n")},
		{"sse-reset-later", func(x *exchange) {
			x.send(sseHead + event(`{"content":"`+strings.Repeat("many words ", 30)+`"}`))
			time.Sleep(50 * time.Millisecond)
			x.reset()
		}},
		{"sse-hang-later", func(x *exchange) {
			x.send(sseHead + event(`{"content":"`+strings.Repeat("many words ", 30)+`"}`))
			x.hang()
		}},
		{"sse-nothing", sends(sseHead)},
		{"sse-done-at-once", sends(sseHead + "data: [DONE]\n\n")},
		{"sse-error", sends(sseHead + event(`{"content":"a"}`) + "data: " + failed + "\n\n")},
	}
}

// hostile serves the good replies of inner below /none, and a fault in place of them below the fault's name. only, if it
// is not nil, says of which requests.
type hostile struct {
	*httptest.Server
	inner http.Handler
	kinds map[string]fault
	only  func(body []byte) bool
	mu    sync.Mutex
	taken map[net.Conn]bool // by faults
}

func newHostile(t *testing.T, list []fault, inner http.Handler, only func([]byte) bool) *hostile {
	t.Helper()
	h := &hostile{inner: inner, kinds: map[string]fault{}, only: only, taken: map[net.Conn]bool{}}
	for _, f := range list {
		h.kinds[f.name] = f
	}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // some faults are none of net/http's
	h.Start()
	t.Cleanup(func() {
		h.drop()
		h.Close()
	})
	return h
}

// drop closes all connections.
func (h *hostile) drop() {
	h.mu.Lock()
	for c := range h.taken {
		c.Close()
	}
	h.mu.Unlock()
	h.CloseClientConnections()
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway left
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	r.URL.Path, r.Body = "/"+rest, io.NopCloser(bytes.NewReader(body))
	f, bad := h.kinds[name]
	if !bad || h.only != nil && !h.only(body) {
		h.inner.ServeHTTP(w, r)
		return
	}
	good := httptest.NewRecorder()
	h.inner.ServeHTTP(good, r)
	h.spoil(w, f, good)
}

// spoil does a fault in place of a good reply.
func (h *hostile) spoil(w http.ResponseWriter, f fault, good *httptest.ResponseRecorder) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	h.mu.Lock()
	h.taken[conn] = true
	h.mu.Unlock()
	f.do(&exchange{conn, good.Header().Get("Content-Type"), good.Body.Bytes()})
	conn.Close()
	h.mu.Lock()
	delete(h.taken, conn)
	h.mu.Unlock()
}

// caller is a model. To "call NAME" it calls that tool, and then says what came of it; to anything else it says so.
func caller() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		last := gjson.GetBytes(body, "messages.@reverse.0")
		text := last.Get("content").Str
		name, calls := strings.CutPrefix(text, "call ")
		if calls && last.Get("role").Str == "user" {
			modelCalls(w, body, name, "{}")
			return
		}
		if last.Get("role").Str == "tool" {
			text = "Result: " + text
		}
		modelSays(w, body, text)
	})
}

// modelCalls answers a chat completion, streamed or not, with a call of a tool.
func modelCalls(w http.ResponseWriter, request []byte, name, arguments string) {
	call := map[string]any{"index": 0, "id": "call_" + name, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}
	modelTurn(w, request, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls")
}

// modelSays answers a chat completion, streamed or not, with a text.
func modelSays(w http.ResponseWriter, request []byte, text string) {
	modelTurn(w, request, map[string]any{"role": "assistant", "content": text}, "stop")
}

func modelTurn(w http.ResponseWriter, request []byte, message map[string]any, finish string) {
	envelope := func(object string, choice map[string]any) []byte {
		b, err := json.Marshal(map[string]any{"id": "c", "object": object, "created": 1, "model": "m", "choices": []any{choice}})
		if err != nil {
			panic(err) // maps of texts always encode
		}
		return b
	}
	if !gjson.GetBytes(request, "stream").Bool() {
		w.Header().Set("Content-Type", applyJSON)
		_, _ = w.Write(envelope("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": finish}))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const object = "chat.completion.chunk"
	fmt.Fprintf(w, "data: %s\n\n", envelope(object, map[string]any{"index": 0, "delta": message, "finish_reason": nil}))
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", envelope(object, map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}))
}

// unclean says what of a reply to a chat completion is neither a complete answer nor a clean error; "" for nothing. text
// is the answer's, and code the error's or "".
func unclean(r reply, stream bool) (text, code, fault string) {
	for _, leak := range []string{"127.0.0.1", operatorKey, "dial ", "EOF", "context ", "net/http", ".go:", "goroutine", "malformed", "connection re", "no such host", "%!"} {
		if strings.Contains(r.body, leak) {
			return "", "", fmt.Sprintf("it has %q", leak)
		}
	}
	if r.status != http.StatusOK {
		code, ok := cleanError(r.body)
		if !ok || r.status < 400 {
			return "", "", "it is no error of OpenAI's shape"
		}
		return "", strconv.Itoa(r.status) + " " + code, ""
	}
	if !stream {
		choice := gjson.Get(r.body, "choices.0")
		if !gjson.Valid(r.body) || choice.Get("finish_reason").Str == "" || choice.Get("message.role").Str != "assistant" {
			return "", "", "it is no chat completion"
		}
		return choice.Get("message.content").Str, "", ""
	}
	return uncleanStream(r.body)
}

func cleanError(body string) (code string, ok bool) {
	e := gjson.Get(body, "error")
	return e.Get("code").Str, gjson.Valid(body) && e.Get("message").Str != "" && e.Get("type").Str != ""
}

func uncleanStream(body string) (text, code, fault string) {
	finished, done, failed := false, false, false
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case done || failed:
			return "", "", "there is something behind its end"
		case data == "[DONE]":
			done = true
			continue
		case gjson.Get(data, "error").Exists():
			if code, ok = cleanError(data); !ok {
				return "", "", "its error is none of OpenAI's shape"
			}
			code, failed = "in stream "+code, true
			continue
		case !gjson.Valid(data):
			return "", "", "an event is no JSON"
		}
		text += gjson.Get(data, "choices.0.delta.content").Str
		finished = finished || gjson.Get(data, "choices.0.finish_reason").Str != ""
	}
	switch {
	case failed:
		return text, code, ""
	case !done || !finished:
		return "", "", "it ended in the middle"
	}
	return text, "", ""
}

// fetch sends a request and reads its reply. The error is for a connection that broke.
func fetch(ctx context.Context, c *http.Client, method, url, body string, header ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, resp.Trailer, string(text)}, err
}
