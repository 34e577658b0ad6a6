package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/config"
)

// These hold a gateway beside a bare reverse proxy, between a client and a provider that cost next to nothing: what is to
// be seen is the difference. The log is made, and goes nowhere.

const (
	benchKey  = "key-bench"
	benchCall = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look_up","arguments":"{\"id\":\"a1\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
)

// benchAnswer is as long as many an answer is: a kilobyte.
var benchAnswer = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
	strings.Repeat("It is 42, and so on.\\n", 55) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`

// leanServer answers each request on a connection by what answer makes of its head and body. It ends with the benchmark.
func leanServer(b *testing.B, answer func(head, body []byte) []byte) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with its client
				defer c.Close()
				in := bufio.NewReader(c)
				var head, body []byte
				for {
					if head, body, err = readMessage(in, head, body); err != nil {
						return
					}
					if _, err := c.Write(answer(head, body)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// readMessage reads one message of HTTP/1.1, of a length that it tells.
func readMessage(in *bufio.Reader, head, body []byte) (_, _ []byte, err error) {
	head, body = head[:0], body[:0]
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return head, body, err
		}
		head = append(head, line...)
		if len(line) == 2 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	if cap(body) < length {
		body = make([]byte, length)
	}
	body = body[:length]
	_, err = io.ReadFull(in, body)
	return head, body, err
}

func leanReply(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// leanStream is a stream of many events, written at once.
func leanStream(events int) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := func(s string) { fmt.Fprintf(&b, "%x\r\n%s\r\n", len(s), s) }
	for i := range events {
		chunk(fmt.Sprintf("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tok%d \"},\"finish_reason\":null}]}\n\n", i))
	}
	chunk("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	chunk("data: [DONE]\n\n")
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

// benchHandlers are gateways and what they stand beside.
func benchHandlers(b *testing.B, provider, service string) map[string]http.Handler {
	b.Helper()
	to, err := url.Parse(provider)
	if err != nil {
		b.Fatal(err)
	}
	bare := httputil.NewSingleHostReverseProxy(to)
	bare.Transport = &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	whole := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // else net/http cuts streams whose request is still read
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		bare.ServeHTTP(w, r)
	})
	gateway := func(tools string) http.Handler {
		c, err := check(config.Parse("gateway.yaml", b.TempDir(), []byte(`
upstreams: {up: {base_url: "`+provider+`/v1", api_key: sk-operator}}
auth: {keys: [{name: bench, sha256: `+keySum(benchKey)+`}]}
`+tools), func(string) (string, bool) { return "", false }))
		if err != nil {
			b.Fatal(err)
		}
		g, err := newGatewayWith(c, wiring{log: io.Discard})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(g.close)
		return g.server.Handler(true)
	}
	var tools strings.Builder
	fmt.Fprintf(&tools, "tools:\n  look_up: {description: Looks an id up., parameters: {id: string}, http: {url: \"%s/look_up\", query: {id: \"{id}\"}}}\n", service)
	for i := range 19 {
		fmt.Fprintf(&tools, "  other_%d: {description: Finds entry number %d by its name., parameters: {name: string}, http: {url: \"%s/other\", query: {name: \"{name}\"}}} # toolgate: allow similar-tools\n", i, i, service)
	}
	return map[string]http.Handler{"bare": whole, "pass": gateway(""), "tools": gateway(tools.String())}
}

func BenchmarkWire(b *testing.B) {
	for _, bench := range []struct {
		name   string
		size   int // of the conversation
		stream bool
		loop   bool
	}{
		{name: "1KB", size: 1000},
		{name: "200KB", size: 200_000},
		{name: "stream", size: 1000, stream: true},
		{name: "loop", size: 100, loop: true},
	} {
		answer, call, stream := leanReply(benchAnswer), leanReply(benchCall), leanStream(200)
		provider := leanServer(b, func(_, body []byte) []byte {
			switch {
			case bench.stream:
				return stream
			case bench.loop && bytes.Contains(body, []byte(`"look_up"`)) && !bytes.Contains(body, []byte(`"tool_call_id"`)):
				return call
			}
			return answer
		})
		result := leanReply(`{"fact":"It is 42."}`)
		service := leanServer(b, func([]byte, []byte) []byte { return result })
		for _, name := range []string{"bare", "pass", "tools"} {
			if bench.loop && name == "pass" {
				continue
			}
			b.Run(bench.name+"/"+name, func(b *testing.B) {
				server := httptest.NewUnstartedServer(benchHandlers(b, provider, service)[name])
				server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
				server.Start()
				defer server.Close()
				benchClient(b, server.Listener.Addr().String(), bench.size, bench.stream)
			})
		}
	}
}

// benchClient makes the same request over and over, by four clients.
func benchClient(b *testing.B, address string, size int, stream bool) {
	b.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"%s"}]}`, stream, strings.Repeat("The quick brown fox. ", 1+size/21))
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", benchKey, len(body), body)
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		var head, reply []byte
		for pb.Next() {
			if _, err := c.Write(request); err != nil {
				b.Error(err)
				return
			}
			if stream {
				if !readToEnd(b, in) {
					return
				}
				continue
			}
			if head, reply, err = readMessage(in, head, reply); err != nil || !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) {
				b.Errorf("%s %s %v", head, reply, err)
				return
			}
		}
	})
}

// readToEnd reads a stream up to its last chunk, trailers included.
func readToEnd(b *testing.B, in *bufio.Reader) bool {
	last := false
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			b.Error(err)
			return false
		}
		switch {
		case string(line) == "0\r\n":
			last = true
		case last && len(line) == 2:
			return true
		}
	}
}
