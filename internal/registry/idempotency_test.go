package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
)

const payTools = `
pay: {description: Pay., effect: write, parameters: {amount: number}, timeout: 2s, fake: x}
sure: {description: Pay., effect: write, idempotent: true, parameters: {amount: number}, timeout: 2s, fake: x}
look: {description: Look., parameters: {amount: number}, fake: x}
narrow: {description: Pay., effect: write, parameters: {amount: number}, timeout: 50ms, concurrency: 1, fake: x}
`

// till is a set of tools that pay, and how often they were called.
type till struct {
	*Set
	calls atomic.Int64
	do    call
	log   bytes.Buffer
}

func newTill(t *testing.T, store state.Store, do call) *till {
	t.Helper()
	x := &till{do: do}
	x.Set = newSet(t, payTools, func(ctx context.Context, c tool.Call) (tool.Result, error) {
		x.calls.Add(1)
		return x.do(ctx, c)
	}, func(o *Options) {
		o.Logger = slog.New(slog.NewJSONHandler(&x.log, nil))
		o.Writes = NewWrites(store)
	})
	return x
}

func newStore(t *testing.T) *state.Memory {
	t.Helper()
	m := state.NewMemory(state.Limits{})
	t.Cleanup(m.Close)
	return m
}

// pay makes a call of a tool. Without a key it is that of the run.
func (x *till) pay(ctx context.Context, name, args string, s Scope) (Observation, error) {
	v := x.View(nil, map[string]any{"id": "u1"})
	if s.RunID == "" {
		s.RunID = "run_1"
	}
	if s.Key == "" {
		s.Key = s.RunID
	}
	s.Attempt = max(s.Attempt, 1)
	return v.Run(ctx, v.Prepare(name, json.RawMessage(args)), s)
}

func fine(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Text: "paid"}, nil }

func failing(e tool.Error) call {
	return func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, &e }
}

func TestWhichCallsAreTheSame(t *testing.T) {
	first := Scope{RunID: "run_1", Key: "order-7", Caller: "web"}
	for _, tt := range []struct {
		name, tool, args string
		scope            Scope
		calls            int64 // of both together
	}{
		{"the same in another run with the same key", "pay", `{"amount":5}`, Scope{RunID: "run_2", Key: "order-7", Caller: "web"}, 1},
		{"arguments that are written in another way", "pay", `{ "amount" : "5" }`, first, 1},
		{"other arguments", "pay", `{"amount":6}`, first, 2},
		{"another tool", "sure", `{"amount":5}`, first, 2},
		{"another key of the client's", "pay", `{"amount":5}`, Scope{Key: "order-8", Caller: "web"}, 2},
		{"the run's own key", "pay", `{"amount":5}`, Scope{RunID: "run_1", Caller: "web"}, 2},
		{"another caller with the same key", "pay", `{"amount":5}`, Scope{Key: "order-7", Caller: "app"}, 2},
		{"the second equal call of the run", "pay", `{"amount":5}`, Scope{Key: "order-7", Caller: "web", Attempt: 2}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newTill(t, newStore(t), fine)
			for i, c := range []struct {
				tool, args string
				scope      Scope
			}{{"pay", `{"amount":5}`, first}, {tt.tool, tt.args, tt.scope}} {
				if seen, err := x.pay(t.Context(), c.tool, c.args, c.scope); err != nil || seen.Text != "paid" || seen.Class != "ok" {
					t.Errorf("call %d: %+v, %v", i, seen, err)
				}
			}
			if n := x.calls.Load(); n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
		})
	}
}

func TestEqualSpellingsAreOneCallForTheLoop(t *testing.T) {
	x := newTill(t, newStore(t), fine)
	v := x.View(nil, nil)
	a, b := v.Prepare("pay", json.RawMessage(`{"amount":5}`)), v.Prepare("pay", json.RawMessage(`{"amount":"5"}`))
	if a.Canonical != b.Canonical {
		t.Errorf("%s and %s are two calls to count, with one key", a.Canonical, b.Canonical)
	}
}

func TestReadsAndASetWithoutWritesAreMadeEachTime(t *testing.T) {
	x := newTill(t, newStore(t), fine)
	for range 2 {
		_, _ = x.pay(t.Context(), "look", `{"amount":5}`, Scope{Key: "k"})
	}
	if n := x.calls.Load(); n != 2 {
		t.Errorf("%d reads, want 2", n)
	}
	x.opts.Writes = nil
	for range 2 {
		_, _ = x.pay(t.Context(), "pay", `{"amount":5}`, Scope{Key: "k"})
	}
	if n := x.calls.Load(); n != 4 {
		t.Errorf("%d calls, want 2 more", n)
	}
}

func TestWhatIsKeptOfAFailure(t *testing.T) {
	dial := tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, NotDone: true}
	for _, tt := range []struct {
		name, tool string
		failure    tool.Error
		again      bool // it is made again under the same key
	}{
		{"a timeout", "pay", tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout}, false},
		{"a broken connection", "pay", tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect}, false},
		{"a status of 503", "pay", tool.Error{Class: tool.Unavailable, Type: tool.TypeHTTPStatus, Status: 503}, false},
		{"a reply that can't be read", "pay", tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode}, false},
		{"a refusal", "pay", tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: 409}, false},
		{"a failure that the service reports", "pay", tool.Error{Class: tool.Business, Message: "no funds"}, false},
		{"no connection at all", "pay", dial, true},
		{"a timeout of a service that honours the key", "sure", tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout}, true},
		{"a broken connection of one", "sure", tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect}, true},
		{"a refusal of one", "sure", tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: 409}, false},
		{"a reply of one that can't be read", "sure", tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newTill(t, newStore(t), failing(tt.failure))
			first, err := x.pay(t.Context(), tt.tool, `{"amount":5}`, Scope{Key: "k"})
			if err != nil || first.OK() {
				t.Fatalf("Run() = %+v, %v", first, err)
			}
			x.do = fine
			second, err := x.pay(t.Context(), tt.tool, `{"amount":5}`, Scope{Key: "k"})
			want := first
			if tt.again {
				want = Observation{Text: "paid", Class: "ok"}
			}
			if err != nil || second != want {
				t.Errorf("the repetition reads %+v, %v, want %+v", second, err, want)
			}
			if n := x.calls.Load(); (n == 2) != tt.again {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func TestACallThatGotNoPlaceIsMadeLater(t *testing.T) {
	release := make(chan struct{})
	x := newTill(t, newStore(t), func(context.Context, tool.Call) (tool.Result, error) {
		<-release
		return tool.Result{Text: "paid"}, nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = x.pay(context.Background(), "narrow", `{"amount":1}`, Scope{Key: "k"}) })
	for x.calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	busy, err := x.pay(t.Context(), "narrow", `{"amount":2}`, Scope{Key: "k"})
	if err != nil || !strings.Contains(busy.Text, tool.TypeBusy) {
		t.Errorf("Run() = %+v, %v, want busy", busy, err)
	}
	close(release)
	wg.Wait()
	if seen, err := x.pay(t.Context(), "narrow", `{"amount":2}`, Scope{Key: "k"}); err != nil || seen.Text != "paid" {
		t.Errorf("Run() = %+v, %v, want it made", seen, err)
	}
}

// A call that fails at last for want of a connection may have got through at first.
func TestAFailureIsSureToHaveDoneNothingOnlyIfEveryAttemptIs(t *testing.T) {
	tried := 0
	s := newSet(t, "sure: {description: Pay., effect: write, idempotent: true, retry: {attempts: 2, base: 1ms}, fake: x}", func(context.Context, tool.Call) (tool.Result, error) {
		tried++
		return tool.Result{}, &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, NotDone: tried == 2}
	})
	_, err := s.All()[0].call(t.Context(), tool.Call{})
	if e := tool.AsError(err); tried != 2 || e.NotDone {
		t.Errorf("after %d attempts the failure is %+v, want one that may have done something", tried, e)
	}
}

func TestEqualWritesAtOnceAreOne(t *testing.T) {
	store := newStore(t)
	release := make(chan struct{})
	slow := func(context.Context, tool.Call) (tool.Result, error) {
		<-release
		return tool.Result{Text: "paid"}, nil
	}
	here, elsewhere := newTill(t, store, slow), newTill(t, store, slow) // two processes
	elsewhere.opts.Writes = NewWrites(store)
	var wg sync.WaitGroup
	for i := range 20 {
		x := []*till{here, elsewhere}[i%2]
		wg.Go(func() {
			if seen, err := x.pay(context.Background(), "pay", `{"amount":5}`, Scope{Key: "k"}); err != nil || seen.Text != "paid" {
				t.Errorf("Run() = %+v, %v", seen, err)
			}
		})
	}
	for here.calls.Load()+elsewhere.calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := here.pay(ctx, "pay", `{"amount":5}`, Scope{Key: "k"}); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without any time: %v, want canceled", err)
	}
	close(release)
	wg.Wait()
	if n := here.calls.Load() + elsewhere.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestAWriteWhoseRunIsOver(t *testing.T) {
	over := errors.New("the run's time is used up")
	for _, tt := range []struct {
		name, tool string
		end        error
		want       string // the repetition reads
		calls      int64
	}{
		{"and that ends well all the same is kept", "pay", nil, "paid", 1},
		{"before it has ended is not made again", "pay", over, "it is not known whether this call was carried out", 1},
		{"is made again where its service honours the key", "sure", over, "paid", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			x := newTill(t, newStore(t), nil)
			x.do = func(context.Context, tool.Call) (tool.Result, error) {
				cancel(over)
				if tt.end != nil {
					return tool.Result{}, &tool.Error{Class: tool.Timeout, Err: tt.end}
				}
				return tool.Result{Text: "paid"}, nil
			}
			if _, err := x.pay(ctx, tt.tool, `{"amount":5}`, Scope{Key: "k"}); !errors.Is(err, tt.end) {
				t.Fatalf("Run() = %v, want %v", err, tt.end)
			}
			x.do = fine
			seen, err := x.pay(t.Context(), tt.tool, `{"amount":5}`, Scope{Key: "k"})
			if err != nil || !strings.Contains(seen.Text, tt.want) || x.calls.Load() != tt.calls {
				t.Errorf("the repetition reads %+v, %v after %d calls; want %q after %d", seen, err, x.calls.Load(), tt.want, tt.calls)
			}
		})
	}
}

// The claim of a process that died stays, and nobody knows how far it had come.
func TestAWriteWhoseProcessDied(t *testing.T) {
	for _, tt := range []struct {
		name, tool string
		ago        time.Duration // the end of its lease
		want       string
		calls      int64
	}{
		{"is not made again", "pay", time.Second, `"code":"unavailable","message":"it is not known whether`, 0},
		{"is made again where its service honours the key", "sure", time.Second, "paid", 1},
		{"is waited for until its lease is over", "sure", -100 * time.Millisecond, "paid", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newStore(t)
			x := newTill(t, store, fine)
			scope := Scope{Key: "k", Attempt: 1}
			args := map[string]any{"amount": json.Number("5")}
			key := idempotencyKey(scope, tool.Call{Args: args, Caller: map[string]any{"id": "u1"}}, tt.tool)
			dead := written{Owner: "dead", Until: time.Now().Add(-tt.ago)}
			if err := store.Put(t.Context(), key, dead.encode(), time.Hour); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				start := time.Now()
				seen, err := x.pay(t.Context(), tt.tool, `{"amount":5}`, scope)
				if err != nil || !strings.Contains(seen.Text, tt.want) {
					t.Errorf("the model reads %+v, %v; want %s", seen, err, tt.want)
				}
				if !seen.OK() && !strings.Contains(seen.Text, `"retryable":false`) {
					t.Errorf("the model is told to try again: %s", seen.Text)
				}
				if early := dead.Until.Sub(start); early > 0 && time.Now().Before(dead.Until) {
					t.Errorf("it was not waited for")
				}
			}
			if n := x.calls.Load(); n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
		})
	}
}

func TestWritesAreForgottenAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory(state.Limits{})
		defer store.Close()
		x := newTill(t, store, fine)
		for i, want := range []int64{1, 1, 2} {
			_, _ = x.pay(t.Context(), "pay", `{"amount":5}`, Scope{Key: "k"})
			if n := x.calls.Load(); n != want {
				t.Errorf("request %d: %d calls, want %d", i+1, n, want)
			}
			time.Sleep(23*time.Hour + time.Duration(i)*2*time.Hour)
		}
	})
}

// broken is a store that can't be reached.
type broken struct{ state.Store }

func (broken) Claim(context.Context, string, []byte, time.Duration) ([]byte, bool, error) {
	return nil, false, errors.New("connection refused at 10.0.0.1")
}

func TestNothingIsWrittenWhereNobodyKnowsWhetherItWas(t *testing.T) {
	x := newTill(t, broken{}, fine)
	seen, err := x.pay(t.Context(), "pay", `{"amount":5}`, Scope{Key: "k"})
	if err != nil || seen.Code != "unavailable" || !strings.Contains(seen.Text, `"retryable":true`) || strings.Contains(seen.Text, "10.0.0.1") {
		t.Errorf("Run() = %+v, %v", seen, err)
	}
	if n := x.calls.Load(); n != 0 {
		t.Errorf("%d calls, want none", n)
	}
}

// What had to make room while a call was under way does not lose its outcome.
func TestAnOutcomeIsKeptThoughItsClaimIsGone(t *testing.T) {
	store := newStore(t)
	for _, name := range []string{"good", "failed"} {
		x := newTill(t, store, nil)
		x.do = func(ctx context.Context, c tool.Call) (tool.Result, error) {
			_ = store.Delete(ctx, c.IdempotencyKey)
			if name == "good" {
				return fine(ctx, c)
			}
			return tool.Result{}, &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout}
		}
		for range 2 {
			_, _ = x.pay(t.Context(), "pay", `{"amount":5}`, Scope{Key: name})
		}
		if n := x.calls.Load(); n != 1 {
			t.Errorf("%s: %d calls, want 1", name, n)
		}
	}
}

func TestEachWriteHasALineForTheAudit(t *testing.T) {
	x := newTill(t, newStore(t), fine)
	scope := Scope{RunID: "run_1", CallID: "call_1", Key: "k", Caller: "web"}
	_, _ = x.pay(t.Context(), "pay", `{"amount":4711}`, scope)
	_, _ = x.pay(t.Context(), "pay", `{"amount":4711}`, scope)
	x.do = failing(tool.Error{Class: tool.Business, Message: "no funds"})
	_, _ = x.pay(t.Context(), "pay", `{"amount":6}`, scope)
	_, _ = x.pay(t.Context(), "look", `{"amount":6}`, scope)
	var got []string
	var keys []string
	for line := range strings.Lines(x.log.String()) {
		if gjson.Get(line, "msg").Str != "write" {
			continue
		}
		if gjson.Get(line, "level").Str != "INFO" || gjson.Get(line, "run_id").Str != "run_1" || gjson.Get(line, "call_id").Str != "call_1" ||
			gjson.Get(line, "caller").Str != "web" || gjson.Get(line, "tool").Str != "pay" || len(gjson.Get(line, "arguments_sha256").Str) != 64 {
			t.Errorf("line %s", line)
		}
		if strings.Contains(line, "4711") || strings.Contains(line, "paid") || strings.Contains(line, "no funds") {
			t.Errorf("the line tells arguments or results: %s", line)
		}
		keys = append(keys, gjson.Get(line, "idempotency_key").Str)
		got = append(got, gjson.Get(line, "outcome").Str+" "+gjson.Get(line, "replayed").Raw)
	}
	if s := strings.Join(got, ", "); s != "ok false, ok true, tool_error false" {
		t.Errorf("lines: %s", s)
	}
	if len(keys) != 3 || keys[0] != keys[1] || keys[1] == keys[2] || !strings.HasPrefix(keys[0], "tg_") {
		t.Errorf("keys: %q", keys)
	}
}

// The file sets `retry` for a tool of an MCP server without a word on its effect, which the server alone knows.
func TestAToolThatIsFoundToWriteIsNotTriedAgain(t *testing.T) {
	s := newSet(t, payTools, fine)
	whatever, err := schema.Parse(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	f := config.Parse("f.yaml", ".", []byte("retry: 2"), func(string) (string, bool) { return "", false })
	found := func(name string, effect tool.Effect, idempotent bool) Found {
		return Found{Name: name, ID: name, Description: "D.", Schema: whatever, Effect: effect, Idempotent: idempotent, Set: f.Root(), Tool: call(fine), Breaker: "server:x"}
	}
	s.Replace("x", []Found{found("reads", tool.Read, false), found("writes", tool.Write, false), found("writes_once", tool.Write, true)})
	if got := names(s.View(nil, nil)); got != "pay sure look narrow reads writes_once" {
		t.Errorf("tools = %s, want all but writes", got)
	}
}
