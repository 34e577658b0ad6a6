package loop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/structured"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

const format = `{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"city":{"type":"string"},"n":{"type":"integer"}},"required":["city"]}}}`

// answers makes a run whose answer has to fit the format.
func (w *world) answers(way FormatWay, limits budget.Limits, change func(*Run)) (*Result, *Run, error) {
	w.t.Helper()
	r := w.prepare(limits, `{"model":"m","messages":[{"role":"user","content":"Go"}],"response_format":`+format+`}`)
	var err error
	if r.Format, err = structured.Read(json.RawMessage(format)); err != nil {
		w.t.Fatal(err)
	}
	r.FormatWay = way
	if change != nil {
		change(r)
	}
	result, err := r.Do(w.t.Context())
	return result, r, err
}

// sent is the body of the world's n-th request.
func (w *world) sent(n int) gjson.Result {
	w.t.Helper()
	if n >= len(w.asks) {
		w.t.Fatalf("there are %d requests, want number %d", len(w.asks), n+1)
	}
	return gjson.ParseBytes(w.asks[n].Request.Body(w.asks[n].Edits).Bytes())
}

func content(r *Result) string {
	if r.Content != nil {
		return *r.Content
	}
	return r.Turn.Text
}

func TestAnswersThatFitASchema(t *testing.T) {
	const fits, not = `{"city":"Rio"}`, `{"city":1.5}`
	last := with(func(l *budget.Limits) { l.Steps = 1 })
	two := with(func(l *budget.Limits) { l.Steps = 2 })
	for _, tt := range []struct {
		name   string
		way    FormatWay
		limits budget.Limits
		turns  [][]string // a text, then calls
		want   string     // the content, or the error's code
		stop   Stop
	}{
		{"a text that fits", Native, budget.Default(), [][]string{{fits}}, fits, Completed},
		{"bytes of an answer that fits stay", Native, budget.Default(), [][]string{{`{ "n": 7, "city": "R\u00edo" }`}}, `{ "n": 7, "city": "R\u00edo" }`, Completed},
		{"a text that does not goes back", Native, budget.Default(), [][]string{{not}, {fits}}, fits, Completed},
		{"a text in a fence", Native, budget.Default(), [][]string{{"Here:\n```json\n" + fits + "\n```\nMore?"}}, fits, Completed},
		{"behind thoughts", Native, budget.Default(), [][]string{{`<think>{"city":"no"}</think>` + fits}}, fits, Completed},
		{"values are coerced where that makes them fit", Native, budget.Default(), [][]string{{`{"city":" Rio ","n":"5"}`}}, `{"city":"Rio","n":5}`, Completed},
		{"after a tool", Native, budget.Default(), [][]string{{"", "look {}"}, {fits}}, fits, Completed},
		{"never", Native, two, [][]string{{not}, {"no"}}, "invalid_answer", MaxSteps},
		{"an empty text", Native, budget.Default(), [][]string{{""}}, "invalid_answer", Completed},
		{"a call", Tool, budget.Default(), [][]string{{"", "final_answer " + fits}}, fits, Final},
		{"a call with a namespace", Tool, budget.Default(), [][]string{{"", "functions.final_answer " + fits}}, fits, Final},
		{"a call that does not fit goes back", Tool, budget.Default(), [][]string{{"", "final_answer " + not}, {"", "final_answer " + fits}}, fits, Final},
		{"a text in place of the call", Tool, budget.Default(), [][]string{{"It is " + fits}}, fits, Completed},
		{"a text that is none, then the call", Tool, budget.Default(), [][]string{{"I do not know."}, {"", "final_answer " + fits}}, fits, Final},
		{"the call as text", Tool, budget.Default(), [][]string{{`<tool_call>{"name":"final_answer","arguments":` + fits + `}</tool_call>`}}, fits, Final},
		{"beside another call, which comes first", Tool, budget.Default(), [][]string{{"", "look {}", "final_answer " + fits}}, fits, Final},
		{"at the last step", Tool, last, [][]string{{"", "final_answer " + fits}}, fits, MaxSteps},
		{"not even at the last step", Tool, last, [][]string{{"", "final_answer " + not}}, "invalid_answer", MaxSteps},
		{"at the last step other tools, then only the answer", Tool, last, [][]string{{"", "look {}"}, {"", "final_answer " + fits}}, fits, MaxSteps},
		{"a final tool's result that fits", Native, budget.Default(), [][]string{{"", "close {}"}, {fits}}, fits, Completed},
		{"with partial at the limit", Tool, with(func(l *budget.Limits) { l.Steps, l.OnExhausted = 1, budget.Partial }), [][]string{{"", "final_answer " + fits}}, fits, MaxSteps},
	} {
		w := newWorld(t)
		for _, turn := range tt.turns {
			w.says(turn[0], turn[1:]...)
		}
		result, _, err := w.answers(tt.way, tt.limits, nil)
		got := ""
		var failed *Error
		switch {
		case errors.As(err, &failed):
			got = string(failed.Kind)
		default:
			got = content(result)
		}
		if got != tt.want || result.Stop != tt.stop || len(w.asks) != len(tt.turns) {
			t.Errorf("%s: %s %q after %d turns, want %s %q after %d (%v)", tt.name, result.Stop, got, len(w.asks), tt.stop, tt.want, len(tt.turns), err)
		}
	}
}

func TestTheTraceTellsTheLastAnswerFromWhatWasSkipped(t *testing.T) {
	w := newWorld(t)
	w.says("", "look {}")
	w.says("", `final_answer {"city":"Rio"}`)
	_, r, err := w.answers(Tool, with(func(l *budget.Limits) { l.Steps = 2 }), nil)
	if err != nil || len(r.Record.Calls) != 2 || r.Record.Calls[1].Outcome != trace.OK {
		t.Errorf("the calls are %+v, %v", r.Record.Calls, err)
	}
}

func TestWhatIsWrongWithAnAnswerGoesBack(t *testing.T) {
	w := newWorld(t)
	w.says(`{"city":1.5}`)
	w.says(`{"city":"Rio"}`)
	if _, _, err := w.answers(Native, budget.Default(), nil); err != nil {
		t.Fatal(err)
	}
	messages := w.sent(1).Get("messages").Array()
	if got := messages[len(messages)-2].Get("content").String(); got != `{"city":1.5}` {
		t.Errorf("the answer went back as %q", got)
	}
	if got := messages[len(messages)-1].Get("content").String(); !strings.Contains(got, "invalid answer for final_answer: city: must be a string") {
		t.Errorf("the model reads %q", got)
	}
	if w.sent(0).Get("tools.#").Int() != 4 || !w.sent(1).Get("response_format").Exists() {
		t.Errorf("native changed the request: %s", w.sent(1))
	}
}

func TestARouteThatRefusesASchemaBesideToolsGetsTheTool(t *testing.T) {
	w := newWorld(t)
	w.turns = append(w.turns, func(_ context.Context, a upstream.Ask) (*chat.Turn, error) {
		if a.ByTool == nil {
			t.Fatal("there is no other way for the route")
		}
		body := a.Request.Body(*a.ByTool).Bytes()
		if gjson.GetBytes(body, "response_format").Exists() || gjson.GetBytes(body, "tools.4.function.name").String() != "final_answer" {
			t.Errorf("the other way is %s", body)
		}
		return chat.ReadReply([]byte(`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"final_answer","arguments":"{\"city\":\"Rio\"}"}}]}}]}`))
	})
	w.byTool = true
	result, r, err := w.answers(Auto, budget.Default(), nil)
	if err != nil || content(result) != `{"city":"Rio"}` || result.Stop != Final || len(r.Record.Calls) != 1 {
		t.Errorf("Do() = %+v, %v", result, err)
	}
}

func TestNobodysToolIsTakenForTheAnswer(t *testing.T) {
	w := newWorld(t)
	w.says("", `final_answer {"x":1}`)
	r := w.prepare(budget.Default(), `{"model":"m","messages":[{"role":"user","content":"Go"}],"tools":[{"type":"function","function":{"name":"final_answer"}}]}`)
	var err error
	if r.Format, err = structured.Read(json.RawMessage(format)); err != nil {
		t.Fatal(err)
	}
	r.FormatWay = Tool
	result, err := r.Do(t.Context())
	if err != nil || result.Stop != ClientTools || len(result.Calls) != 1 {
		t.Errorf("Do() = %+v, %v; want the client's own call", result, err)
	}
	if got := w.sent(0).Get("tools.#.function.name").Array(); got[len(got)-1].String() != "final_answer_2" {
		t.Errorf("tools are %v", got)
	}
}

func TestAFullContextIsRelieved(t *testing.T) {
	tooLong := func(context.Context, upstream.Ask) (*chat.Turn, error) {
		return nil, &upstream.Error{Upstream: "up", Kind: upstream.Refused, Status: 400, Message: "This model's maximum context length is 8192 tokens."}
	}
	long := strings.Repeat("é", 3000)
	for _, tt := range []struct {
		name  string
		turns []string // calls, or "!" for a full context
		good  bool
		asks  int
		short []int // characters of each result that the last request has
	}{
		{"the oldest result gives way", []string{"look", "look", "!", ""}, true, 4, []int{1, 0}},
		{"one result alone loses half of it", []string{"look", "!", ""}, true, 3, []int{1}},
		{"once for each step", []string{"look", "!", "!"}, false, 3, nil},
		{"again at a later step", []string{"look", "!", "look", "!", ""}, true, 5, []int{1, 1}},
		{"nothing to shorten", []string{"!"}, false, 1, nil},
	} {
		for _, prompt := range []bool{false, true} {
			w := newWorld(t)
			w.returns("look", long)
			for _, turn := range tt.turns {
				switch turn {
				case "!":
					w.turns = append(w.turns, tooLong)
				case "":
					w.says("done")
				default:
					w.says("", turn+" {}")
				}
			}
			r := w.prepare(budget.Default(), `{"model":"m","messages":[{"role":"user","content":"Go"}]}`)
			r.Prompt = prompt
			result, err := r.Do(t.Context())
			if (err == nil) != tt.good || len(w.asks) != tt.asks {
				t.Errorf("%s: %+v, %v after %d requests", tt.name, result, err, len(w.asks))
				continue
			}
			if !tt.good {
				continue
			}
			role := "tool"
			if prompt {
				role = "user"
			}
			var got []int
			for i, m := range w.sent(tt.asks - 1).Get("messages").Array() {
				if i > 0 && m.Get("role").String() == role && strings.Contains(m.Get("content").String(), "é") {
					if strings.Contains(m.Get("content").String(), "[shortened: the last ") {
						got = append(got, 1)
					} else {
						got = append(got, 0)
					}
				}
			}
			if len(got) != len(tt.short) {
				t.Fatalf("%s: %v results, want %v", tt.name, got, tt.short)
			}
			for i := range got {
				if got[i] != tt.short[i] {
					t.Errorf("%s (prompt %v): shortened are %v, want %v", tt.name, prompt, got, tt.short)
				}
			}
			if r.Record.Shortened == 0 || !strings.Contains(r.Record.Dictionary(), "shortened=") {
				t.Errorf("%s: the trace does not say so: %s", tt.name, r.Record.Dictionary())
			}
		}
	}
}
