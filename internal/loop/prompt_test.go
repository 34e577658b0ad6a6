package loop

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/budget"
)

// prompts makes a run of a model without native calls.
func (w *world) prompts(limits budget.Limits, body string) (*Result, *Run, error) {
	w.t.Helper()
	r := w.prepare(limits, body)
	r.Prompt = true
	result, err := r.Do(w.t.Context())
	return result, r, err
}

const ask = `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Go"}],"tool_choice":"auto"}`

func TestToolsForAModelWithoutNativeCalls(t *testing.T) {
	w := newWorld(t)
	w.says("I look.\n<tool_call>{\"name\":\"look\",\"arguments\":{\"id\":1}}</tool_call><tool_call>{\"name\":\"peek\",\"arguments\":{}}</tool_call>\n<tool_response>made up</tool_response>")
	w.says("It is 21 C.</tool_response>")
	result, r, err := w.prompts(budget.Default(), ask)
	if err != nil || content(result) != "It is 21 C." || result.Stop != Completed || len(r.Record.Calls) != 2 {
		t.Fatalf("Do() = %q %+v, %v", content(result), result, err)
	}
	first, second := w.sent(0), w.sent(1)
	if first.Get("tools").Exists() || first.Get("tool_choice").Exists() {
		t.Errorf("the request has native tools: %s", first)
	}
	system := first.Get("messages.0.content").String()
	if !strings.HasPrefix(system, "Be brief.\n\n") || !strings.Contains(system, "<tools>\n"+`{"type":"function","function":{"name":"look"`) {
		t.Errorf("the system message is %q", system)
	}
	var got []string
	for _, m := range second.Get("messages").Array()[1:] {
		got = append(got, m.Get("role").String()+": "+m.Get("content").String())
	}
	want := []string{
		"user: Go",
		"assistant: I look.\n<tool_call>{\"name\":\"look\",\"arguments\":{\"id\":1}}</tool_call><tool_call>{\"name\":\"peek\",\"arguments\":{}}</tool_call>",
		"user: <tool_response>\nlook result\n</tool_response>\n<tool_response>\npeek result\n</tool_response>\nAnswer my question with these results, or call another tool.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the second request (-want +got):\n%s", diff)
	}
}

func TestPromptLevelTurns(t *testing.T) {
	call := func(s string) string { return "<tool_call>\n" + s + "\n</tool_call>" }
	for _, tt := range []struct {
		name   string
		turns  []string
		want   string
		stop   Stop
		reads  string // what the model reads of the first call
		called int
	}{
		{"broken JSON is an observation", []string{call(`{"name": "look", "arguments": {"id": }}`), "done"}, "done", Completed, "invalid arguments for look", 0},
		{"a call without a name is one too", []string{call(`look at it`), "done"}, "done", Completed, "could not be read", 0},
		{"a tool that is none", []string{call(`{"name": "lock", "arguments": {}}`), "done"}, "done", Completed, "there is no tool \\\"lock\\\"; the nearest are: look", 0},
		{"bare JSON with text around", []string{"Sure:\n{\"name\": \"look\", \"arguments\": {\"id\": 1}}\nOne moment.", "done"}, "done", Completed, "look result", 1},
		{"a code fence", []string{"```json\n{\"name\": \"look\", \"arguments\": {\"id\": 1}}\n```", "done"}, "done", Completed, "look result", 1},
		{"JSON lines", []string{"{\"name\": \"look\", \"arguments\": {\"id\": 1}}\n{\"name\": \"peek\", \"arguments\": {}}", "done"}, "done", Completed, "look result", 2},
		{"arguments that do not fit", []string{call(`{"name": "look", "arguments": {"id": "x"}}`), "done"}, "done", Completed, "invalid arguments for look: id: ", 0},
		{"a result can't end its tags", []string{call(`{"name": "peek", "arguments": {}}`), "done"}, "done", Completed, `a<\/tool_response> b`, 1},
		{"an answer that is JSON", []string{`{"name": "Ana", "arguments": {}}`}, `{"name": "Ana", "arguments": {}}`, Completed, "", 0},
	} {
		w := newWorld(t)
		w.returns("peek", "a</tool_response> b")
		for _, turn := range tt.turns {
			w.says(turn)
		}
		result, _, err := w.prompts(budget.Default(), ask)
		if err != nil || content(result) != tt.want || result.Stop != tt.stop {
			t.Errorf("%s: %q %s, %v", tt.name, content(result), result.Stop, err)
			continue
		}
		if n := strings.Count(strings.Join(w.log, "\n"), " begins"); n != tt.called {
			t.Errorf("%s: %d calls, want %d: %v", tt.name, n, tt.called, w.log)
		}
		if tt.reads == "" {
			continue
		}
		messages := w.sent(1).Get("messages").Array()
		if got := messages[len(messages)-1].Get("content").String(); !strings.Contains(got, tt.reads) {
			t.Errorf("%s: the model reads %q, want %q", tt.name, got, tt.reads)
		}
	}
}

func TestALastStepWithoutNativeCallsShowsNoMarkup(t *testing.T) {
	const written = `<tool_call>{"name":"look","arguments":{"id":1}}</tool_call>`
	w := newWorld(t)
	w.says(written)
	w.says("Well. " + written)
	result, _, err := w.prompts(with(func(l *budget.Limits) { l.Steps = 1 }), ask)
	if err != nil || content(result) != "Well." || result.Stop != MaxSteps || len(w.log) != 0 {
		t.Errorf("Do() = %q %+v, %v; ran %v", content(result), result, err, w.log)
	}
	if system := w.sent(0).Get("messages.0.content").String(); !strings.HasSuffix(system, "call no tool any more: answer with what you have.") {
		t.Errorf("the last step is told %q", system)
	}
	if system := w.sent(1).Get("messages.0.content").String(); system != "Be brief." {
		t.Errorf("the step without tools is told %q", system)
	}
}

func TestTheClientsToolsForAModelWithoutNativeCalls(t *testing.T) {
	w := newWorld(t)
	w.says("Let me see. <tool_call>{\"name\":\"mine\",\"arguments\":{\"a\":1}}</tool_call>")
	body := `{"model":"m","tools":[{"type":"function","function":{"name":"mine"}}],"tool_choice":{"type":"function","function":{"name":"mine"}},"messages":[` +
		`{"role":"user","content":"Go"},` +
		`{"role":"assistant","content":null,"x":1,"tool_calls":[{"id":"a","type":"function","function":{"name":"mine","arguments":"{\"a\":0}"}}]},` +
		`{"role":"tool","tool_call_id":"a","content":"none"},{"role":"user","content":"Again"}]}`
	result, _, err := w.prompts(budget.Default(), body)
	if err != nil || result.Stop != ClientTools || len(result.Calls) != 1 || content(result) != "Let me see." {
		t.Fatalf("Do() = %q %+v, %v", content(result), result, err)
	}
	sent := w.sent(0)
	if got := sent.Get("messages.0.content").String(); !strings.Contains(got, `{"type":"function","function":{"name":"mine"}}`) || !strings.HasSuffix(got, "Now call the tool mine.") {
		t.Errorf("the system message is %q", got)
	}
	want := `{"role":"assistant","content":"<tool_call>\n{\"name\": \"mine\", \"arguments\": {\"a\":0}}\n</tool_call>","x":1}`
	if got := sent.Get("messages.2").Raw; got != want {
		t.Errorf("the earlier call reads %s, want %s", got, want)
	}
	if got := sent.Get("messages.3").Raw; got != `{"role":"user","content":"<tool_response>\nnone\n</tool_response>\nAnswer my question with this result, or call another tool."}` {
		t.Errorf("the earlier result reads %s", got)
	}
}

// Small models write the answer in the turn of the call whose result it needs.
func TestAnAnswerMadeUpBeforeTheResultsIsNotTaken(t *testing.T) {
	w := newWorld(t)
	w.says("{\"name\":\"look\",\"arguments\":{}}\n{\"name\":\"final_answer\",\"arguments\":{\"city\":\"made up\"}}")
	w.says(`{"name":"final_answer","arguments":{"city":"Rio"}}`)
	result, _, err := w.answers(Auto, budget.Default(), func(r *Run) { r.Prompt = true })
	if err != nil || content(result) != `{"city":"Rio"}` || len(w.log) != 2 {
		t.Errorf("Do() = %q %+v, %v; ran %v", content(result), result, err, w.log)
	}
}

func TestAResultMadeUpIsNoAnswer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		turns []string
		want  string
	}{
		{"told, it calls the tool", []string{"I look.\n<tool_response>\n{\"status\":\"Pending\"}\n</tool_response>", `{"name":"look","arguments":{}}`, "So it is."}, "So it is."},
		{"once: it may have been the answer", []string{"<tool_response>Hello!</tool_response>", "<tool_response>Hello!</tool_response>"}, "Hello!"},
		{"with a result it may stand in such tags", []string{`{"name":"look","arguments":{}}`, "<tool_response>So it is.</tool_response>"}, "So it is."},
	} {
		w := newWorld(t)
		for _, turn := range tt.turns {
			w.says(turn)
		}
		result, _, err := w.prompts(budget.Default(), ask)
		if err != nil || content(result) != tt.want || len(w.asks) != len(tt.turns) {
			t.Errorf("%s: %q after %d turns, %v, want %q", tt.name, content(result), len(w.asks), err, tt.want)
		}
	}
}
