package loop

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/registry"
	stores "github.com/toolgate/toolgate/internal/state"
)

const guarded = `
refund: {description: Refund., effect: write, confirm: user, fake: x, parameters: {n: {type: integer, optional: true}}}
wire: {description: Wire., effect: write, confirm: approval, fake: x, parameters: {n: {type: integer, optional: true}}}
page: {description: Page., untrusted: true, fake: x}
paper: {description: Paper., untrusted: true, final: true, fake: x}
send: {description: Send., effect: write, confirm: {by: approval, after: untrusted}, fake: x, parameters: {n: {type: integer, optional: true}}}
mail: {description: Mail., effect: write, confirm: {by: user, after: untrusted}, fake: x, parameters: {n: {type: integer, optional: true}}}
`

// newGuarded is a talk with tools that want a confirmation.
func newGuarded(t *testing.T) *talk {
	t.Helper()
	m := stores.NewMemory(stores.Limits{})
	t.Cleanup(m.Close)
	c := newTalk(t, newWorld(t))
	c.confirm = registry.NewConfirmations(m)
	return c
}

// turn makes a request whose turns were said, and reads its answer.
func (c *talk) turn(want Stop) *Result {
	c.t.Helper()
	result, r, err := c.send()
	if err != nil || result.Stop != want || r.Record.Stop != string(want) {
		c.t.Fatalf("stop %s, %v, want %s", result.Stop, err, want)
	}
	return result
}

// codes are what the tool messages of the newest request say: ok, or the code of a failure.
func (c *talk) codes() (codes []string) {
	for _, text := range c.observations() {
		code := gjson.Get(text, "error.code").String()
		if code == "" {
			code = "ok"
		}
		codes = append(codes, code)
	}
	return codes
}

func (c *talk) approve(approve bool) {
	c.t.Helper()
	list, err := c.confirm.Waiting(c.t.Context())
	if err != nil || len(list) != 1 {
		c.t.Fatalf("%d approvals wait, %v", len(list), err)
	}
	if _, err := c.confirm.Decide(c.t.Context(), list[0].ID, approve); err != nil {
		c.t.Fatal(err)
	}
}

func TestConfirmedByTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGuarded(t)
		asks := func() {
			c.says("", `refund {"n":7}`, `refund {"n":7}`)
			c.says("", `refund {"n":"7"}`)
			c.says("Refund 7?")
		}
		c.user("Refund 7")
		asks()
		c.turn(Completed)
		if diff := cmp.Diff([]string{"confirmation_required", "confirmation_required", "confirmation_required"}, c.codes()); diff != "" {
			t.Errorf("asked within one request (-want +got):\n%s", diff)
		}
		asks()
		c.reads(c.turn(Completed)) // an SDK sends the request again
		if c.log != nil {
			t.Fatalf("ran without an answer of the user's: %q", c.log)
		}
		c.user("Yes")
		c.says("", `look {}`, `refund {"n":7}`, `refund {"n":7}`)
		c.says("Done.")
		c.reads(c.turn(Completed))
		if diff := cmp.Diff([]string{"ok", "ok", "confirmation_required"}, c.codes()); diff != "" {
			t.Errorf("after the answer (-want +got):\n%s", diff)
		}
		if want := []string{"look {} begins", "look ends", `refund {"n":7} begins`, "refund ends"}; !slices.Equal(c.log, want) {
			t.Errorf("ran %q, want %q", c.log, want)
		}
		time.Sleep(16 * time.Minute)
		c.user("And again")
		asks()
		c.turn(Completed)
		if len(c.log) != 4 {
			t.Errorf("ran with an answer of long ago: %q", c.log)
		}
	})
}

// The results of the client's own tools are no word of the user's.
func TestResultsOfTheClientConfirmNothing(t *testing.T) {
	c := newGuarded(t)
	c.user("Refund 7")
	c.says("", `refund {"n":7}`, `mine {}`)
	c.reads(c.turn(ClientTools))
	c.messages = append(c.messages, []byte(`{"role":"tool","tool_call_id":"c1_2","content":"yes"}`))
	c.says("", `refund {"n":7}`)
	c.says("Refund 7?")
	c.turn(Completed)
	if c.log != nil {
		t.Errorf("ran %q", c.log)
	}
}

func TestARunEndsWithWhatWaitsForAnApproval(t *testing.T) {
	for _, limits := range []struct {
		name string
		l    budget.Limits
	}{
		{"usual", budget.Default()},
		{"partial", with(func(l *budget.Limits) { l.OnExhausted = budget.Partial })},
		{"one call", with(func(l *budget.Limits) { l.ToolCalls = 2 })},
	} {
		for _, prompt := range []bool{false, true} {
			c := newGuarded(t)
			c.prompt = prompt
			c.user("Wire 7")
			call := func(name, args string) []string { return []string{name + " " + args} }
			text, calls := "Let me see.", append(call("look", "{}"), `wire {"n":7}`, `pay {}`)
			if prompt {
				text, calls = `<tool_call>{"name":"look","arguments":{}}</tool_call><tool_call>{"name":"wire","arguments":{"n":7}}</tool_call><tool_call>{"name":"pay","arguments":{}}</tool_call>`, nil
			}
			c.says(text, calls...)
			r := c.prepare(limits.l, `{"model":"m","messages":`+string(chat.List(c.messages))+`}`)
			r.Prompt = prompt
			result, err := r.Do(t.Context())
			if err != nil || result.Stop != Confirmation || result.Finish != "stop" || len(result.Calls) > 0 || result.RanWrite {
				t.Fatalf("%s: %+v, %v", limits.name, result, err)
			}
			if text := content(result); result.Approval == "" || r.Record.Approval != result.Approval || !strings.Contains(text, `wire {"n":7}`) || !strings.Contains(text, result.Approval) {
				t.Errorf("%s: the answer is %q for the approval %q", limits.name, text, result.Approval)
			}
			if want := []string{"look {} begins", "look ends"}; !slices.Equal(c.log, want) {
				t.Errorf("%s: ran %q, want %q", limits.name, c.log, want)
			}
			var outcomes []string
			for _, call := range r.Record.Calls {
				outcomes = append(outcomes, call.Outcome)
			}
			want := []string{"ok", "confirmation_required", "skipped"}
			if limits.name == "one call" {
				want[2] = "limit_reached"
			}
			if !slices.Equal(outcomes, want) {
				t.Errorf("%s: outcomes %q, want %q", limits.name, outcomes, want)
			}
		}
	}
}

func TestAfterTheApprovalTheCallRunsOnce(t *testing.T) {
	c := newGuarded(t)
	c.user("Wire 7")
	c.says("", `look {}`, `wire {"n":7}`)
	result := c.turn(Confirmation)
	first := result.Approval
	c.reads(result)
	c.approve(true)
	c.user("It is approved")
	c.says("", `wire {"n":7}`)
	c.says("Done.")
	c.reads(c.turn(Completed))
	if want := []string{"look {} begins", "look ends", `wire {"n":7} begins`, "wire ends"}; !slices.Equal(c.log, want) {
		t.Errorf("ran %q, want %q", c.log, want)
	}
	held := c.shape() // the model reads again what waited
	if len(held) < 4 || !strings.HasPrefix(held[2], "tool look result") || !strings.Contains(held[3], "confirmation_required") {
		t.Errorf("the model is asked again with %q", held)
	}
	c.user("Once more")
	c.says("", `wire {"n":7}`)
	if result = c.turn(Confirmation); result.Approval == first {
		t.Error("a used approval is asked for again")
	}
	c.reads(result)
	c.approve(false)
	c.user("And?")
	c.says("", `wire {"n":7}`, `look {"n":1}`)
	c.says("It was denied.")
	c.turn(Completed)
	if codes := c.codes(); len(c.log) != 6 || !slices.Contains(codes, "denied") {
		t.Errorf("denied: ran %q, read %q", c.log, codes)
	}
}

// A turn that calls the client's tools too ends with these; what waits is a result that the model reads.
func TestWhatWaitsBesideCallsOfTheClient(t *testing.T) {
	c := newGuarded(t)
	c.user("Go")
	c.says("", `wire {"n":7}`, `mine {}`, `look {}`)
	result := c.turn(ClientTools)
	if result.Approval == "" || len(result.Calls) != 1 || !slices.Equal(c.log, []string{"look {} begins", "look ends"}) {
		t.Errorf("%+v, ran %q", result, c.log)
	}
	c.reads(result)
	c.messages = append(c.messages, []byte(`{"role":"tool","tool_call_id":"c1_2","content":"seen"}`))
	c.approve(true)
	c.says("", `wire {"n":7}`)
	c.says("Done.")
	c.turn(Completed)
	shape := strings.Join(c.shape(), "\n")
	if !strings.Contains(shape, `"code":"confirmation_required"`) || len(c.log) != 4 {
		t.Errorf("ran %q, the model reads:\n%s", c.log, shape)
	}
}
