package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/trace"
)

const orderTool = `order: {description: Order., parameters: {item: string}, timeout: 5s, http: {url: "TOOLS/orders", body: json}}`

// shop is a gateway whose model orders what it is asked for and then says what came of it.
type shop struct {
	*fixture
	store  *state.Memory
	orders atomic.Int64
	asked  atomic.Int64 // model calls
	answer atomic.Value // http.HandlerFunc of the second model call
	serve  atomic.Value // http.HandlerFunc of the orders' service
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"t","code":"c"}}`)
	}
}

func newShop(t *testing.T, limits budget.Limits) *shop {
	t.Helper()
	x := &shop{store: state.NewMemory(state.Limits{})}
	t.Cleanup(x.store.Close)
	x.answer.Store(says("Ordered."))
	x.serve.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"order":7}`) }))
	up := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		x.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), `"role":"tool"`) {
			x.answer.Load().(http.HandlerFunc)(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","choices":[{"message":{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"order","arguments":"{\"item\":\"mug\"}"}}]},"finish_reason":"tool_calls"}]}`)
	}
	tools := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		x.orders.Add(1)
		x.serve.Load().(http.HandlerFunc)(w, r)
	}
	keys := auth.Config{Keys: []auth.KeyConfig{{Name: "web", SHA256: sha("web")}, {Name: "app", SHA256: sha("app")}}}
	x.fixture = newFixture(t, fixtureConfig{tools: orderTool, state: x.store, limits: limits, keys: keys}, up, tools)
	return x
}

const (
	buy       = `{"model":"m","messages":[{"role":"user","content":"A mug"}]}`
	buyStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"A mug"}]}`
)

// buy asks for a mug under a key.
func (x *shop) buy(t *testing.T, body, key string, headers ...string) reply {
	t.Helper()
	return x.send(t, http.MethodPost, chatPath, body, append([]string{"Authorization", "Bearer web", headerIdempotent, key}, headers...)...)
}

func (x *shop) want(t *testing.T, orders, asked int64) {
	t.Helper()
	if o, a := x.orders.Load(), x.asked.Load(); o != orders || a != asked {
		t.Errorf("%d orders and %d model calls, want %d and %d", o, a, orders, asked)
	}
}

func TestARepeatedRequestGetsTheReplyThatItHad(t *testing.T) {
	for name, body := range map[string]string{"in one piece": buy, "as a stream": buyStream} {
		t.Run(name, func(t *testing.T) {
			x := newShop(t, budget.Limits{})
			first, second := x.buy(t, body, "k"), x.buy(t, body, "k", "X-Request-Id", "again")
			x.want(t, 1, 2)
			if first.StatusCode != 200 || !strings.Contains(first.body, "Ordered.") || first.Header.Get(headerReplayed) != "" {
				t.Errorf("first reply: %d %v %s", first.StatusCode, first.Header, first.body)
			}
			if second.StatusCode != 200 || second.body != first.body || second.Header.Get(headerReplayed) != "true" || second.Header.Get("X-Request-Id") != "again" {
				t.Errorf("second reply: %d %v %s, want %s", second.StatusCode, second.Header, second.body, first.body)
			}
			for _, header := range []string{"Content-Type", trace.Header, "Cache-Control", "X-Accel-Buffering"} {
				if got, want := second.Header.Get(header), first.Header.Get(header); got != want {
					t.Errorf("%s = %q, want %q", header, got, want)
				}
			}
			if got, want := second.Trailer.Get(trace.Header), first.Trailer.Get(trace.Header); got != want || (want == "") == (body == buyStream) {
				t.Errorf("trailer %q, want %q", got, want)
			}
			if body == buyStream && !strings.HasSuffix(second.body, "data: [DONE]\n\n") {
				t.Errorf("the stream has no end: %s", second.body)
			}
		})
	}
}

func TestWhichRequestsAreTheSame(t *testing.T) {
	none := []string{headerTools, "none"}
	for _, tt := range []struct {
		name, body, key string
		headers         []string
		status          int
		orders, asked   int64 // of both
	}{
		{"another text", `{"model":"m","messages":[{"role":"user","content":"Two mugs"}]}`, "k", nil, 409, 1, 2},
		{"a stream in place of one piece", buyStream, "k", nil, 409, 1, 2},
		{"another limit of steps", buy, "k", []string{headerMaxSteps, "3"}, 409, 1, 2},
		{"other tools", buy, "k", []string{headerTools, "order"}, 409, 1, 2},
		{"the trace in the body", buy, "k", []string{trace.Header, "full"}, 409, 1, 2},
		{"another header", buy, "k", []string{"X-Stainless-Retry-Count", "1"}, 200, 1, 2},
		{"another key", buy, "k2", nil, 200, 2, 4},
		{"no key", buy, "", nil, 200, 2, 4},
		{"another caller", buy, "k", []string{"Authorization", "Bearer app"}, 200, 2, 4},
		{"what is passed through", buy, "k", none, 200, 1, 3},
		{"a long key of what is passed through", buy, strings.Repeat("k", 256), none, 200, 1, 3},
		{"a key that is too long", buy, strings.Repeat("k", 256), nil, 400, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newShop(t, budget.Limits{})
			x.buy(t, buy, "k")
			got := x.buy(t, tt.body, tt.key, tt.headers...)
			if got.StatusCode != tt.status {
				t.Errorf("%d, want %d: %s", got.StatusCode, tt.status, got.body)
			}
			x.want(t, tt.orders, tt.asked)
			if got.StatusCode < 300 {
				return
			}
			if !strings.Contains(got.Header.Get(trace.Header), "stop=error") || gjson.Get(got.body, "error.param").Str != headerIdempotent {
				t.Errorf("refused with %v %s", got.Header, got.body)
			}
			if got.StatusCode == 409 && (gjson.Get(got.body, "error.code").Str != "idempotency_key_reused" || got.Header.Get("X-Should-Retry") != "false") {
				t.Errorf("conflict: %v %s", got.Header, got.body)
			}
		})
	}
}

func TestRequestsAtOnceWithOneKeyAreOneRun(t *testing.T) {
	x := newShop(t, budget.Limits{})
	release := make(chan struct{})
	x.serve.Store(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	var wg sync.WaitGroup
	var bodies sync.Map
	for range 8 {
		wg.Go(func() { bodies.Store(x.buy(t, buy, "k").body, true) })
	}
	for x.orders.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if got := x.buy(t, buyStream, "k"); got.StatusCode != 409 { // it is not waited for
		t.Errorf("another body while the first is under way: %d", got.StatusCode)
	}
	close(release)
	wg.Wait()
	x.want(t, 1, 2)
	n := 0
	bodies.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d different replies, want one", n)
	}
}

// What SDKs ask for again by themselves is not kept, what is wrong with the request is. No order is made again.
func TestWhichFailuresAreKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fails  http.HandlerFunc
		status int // of the first reply
		again  bool
	}{
		{"a provider out of order", status(500), 502, true},
		{"a busy provider", status(429), 429, true},
		{"a conflict at the provider", status(409), 409, true},
		{"a refusal", status(400), 400, false},
	} {
		for kind, body := range map[string]string{"in one piece": buy, "as a stream": buyStream} {
			t.Run(tt.name+" "+kind, func(t *testing.T) {
				x := newShop(t, budget.Limits{})
				x.answer.Store(tt.fails)
				first := x.buy(t, body, "k")
				x.answer.Store(says("Ordered."))
				second := x.buy(t, body, "k")
				if first.StatusCode != tt.status || first.Header.Get("X-Should-Retry") != "false" {
					t.Errorf("first reply: %d %v, want %d", first.StatusCode, first.Header, tt.status)
				}
				if tt.again {
					x.want(t, 1, 4)
					if second.StatusCode != 200 || !strings.Contains(second.body, "Ordered.") {
						t.Errorf("second reply: %d %s", second.StatusCode, second.body)
					}
					return
				}
				x.want(t, 1, 2)
				if second.StatusCode != tt.status || second.body != first.body || second.Header.Get(headerReplayed) != "true" ||
					second.Header.Get("X-Should-Retry") != "false" || second.Header.Get(trace.Header) != first.Header.Get(trace.Header) {
					t.Errorf("second reply: %d %v %s, want %v %s", second.StatusCode, second.Header, second.body, first.Header, first.body)
				}
			})
		}
	}
}

// A stream that has begun and then broke off was answered with 200, and is run again all the same.
func TestAStreamThatBrokeOffIsNotKept(t *testing.T) {
	x := newShop(t, budget.Limits{})
	x.answer.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"x","choices":[{"index":0,"delta":{"content":"`+strings.Repeat("Or ", 200)+`"}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	if first := x.buy(t, buyStream, "k"); first.StatusCode != 200 || !strings.Contains(first.body, `"error"`) {
		t.Errorf("first reply: %d %s", first.StatusCode, first.body)
	}
	x.answer.Store(says("Ordered."))
	if second := x.buy(t, buyStream, "k"); !strings.Contains(second.body, "Ordered.") {
		t.Errorf("second reply: %s", second.body)
	}
	if n := x.orders.Load(); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

func TestALargeReplyIsNotKept(t *testing.T) {
	x := newShop(t, budget.Limits{})
	x.answer.Store(says(strings.Repeat("x", maxReply)))
	for range 2 {
		if got := x.buy(t, buy, "k"); got.StatusCode != 200 || len(got.body) < maxReply || got.Header.Get(headerReplayed) != "" {
			t.Errorf("%d, %d bytes", got.StatusCode, len(got.body))
		}
	}
	x.want(t, 1, 4)
}

// A client that leaves while its order is made, and comes again, at once or later, gets the result of that order.
func TestAClientThatLeftInTheMiddleOfAWrite(t *testing.T) {
	for _, when := range []string{"meanwhile", "later"} {
		t.Run(when, func(t *testing.T) {
			x := newShop(t, budget.Limits{})
			release := make(chan struct{})
			x.serve.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				<-release
				_, _ = io.WriteString(w, `{"order":7}`)
			}))
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.URL+chatPath, strings.NewReader(buy))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer web")
			req.Header.Set(headerIdempotent, "k")
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
					t.Error("the client that left got a reply")
				}
			}()
			for x.orders.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			leave()
			<-gone
			if when == "meanwhile" {
				time.AfterFunc(50*time.Millisecond, func() { close(release) })
			} else {
				close(release)
			}
			got := x.buy(t, buy, "k")
			if got.StatusCode != 200 || !strings.Contains(got.body, "Ordered.") {
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
			if n := x.orders.Load(); n != 1 {
				t.Errorf("%d orders, want 1", n)
			}
		})
	}
}

// underWay claims a request's key for somebody else, for a while.
func (x *shop) underWay(t *testing.T, body, key string, lease time.Duration) {
	t.Helper()
	c := &completion{
		r:    httptest.NewRequestWithContext(t.Context(), http.MethodPost, chatPath, nil),
		info: &requestInfo{caller: &auth.Caller{Name: "web", ID: "web", Fields: auth.NewKeys(&auth.Config{Keys: []auth.KeyConfig{{Name: "web"}}}, nil).Named("web").Fields}},
		req:  &chat.Request{Raw: []byte(body)},
	}
	claim, err := (&kept{Request: c.digest(), Owner: "somebody else"}).encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.store.Put(t.Context(), c.callersKey(key), claim, lease); err != nil {
		t.Fatal(err)
	}
}

func TestARequestWhoseProcessDied(t *testing.T) {
	x := newShop(t, budget.Limits{})
	x.underWay(t, buy, "k", 200*time.Millisecond) // what is left of its lease
	if got := x.buy(t, buy, "k"); got.StatusCode != 200 || !strings.Contains(got.body, "Ordered.") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	x.want(t, 1, 2)
}

func TestTheWaitEndsWithTheRunsTime(t *testing.T) {
	limits := budget.Default()
	limits.Time = 200 * time.Millisecond
	x := newShop(t, limits)
	x.underWay(t, buy, "k", time.Minute)
	got := x.buy(t, buy, "k")
	if got.StatusCode != 504 || gjson.Get(got.body, "error.code").Str != "timeout" || got.Header.Get("X-Should-Retry") != "" {
		t.Errorf("%d %v %s, want 504 that may be asked again", got.StatusCode, got.Header, got.body)
	}
	x.want(t, 0, 0)
}

// broken is a store that can't be reached.
type broken struct{}

var errBroken = errors.New("no connection")

func (broken) Get(context.Context, string) ([]byte, bool, error)        { return nil, false, errBroken }
func (broken) Put(context.Context, string, []byte, time.Duration) error { return errBroken }
func (broken) Delete(context.Context, string) error                     { return errBroken }
func (broken) Claim(context.Context, string, []byte, time.Duration) ([]byte, bool, error) {
	return nil, false, errBroken
}

func (broken) Swap(context.Context, string, []byte, []byte, time.Duration) (bool, error) {
	return false, errBroken
}

func TestARunGoesOnWhereNothingCanBeKept(t *testing.T) {
	x := newShop(t, budget.Limits{})
	x.replies.store = broken{}
	for range 2 {
		if got := x.buy(t, buy, "k"); got.StatusCode != 200 || got.Header.Get(headerReplayed) != "" {
			t.Errorf("%d %v", got.StatusCode, got.Header)
		}
	}
	x.want(t, 1, 4) // the writes are known all the same
}

func TestRepliesAreForgottenAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory(state.Limits{})
		defer store.Close()
		all := &replies{store: store}
		for i, want := range []bool{false, true, false} {
			took := &taking{replies: all, key: "k", request: "digest", log: slog.New(slog.DiscardHandler)}
			there, err := took.take(t.Context())
			if err != nil || (there != nil) != want {
				t.Errorf("request %d: %v, %v, want a reply: %v", i+1, there, err, want)
			}
			if there == nil {
				if err := took.keep(t.Context(), &kept{Status: 200, body: []byte("x")}); err != nil {
					t.Error(err)
				}
			}
			took.release()
			time.Sleep(23*time.Hour + time.Duration(i)*2*time.Hour)
		}
	})
}

// A run that panics leaves no claim behind.
func TestAClaimWithoutAReplyIsGivenUp(t *testing.T) {
	store := state.NewMemory(state.Limits{})
	defer store.Close()
	all := &replies{store: store}
	for range 2 {
		took := &taking{replies: all, key: "k", request: "digest", log: slog.New(slog.DiscardHandler)}
		if there, err := took.take(t.Context()); there != nil || err != nil || took.claim == nil {
			t.Errorf("take() = %v, %v, want a claim", there, err)
		}
		took.release()
	}
}

// A claim holds for as long as its request is answered, and a while longer where its process died.
func TestAClaimIsHeldWhileItsProcessLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory(state.Limits{})
		defer store.Close()
		take := func() *taking { // of a process of its own: nothing but the store is shared
			return &taking{replies: &replies{store: store}, key: "k", request: "digest", log: slog.New(slog.DiscardHandler)}
		}
		first := take()
		if _, err := first.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		wait, cancel := context.WithTimeout(t.Context(), 10*claimHeld)
		defer cancel()
		second := take()
		if _, err := second.take(wait); err == nil {
			t.Error("two answer one request")
		}
		second.release()
		first.hold() // as the end of its process does
		begin := time.Now()
		third := take()
		if there, err := third.take(t.Context()); there != nil || err != nil || time.Since(begin) > claimHeld+time.Second {
			t.Errorf("take() = %v, %v after %s", there, err, time.Since(begin))
		}
		third.release()
	})
}

// cutOnce is an address that leads to another one. Of the first connection it takes the request, and cuts it once a
// reply comes.
func cutOnce(t *testing.T, to string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the listener
		for first := true; ; first = false {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(to, "http://"))
			if err != nil {
				in.Close()
				continue
			}
			wg.Go(func() {
				_, _ = io.Copy(out, in)
				out.Close()
			})
			wg.Go(func() {
				if first {
					_, _ = out.Read(make([]byte, 1))
				} else {
					_, _ = io.Copy(in, out)
				}
				in.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// keyed sends each request with a key.
type keyed struct {
	http.RoundTripper
	key string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(headerIdempotent, k.key)
	return k.RoundTripper.RoundTrip(r)
}

func TestAProgramThatAsksAgainAfterACutConnection(t *testing.T) {
	x := newShop(t, budget.Limits{})
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	config := openai.DefaultConfig("web")
	config.BaseURL = cutOnce(t, x.URL) + "/v1"
	config.HTTPClient = &http.Client{Transport: keyed{transport, "order-1"}}
	client := openai.NewClientWithConfig(config)
	ask := openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "A mug"}}}
	if _, err := client.CreateChatCompletion(t.Context(), ask); err == nil {
		t.Fatal("the connection was not cut")
	}
	got, err := client.CreateChatCompletion(t.Context(), ask)
	if err != nil || got.Choices[0].Message.Content != "Ordered." {
		t.Errorf("%+v, %v", got, err)
	}
	x.want(t, 1, 2)
}
