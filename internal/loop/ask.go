package loop

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

// forced says whether the next step is the last one, which has to answer.
func (s *state) forced() bool {
	return s.limit != "" || s.Limits.OnExhausted == budget.Answer && s.step+1 >= s.Limits.Steps
}

// ask makes the next model call and accounts for it.
func (s *state) ask(ctx context.Context, forced bool) (*chat.Turn, error) {
	if ctx.Err() != nil { // during the last tool call, which ended well all the same
		return nil, s.askFailed(ctx, context.Cause(ctx))
	}
	answer, err := s.askOnce(ctx, forced)
	if e, ok := errors.AsType[*upstream.Error](err); ok && ctx.Err() == nil && e.ContextTooLong() && s.relieve(ctx) {
		answer, err = s.askOnce(ctx, forced)
	}
	s.step++
	if err != nil {
		return nil, s.askFailed(ctx, err)
	}
	turn := answer.Turn
	s.byTool = s.Format != nil && (answer.ByTool || s.formatByTool())
	s.result.Tokens = s.tokens
	if s.usage = chat.AddUsage(s.usage, turn.Usage); s.step > 1 {
		s.result.Tokens = chat.ReadTokens(s.usage)
	}
	cost := s.Price.Cost(s.tokens.Prompt, s.tokens.Completion, s.tokens.Cached)
	s.cost += cost
	s.Spent.add(s.tokens.Total, cost)
	s.result.Turn, s.result.Header = turn, answer.Header
	return turn, nil
}

// askOnce makes a model call and records it.
func (s *state) askOnce(ctx context.Context, forced bool) (*upstream.Answer, error) {
	a, err := s.request(forced)
	if err != nil {
		return nil, err
	}
	start := s.Now()
	step := trace.Step{Start: start.Sub(s.Record.Start)}
	answer, err := s.Model.Ask(ctx, a)
	if s.Stream != nil {
		s.Stream.Wait() // what comes next, such as a tool, may take a while
	}
	step.Took = s.Now().Sub(start)
	if err != nil {
		step.Error = string(s.askFailed(ctx, err).Kind)
		if e, ok := errors.AsType[*upstream.Error](err); ok {
			step.Upstream, step.Error = e.Upstream, string(e.Kind)
			s.result.Header = e.Header
		}
		s.Record.Steps = append(s.Record.Steps, step)
		return nil, err
	}
	s.tokens = chat.ReadTokens(answer.Turn.Usage)
	step.Upstream, step.Finish = answer.Upstream, answer.Turn.Finish
	step.Prompt, step.Output = s.tokens.Prompt, s.tokens.Completion
	s.Record.Steps = append(s.Record.Steps, step)
	return answer, nil
}

// request is the next model call.
func (s *state) request(forced bool) (upstream.Ask, error) {
	a := upstream.Ask{Request: s.Request, Header: s.Header, ClientKey: s.ClientKey}
	var err error
	if a.Edits, err = s.edits(forced, s.formatByTool()); err != nil {
		return a, err
	}
	if s.Format != nil && s.FormatWay == Auto && !s.formatByTool() {
		other, err := s.edits(forced, true)
		if err != nil {
			return a, err
		}
		a.ByTool = &other
	}
	if s.Stream != nil {
		s.Stream.Begin(forced, s.watch)
		a.OnHeader, a.OnChunk, a.OnWait, a.Shown = s.Stream.Header, s.Stream.Chunk, s.Stream.Wait, s.Stream.Visible
	}
	return a, nil
}

// watch says how much of a reply's text may be shown as it comes.
func (s *state) watch() func(string) int {
	switch {
	case s.Format != nil: // an answer is shown once it is checked
		return func(string) int { return 0 }
	case s.Prompt:
		return s.texts.WatchFor().Add
	}
	return s.texts.Watch().Add
}

// askFailed sorts the failure of a model call: by the run's clock, by the client, or by the provider.
func (s *state) askFailed(ctx context.Context, err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		s.result.Stop = Failed
		return own
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTime):
		s.result.Stop = TimedOut
		return &Error{Kind: Timeout, Text: "the model call was interrupted: the time budget ran out", Err: err}
	case cause != nil:
		s.result.Stop = Canceled
		return &Error{Kind: Gone, Text: "the client left", Err: cause}
	}
	var e *upstream.Error
	if errors.As(err, &e) && e.Kind == upstream.Canceled { // by the stream: the client's connection is broken
		s.result.Stop = Canceled
		return &Error{Kind: Gone, Text: "the client left", Err: err}
	}
	s.result.Stop = UpstreamError
	return &Error{Kind: Upstream, Text: "the upstream failed", Err: err}
}

// edits are what the next request has beyond the client's. With byTool the answer is asked for as a call.
func (s *state) edits(forced, byTool bool) (chat.Edits, error) {
	e := chat.Edits{Messages: s.restored, Before: s.Instructions, After: s.after}
	for _, p := range s.Defaults {
		if p.Name != "tool_choice" || s.step == 0 && !forced {
			e.Default = append(e.Default, p)
		}
	}
	if byTool {
		e.Drop = append(e.Drop, "response_format")
	}
	if s.Request.N > 1 { // each choice is a run of its own
		e.Drop = append(e.Drop, "n")
	}
	if s.Prompt {
		return s.promptEdits(e, forced, byTool)
	}
	choose := func(choice string) {
		e.Set = append(e.Set, chat.Pair{Name: "tool_choice", Value: json.RawMessage(choice)})
	}
	switch {
	case s.bare && byTool:
		e.Set = append(e.Set, chat.Pair{Name: "tools", Value: slices.Concat([]byte("["), s.Format.Declaration(s.answer), []byte("]"))})
		choose(s.answerChoice())
		return e, nil
	case s.bare:
		e.Drop = append(e.Drop, "tools", "tool_choice", "parallel_tool_calls")
		return e, nil
	case byTool:
		e.Tools = s.withAnswer(s.View.Declarations())
	default:
		e.Tools = s.View.Declarations()
	}
	switch {
	case byTool && (forced || s.View.Len()+s.Request.ClientTools() == 0):
		choose(s.answerChoice())
	case forced:
		choose(`"none"`)
	case s.step > 0 && (s.Request.ToolChoice == "required" || s.Request.ToolChoice == "named"):
		choose(`"auto"`)
	}
	return e, nil
}
