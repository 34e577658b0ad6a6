package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A client that does not read slows its upstream: nothing is read ahead but what the sockets hold, and nothing is lost.
func TestASlowClientSlowsItsUpstream(t *testing.T) {
	const chunks, size = 4000, 16 << 10 // far more than the kernel keeps of two connections
	var written atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		text := strings.Repeat("x", size)
		for range chunks {
			n, err := fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text)
			if err != nil {
				return
			}
			written.Add(int64(n))
		}
		_, _ = io.WriteString(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer upstream.Close()
	front := httptest.NewServer(newTestGateway(t, `
upstreams: {up: {base_url: "${UPSTREAM}/v1"}}
models: {tools: {upstream: up}, none: {upstream: up, tools: []}}
tools: {lookup: {description: Look., http: {url: "${UPSTREAM}/"}}}
`, map[string]string{"UPSTREAM": upstream.URL}).server.Handler(true))
	defer front.Close()
	for _, model := range []string{"tools", "none"} {
		written.Store(0)
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"Go"}]}`, model)
		if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		stands := int64(-1)
		for now := written.Load(); now == 0 || now != stands; now = written.Load() { // until nothing moves any more
			stands = now
			time.Sleep(200 * time.Millisecond)
		}
		if total := int64(chunks * size); stands > total/2 {
			t.Errorf("%s: the upstream had written %d of %d bytes to a client that does not read", model, stands, total)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(resp.Body)
		if err != nil || strings.Count(string(all), "x")-strings.Count(string(all), `"id":"x"`) < chunks*size || !strings.Contains(string(all), "[DONE]") {
			t.Errorf("%s: %d bytes, %v, want all of them once it reads", model, len(all), err)
		}
		_ = resp.Body.Close()
		_ = conn.Close()
	}
}
