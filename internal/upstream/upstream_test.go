package upstream

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const answer = `{"id":"x","choices":[{"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}`

// client is a client of a server, configured by more YAML.
func client(t *testing.T, base, more string) *Client {
	t.Helper()
	return configuredAt(t, base+"/v1", more)
}

// configuredAt is a client of a whole base_url.
func configuredAt(t *testing.T, base, more string) *Client {
	t.Helper()
	return configured(t, "base_url: "+base+"\n"+more, func(string, breaker.State) {})
}

// parse reads a file.
func parse(yaml string) *config.File {
	return config.Parse("u.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
}

// decode is what a file says, whether it is good or bad.
func decode(yaml string) *Config {
	var c Config
	parse(yaml).Decode(&c)
	return &c
}

// configured is a client of a whole configuration.
func configured(t *testing.T, yaml string, onBreaker func(string, breaker.State)) *Client {
	t.Helper()
	c := &Config{}
	f := parse(yaml)
	f.Decode(c)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	u, err := NewClient("up", c, NewMetrics(prometheus.NewRegistry()), onBreaker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

func serve(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

const quick = "retry: {attempts: 3, base: 1ms, max: 5ms}\n"

func ask(t *testing.T, body string) Ask {
	t.Helper()
	req, err := chat.ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return Ask{Request: req}
}

const (
	plain    = `{"model":"m","messages":[1]}`
	streamed = `{"model":"m","messages":[1],"stream":true}`
)

func TestAskSendsTheRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "9")
		_, _ = io.WriteString(w, answer)
	})
	u := client(t, s.URL, "api_key: sk-operator\nheaders: {x-team: blue}\n")
	a := ask(t, `{"model":"m", "messages":[1],"seed":1.0}`)
	a.Header, a.ClientKey = http.Header{"Openai-Beta": {"x=1"}, "Authorization": {"Bearer theirs"}}, "theirs"
	reply, err := NewRoutes(NewRoute(u, "real-model", 0)).Ask(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if got.URL.Path != "/v1/chat/completions" || got.Header.Get("Authorization") != "Bearer sk-operator" || got.Header.Get("X-Team") != "blue" || got.Header.Get("Openai-Beta") != "x=1" {
		t.Errorf("request to %s with %v", got.URL, got.Header)
	}
	if want := `{"model":"real-model","messages":[1],"seed":1.0}`; string(body) != want {
		t.Errorf("body = %s, want %s", body, want)
	}
	if reply.Turn.Text != "Hello." || reply.Upstream != "up" || reply.Header.Get("X-Ratelimit-Remaining-Tokens") != "9" {
		t.Errorf("Ask() = %+v", reply)
	}
	if a.Header.Get("Authorization") != "Bearer theirs" {
		t.Error("the caller's header was changed")
	}
}

func TestAskSendsTheClientsKeyOnlyWhereItIsConfigured(t *testing.T) {
	for more, want := range map[string]string{"": "", "forward_client_key: true\n": "Bearer theirs"} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != want {
				t.Errorf("%q: Authorization = %q, want %q", more, got, want)
			}
			_, _ = io.WriteString(w, answer)
		})
		a := ask(t, plain)
		a.ClientKey = "theirs"
		if _, err := NewRoutes(NewRoute(client(t, s.URL, more), "", 0)).Ask(t.Context(), a); err != nil {
			t.Error(err)
		}
	}
}

// script answers request after request with its steps, the last one again and again.
func script(t *testing.T, steps ...http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		steps[min(int(n.Add(1)), len(steps))-1](w, r)
	}), &n
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

var good = status(200, answer)

func TestAskTriesAgain(t *testing.T) {
	failure := `{"error":{"message":"overloaded"}}`
	for _, tt := range []struct {
		name  string
		steps []http.HandlerFunc
		calls int64
		kind  Kind // of the error, "" where it succeeds
	}{
		{"after 503", []http.HandlerFunc{status(503, failure), good}, 2, ""},
		{"after 408, 429 and 500", []http.HandlerFunc{status(408, ""), status(429, failure), good}, 3, ""},
		{"after a reset before the reply", []http.HandlerFunc{cut, good}, 2, ""},
		{"not for ever", []http.HandlerFunc{status(502, failure)}, 3, Broken},
		{"not after a refusal", []http.HandlerFunc{status(400, failure), good}, 1, Refused},
		{"not after a refused key", []http.HandlerFunc{status(401, failure), good}, 1, Auth},
		{"not after 501", []http.HandlerFunc{status(501, failure), good}, 1, Broken},
		{"not after a reply that can't be read", []http.HandlerFunc{status(200, "<html>"), good}, 1, Broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, n := script(t, tt.steps...)
			_, err := NewRoutes(NewRoute(client(t, s.URL, quick), "", 0)).Ask(t.Context(), ask(t, plain))
			var e *Error
			if errors.As(err, &e) != (tt.kind != "") || e != nil && e.Kind != tt.kind {
				t.Errorf("Ask() error = %v, want kind %q", err, tt.kind)
			}
			if n.Load() != tt.calls {
				t.Errorf("%d calls, want %d", n.Load(), tt.calls)
			}
		})
	}
}

func TestAskKeepsWhatTheProviderSaid(t *testing.T) {
	s, _ := script(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		status(429, `{"error":{"message":"slow down","code":"rate_limited"}}`)(w, nil)
	})
	_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Busy || e.RetryAfter != 7*time.Second || e.Message != "slow down" || !strings.Contains(string(e.Body), "rate_limited") {
		t.Errorf("Ask() error = %+v", e)
	}
}

// Clients were told that their request was at fault, and no other route was tried, where the gateway's own key was.
func TestAKeyThatIsRefusedUnder400IsTheOperators(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       Kind
	}{
		{"Gemini", `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, Auth},
		{"xAI", `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: sk***. You can obtain an API key from the console."}`, Auth},
		{"LiteLLM without a database", `{"error":{"message":"No connected db.","type":"no_db_connection","param":null,"code":"400"}}`, Auth},
		{"OpenAI's code", `{"error":{"message":"No.","type":"invalid_request_error","code":"invalid_api_key"}}`, Auth},
		{"another fault", `{"error":{"message":"messages must not be empty"}}`, Refused},
		{"one that repeats the client's text", `{"error":{"message":"unknown role in \"Incorrect API key provided\"","code":"bad_role"}}`, Refused},
	} {
		s, _ := script(t, status(400, tt.body))
		_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), ask(t, plain))
		var e *Error
		if !errors.As(err, &e) || e.Kind != tt.want {
			t.Errorf("%s: Ask() error = %+v, want %s", tt.name, e, tt.want)
		}
	}
}

// LiteLLM's client was told nothing of the wait that the provider behind it asked for.
func TestAskFindsTheWaitThatAGatewayInBetweenHandsOn(t *testing.T) {
	for _, tt := range []struct {
		own, provider string
		want          time.Duration
	}{{"", "7", 7 * time.Second}, {"5", "7", 5 * time.Second}, {"", "", 0}} {
		s, _ := script(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, value := range map[string]string{"Retry-After": tt.own, "llm_provider-retry-after": tt.provider} {
				if value != "" {
					w.Header().Set(name, value)
				}
			}
			status(429, `{"error":{"message":"litellm.RateLimitError: slow down","code":"429"}}`)(w, nil)
		})
		_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), ask(t, plain))
		var e *Error
		if !errors.As(err, &e) || e.Kind != Busy || e.RetryAfter != tt.want {
			t.Errorf("Retry-After %q, of the provider %q: Ask() error = %+v, want a wait of %v", tt.own, tt.provider, e, tt.want)
		}
	}
}

// The body of an error that was cut off or too long was taken for a client that had left, who got an empty 200.
func TestAskGoesByTheStatusOfAnErrorWhoseBodyIsOfNoUse(t *testing.T) {
	bodies := map[string]http.HandlerFunc{
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"error"`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"without end": func(w http.ResponseWriter, _ *http.Request) {
			for more := []byte(strings.Repeat("more", 10_000)); ; {
				if _, err := w.Write(more); err != nil {
					return
				}
			}
		},
		"hanging": func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"in an unknown coding": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "abc") },
	}
	kinds := map[int]Kind{429: Busy, 500: Broken, 401: Auth, 400: Refused}
	for name, body := range bodies {
		for status, kind := range kinds {
			t.Run(fmt.Sprintf("%d %s", status, name), func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Retry-After", "7")
					if name == "in an unknown coding" {
						w.Header().Set("Content-Encoding", "br")
					}
					w.WriteHeader(status)
					body(w, r)
				})
				_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\nidle_timeout: 50ms\n"), "", 0)).Ask(t.Context(), ask(t, plain))
				var e *Error
				if !errors.As(err, &e) || e.Kind != kind || e.Status != status || e.RetryAfter != 7*time.Second || e.Err == nil {
					t.Errorf("Ask() error = %+v, want %s %d", e, kind, status)
				}
			})
		}
	}
}

// A reply that switches to another protocol has the connection for a body, which outlasted every clock.
func TestAskEndsWhereTheProviderSwitchesToAnotherProtocol(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // until the other side closes it
	})
	_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Broken {
		t.Errorf("Ask() error = %v, want broken", err)
	}
}

// A wait that would not end within the run's time is not begun: the client gets the provider's own answer at once.
func TestAskDoesNotWaitPastItsDeadline(t *testing.T) {
	s, n := script(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(429)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	start := time.Now()
	_, err := NewRoutes(NewRoute(client(t, s.URL, quick), "", 0)).Ask(ctx, ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Busy || n.Load() != 1 || time.Since(start) > 10*time.Second {
		t.Errorf("Ask() error = %v after %v and %d calls, want busy at once", err, time.Since(start), n.Load())
	}
}

func TestRoutesFallBack(t *testing.T) {
	bad, badCalls := script(t, status(503, ""))
	refusing, _ := script(t, status(400, `{"error":{"message":"no"}}`))
	cutting, _ := script(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	fine, fineCalls := script(t, good)
	once := "retry: {attempts: 1}\nbreaker: {failures: 1000}\n"
	route := func(s *httptest.Server) Route { return NewRoute(client(t, s.URL, once), "", 0) }

	if _, err := NewRoutes(route(bad), route(fine)).Ask(t.Context(), ask(t, plain)); err != nil || badCalls.Load() != 1 || fineCalls.Load() != 1 {
		t.Errorf("after a 503: %v, %d and %d calls", err, badCalls.Load(), fineCalls.Load())
	}
	if _, err := NewRoutes(route(refusing), route(fine)).Ask(t.Context(), ask(t, plain)); err == nil || fineCalls.Load() != 1 {
		t.Errorf("after a refusal: %v, %d calls of the next route", err, fineCalls.Load())
	}
	a := ask(t, streamed)
	a.OnChunk = func(*chat.Chunk) error { return nil }
	if _, err := NewRoutes(route(cutting), route(fine)).Ask(t.Context(), a); err == nil || fineCalls.Load() != 1 {
		t.Errorf("after a chunk was handed on: %v, %d calls of the next route", err, fineCalls.Load())
	}
	if _, err := NewRoutes(route(bad), route(bad)).Ask(t.Context(), ask(t, plain)); err == nil {
		t.Error("two bad routes succeed")
	}
}

func TestRoutesDrawTheFirstByWeight(t *testing.T) {
	list := []Route{{model: "a", weight: 1}, {model: "b", weight: 3}, {model: "c"}}
	r := NewRoutes(list...)
	for at, want := range []string{"abc", "bac", "bac", "bac"} {
		r.draw = func(n int) int {
			if n != 4 {
				t.Errorf("drawn from %d, want 4", n)
			}
			return at
		}
		got := ""
		for _, route := range r.order() {
			got += route.model
		}
		if got != want {
			t.Errorf("drawn %d: order %s, want %s", at, got, want)
		}
	}
}

func events(list ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range list {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
}

func TestAskReadsStreams(t *testing.T) {
	hello := `{"choices":[{"delta":{"content":"Hello."}}]}`
	finish := `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	for _, tt := range []struct {
		name  string
		reply http.HandlerFunc
		kind  Kind
		began bool
	}{
		{"to [DONE]", events(hello, finish, "[DONE]"), "", false},
		{"to an orderly end after the finish", events(hello, finish), "", false},
		{"to [DONE] without a finish", events(hello, "[DONE]"), "", false},
		{"also one that is plain JSON", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			good(w, r)
		}, "", false},
		{"also plain JSON that calls itself a stream", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "\r\n")
			good(w, r)
		}, "", false},
		{"also plain JSON that calls itself nothing", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			good(w, r)
		}, "", false},
		{"of an error in plain JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `{"error":{"message":"quota"}}`)
		}, Broken, false},
		{"that ends before its finish", events(hello), Broken, true},
		{"that is cut", func(w http.ResponseWriter, r *http.Request) {
			events(hello, finish)(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, Broken, true},
		{"of an error", events(`{"error":{"message":"quota"}}`), Broken, false},
		{"of garbage", events("{"), Broken, false},
		{"of nothing", events("[DONE]"), Empty, false},
		{"of nothing at all", events(), Empty, false},
		{"that is a page", status(200, "<html>error</html>"), Broken, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, n := script(t, tt.reply)
			a := ask(t, streamed)
			var chunks []string
			a.OnChunk = func(c *chat.Chunk) error {
				if c.Text != "" {
					chunks = append(chunks, c.Text)
				}
				return nil
			}
			reply, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), a)
			var e *Error
			if errors.As(err, &e) != (tt.kind != "") || e != nil && (e.Kind != tt.kind || e.Began != tt.began) {
				t.Fatalf("Ask() error = %+v, want kind %q, began %v", err, tt.kind, tt.began)
			}
			if err == nil && (reply.Turn.Text != "Hello." || !cmp.Equal(chunks, []string{"Hello."})) {
				t.Errorf("turn %q, chunks %q", reply.Turn.Text, chunks)
			}
			if n.Load() != 1 {
				t.Errorf("%d calls, want 1", n.Load())
			}
		})
	}
}

func TestAskEndsAStreamThatBringsNothingForAWhile(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1":          (*httptest.Server).Start,
		"HTTP/1.1 over TLS": (*httptest.Server).StartTLS,
		"HTTP/2": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan string, 1)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				events(`{"choices":[{"delta":{"content":"a"}}]}`)(w, r)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				left <- r.Proto
			}))
			start(s)
			t.Cleanup(s.Close)
			more := "idle_timeout: 50ms\n"
			if cert := s.Certificate(); cert != nil {
				file := filepath.Join(t.TempDir(), "ca.pem")
				if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600); err != nil {
					t.Fatal(err)
				}
				more += "tls: {ca_file: " + file + "}\n"
			}
			a := ask(t, streamed)
			a.OnChunk = func(*chat.Chunk) error { return nil }
			_, err := NewRoutes(NewRoute(client(t, s.URL, more), "", 0)).Ask(t.Context(), a)
			var e *Error
			if !errors.As(err, &e) || e.Kind != Slow {
				t.Errorf("Ask() error = %v, want slow", err)
			}
			if proto := <-left; !strings.HasPrefix(proto, name[:len("HTTP/1")]) { // which hears that nobody waits
				t.Errorf("asked over %s", proto)
			}
		})
	}
}

func TestAskEndsACallWithoutAFirstByte(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices that a client has left only behind its body
		<-r.Context().Done()
	})
	_, err := NewRoutes(NewRoute(client(t, s.URL, "first_byte_timeout: 50ms\nretry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Slow {
		t.Errorf("Ask() error = %v, want slow", err)
	}
}

func TestAskDecodesWhatWasCompressedUnasked(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("Accept-Encoding = %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, answer)
		_ = z.Close()
	})
	reply, err := NewRoutes(NewRoute(client(t, s.URL, ""), "", 0)).Ask(t.Context(), ask(t, plain))
	if err != nil || reply.Turn.Text != "Hello." {
		t.Errorf("Ask() = %v, %v", reply, err)
	}
}

func TestAskForUsageInStreams(t *testing.T) {
	refusal := status(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`)
	for _, tt := range []struct {
		name, more, body string
		steps            []http.HandlerFunc
		want             []string // of each call
	}{
		{"asked for", "", streamed, []http.HandlerFunc{events("[DONE]")}, []string{`{"include_usage":true}`}},
		{"added to the client's options", "", `{"model":"m","messages":[1],"stream":true,"stream_options":{"x":1.0}}`, []http.HandlerFunc{events("[DONE]")}, []string{`{"x":1.0,"include_usage":true}`}},
		{"off", "stream_usage: false\n", streamed, []http.HandlerFunc{events("[DONE]")}, []string{""}},
		{"off, but the client asks", "stream_usage: false\n", `{"model":"m","messages":[1],"stream":true,"stream_options":{"include_usage": true}}`, []http.HandlerFunc{events("[DONE]")}, []string{`{"include_usage": true}`}},
		{"refused, asked again without", "", streamed, []http.HandlerFunc{refusal, events("[DONE]")}, []string{`{"include_usage":true}`, ""}},
		{"refused to the client, asked again without", "", `{"model":"m","messages":[1],"stream":true,"stream_options":{"include_usage": true}}`, []http.HandlerFunc{refusal, events("[DONE]")}, []string{`{"include_usage": true}`, ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			n := 0
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				req, err := chat.ParseRequest(body)
				if err != nil {
					t.Error(err)
				}
				got = append(got, string(req.Member("stream_options")))
				n++
				tt.steps[min(n, len(tt.steps))-1](w, r)
			})
			routes := NewRoutes(NewRoute(client(t, s.URL, tt.more), "", 0))
			_, _ = routes.Ask(t.Context(), ask(t, tt.body)) // the stream is empty, which is not what this is about
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("stream_options (-want +got):\n%s", diff)
			}
			_, _ = routes.Ask(t.Context(), ask(t, tt.body))
			if last := got[len(got)-1]; last != tt.want[len(tt.want)-1] {
				t.Errorf("the next request has %q, want the answer remembered", last)
			}
		})
	}
}

func TestBreaker(t *testing.T) {
	failing := errors.New("the client has had enough")
	s, n := script(t, status(503, ""))
	u := client(t, s.URL, "retry: {attempts: 1}\nbreaker: {failures: 2, open_for: 1h}\n")
	routes := NewRoutes(NewRoute(u, "", 0))
	for range 2 {
		_, _ = routes.Ask(t.Context(), ask(t, plain))
	}
	_, err := routes.Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Open || e.RetryAfter <= 0 || n.Load() != 2 {
		t.Errorf("after two failures: %v, %d calls; want it open", err, n.Load())
	}

	// What clients do, by leaving or by bad requests, says nothing about the provider.
	hanging := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "bad") {
			status(400, `{"error":{"message":"no"}}`)(w, r)
			return
		}
		<-r.Context().Done()
	})
	u = client(t, hanging.URL, "retry: {attempts: 1}\nbreaker: {failures: 1, open_for: 1h}\n")
	routes = NewRoutes(NewRoute(u, "", 0))
	for _, body := range []string{plain, `{"model":"bad","messages":[1]}`, plain} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Millisecond, func() { cancel(failing) })
		_, err := routes.Ask(ctx, ask(t, body))
		if !errors.As(err, &e) || e.Kind == Open {
			t.Errorf("%s: %v", body, err)
		}
		cancel(nil)
	}
}

func TestPassKeepsBytesPathAndRefusals(t *testing.T) {
	const odd = `{ "model":"m" , "input":[1.0] }`
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodDelete {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"error":{"code":"not_there"}}`)
			return
		}
		w.WriteHeader(201)
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), body)
	})
	routes := NewRoutes(NewRoute(client(t, s.URL, quick), "", 0))
	req, err := chat.ParseObject([]byte(odd))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := routes.Pass(t.Context(), Pass{Method: http.MethodPost, Path: "files/a%2Fb", Query: "x=a%20b&y", Request: req})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if want := "POST /v1/files/a%2Fb?x=a%20b&y " + odd; resp.StatusCode != 201 || string(got) != want {
		t.Errorf("got %d %s, want %s", resp.StatusCode, got, want)
	}
	var e *Error
	if _, err := routes.Pass(t.Context(), Pass{Method: http.MethodDelete, Path: "files/a"}); !errors.As(err, &e) || e.Kind != Refused || e.Status != 404 || string(e.Body) != `{"error":{"code":"not_there"}}` {
		t.Errorf("Pass() error = %+v", e)
	}
}

func TestPassMakesSomeRequestsOnlyOnce(t *testing.T) {
	s, n := script(t, status(503, ""), good)
	routes := NewRoutes(NewRoute(client(t, s.URL, quick), "", 0))
	if _, err := routes.Pass(t.Context(), Pass{Method: http.MethodPost, Path: "batches", Once: true}); err == nil || n.Load() != 1 {
		t.Errorf("Pass() error = %v after %d calls, want one", err, n.Load())
	}
}

func TestErrorsOfAnUpstreamThatIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, err = NewRoutes(NewRoute(client(t, "http://"+addr, quick), "", 0)).Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Broken || e.Status != 0 || e.Message != "" {
		t.Errorf("Ask() error = %+v, want broken", e)
	}
	if e != nil && !e.Unreached() {
		t.Errorf("Ask() error = %v, want one of an upstream that was not reached", e)
	}
}

// Who reads that an upstream was not reached looks at its address; who reads that it failed looks at the upstream.
func TestAnUpstreamThatHangsUpWasReached(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	s := httptest.NewServer(http.HandlerFunc(hangUp))
	defer s.Close()
	_, err := NewRoutes(NewRoute(client(t, s.URL, quick), "", 0)).Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Broken || e.Unreached() {
		t.Errorf("Ask() error = %+v, want broken, of an upstream that was reached", e)
	}
	unknown := NewRoutes(NewRoute(client(t, "http://no-such-host.invalid", quick), "", 0))
	if _, err := unknown.Ask(t.Context(), ask(t, plain)); !errors.As(err, &e) || !e.Unreached() {
		t.Errorf("Ask() of an unknown host = %+v, want one that was not reached", e)
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"{}", "base_url is missing"},
		{"{base_url: api.example.com}", "want an http or https address"},
		{"{base_url: 'https://u:p@example.com'}", "no user and password"},
		{"{base_url: 'https://example.com?x=1'}", "without a query"},
		{"{base_url: 'https://example.com', kind: azuer}", "did you mean \"azure\""},
		{"{base_url: 'https://example.com', api_version: 2024-10-21}", "belongs to kind: azure"},
		{"{base_url: 'https://example.com', retry: {budget: 20}}", "want a share of the requests"},
		{"{base_url: 'https://example.com', api_key: x, forward_client_key: true}", "has no effect beside api_key"},
		{"{base_url: 'https://example.com', retry: {attempts: 0}}", "attempts"},
		{"{base_url: 'https://example.com', headers: {'a b': x}}", "is no header name"},
	} {
		f := parse(tt.yaml)
		f.Decode(&Config{})
		if p := f.Problems(); p == nil || !strings.Contains(p.Error(), tt.want) {
			t.Errorf("%s: problems = %v, want %q", tt.yaml, p, tt.want)
		}
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewMetrics(reg).known("up")
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestAskTriesTheNextRouteWhileTheClientHasSeenNothing(t *testing.T) {
	for _, shown := range []bool{false, true} {
		s, n := script(t, events(`{"choices":[{"delta":{"content":"Wrong"}}]}`), events(`{"choices":[{"delta":{"content":"Right"},"finish_reason":"stop"}]}`, "[DONE]"))
		c := client(t, s.URL, "retry: {attempts: 1}\n")
		a := ask(t, streamed)
		a.OnChunk = func(*chat.Chunk) error { return nil }
		a.Shown = func() bool { return shown }
		reply, err := NewRoutes(NewRoute(c, "", 0), NewRoute(c, "", 0)).Ask(t.Context(), a)
		if shown && (err == nil || n.Load() != 1) {
			t.Errorf("error %v after %d calls, want one call that fails", err, n.Load())
		}
		if !shown && (err != nil || reply.Turn.Text != "Right") {
			t.Errorf("Ask() = %+v, error %v", reply, err)
		}
	}
}

// A reply to HEAD says how long the body would be, and has none.
func TestPassKeepsARefusalOfHEAD(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20")
		w.WriteHeader(http.StatusNotFound)
	})
	_, err := NewRoutes(NewRoute(client(t, s.URL, quick), "", 0)).Pass(t.Context(), Pass{Method: http.MethodHead, Path: "files/none"})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Refused || e.Status != http.StatusNotFound || e.Body == nil {
		t.Errorf("Pass() error = %+v, want the refusal as it came", err)
	}
}
