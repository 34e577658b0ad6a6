package loop

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/guard"
	"github.com/toolgate/toolgate/internal/prompted"
)

// promptEdits are the edits for a model without native calls: its tools stand in the system message, calls and results
// in the text of messages.
func (s *state) promptEdits(e chat.Edits, forced, byTool bool) (chat.Edits, error) {
	e.Drop = append(e.Drop, "tools", "tool_choice", "parallel_tool_calls")
	instructions := ""
	if e.Before != nil {
		instructions = gjson.GetBytes(e.Before, "content").String()
	}
	var tools []byte
	switch {
	case s.bare && byTool:
		tools = s.withAnswer(nil)
	case s.bare || s.Request.ToolChoice == "none":
	default:
		tools = declarations(s.Request.Member("tools"), s.View.Declarations())
		if byTool {
			tools = s.withAnswer(tools)
		}
	}
	e.Before = nil
	var err error
	e.Messages, err = prompted.Messages(s.messages(), instructions, prompted.System(tools, s.promptChoice(e, forced, byTool)))
	if err != nil {
		return e, &Error{Kind: Internal, Text: "the conversation could not be written as text for the model", Err: err}
	}
	return e, nil
}

// declarations are the client's tools, a JSON list or nil, and then ours, joined by commas.
func declarations(client json.RawMessage, ours []byte) []byte {
	list := bytes.TrimSpace(client)
	if len(list) < 2 || list[0] != '[' {
		return ours
	}
	return joined(bytes.TrimSpace(list[1:len(list)-1]), ours)
}

// joined is two lists of declarations, each joined by commas, as one.
func joined(a, b []byte) []byte {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return slices.Concat(a, []byte(","), b)
}

// promptChoice is tool_choice in words.
func (s *state) promptChoice(e chat.Edits, forced, byTool bool) prompted.Choice {
	switch {
	case byTool && (forced || s.View.Len()+s.Request.ClientTools() == 0):
		return prompted.Choice{Name: s.answer}
	case forced:
		return prompted.Choice{None: true}
	case s.step > 0:
		return prompted.Choice{}
	}
	choice := s.Request.Member("tool_choice")
	for _, p := range e.Default {
		if p.Name == "tool_choice" && choice == nil {
			choice = p.Value
		}
	}
	switch v := gjson.ParseBytes(choice); {
	case v.IsObject():
		return prompted.Choice{Name: v.Get("function.name").String()}
	case v.String() == "required" || v.String() == "any":
		return prompted.Choice{Must: true}
	}
	return prompted.Choice{}
}

// readPrompt reads the calls in the text of a model that was asked to write them there. What remains is the turn's text.
func (s *state) readPrompt(turn *chat.Turn) {
	found := prompted.Found{Before: prompted.Answer(turn.Text), Said: turn.Text}
	if len(turn.Calls) == 0 && s.Request.ToolChoice != "none" {
		found = s.texts.Find(turn.Text)
		turn.Calls = found.Calls
	}
	s.said, s.madeUp = found.Said, found.MadeUp && len(s.results) == 0
	if found.Before != turn.Text || turn.Calls != nil {
		turn.Text = found.Before
		if turn.Calls != nil {
			turn.Text = strings.TrimRight(turn.Text, " \t\r\n")
		}
		s.result.Content = &turn.Text // the provider's own message has the marks
	}
	if found.Calls != nil {
		s.Logger.Debug("calls read out of a turn's text", slog.String("run_id", s.Record.ID), slog.Int("calls", len(found.Calls)))
	}
}

// noResults is what a model reads that has made up a result.
const noResults = "No tool has been called yet, so there is no result. Call the tool, or answer in plain text without tags."

// reprove asks a model again that has made up a result where no tool had been called, once in a run.
func (s *state) reprove(turn *chat.Turn) (again bool, err error) {
	s.reproved = true
	turn.Text = s.lastText // what it made up is no text to end with
	return true, s.tell(turn, noResults)
}

// rememberText is remember for a model without native calls: the turn as it wrote it, and all results in one message.
func (s *state) rememberText(turn *chat.Turn, all items) error {
	said := []string{s.said}
	if gjson.GetBytes(turn.Message, "tool_calls.0").Exists() { // the server has a parser for them all the same
		for _, it := range all.list {
			said = append(said, prompted.CallText(it.Name, it.Echo))
		}
	}
	echo, err := prompted.Turn(turn.Message, strings.TrimPrefix(strings.Join(said, "\n"), "\n"))
	if err != nil {
		return s.notPutBack(err)
	}
	s.after = append(s.after, echo)
	results := make([]result, len(all.list))
	for i, it := range all.list {
		results[i] = s.resultOf(it)
	}
	s.addResult(resultAt{results: results})
	return nil
}

// unreadable is what a model reads of a call that has no name.
const unreadable = "the call could not be read: write " + `<tool_call>{"name": "TOOL", "arguments": {...}}</tool_call>` + " with valid JSON"

// isUnreadable says whether a call was written as text in a way that even its name is not to be seen.
func (s *state) isUnreadable(c chat.Call) bool {
	return s.Prompt && c.Name == "" && bytes.HasPrefix(bytes.TrimSpace(c.Arguments), []byte(`"`))
}

// resultAt is the results of calls as one message of the conversation.
type resultAt struct {
	at      int      // in after
	id      string   // of the call; "" where the results are text
	results []result // one, or of text all of a turn
}

func (r resultAt) message() json.RawMessage {
	if r.id != "" {
		return chat.ToolMessage(r.id, r.results[0].marked())
	}
	texts := make([]string, len(r.results))
	for i, one := range r.results {
		texts[i] = one.marked()
	}
	return prompted.Results(texts...)
}

// result is what the model reads of a call.
type result struct {
	text string
	mark guard.Mark // around it; it stays when the text is shortened
}

func (r result) marked() string { return r.mark.Around(r.text) }

// resultOf is what the model reads of a call. What a call brought that was made is marked, be it good or not; what the
// gateway says of one that was not made, it says itself.
func (s *state) resultOf(it *item) result {
	r := result{text: it.seen.Text}
	if it.state == ran && !it.answer {
		r.mark = s.Guard.Mark(it.id, r.text)
	}
	return r
}

// addResult puts results behind the conversation.
func (s *state) addResult(r resultAt) {
	r.at = len(s.after)
	s.after = append(s.after, r.message())
	s.results = append(s.results, r)
}
