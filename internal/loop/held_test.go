package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	stores "github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/upstream"
)

const mine = `"tools":[{"type":"function","function":{"name":"mine"}}]`

// talk is a client's conversation with a model that holds turns.
type talk struct {
	*world
	store    stores.Store
	caller   string
	prompt   bool
	forgets  bool   // memory is off
	stream   Stream // nil for replies in one piece
	messages []json.RawMessage
}

func newTalk(t *testing.T, w *world) *talk {
	t.Helper()
	m := stores.NewMemory(stores.Limits{})
	t.Cleanup(m.Close)
	return &talk{world: w, store: m}
}

// send makes a request of the conversation as it stands.
func (c *talk) send() (*Result, *Run, error) {
	c.t.Helper()
	return c.sendWithin(c.t.Context())
}

func (c *talk) sendWithin(ctx context.Context) (*Result, *Run, error) {
	c.t.Helper()
	r := c.prepare(budget.Default(), `{"model":"m",`+mine+`,"messages":`+string(chat.List(c.messages))+`}`)
	r.Turns, r.Memory, r.Record.Caller, r.Prompt, r.Stream = c.store, !c.forgets, c.caller, c.prompt, c.stream
	result, err := r.Do(ctx)
	if err == nil && result.Hold != nil {
		result.Hold(ctx, content(result))
	}
	return result, r, err
}

func (c *talk) user(text string) { c.messages = append(c.messages, chat.Message("user", text)) }

// reads takes the reply into the conversation, as an SDK does, and gives the ids of the calls in it.
func (c *talk) reads(result *Result) (ids []string) {
	m := []byte(`{"role":"assistant","refusal":null,"annotations":[]}`)
	m, _ = sjson.SetBytes(m, "content", content(result))
	if len(result.Calls) > 0 {
		m, _ = sjson.SetRawBytes(m, "tool_calls", chat.List(result.Calls))
		for _, call := range result.Calls {
			ids = append(ids, gjson.GetBytes(call, "id").String())
		}
	}
	c.messages = append(c.messages, m)
	return ids
}

// shape is the messages of the newest request: "role text id,id" each.
func (w *world) shape() (out []string) {
	for _, m := range w.sent(len(w.asks) - 1).Get("messages").Array() {
		line := m.Get("role").String() + " " + m.Get("content").String()
		for _, c := range m.Get("tool_calls").Array() {
			line += " +" + c.Get("id").String()
		}
		if id := m.Get("tool_call_id").String(); id != "" {
			line += " =" + id
		}
		out = append(out, line)
	}
	return out
}

func TestResultsOfBothSidesStandInTheOrderOfTheCalls(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []string // ids that the client answers, in its order
		want  []string
	}{
		{"in order", []string{"c2_1", "c2_3"}, []string{"tool mine c2_1 =c2_1", "tool look result =c2_2", "tool mine c2_3 =c2_3"}},
		{"in another order", []string{"c2_3", "c2_1"}, []string{"tool mine c2_1 =c2_1", "tool look result =c2_2", "tool mine c2_3 =c2_3"}},
		{"partly", []string{"c2_3"}, []string{"tool (the client gave no result) =c2_1", "tool look result =c2_2", "tool mine c2_3 =c2_3"}},
		{"twice", []string{"c2_1", "c2_1", "c2_3"}, []string{"tool mine c2_1 =c2_1", "tool look result =c2_2", "tool mine c2_3 =c2_3"}},
		{"not at all", nil, []string{"tool (the client gave no result) =c2_1", "tool look result =c2_2", "tool (the client gave no result) =c2_3"}},
	} {
		w := newWorld(t)
		w.says("First.", `peek {}`)
		w.says("Second.", `mine {"a":1}`, `look {}`, `mine {"a":2}`)
		w.says("Done.")
		c := newTalk(t, w)
		c.user("Go")
		result, r, err := c.send()
		if err != nil || result.Stop != ClientTools || r.Record.Lost != 0 {
			t.Fatalf("%s: %+v, %v", tt.name, result, err)
		}
		c.reads(result)
		for _, id := range tt.given {
			c.messages = append(c.messages, chat.ToolMessage(id, "mine "+id))
		}
		c.user("And?")
		result, r, err = c.send()
		if err != nil || content(result) != "Done." || r.Record.Lost != 0 {
			t.Fatalf("%s: %+v, %v", tt.name, result, err)
		}
		want := append([]string{"user Go", "assistant First. +c1_1", "tool peek result =c1_1", "assistant Second. +c2_1 +c2_2 +c2_3"}, tt.want...)
		if diff := cmp.Diff(append(want, "user And?"), w.shape()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestHeldTurnsAreFoundByTheConversationAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *talk)
		found  bool
		lost   int
	}{
		{"as it was", func(*talk) {}, true, 0},
		{"what came before is edited", func(c *talk) { c.messages[0] = chat.Message("user", "Stop") }, true, 0},
		{"another caller", func(c *talk) { c.caller = "app" }, false, 1},
		{"another one of the same key", func(c *talk) { c.fields = map[string]any{"id": "bob"} }, false, 1},
		{"other arguments of the call", func(c *talk) {
			c.messages[1], _ = sjson.SetBytes(c.messages[1], "tool_calls.0.function.arguments", `{"a":2}`)
		}, false, 1},
		{"arguments written otherwise", func(c *talk) {
			c.messages[1], _ = sjson.SetBytes(c.messages[1], "tool_calls.0.function.arguments", ` { "a" : 1 } `)
		}, true, 0},
		{"an expired store", func(c *talk) {
			m := stores.NewMemory(stores.Limits{})
			c.t.Cleanup(m.Close)
			c.store = m
		}, false, 1},
	} {
		w := newWorld(t)
		w.says("", `look {}`)
		w.says("", `mine {"a":1}`)
		w.says("Done.")
		c := newTalk(t, w)
		c.user("Go")
		result, _, err := c.send()
		if err != nil {
			t.Fatal(err)
		}
		ids := c.reads(result)
		c.messages = append(c.messages, chat.ToolMessage(ids[0], "ok"))
		tt.change(c)
		_, r, err := c.send()
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if found := slices.Contains(w.shape(), "tool look result =c1_1"); found != tt.found || r.Record.Lost != tt.lost {
			t.Errorf("%s: found %v, lost %d, want %v and %d:\n%v", tt.name, found, r.Record.Lost, tt.found, tt.lost, w.shape())
		}
		if (tt.lost > 0) != strings.Contains(r.Record.Dictionary(), "lost=1") {
			t.Errorf("%s: the trace says %s", tt.name, r.Record.Dictionary())
		}
	}
}

// A provider that numbers calls from 0 gives two conversations of one caller the same calls.
func TestTheSameCallsInTwoConversationsAreToldApart(t *testing.T) {
	w := newWorld(t)
	c := newTalk(t, w)
	for _, text := range []string{"Ann", "Bob"} {
		w.turns, w.asks = nil, nil
		w.says("For "+text, `look {}`)
		w.says("", `mine {"a":1}`)
		c.messages = nil
		c.user(text)
		if _, _, err := c.send(); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"Ann", "Bob", "Eve"} {
		w.turns, w.asks = nil, nil
		w.says("Done.")
		c.messages = nil
		c.user(text)
		c.messages = append(c.messages, json.RawMessage(`{"role":"assistant","content":"","tool_calls":[{"id":"c2_1","type":"function","function":{"name":"mine","arguments":"{\"a\":1}"}}]}`), chat.ToolMessage("c2_1", "ok"))
		if _, _, err := c.send(); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(w.shape(), "assistant For "+text+" +c1_1"); got != (text != "Eve") {
			t.Errorf("%s's conversation is %v", text, w.shape())
		}
	}
}

func TestTurnsBeforeAnAnswerArePutBack(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		w := newWorld(t)
		c := newTalk(t, w)
		c.prompt = prompt
		if prompt {
			w.says(`<tool_call>{"name":"look","arguments":{}}</tool_call>`)
		} else {
			w.says("", `look {}`)
		}
		w.says("It is so.")
		w.says("More.")
		c.user("Go")
		result, _, err := c.send()
		if err != nil {
			t.Fatal(err)
		}
		c.reads(result)
		c.user("More?")
		if _, _, err = c.send(); err != nil {
			t.Fatal(err)
		}
		want := []string{"user Go", "assistant  +c1_1", "tool look result =c1_1", "assistant It is so.", "user More?"}
		if prompt {
			want = []string{"user Go", `assistant <tool_call>{"name":"look","arguments":{}}</tool_call>`, "user <tool_response>\nlook result\n</tool_response>\nAnswer my question with this result, or call another tool.", "assistant It is so.", "user More?"}
		}
		got := w.shape()
		if prompt {
			got = got[1:] // the system message
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// asked counts what is looked up in a store, which has hints or not.
type asked struct {
	stores.Store
	gets int
}

func (a *asked) Get(ctx context.Context, key string) ([]byte, bool, error) {
	a.gets++
	return a.Store.Get(ctx, key)
}

type askedWithHints struct {
	asked
	stores.Hints
}

// Of the answers in a conversation only those are looked up of which something may be held. A store that has no hints is
// asked for all of them.
func TestAnswersAreLookedUpByTheirHints(t *testing.T) {
	for _, hints := range []bool{true, false} {
		w := newWorld(t)
		c := newTalk(t, w)
		count := &asked{Store: c.store}
		c.store, c.caller = count, "someone"
		if hints {
			with := &askedWithHints{asked{Store: count.Store}, count.Store.(stores.Hints)}
			c.store, count = with, &with.asked
		}
		w.says("", `look {}`)
		w.says("\n It is so. ")
		w.says("More.")
		w.says("More.")
		for range 20 {
			c.user("Hi")
			c.messages = append(c.messages, chat.Message("assistant", "Hello."))
		}
		c.user("Go")
		result, _, err := c.send()
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 0, false: 20}[hints]; count.gets != want {
			t.Errorf("hints %t: %d looked up while nothing is held, want %d", hints, count.gets, want)
		}
		c.reads(result)
		c.messages[len(c.messages)-1] = chat.Message("assistant", "It is so.") // as a client without blanks has it
		c.user("More?")
		count.gets = 0
		if _, _, err = c.send(); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 1, false: 21}[hints]; count.gets != want {
			t.Errorf("hints %t: %d looked up for one that is held, want %d", hints, count.gets, want)
		}
		if got := w.shape(); !slices.Contains(got, "tool look result =c1_1") {
			t.Errorf("hints %t: the turn before the answer is not there: %q", hints, got)
		}
		c.caller, count.gets = "someone else", 0
		if _, _, err = c.send(); err != nil {
			t.Fatal(err)
		}
		if got := w.shape(); slices.Contains(got, "tool look result =c1_1") || hints && count.gets != 0 {
			t.Errorf("hints %t: another caller's turn: %q, %d looked up", hints, got, count.gets)
		}
	}
}

func TestAFinalToolsTurnIsPutBackToo(t *testing.T) {
	w := newWorld(t)
	w.says("", `close {}`, `look {}`)
	w.says("More.")
	c := newTalk(t, w)
	c.user("Go")
	result, _, err := c.send()
	if err != nil || result.Stop != Final {
		t.Fatalf("%+v, %v", result, err)
	}
	c.reads(result)
	c.user("More?")
	if _, _, err = c.send(); err != nil {
		t.Fatal(err)
	}
	want := []string{"user Go", "assistant  +c1_1 +c1_2", "tool close result =c1_1", "tool " + notRun + " =c1_2", "assistant close result", "user More?"}
	if diff := cmp.Diff(want, w.shape()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTurnsOfEarlierAnswersGoWhereTheContextIsFull(t *testing.T) {
	w := newWorld(t)
	w.says("", `look {}`)
	w.says("It is so.")
	w.turns = append(w.turns, func(context.Context, upstream.Ask) (*chat.Turn, error) {
		return nil, &upstream.Error{Kind: upstream.Refused, Status: 400, Message: "maximum context length"}
	})
	w.says("More.")
	c := newTalk(t, w)
	c.user("Go")
	result, _, err := c.send()
	if err != nil {
		t.Fatal(err)
	}
	c.reads(result)
	c.user("More?")
	_, r, err := c.send()
	if err != nil || r.Record.Shortened != 1 {
		t.Fatalf("%+v, %v", r.Record, err)
	}
	if diff := cmp.Diff([]string{"user Go", "assistant It is so.", "user More?"}, w.shape()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// whole holds that a request to the provider is one whole conversation: each call has one result, right behind its turn
// and in the order of the calls, no result is without a call, no id stands twice, and what the client said and what its
// tools gave is in it, byte for byte.
func whole(t *rapid.T, sent gjson.Result, client []json.RawMessage) {
	ids, there := map[string]bool{}, map[string]bool{}
	var open []string
	for _, m := range sent.Get("messages").Array() {
		there[m.Raw] = true
		role := m.Get("role").String()
		if len(open) > 0 && (role != "tool" || m.Get("tool_call_id").String() != open[0]) {
			t.Fatalf("%s stands where the result of %v has to: %s", m.Raw, open, sent.Get("messages"))
		}
		if role == "tool" {
			if len(open) == 0 {
				t.Fatalf("a result without its call: %s in %s", m.Raw, sent.Get("messages"))
			}
			open = open[1:]
		}
		for _, c := range m.Get("tool_calls").Array() {
			id := c.Get("id").String()
			if id == "" || ids[id] {
				t.Fatalf("the id %q is missing or stands twice: %s", id, sent.Get("messages"))
			}
			ids[id] = true
			open = append(open, id)
		}
	}
	if len(open) > 0 {
		t.Fatalf("calls without a result: %v in %s", open, sent.Get("messages"))
	}
	for _, m := range client {
		if gjson.GetBytes(m, "role").String() != "assistant" && !there[string(m)] {
			t.Fatalf("the client's %s is not in %s", m, sent.Get("messages"))
		}
	}
}

// shown is a stream that shows nothing: of a conversation only what goes to the provider matters here.
type shown struct{ chunks int }

func (*shown) Begin(bool, func() func(string) int) {}
func (*shown) Header(upstream.Header)              {}
func (s *shown) Chunk(*chat.Chunk) error           { s.chunks++; return nil }
func (*shown) Wait()                               {}
func (*shown) Started(string)                      {}
func (*shown) Hide()                               {}
func (*shown) Visible() bool                       { return false }
func (*shown) Shown() bool                         { return false }

// Random conversations of gateway tools and the client's, in one piece and as streams, with calls that are broken and
// tools that fail.
func TestWhateverIsCalledTheProviderSeesAWholeConversation(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(outer)
		c := newTalk(outer, w)
		var begun atomic.Int64
		often := rapid.Int64Range(2, 5).Draw(t, "one of so many calls fails")
		for _, name := range []string{"look", "peek", "pay"} {
			w.tools[name] = func(context.Context, tool.Call) (tool.Result, error) {
				if begun.Add(1)%often == 0 {
					return tool.Result{}, &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, Err: errors.New("no connection")}
				}
				return tool.Result{Text: name + " result"}, nil
			}
		}
		n := 0
		ask := func(_ context.Context, a upstream.Ask) (*chat.Turn, error) {
			whole(t, gjson.ParseBytes(a.Request.Body(a.Edits).Bytes()), c.messages)
			n++
			var calls []string
			for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
				name := rapid.SampledFrom([]string{"look", "peek", "pay", "mine", "mine", "no_such"}).Draw(t, "name")
				id := fmt.Sprintf("c%d_%d", n, i)
				if rapid.IntRange(0, 5).Draw(t, "odd id") == 0 {
					id = rapid.SampledFrom([]string{"", "call_0"}).Draw(t, "id")
				}
				arguments := rapid.SampledFrom([]string{`"{}"`, `"{\"id\":1}"`, `"{\"id\":"`, `null`, `{"n":2}`}).Draw(t, "arguments")
				calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, id, name, arguments))
			}
			text := rapid.SampledFrom([]string{"", "Well.", "So it is."}).Draw(t, "text")
			if len(calls) == 0 {
				text += "!"
			}
			reply := fmt.Appendf(nil, `{"choices":[{"message":{"role":"assistant","content":%q,"tool_calls":[%s]},"finish_reason":"stop"}]}`, text, strings.Join(calls, ","))
			if a.OnChunk != nil {
				chunk, err := chat.ReadChunk(reply)
				if err == nil {
					err = a.OnChunk(chunk)
				}
				if err != nil {
					return nil, err
				}
			}
			return chat.ReadReply(reply)
		}
		for range 60 {
			w.turns = append(w.turns, ask)
		}
		for turn := range rapid.IntRange(1, 4).Draw(t, "turns") {
			if len(w.asks) > 40 {
				break
			}
			c.user(fmt.Sprintf("message %d", turn))
			for range 3 {
				c.stream = nil
				if rapid.Bool().Draw(t, "stream") {
					c.stream = &shown{}
				}
				result, _, err := c.send()
				if err != nil {
					return // a limit, at which the conversation ends
				}
				ids := c.reads(result)
				if len(ids) == 0 {
					break
				}
				for _, id := range rapid.Permutation(ids).Draw(t, "order") {
					if rapid.IntRange(0, 4).Draw(t, "answered") > 0 {
						c.messages = append(c.messages, chat.ToolMessage(id, "ok "+id))
					}
				}
				if rapid.IntRange(0, 5).Draw(t, "forgotten") == 0 {
					m := stores.NewMemory(stores.Limits{})
					outer.Cleanup(m.Close)
					c.store = m
					return // what the client left out is nobody's to fill in then
				}
			}
		}
	})
}
