package loop

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/prompted"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/structured"
	"github.com/toolgate/toolgate/internal/tool"
)

// formatByTool says whether the answer is asked for as a call from the start. A model that writes its calls as text could
// not call anything where its text is held to the schema.
func (s *state) formatByTool() bool {
	return s.Format != nil && (s.FormatWay == Tool || s.FormatWay == Auto && s.Prompt)
}

// answerName is the name of the tool whose call is the answer: one that no other tool has.
func (s *state) answerName() string {
	taken := map[string]bool{}
	for name := range s.View.Names() {
		taken[name] = true
	}
	name := structured.ToolName
	for n := 2; taken[name] || s.Request.Declares(name); n++ {
		name = fmt.Sprintf("%s_%d", structured.ToolName, n)
	}
	return name
}

func (s *state) answerChoice() string {
	return `{"type":"function","function":{"name":` + string(chat.Quote(s.answer)) + `}}`
}

// withAnswer is declarations, joined by commas, with that of the tool whose call is the answer.
func (s *state) withAnswer(declarations []byte) []byte {
	return joined(declarations, s.Format.Declaration(s.answer))
}

// readAnswer checks the arguments of a call that is the answer.
func (s *state) readAnswer(it *item) {
	answer, err := s.Format.FromArguments(it.call.Arguments)
	if err != nil {
		it.refuse(s.View.Refuse(registry.InvalidArguments, err.Error()))
		return
	}
	it.seen = registry.Observation{Text: answer, Class: "ok"}
}

// answered decides what a text without calls is: the answer, or one that does not fit the schema and goes back.
func (s *state) answered(turn *chat.Turn, stop Stop, forced bool) (again bool, err error) {
	if s.Format == nil {
		return false, s.conclude(stop, chat.FinishStop)
	}
	answer, err := s.Format.FromText(prompted.AfterThoughts(turn.Text))
	if err == nil {
		if answer != turn.Text || s.result.Content != nil {
			s.result.Content = &answer
		}
		return false, s.conclude(stop, chat.FinishStop)
	}
	if forced || s.step >= s.Limits.Steps || strings.TrimSpace(turn.Text) == "" {
		s.result.Stop = stop
		return false, s.invalid(err)
	}
	if limit := s.spent(); limit != "" {
		s.limit = limit
	}
	how := "Answer again with nothing but the JSON that is asked for."
	if s.byTool {
		how = "Call " + s.answer + " with the answer."
	}
	return true, s.tell(turn, err.Error()+"\n"+how)
}

// lastAnswer ends the run with the answer that the last step called for.
func (s *state) lastAnswer(all items) error {
	answer, err := s.Format.FromArguments(all.answer.call.Arguments)
	if err == nil && all.answer.state == waiting {
		all.answer.state = ran
	}
	s.record(all)
	s.result.Stop = s.reached()
	if err != nil {
		return s.invalid(err)
	}
	s.hide()
	s.result.Content, s.result.Finish = &answer, chat.FinishStop
	return nil
}

// invalid is the error of a run whose answer never fitted. What is wrong with it names the client's own fields alone.
func (s *state) invalid(err error) error {
	text := "the model gave no answer that fits response_format"
	if e, ok := errors.AsType[*structured.Invalid](s.Format.Bare(err)); ok {
		text += ": " + strings.Join(e.Faults, "; ")
	}
	return &Error{Kind: Invalid, Text: text, Err: err}
}

// fits says whether a final tool's result can be the answer: where a schema is asked for, only one that fits it. The
// message of a handoff is no answer, and ends the run in any case.
func (s *state) fits(final *item) bool {
	if s.Format == nil || final.answer || final.Tool.Ending == tool.Handoff {
		return true
	}
	answer, err := s.Format.FromText(final.seen.Text)
	if err != nil {
		return false
	}
	final.seen.Text = answer
	return true
}
