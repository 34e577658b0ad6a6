package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
)

const guardedTools = `
refund: {description: Refund., effect: write, confirm: user, parameters: {order: string, by: string}, bind: {by: caller.id}, fake: x}
cancel: {description: Cancel., effect: write, confirm: user, parameters: {order: string}, fake: x}
look: {description: Look., confirm: user, parameters: {order: string}, fake: x}
wire: {description: Wire., effect: write, confirm: approval, parameters: {order: string}, fake: x}
`

// desk is a set of tools that want a confirmation, and how often they were called.
type desk struct {
	*Set
	made atomic.Int64
}

func newDesk(t *testing.T, store state.Store, change ...func(*Options)) *desk {
	t.Helper()
	x := &desk{}
	x.Set = newSet(t, guardedTools, func(context.Context, tool.Call) (tool.Result, error) {
		x.made.Add(1)
		return tool.Result{Text: "done"}, nil
	}, append([]func(*Options){func(o *Options) { o.Confirmations = NewConfirmations(store) }}, change...)...)
	return x
}

// ask makes a call after so many messages of the user's, and gives the code that the model reads.
func (x *desk) ask(t testing.TB, name, args, caller, id string, said Said, key string) string {
	t.Helper()
	v := x.View(nil, map[string]any{"id": id})
	p := v.Prepare(name, json.RawMessage(args))
	if p.Refusal != nil {
		t.Fatal(p.Refusal.Text)
	}
	o, err := v.Run(context.Background(), p, Scope{RunID: "run", Key: key, Caller: caller, Attempt: 1, Said: said})
	if err != nil {
		t.Fatal(err)
	}
	return string(o.Code)
}

func says(n int) Said { return Said{Messages: n, Last: fmt.Sprintf("message %d", n)} }

const asked = string(ConfirmationRequired)

func TestACallRunsAfterTheUserHasAnswered(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args, caller, id string
		said                         Said
		after                        time.Duration
		want                         string
	}{
		{"after a new message", "refund", `{"order":"7"}`, "web", "u1", says(2), time.Minute, ""},
		{"after some more messages", "refund", `{"order":"7"}`, "web", "u1", says(5), time.Minute, ""},
		{"after the same message once more", "refund", `{"order":"7"}`, "web", "u1", Said{Messages: 2, Last: "message 1"}, time.Minute, ""},
		{"just within the time", "refund", `{"order":"7"}`, "web", "u1", says(2), 15*time.Minute - time.Second, ""},
		{"arguments that are written in another way", "refund", "```json\n{ \"order\" : \" 7 \" }\n```", "web", "u1", says(2), time.Minute, ""},
		{"in the same request", "refund", `{"order":"7"}`, "web", "u1", says(1), 0, asked},
		{"in the same request sent again", "refund", `{"order":"7"}`, "web", "u1", says(1), time.Minute, asked},
		{"in a conversation that begins", "refund", `{"order":"7"}`, "web", "u1", Said{Messages: 1, Last: "another"}, time.Minute, asked},
		{"outside of a conversation", "refund", `{"order":"7"}`, "web", "u1", Said{}, time.Minute, asked},
		{"too late", "refund", `{"order":"7"}`, "web", "u1", says(2), 15 * time.Minute, asked},
		{"other arguments", "refund", `{"order":"8"}`, "web", "u1", says(2), time.Minute, asked},
		{"another tool", "cancel", `{"order":"7"}`, "web", "u1", says(2), time.Minute, asked},
		{"another key", "refund", `{"order":"7"}`, "app", "u1", says(2), time.Minute, asked},
		{"another caller of the same key", "refund", `{"order":"7"}`, "web", "u2", says(2), time.Minute, asked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newDesk(t, newStore(t))
				if got := x.ask(t, "refund", `{"order":"7"}`, "web", "u1", says(1), "a"); got != asked {
					t.Fatalf("the first call reads %q", got)
				}
				time.Sleep(tt.after)
				if got := x.ask(t, tt.tool, tt.args, tt.caller, tt.id, tt.said, "b"); got != tt.want {
					t.Errorf("the next call reads %q, want %q", got, tt.want)
				}
				if made := x.made.Load() == 1; made != (tt.want == "") {
					t.Errorf("the call was made: %v", made)
				}
				if got := x.ask(t, "refund", `{"order":"7"}`, "web", "u1", tt.said, "c"); tt.want == "" && got != asked {
					t.Errorf("a second call of the same request reads %q", got)
				}
			})
		})
	}
}

func TestWhatTheModelReadsOfACallToConfirm(t *testing.T) {
	x := newDesk(t, newStore(t))
	v := x.View(nil, map[string]any{"id": "secret-id"})
	long := strings.Repeat("ä", 5000)
	for _, tt := range []struct{ tool, args, want string }{
		{"refund", `{"order": "7"}`, `ask the user to confirm the call refund {"order":"7"};`},
		{"refund", `{"order": "` + long + `"}`, "ä…; once the user has agreed"},
		{"wire", `{"order": "7"}`, `the call wire {"order":"7"} waits for the approval apr_`},
	} {
		o, err := v.Run(t.Context(), v.Prepare(tt.tool, json.RawMessage(tt.args)), Scope{RunID: "r", Key: "r", Attempt: 1})
		text := gjson.Get(o.Text, "error.message").String()
		if err != nil || !strings.Contains(text, tt.want) || strings.Contains(text, "secret-id") || len(text) > 1000 {
			t.Errorf("%s: %q, %v, want %q", tt.tool, text, err, tt.want)
		}
		if (o.Waits != nil) != (tt.tool == "wire") {
			t.Errorf("%s: waits for %v", tt.tool, o.Waits)
		}
	}
}

// Whatever the order of requests, a call is made at most once for each time that the user answered a question.
func TestAConfirmationServesOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		store := state.NewMemory(state.Limits{})
		defer store.Close()
		x := newDesk(t, store)
		questions, made := map[string]int{}, map[string]int{}
		seenAt := map[string]Said{}
		n := 1
		for range rapid.IntRange(1, 30).Draw(r, "calls") {
			n = max(1, n+rapid.IntRange(-1, 1).Draw(r, "messages"))
			name := rapid.SampledFrom([]string{"refund", "cancel", "look"}).Draw(r, "choice")
			order := rapid.SampledFrom([]string{"7", "8"}).Draw(r, "choice")
			what := name + order
			code := x.ask(t, name, `{"order":"`+order+`"}`, "web", "u1", says(n), fmt.Sprint(rapid.IntRange(0, 99).Draw(r, "key")))
			if code == asked {
				questions[what]++
				seenAt[what] = says(n)
				continue
			}
			made[what]++
			if at, ok := seenAt[what]; !ok || at == says(n) {
				r.Errorf("%s is made at %v, asked at %v", what, says(n), at)
			}
			if made[what] > questions[what] {
				r.Errorf("%s is made %d times, asked %d times", what, made[what], questions[what])
			}
		}
	})
}

func TestParallelRequestsUseAConfirmationOnce(t *testing.T) {
	x := newDesk(t, newStore(t))
	for _, name := range []string{"refund", "wire"} {
		_ = x.ask(t, name, `{"order":"7"}`, "web", "u1", says(1), "a")
		if name == "wire" {
			decide(t, x, true)
		}
		before := x.made.Load()
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() { x.ask(t, name, `{"order":"7"}`, "web", "u1", says(2), fmt.Sprint("key", i)) })
		}
		wg.Wait()
		if n := x.made.Load() - before; n != 1 {
			t.Errorf("%s: %d calls, want 1", name, n)
		}
	}
}

// decide decides on the one approval that waits.
func decide(t testing.TB, x *desk, approve bool) string {
	t.Helper()
	c := x.opts.Confirmations
	list, err := c.Waiting(context.Background())
	if err != nil || len(list) != 1 {
		t.Fatalf("Waiting() = %v, %v, want one", list, err)
	}
	if _, err := c.Decide(context.Background(), list[0].ID, approve); err != nil {
		t.Fatal(err)
	}
	return list[0].ID
}

func TestACallRunsOnceAfterItsApproval(t *testing.T) {
	for _, tt := range []struct {
		name    string
		approve bool
		args    string
		caller  string
		after   time.Duration
		want    []string // of the calls that follow
	}{
		{"approved", true, `{"order":"7"}`, "web", time.Minute, []string{"", asked}},
		{"just within the time", true, `{"order":"7"}`, "web", 15*time.Minute - time.Second, []string{""}},
		{"too late", true, `{"order":"7"}`, "web", 15 * time.Minute, []string{asked}},
		{"other arguments", true, `{"order":"8"}`, "web", time.Minute, []string{asked}},
		{"another key", true, `{"order":"7"}`, "app", time.Minute, []string{asked}},
		{"denied", false, `{"order":"7"}`, "web", time.Minute, []string{"denied", "denied"}},
		{"denied a while ago", false, `{"order":"7"}`, "web", 15 * time.Minute, []string{asked}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newDesk(t, newStore(t))
				for range 2 { // it waits, and asking again changes nothing
					if got := x.ask(t, "wire", `{"order":"7"}`, "web", "u1", says(1), "a"); got != asked {
						t.Fatalf("the first call reads %q", got)
					}
				}
				time.Sleep(time.Hour)
				id := decide(t, x, tt.approve)
				time.Sleep(tt.after)
				made := int64(0)
				for i, want := range tt.want {
					if got := x.ask(t, "wire", tt.args, tt.caller, "u1", says(1), fmt.Sprint("key", i)); got != want {
						t.Errorf("call %d reads %q, want %q", i, got, want)
					}
					if want == "" {
						made++
					}
				}
				if n := x.made.Load(); n != made {
					t.Errorf("%d calls, want %d", n, made)
				}
				list, err := x.opts.Confirmations.Waiting(t.Context())
				for _, a := range list {
					if err != nil || a.ID == id {
						t.Errorf("%s still waits", id)
					}
				}
			})
		})
	}
}

func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newDesk(t, newStore(t))
		c := x.opts.Confirmations
		for _, id := range []string{"", "apr_none", "waiting"} {
			if _, err := c.Decide(t.Context(), id, true); !errors.Is(err, ErrNoApproval) {
				t.Errorf("Decide(%q) = %v", id, err)
			}
		}
		_ = x.ask(t, "wire", `{"order":"7"}`, "web", "u1", says(1), "a")
		id := decide(t, x, true)
		if a, err := c.Decide(t.Context(), id, true); err != nil || !a.Approved() || a.Tool != "wire" {
			t.Errorf("once more: %+v, %v", a, err)
		}
		if _, err := c.Decide(t.Context(), id, false); !errors.Is(err, ErrDecided) {
			t.Errorf("otherwise: %v", err)
		}
		_ = x.ask(t, "wire", `{"order":"7"}`, "web", "u1", says(1), "b")
		if a, err := c.Decide(t.Context(), id, true); err != nil || !a.Approved() {
			t.Errorf("once it is made: %+v, %v", a, err)
		}
		if _, err := c.Decide(t.Context(), id, false); !errors.Is(err, ErrDecided) {
			t.Errorf("otherwise, once it is made: %v", err)
		}
		_ = x.ask(t, "wire", `{"order":"9"}`, "web", "u1", says(1), "b")
		list, err := c.Waiting(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		time.Sleep(24 * time.Hour)
		if _, err := c.Decide(t.Context(), list[0].ID, true); !errors.Is(err, ErrNoApproval) {
			t.Errorf("after a day: %v", err)
		}
	})
}

func TestTheListOfApprovalsIsBounded(t *testing.T) {
	x := newDesk(t, newStore(t))
	for i := range maxListed + 5 {
		_ = x.ask(t, "wire", fmt.Sprintf(`{"order":"%d"}`, i), "web", "u1", says(1), "a")
	}
	list, err := x.opts.Confirmations.Waiting(t.Context())
	if err != nil || len(list) != maxListed || list[0].Arguments != `{"order":"5"}` {
		t.Errorf("%d in the list, the first %+v, %v", len(list), list[0], err)
	}
	ids := map[string]bool{}
	for _, a := range list {
		ids[a.ID] = true
	}
	if len(ids) != maxListed {
		t.Errorf("%d ids of %d approvals", len(ids), maxListed)
	}
}

// A write that was confirmed and made is known under its key, for a client that repeats its request.
func TestAConfirmedWriteIsMadeOnceUnderItsKey(t *testing.T) {
	store := newStore(t)
	x := newDesk(t, newStore(t), func(o *Options) { o.Writes = NewWrites(store) })
	for _, name := range []string{"refund", "wire"} {
		before := x.made.Load()
		codes := []string{x.ask(t, name, `{"order":"7"}`, "web", "u1", says(1), "a")}
		if name == "wire" {
			decide(t, x, true)
		}
		for _, key := range []string{"b", "b", "c"} {
			codes = append(codes, x.ask(t, name, `{"order":"7"}`, "web", "u1", says(2), key))
		}
		if want := []string{asked, "", "", asked}; !slices.Equal(codes, want) || x.made.Load()-before != 1 {
			t.Errorf("%s: %d calls, which read %q, want one and %q", name, x.made.Load()-before, codes, want)
		}
	}
}

// What is confirmed after untrusted runs freely in a run that is not tainted. Outside of a run nobody knows.
func TestConfirmedAfterUntrusted(t *testing.T) {
	var log bytes.Buffer
	made := 0
	s := newSet(t, `send: {description: Send., effect: write, confirm: {by: approval, after: untrusted}, fake: x}`, func(context.Context, tool.Call) (tool.Result, error) {
		made++
		return tool.Result{Text: "done"}, nil
	}, func(o *Options) {
		o.Confirmations = NewConfirmations(newStore(t))
		o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	})
	within := func() json.RawMessage { return nil }
	v := s.View(nil, nil)
	if !v.Wary() || newDesk(t, newStore(t)).View(nil, nil).Wary() {
		t.Error("only the view with such a tool is wary")
	}
	for _, tt := range []struct {
		name  string
		scope Scope
		want  string
	}{
		{"in a run", Scope{Conversation: within}, ""},
		{"in a run that is tainted", Scope{Conversation: within, Tainted: true}, asked},
		{"outside of a run", Scope{}, asked},
		{"confirmed by who makes the call", Scope{Tainted: true, Confirmed: true}, ""},
	} {
		made = 0
		log.Reset()
		o, err := v.Run(t.Context(), v.Prepare("send", nil), tt.scope)
		if err != nil || string(o.Code) != tt.want || (made == 1) != (tt.want == "") {
			t.Errorf("%s: reads %q, made %d times, %v", tt.name, o.Code, made, err)
		}
		for line := range strings.Lines(log.String()) {
			if gjson.Get(line, "msg").Str == "write" && gjson.Get(line, "tainted").Bool() != tt.scope.Tainted {
				t.Errorf("%s: the line for the audit is %s", tt.name, line)
			}
		}
	}
}

// What a server as a whole is holds for its tools, as long as the file does not say otherwise of one.
func TestToolsOfAnUntrustedServer(t *testing.T) {
	whatever, err := schema.Parse(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		server bool
		set    string
		want   bool
	}{
		{false, "{}", false},
		{true, "{}", true},
		{true, "{timeout: 5s}", true},
		{true, "{untrusted: false}", false},
		{false, "{untrusted: true}", true},
	} {
		f := config.Parse("f.yaml", ".", []byte(tt.set), func(string) (string, bool) { return "", false })
		s := newSet(t, "{}", fine)
		s.Replace("x", []Found{{Name: "a", ID: "a", Kind: "mcp", Effect: tool.Read, Schema: whatever, Untrusted: tt.server, Set: f.Root(), Tool: call(fine), Breaker: "mcp:x"}})
		if got := s.All()[0].Untrusted(); got != tt.want {
			t.Errorf("server %v, set %s: untrusted %v", tt.server, tt.set, got)
		}
	}
	f := config.Parse("f.yaml", ".", []byte("{effect: read, confirm: {by: user, after: untrusted}}"), func(string) (string, bool) { return "", false })
	if CheckOverrides(f.Root()); f.Problems() == nil || !strings.Contains(f.Problems().Error(), "only a write is confirmed after untrusted") {
		t.Errorf("problems = %v", f.Problems())
	}
}

func TestWithoutWhatIsKnownOfConfirmationsNothingRuns(t *testing.T) {
	x := newDesk(t, newStore(t), func(o *Options) { o.Confirmations = nil })
	for _, name := range []string{"refund", "look", "wire"} {
		for n := range 3 {
			if got := x.ask(t, name, `{"order":"7"}`, "web", "u1", says(n+1), "a"); got != asked {
				t.Errorf("%s reads %q", name, got)
			}
		}
	}
	broken := newDesk(t, brokenStore{})
	for _, name := range []string{"refund", "wire"} {
		if got := broken.ask(t, name, `{"order":"7"}`, "web", "u1", says(1), "a"); got != "unavailable" {
			t.Errorf("%s reads %q where nobody can tell", name, got)
		}
	}
	v := x.View(nil, map[string]any{"id": "u1"})
	if o, err := v.Run(t.Context(), v.Prepare("wire", json.RawMessage(`{"order":"7"}`)), Scope{Attempt: 1, Confirmed: true}); err != nil || !o.OK() {
		t.Errorf("confirmed by who makes the call: %+v, %v", o, err)
	}
	if n := x.made.Load() + broken.made.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// A tool that is found while the gateway runs takes confirm from the file like any other key.
func TestAToolThatIsFoundWantsAConfirmation(t *testing.T) {
	x := newDesk(t, newStore(t))
	f := config.Parse("gateway.yaml", ".", []byte("confirm: approval"), func(string) (string, bool) { return "", false })
	CheckOverrides(f.Root())
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	none, err := schema.Parse(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	x.Replace("server", []Found{{
		Name: "found", ID: "found", Kind: "mcp", Effect: tool.Write, Schema: none, Set: f.Root(), Breaker: "mcp:server",
		Tool: call(func(context.Context, tool.Call) (tool.Result, error) {
			x.made.Add(1)
			return tool.Result{Text: "done"}, nil
		}),
	}})
	if got := x.ask(t, "found", "{}", "web", "u1", says(1), "a"); got != asked || x.made.Load() != 0 {
		t.Errorf("reads %q, made %d times", got, x.made.Load())
	}
	decide(t, x, true)
	if got := x.ask(t, "found", "{}", "web", "u1", says(1), "b"); got != "" || x.made.Load() != 1 {
		t.Errorf("after the approval: reads %q, made %d times", got, x.made.Load())
	}
}

// brokenStore fails.
type brokenStore struct{ state.Store }

func (brokenStore) Get(context.Context, string) ([]byte, bool, error) {
	return nil, false, errors.New("no store")
}
