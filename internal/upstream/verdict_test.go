package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/breaker"
)

func TestBreakerOfEachModel(t *testing.T) {
	s, n := script(t, status(503, ""))
	series := map[string]breaker.State{}
	u := configured(t, "base_url: "+s.URL+"\nretry: {attempts: 1}\nbreaker: {failures: 1, open_for: 1h}\n", func(name string, s breaker.State) { series[name] = s })
	a, b, rest := NewRoutes(NewRoute(u, "a", 0)), NewRoutes(NewRoute(u, "b", 0)), NewRoutes(NewRoute(u, "", 0))
	again := NewRoutes(NewRoute(u, "a", 1)) // of another name in the file
	for _, name := range []string{"upstream:up", "upstream:up/a", "upstream:up/b"} {
		if state, ok := series[name]; !ok || state != breaker.Closed {
			t.Errorf("the series of %s is not there from the start", name)
		}
	}
	kind := func(r *Routes) Kind {
		_, err := r.Ask(t.Context(), ask(t, plain))
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("Ask() error = %v", err)
		}
		return e.Kind
	}
	if kind(a) != Broken || kind(a) != Open || kind(again) != Open {
		t.Error("the breaker of a model that fails is not open for every route to it")
	}
	if kind(b) != Broken || kind(rest) != Broken || n.Load() != 3 {
		t.Error("the breaker of one model closes others")
	}
	if len(series) != 3 || series["upstream:up/a"] != breaker.Opened {
		t.Errorf("series are %v", series)
	}
}

// A provider whose headers are fine and whose replies break never opened its breaker.
func TestBreakerCountsRepliesThatBreakAfterTheirHeader(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) {
		events(`{"choices":[{"delta":{"content":"a"}}]}`)(w, r)
		_ = http.NewResponseController(w).Flush()
	}
	for _, tt := range []struct {
		name, body string
		reply      http.HandlerFunc
		opens      bool
	}{
		{"a stream that is cut", streamed, func(w http.ResponseWriter, r *http.Request) { half(w, r); panic(http.ErrAbortHandler) }, true},
		{"a stream that stands still", streamed, func(w http.ResponseWriter, r *http.Request) { half(w, r); <-r.Context().Done() }, true},
		{"an error inside a stream", streamed, events(`{"error":{"message":"overloaded","code":502}}`), true},
		{"an error inside a reply", plain, status(200, `{"error":{"message":"overloaded"}}`), true},
		{"a stream with nothing in it", streamed, events("[DONE]"), true},
		{"a page", plain, status(200, "<html>"), true},
		{"a reply that is cut", plain, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"choices":`)
		}, true},
		{"an error about the request inside a reply", plain, status(200, `{"error":{"message":"too long","code":400}}`), false},
		{"an error about the request inside a stream, its status as text", streamed, events(`{"error":{"message":"litellm.BadRequestError: too long","type":null,"param":null,"code":"400"}}`), false},
		{"an error inside a stream, its status as text", streamed, events(`{"error":{"message":"litellm.APIConnectionError: Connection error.","type":null,"param":null,"code":"500"}}`), true},
		{"an error inside a stream with a word for a code", streamed, events(`{"error":{"message":"overloaded","code":"overloaded"}}`), true},
		{"a good stream", streamed, events(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, "[DONE]"), false},
		{"a good reply", plain, good, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, n := script(t, tt.reply)
			routes := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\nidle_timeout: 30ms\nbreaker: {failures: 2, open_for: 1h}\n"), "m", 0))
			for range 3 {
				_, _ = routes.Ask(t.Context(), ask(t, tt.body))
			}
			if want := map[bool]int64{true: 2, false: 3}[tt.opens]; n.Load() != want {
				t.Errorf("%d calls reached the provider, want %d", n.Load(), want)
			}
		})
	}
}

func TestBreakerCountsWhatIsPassedThrough(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply http.HandlerFunc
		leave bool
		opens bool
	}{
		{"a body that is cut", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, false, true},
		{"a body that stands still", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, false, true},
		{"a client that leaves", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, true, false},
		{"a whole body", good, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, n := script(t, tt.reply)
			routes := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\nidle_timeout: 30ms\nbreaker: {failures: 2, open_for: 1h}\n"), "", 0))
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := routes.Pass(ctx, Pass{Method: http.MethodGet, Path: "models"})
				if err == nil {
					if tt.leave {
						cancel()
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				cancel()
			}
			if want := map[bool]int64{true: 2, false: 3}[tt.opens]; n.Load() != want {
				t.Errorf("%d calls reached the provider, want %d", n.Load(), want)
			}
		})
	}
}

// A probe whose stream takes minutes kept everyone else out for as long.
func TestProbeLetsOthersThroughOnceItsReplyBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(breaker.Options{Failures: 1, OpenFor: time.Second})
		allow := func() *verdict {
			done, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			return newVerdict(b, done)
		}
		first := allow()
		first.began()
		first.is(breaker.Failure)
		if b.State() != breaker.Opened {
			t.Error("a call that began and failed is no failure")
		}
		time.Sleep(time.Second + 1)
		probe := allow()
		if _, err := b.Allow(); err == nil {
			t.Error("two calls are let through to see")
		}
		probe.began()
		allow().is(breaker.Success)
		probe.is(breaker.Failure)
		if b.State() != breaker.Closed {
			t.Errorf("the breaker is %s, want the first word of the probe to count", b.State())
		}
	})
}
