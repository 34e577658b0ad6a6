package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/guard"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a model and tools made of functions, and what happened in it.
type world struct {
	t     *testing.T
	tools map[string]func(context.Context, tool.Call) (tool.Result, error)
	turns []func(context.Context, upstream.Ask) (*chat.Turn, error)

	byTool bool           // the model's route takes no schema beside tools
	fields map[string]any // of the caller

	confirm *registry.Confirmations
	guard   *guard.Guard

	mu   sync.Mutex
	log  []string // what ran, in order
	asks []upstream.Ask
}

func newWorld(t *testing.T) *world {
	return &world{t: t, tools: map[string]func(context.Context, tool.Call) (tool.Result, error){}}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// Ask is the model.
func (w *world) Ask(ctx context.Context, a upstream.Ask) (*upstream.Answer, error) {
	w.asks = append(w.asks, a)
	if len(w.asks) > len(w.turns) {
		w.t.Errorf("the model was asked %d times, which has %d turns", len(w.asks), len(w.turns))
		return nil, &upstream.Error{Kind: upstream.Broken}
	}
	turn, err := w.turns[len(w.asks)-1](ctx, a)
	if err != nil {
		return nil, err
	}
	return &upstream.Answer{Turn: turn, Upstream: "up", ByTool: w.byTool}, nil
}

// says adds a turn: a text, and calls as "name arguments".
func (w *world) says(text string, calls ...string) { w.saysWith(text, "", calls...) }

func (w *world) saysWith(text, finish string, calls ...string) {
	message := map[string]any{"role": "assistant", "content": text}
	var list []any
	for i, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		list = append(list, map[string]any{"id": fmt.Sprintf("c%d_%d", len(w.turns)+1, i+1), "type": "function", "function": map[string]any{"name": name, "arguments": args}})
	}
	if list != nil {
		message["tool_calls"] = list
	}
	body, err := json.Marshal(map[string]any{
		"choices": []any{map[string]any{"message": message, "finish_reason": finish}},
		"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.turns = append(w.turns, func(context.Context, upstream.Ask) (*chat.Turn, error) { return chat.ReadReply(body) })
}

// fakeKind makes tools of the world's functions, by the tool's name.
type fakeKind struct{ w *world }

func (*fakeKind) DecodeNode(*config.Node)       {}
func (*fakeKind) DefaultEffect() tool.Effect    { return tool.Read }
func (*fakeKind) Check(*config.Node, tool.Spec) {}
func (*fakeKind) Hosts() []string               { return nil }
func (k *fakeKind) Build(s tool.Spec, _ tool.Env) (tool.Tool, error) {
	return toolFunc(func(ctx context.Context, c tool.Call) (tool.Result, error) {
		k.w.note("%s %s begins", s.Name, c.JSON())
		defer k.w.note("%s ends", s.Name)
		if f := k.w.tools[s.Name]; f != nil {
			return f(ctx, c)
		}
		return tool.Result{Text: s.Name + " result"}, nil
	}), nil
}

type toolFunc func(context.Context, tool.Call) (tool.Result, error)

func (f toolFunc) Call(ctx context.Context, c tool.Call) (tool.Result, error) { return f(ctx, c) }

const tools = `
look: {description: Look., parameters: {id: {type: integer, optional: true}}, fake: x, timeout: 1h}
peek: {description: Peek., fake: x, timeout: 1h}
pay: {description: Pay., effect: write, fake: x, timeout: 1h, parameters: {n: {type: integer, optional: true}}}
close: {description: Close., final: true, fake: x}
`

// returns makes a tool's result.
func (w *world) returns(name, text string) {
	w.tools[name] = func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Text: text}, nil }
}

// run makes a run of the world with limits on the request's tools.
func (w *world) run(ctx context.Context, limits budget.Limits) (*Result, *trace.Run, error) {
	w.t.Helper()
	return w.runRequest(ctx, limits, `{"model":"m","messages":[{"role":"user","content":"Go"}],"tools":[{"type":"function","function":{"name":"mine"}}]}`)
}

func (w *world) runRequest(ctx context.Context, limits budget.Limits, body string) (*Result, *trace.Run, error) {
	w.t.Helper()
	r := w.prepare(limits, body)
	result, err := r.Do(ctx)
	return result, r.Record, err
}

// runKeyed makes a run of a client with an Idempotency-Key.
func (w *world) runKeyed(ctx context.Context, key string) {
	w.t.Helper()
	r := w.prepare(budget.Default(), `{"model":"m","messages":[1]}`)
	r.Key = key
	if _, err := r.Do(ctx); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) prepare(limits budget.Limits, body string) *Run {
	w.t.Helper()
	yaml := tools
	if w.confirm != nil {
		yaml += guarded
	}
	f := config.Parse("tools.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	kinds := []tool.Kind{{Name: "fake", New: func() tool.Config { return &fakeKind{w} }}}
	definitions := registry.Read(f.Root(), kinds, nil)
	if p := f.Problems(); p != nil {
		w.t.Fatal(p)
	}
	logger := slog.New(slog.DiscardHandler)
	set, err := registry.NewSet(registry.Options{Definitions: definitions, Logger: logger, Metrics: registry.NewMetrics(prometheus.NewRegistry()), Confirmations: w.confirm})
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := chat.ParseRequest([]byte(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return &Run{
		Request: req, Model: w, View: set.View(nil, w.fields).Without(req.Declares), Limits: limits, Record: trace.NewRun(time.Now()), Logger: logger, Now: time.Now,
		Guard: w.guard, Price: budget.Price{Prompt: 1e6, Completion: 1e6}, // a token costs 1
	}
}

// observations are the tool messages of the newest request.
func (w *world) observations() []string {
	var out []string
	for _, m := range w.asks[len(w.asks)-1].Edits.After {
		var message struct{ Role, Content string }
		if json.Unmarshal(m, &message) == nil && message.Role == "tool" {
			out = append(out, message.Content)
		}
	}
	return out
}

func with(change func(*budget.Limits)) budget.Limits {
	l := budget.Default()
	change(&l)
	return l
}

func TestRunStops(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits budget.Limits
		turns  func(*world)
		stop   Stop
		text   string // of the answer
		finish string
		kind   Kind // of the error
		asks   int
		calls  int // in the trace
		failed int
	}{
		{name: "completed", turns: func(w *world) { w.says("", `look {}`); w.says("Done.") }, stop: Completed, text: "Done.", finish: "stop", asks: 2, calls: 1},
		{name: "completed although the finish reason promises calls", turns: func(w *world) { w.saysWith("Done.", "tool_calls") }, stop: Completed, text: "Done.", finish: "stop", asks: 1},
		{name: "final, later calls are not run", turns: func(w *world) { w.says("Bye.", `look {}`, `close {}`, `pay {}`) }, stop: Final, text: "close result", finish: "stop", asks: 1, calls: 3},
		{name: "client tools", turns: func(w *world) { w.says("", `look {}`, `mine {"a":1}`) }, stop: ClientTools, finish: "tool_calls", asks: 1, calls: 1},
		{name: "client tools at the last step, the gateway's calls are not run", limits: with(func(l *budget.Limits) { l.Steps = 1 }), turns: func(w *world) { w.says("", `look {}`, `mine {}`) }, stop: ClientTools, finish: "tool_calls", asks: 1, calls: 1},
		{name: "max_steps, answered", limits: with(func(l *budget.Limits) { l.Steps = 2 }), turns: func(w *world) { w.says("", `look {}`); w.says("So far.") }, stop: MaxSteps, text: "So far.", finish: "stop", asks: 2, calls: 1},
		{name: "max_steps, asked once more without tools", limits: with(func(l *budget.Limits) { l.Steps = 1 }), turns: func(w *world) { w.says("", `look {}`); w.says("Nothing.") }, stop: MaxSteps, text: "Nothing.", finish: "stop", asks: 2, calls: 1},
		{name: "max_steps, never an answer", limits: with(func(l *budget.Limits) { l.Steps = 1 }), turns: func(w *world) { w.says("", `look {}`); w.says("", `look {}`) }, stop: MaxSteps, kind: Exhausted, asks: 2, calls: 2},
		{name: "max_steps, partial", limits: with(func(l *budget.Limits) { l.Steps, l.OnExhausted = 2, budget.Partial }), turns: func(w *world) { w.says("First.", `look {}`); w.says("", `look {}`) }, stop: MaxSteps, text: "First.", finish: "length", asks: 2, calls: 2},
		{name: "max_steps, error", limits: with(func(l *budget.Limits) { l.Steps, l.OnExhausted = 1, budget.Fail }), turns: func(w *world) { w.says("", `look {}`) }, stop: MaxSteps, kind: Exhausted, asks: 1, calls: 1},
		{name: "max_steps with error, but the last step answers", limits: with(func(l *budget.Limits) { l.Steps, l.OnExhausted = 1, budget.Fail }), turns: func(w *world) { w.says("Yes.") }, stop: Completed, text: "Yes.", finish: "stop", asks: 1},
		{name: "max_tool_calls", limits: with(func(l *budget.Limits) { l.ToolCalls = 1 }), turns: func(w *world) { w.says("", `look {"id":1}`, `look {"id":2}`); w.says("One.") }, stop: MaxToolCalls, text: "One.", finish: "stop", asks: 2, calls: 2, failed: 1},
		{name: "max_tool_calls with error runs nothing that nobody will read", limits: with(func(l *budget.Limits) { l.ToolCalls, l.OnExhausted = 1, budget.Fail }), turns: func(w *world) { w.says("", `look {"id":1}`, `look {"id":2}`) }, stop: MaxToolCalls, kind: Exhausted, asks: 1, calls: 2, failed: 1},
		{name: "max_tokens", limits: with(func(l *budget.Limits) { l.Tokens = 20 }), turns: func(w *world) { w.says("", `look {}`); w.says("", `peek {}`); w.says("Done.") }, stop: MaxTokens, text: "Done.", finish: "stop", asks: 3, calls: 2, failed: 1},
		{name: "max_cost", limits: with(func(l *budget.Limits) { l.Cost = 10 }), turns: func(w *world) { w.says("", `look {}`); w.says("Done.") }, stop: MaxCost, text: "Done.", finish: "stop", asks: 2, calls: 1, failed: 1},
		{name: "repeated_calls, also of arguments that no schema takes", limits: with(func(l *budget.Limits) { l.Repeats = 1 }), turns: func(w *world) { w.says("", `look {"id":"x"}`); w.says("", `look { "id" : "x" }`); w.says("No.") }, stop: RepeatedCalls, text: "No.", finish: "stop", asks: 3, calls: 2, failed: 2},
		{name: "length", turns: func(w *world) { w.saysWith("The first", "length") }, stop: Length, text: "The first", finish: "length", asks: 1},
		{name: "length in the middle of a call", turns: func(w *world) { w.saysWith("", "length", `look {}`, `pay {"n":`) }, stop: Length, finish: "length", asks: 1},
		{name: "length right behind a call's name", turns: func(w *world) { w.saysWith("", "length", `pay`) }, stop: Length, finish: "length", asks: 1},
		{name: "length behind whole calls", turns: func(w *world) { w.saysWith("", "length", `look {}`); w.says("Done.") }, stop: Completed, text: "Done.", finish: "stop", asks: 2, calls: 1},
		{name: "refused", turns: func(w *world) { w.saysWith("I can", "content_filter") }, stop: Refused, text: "I can", finish: "content_filter", asks: 1},
		{name: "an empty turn", turns: func(w *world) { w.saysWith(" ", "tool_calls") }, stop: UpstreamError, kind: Empty, asks: 1},
		{name: "an empty turn after text", turns: func(w *world) { w.says("I look.", `look {}`); w.says("") }, stop: Completed, text: "I look.", finish: "stop", asks: 2, calls: 1},
		{name: "an unknown tool is an observation", turns: func(w *world) { w.says("", `lok {}`); w.says("Sorry.") }, stop: Completed, text: "Sorry.", finish: "stop", asks: 2, calls: 1, failed: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.turns(w)
			limits := tt.limits
			if limits == (budget.Limits{}) {
				limits = budget.Default()
			}
			result, record, err := w.run(t.Context(), limits)
			var failure *Error
			if errors.As(err, &failure) != (tt.kind != "") || failure != nil && failure.Kind != tt.kind {
				t.Fatalf("Do() error = %v, want kind %q", err, tt.kind)
			}
			if want := "(" + string(tt.stop) + ": 1)"; tt.kind == Exhausted && !strings.Contains(failure.Text, want) {
				t.Errorf("the client reads %q, want %q in it: it can't see the limit in the file", failure.Text, want)
			}
			if result.Stop != tt.stop || record.Stop != string(tt.stop) || len(w.asks) != tt.asks || len(record.Calls) != tt.calls || record.Failed() != tt.failed {
				t.Errorf("stop %s, asks %d, calls %d, failed %d; want %s, %d, %d, %d (%v)", result.Stop, len(w.asks), len(record.Calls), record.Failed(), tt.stop, tt.asks, tt.calls, tt.failed, w.log)
			}
			if err == nil {
				text := result.Turn.Text
				if result.Content != nil {
					text = *result.Content
				}
				if text != tt.text && len(result.Calls) == 0 || result.Finish != tt.finish {
					t.Errorf("answer %q with %q, want %q with %q", text, result.Finish, tt.text, tt.finish)
				}
			}
		})
	}
}

func TestRunOrdersCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sleep := func(d time.Duration) func(context.Context, tool.Call) (tool.Result, error) {
			return func(context.Context, tool.Call) (tool.Result, error) {
				time.Sleep(d)
				return tool.Result{Text: d.String()}, nil
			}
		}
		w.tools["look"], w.tools["peek"], w.tools["pay"] = sleep(3*time.Second), sleep(time.Second), sleep(time.Second)
		w.says("", `look {}`, `peek {}`, `pay {"n":1}`, `pay {"n":2}`, `look {"id":2}`, `peek {}`)
		w.says("Done.")
		start := time.Now()
		if _, _, err := w.run(t.Context(), budget.Default()); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"peek ends", "look ends", `pay {"n":1} begins`, "pay ends", `pay {"n":2} begins`, "pay ends",
		}
		if diff := cmp.Diff(want, w.log[2:8]); diff != "" {
			t.Errorf("order of reads and writes (-want +got):\n%s", diff)
		}
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("took %v, want 8s: neighbouring reads side by side, writes alone", took)
		}
		if diff := cmp.Diff([]string{"3s", "1s", "1s", "1s", "3s", "1s"}, w.observations()); diff != "" {
			t.Errorf("results are not in the order of the calls (-want +got):\n%s", diff)
		}
	})
}

func TestRunHasALimitOfCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tools["look"] = func(context.Context, tool.Call) (tool.Result, error) {
			time.Sleep(time.Second)
			return tool.Result{Text: "x"}, nil
		}
		w.says("", `look {"id":1}`, `look {"id":2}`, `look {"id":3}`, `look {"id":4}`, `look {"id":5}`)
		w.says("Done.")
		start := time.Now()
		if _, _, err := w.run(t.Context(), with(func(l *budget.Limits) { l.Parallel = 2 })); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("five calls of 1s, two at once, took %v, want 3s", took)
		}
	})
}

// hang waits until its context ends.
func hang(ctx context.Context, _ tool.Call) (tool.Result, error) {
	<-ctx.Done()
	return tool.Result{}, &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: context.Cause(ctx)}
}

func TestRunEndsWithItsTime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(*world)
		want  string
	}{
		{"in a tool", func(w *world) { w.tools["look"] = hang; w.says("", `look {}`) }, "tool 'look' interrupted: the time budget ran out"},
		{"in a write", func(w *world) { w.tools["pay"] = hang; w.says("", `pay {}`) }, "tool 'pay' interrupted: the time budget ran out"},
		{"in one of several reads", func(w *world) { w.tools["peek"] = hang; w.says("", `look {}`, `peek {}`) }, "tool 'peek' interrupted: the time budget ran out"},
		{"in a model call", func(w *world) {
			w.turns = append(w.turns, func(ctx context.Context, _ upstream.Ask) (*chat.Turn, error) {
				<-ctx.Done()
				return nil, &upstream.Error{Kind: upstream.Canceled, Err: context.Cause(ctx)}
			})
		}, "the model call was interrupted: the time budget ran out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tt.build(w)
				start := time.Now()
				result, record, err := w.run(t.Context(), with(func(l *budget.Limits) { l.Time = 3 * time.Second }))
				var failure *Error
				if !errors.As(err, &failure) || failure.Kind != Timeout || failure.Text != tt.want {
					t.Errorf("Do() error = %v, want timeout: %s", err, tt.want)
				}
				if took := time.Since(start); took != 3*time.Second || result.Stop != TimedOut || record.Stop != string(TimedOut) {
					t.Errorf("stop %s after %v, want timeout after 3s", result.Stop, took)
				}
			})
		})
	}
}

func TestRunKeepsTimeForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tools["peek"] = hang
		w.says("", `look {}`, `peek {}`, `pay {}`)
		w.says("Only the first.")
		start := time.Now()
		result, record, err := w.run(t.Context(), with(func(l *budget.Limits) { l.Time, l.Reserve = 10*time.Second, 4*time.Second }))
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 6*time.Second || result.Stop != TimedOut {
			t.Errorf("stop %s after %v, want timeout after 6s", result.Stop, took)
		}
		seen := w.observations()
		if len(seen) != 3 || seen[0] != "look result" || !strings.Contains(seen[1], "interrupted") || !strings.Contains(seen[2], "interrupted") {
			t.Errorf("the model reads %q, want the result of look and interrupted twice", seen)
		}
		if record.Failed() != 2 {
			t.Errorf("%d calls failed, want 2", record.Failed())
		}
		if choice := w.asks[1].Edits.Set; len(choice) != 1 || string(choice[0].Value) != `"none"` {
			t.Errorf("the last step is asked with %v, want tool_choice none", choice)
		}
	})
}

func TestRunOfAClientThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ended := map[string]error{}
		note := func(name string) func(context.Context, tool.Call) (tool.Result, error) {
			return func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				select {
				case <-time.After(5 * time.Second):
				case <-ctx.Done():
				}
				ended[name] = ctx.Err()
				return tool.Result{Text: "x"}, nil
			}
		}
		for _, name := range []string{"look", "pay"} {
			w.tools[name] = note(name)
			w.turns, w.asks = nil, nil
			w.says("", name+" {}", "peek {}")
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			start := time.Now()
			result, _, err := w.run(ctx, budget.Default())
			var failure *Error
			if !errors.As(err, &failure) || failure.Kind != Gone || result.Stop != Canceled {
				t.Errorf("%s: Do() = %s, %v, want canceled", name, result.Stop, err)
			}
			if len(w.asks) != 1 {
				t.Errorf("%s: the model was asked %d times after the client had left", name, len(w.asks)-1)
			}
			if took := time.Since(start); (took == time.Second) != (name == "look") {
				t.Errorf("%s: the run ended after %v", name, took)
			}
		}
		if ended["look"] == nil || ended["pay"] != nil {
			t.Errorf("look ended with %v and pay with %v, want the read canceled and the write not", ended["look"], ended["pay"])
		}
	})
}

func TestRunAsksWithToolChoiceOnce(t *testing.T) {
	for choice, second := range map[string]string{`"required"`: `"auto"`, `{"type":"function","function":{"name":"look"}}`: `"auto"`, `"auto"`: ""} {
		w := newWorld(t)
		w.says("", `look {}`)
		w.says("Done.")
		if _, _, err := w.runRequest(t.Context(), budget.Default(), `{"model":"m","messages":[1],"tool_choice":`+choice+`}`); err != nil {
			t.Fatal(err)
		}
		if first := w.asks[0].Edits.Set; len(first) != 0 {
			t.Errorf("%s: the first step sets %v", choice, first)
		}
		got := ""
		if set := w.asks[1].Edits.Set; len(set) == 1 {
			got = string(set[0].Value)
		}
		if got != second {
			t.Errorf("%s: the second step sets %q, want %q", choice, got, second)
		}
	}
}

// Equal calls of one run are different writes; the key of each is the same for the same request.
func TestRunGivesEachWriteAKeyOfItsOwn(t *testing.T) {
	keys := func(clientKey string) []string {
		var got []string
		w := newWorld(t)
		w.tools["pay"] = func(_ context.Context, c tool.Call) (tool.Result, error) {
			got = append(got, c.IdempotencyKey)
			return tool.Result{Text: "x"}, nil
		}
		w.says("", `pay {"n":1}`, `pay {"n": 1}`, `pay {"n":2}`)
		w.says("Done.")
		w.runKeyed(t.Context(), clientKey)
		return got
	}
	first, again, other := keys("order-7"), keys("order-7"), keys("")
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same request has other keys:\n%s", diff)
	}
	seen := map[string]bool{}
	for _, k := range append(first, other...) {
		if k == "" || seen[k] {
			t.Errorf("key %q is empty or stands for two writes", k)
		}
		seen[k] = true
	}
}

func TestRunPassesTheUpstreamsFailureOn(t *testing.T) {
	w := newWorld(t)
	w.says("", `pay {}`)
	w.turns = append(w.turns, func(context.Context, upstream.Ask) (*chat.Turn, error) {
		return nil, &upstream.Error{Upstream: "up", Kind: upstream.Broken, Status: 503}
	})
	result, record, err := w.run(t.Context(), budget.Default())
	var up *upstream.Error
	if !errors.As(err, &up) || up.Status != 503 || result.Stop != UpstreamError || !result.RanWrite {
		t.Errorf("Do() = %+v, %v", result, err)
	}
	if got := record.Steps[1]; got.Upstream != "up" || got.Error != "broken" {
		t.Errorf("step 2 = %+v, want the failure of up", got)
	}
}

func TestRunReadsCallsOutOfText(t *testing.T) {
	const written = `<tool_call>{"name":"look","arguments":{"id":1}}</tool_call>`
	for _, tt := range []struct {
		name, text, finish, choice string
		limits                     budget.Limits
		calls                      int
	}{
		{"a call", written, "stop", "auto", budget.Default(), 1},
		{"the model must not call", written, "stop", "none", budget.Default(), 0},
		{"a refused answer", written, "content_filter", "auto", budget.Default(), 0},
		{"cut", `<tool_call>{"name":"look","arguments":{"id":1`, "length", "auto", budget.Default(), 0},
		{"no such tool", `<tool_call>{"name":"other","arguments":{}}</tool_call>`, "stop", "auto", budget.Default(), 0},
		{"an answer about it", "Write " + written, "stop", "auto", budget.Default(), 0},
	} {
		w := newWorld(t)
		w.saysWith(tt.text, tt.finish)
		if tt.calls > 0 {
			w.says("done")
		}
		_, record, err := w.runRequest(t.Context(), tt.limits, `{"model":"m","messages":[1],"tool_choice":"`+tt.choice+`"}`)
		if err != nil || len(record.Calls) != tt.calls || len(w.asks) != 1+tt.calls {
			t.Errorf("%s: %d calls and %d requests, %v; want %d calls", tt.name, len(record.Calls), len(w.asks), err, tt.calls)
		}
	}
}
