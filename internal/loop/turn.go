package loop

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/prompted"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/trace"
)

// item is one call of a turn.
type item struct {
	registry.Prepared
	call   chat.Call
	id     string // unique in the conversation
	client bool   // of the client's own tools
	answer bool   // it is the answer, as the client's schema wants it
	seen   registry.Observation
	start  time.Time
	took   time.Duration
	state  itemState
	stop   error // the cause, where the run's clock interrupted it
}

type itemState int

const (
	waiting itemState = iota
	ran
	refused // with an observation, without being run
	waitsForApproval
)

type items struct {
	list   []*item
	client int   // how many are the client's
	answer *item // the call that is the answer; one that fits, where there are several
}

// sort reads the calls of a turn and tells the client's from the gateway's.
func (s *state) sort(turn *chat.Turn) items {
	all := items{}
	for i, c := range turn.Calls {
		it := &item{call: c}
		name := registry.NormalizeName(c.Name, s.Request.Declares)
		if it.client = s.Request.Declares(name); it.client {
			all.client++
			it.Prepared = registry.Prepared{Name: name, Echo: argumentsText(c.Arguments)}
		} else {
			it.Prepared = s.View.Prepare(c.Name, c.Arguments)
		}
		switch {
		case it.client:
		case s.byTool && registry.NormalizeName(c.Name, func(n string) bool { return n == s.answer }) == s.answer:
			it.answer, it.Name = true, s.answer
			s.readAnswer(it)
			if s.Prompt && i > all.client { // written before any result was there
				it.refuse(s.View.Refuse(registry.Skipped, "not taken, as it was given before the results of the other calls: call "+s.answer+" again once you have read them"))
			}
			if all.answer == nil || all.answer.state == refused {
				all.answer = it
			}
		case s.isUnreadable(c):
			it.refuse(s.View.Refuse(registry.InvalidArguments, unreadable))
		}
		it.id = s.uniqueID(c.ID, i, it.Name+"\x00"+it.Canonical)
		all.list = append(all.list, it)
	}
	return all
}

// argumentsText is the arguments of a client's call as the string that SDKs want, whatever came.
func argumentsText(raw json.RawMessage) string {
	switch v := gjson.ParseBytes(raw); v.Type {
	case gjson.String:
		return v.Str
	case gjson.Null:
		return "{}"
	default:
		return v.Raw
	}
}

// idAlphabet and idLength are the strictest provider's rule, Mistral's: nine letters and digits.
const (
	idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	idLength   = 9
)

// uniqueID is the provider's id, or where it is missing or taken one of the gateway's. Equal runs make equal ids, so
// that their requests are equal too.
func (s *state) uniqueID(id string, index int, what string) string {
	if s.ids == nil {
		s.ids = chat.CallIDs(s.messages())
	}
	for n := 0; id == "" || s.ids[id]; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d.%d.%d.%s", s.step, index, n, what))
		made := make([]byte, idLength)
		for i := range made {
			made[i] = idAlphabet[int(sum[i])%len(idAlphabet)]
		}
		id = string(made)
	}
	s.ids[id] = true
	return id
}

// run makes the calls of a turn that are the gateway's, and says whether the model is to be asked again.
func (s *state) run(ctx context.Context, turn *chat.Turn, all items) (bool, error) {
	if s.Limits.OnExhausted != budget.Answer && s.step >= s.Limits.Steps {
		if all.answer != nil {
			return false, s.lastAnswer(all)
		}
		s.record(all)
		return false, s.ends(MaxSteps)
	}
	limit := s.admit(all)
	tellRefused(ctx, all)
	if limit != "" && s.Limits.OnExhausted != budget.Answer {
		s.limit = limit
		if all.answer != nil {
			return false, s.lastAnswer(all)
		}
		s.record(all)
		return false, s.ends(limit)
	}
	s.limit = limit
	final, err := s.execute(ctx, all)
	if err == nil && final != nil && final.state != waitsForApproval && !s.fits(final) {
		for _, it := range all.list {
			if it.state == waiting {
				it.refuse(s.View.Refuse(registry.Skipped, "not run, as the call before it was meant to end the conversation; call it again if it is needed"))
			}
		}
		final = nil
	}
	s.record(all)
	if err != nil {
		return false, err
	}
	switch {
	case final != nil && final.state == waitsForApproval:
		s.await(final, turn, all)
		return false, nil
	case final != nil:
		s.finish(final, turn, all)
		return false, nil
	}
	s.hide()
	return true, s.remember(turn, all)
}

// finish ends the run with the result of a final tool.
func (s *state) finish(final *item, turn *chat.Turn, all items) {
	s.result.Stop, s.result.Finish = Final, chat.FinishStop
	if !final.answer && final.Tool.Ending == tool.Handoff {
		s.result.Stop = Handoff
	}
	if s.Turns != nil && s.Memory {
		s.result.Hold = s.hold(s.withFinal(turn, all))
	}
	switch {
	case !final.seen.Empty:
		s.hide()
		s.result.Content = &final.seen.Text
	case turn.Text == "":
		s.result.Content = &s.lastText
	}
}

// admit decides which calls may run, and gives the limit that they reach, "" for none. Every call counts, whatever
// becomes of it, so that a model that repeats a bad one reaches an end too.
func (s *state) admit(all items) Stop {
	limit := s.spent()
	for _, it := range all.list {
		if it.client || it.answer {
			continue
		}
		key := it.Name + "\x00" + it.Canonical
		switch {
		case limit == MaxTokens || limit == MaxCost:
			it.refuse(s.View.Refuse(registry.LimitReached, "the run's budget is used up; answer with what you have"))
			continue
		case !s.Spent.call(s.Limits.ToolCalls):
			limit = MaxToolCalls
			it.refuse(s.View.Refuse(registry.LimitReached, fmt.Sprintf("the limit of %d tool calls is reached; answer with what you have", s.Limits.ToolCalls)))
			continue
		}
		s.repeats[key]++
		switch {
		case s.repeats[key] > s.Limits.Repeats:
			if limit == "" {
				limit = RepeatedCalls
			}
			it.refuse(s.View.Refuse(registry.RepeatedCall, it.Name+" has been called with these arguments before; calling it again does not change its result"))
		case it.Refusal != nil && it.state == waiting:
			it.refuse(*it.Refusal)
		}
	}
	return limit
}

// tellRefused notes the calls that are not to run in the request's span.
func tellRefused(ctx context.Context, all items) {
	at := span.From(ctx)
	if !at.Recording() {
		return
	}
	for _, it := range all.list {
		if it.state == refused {
			at.Event("toolgate.call_refused", it.Name, it.seen.Class)
		}
	}
}

// spent is the limit that tokens or cost have reached.
func (s *state) spent() Stop { return s.Spent.reached(s.Limits) }

func (it *item) refuse(o registry.Observation) { it.seen, it.state = o, refused }

// record adds the gateway's calls of a turn to the trace and the metrics.
func (s *state) record(all items) {
	for _, it := range all.list {
		if it.client {
			continue
		}
		c := trace.Call{Step: s.step, Name: it.Name, Took: it.took, Outcome: trace.Skipped}
		if !it.start.IsZero() {
			c.Start = it.start.Sub(s.Record.Start)
		}
		switch {
		case it.stop != nil && it.state == ran:
			c.Outcome = string(registry.Interrupted)
		case it.state != waiting && it.seen.OK():
			c.Outcome = trace.OK
		case it.state != waiting:
			c.Outcome = string(it.seen.Code)
		}
		if s.Content {
			c.Arguments, c.Result = it.Echo, it.seen.Text
		}
		s.Record.Calls = append(s.Record.Calls, c)
		if it.answer { // it is no tool of the registry's
			continue
		}
		seen := it.seen
		if it.state == waiting || it.stop != nil && it.state == ran {
			seen.Class = c.Outcome
		}
		s.View.Count(it.Name, seen)
	}
}

// remember puts a turn and its results behind the conversation.
func (s *state) remember(turn *chat.Turn, all items) error {
	if s.Prompt {
		return s.rememberText(turn, all)
	}
	mends := make([]chat.Mend, len(all.list))
	for i, it := range all.list {
		mends[i] = chat.Mend{ID: it.id, Name: it.Name, Arguments: it.Echo}
	}
	echo, err := turn.Echo(mends)
	if err != nil {
		return s.notPutBack(err)
	}
	s.after = append(s.after, echo)
	for _, it := range all.list {
		s.addResult(resultAt{id: it.id, results: []result{s.resultOf(it)}})
	}
	return nil
}

// notPutBack is the error of a run whose conversation can't go on.
func (s *state) notPutBack(err error) error {
	s.result.Stop = Failed
	return &Error{Kind: Internal, Text: "the model's turn could not be put back", Err: err}
}

// tell puts a turn without calls behind the conversation, and what is wrong with it.
func (s *state) tell(turn *chat.Turn, wrong string) error {
	echo, err := turn.Echo(nil)
	if s.Prompt {
		echo, err = prompted.Turn(turn.Message, s.said)
	}
	if err != nil {
		return s.notPutBack(err)
	}
	s.hide()
	s.after = append(s.after, echo, chat.Message("user", wrong))
	return nil
}

// handBack ends a run whose turn calls tools of the client: the gateway's calls of the turn are run, then the client
// gets its own.
func (s *state) handBack(ctx context.Context, all items, forced bool) error {
	s.result.Stop, s.result.Finish = ClientTools, chat.FinishToolCalls
	if forced {
		s.record(all)
	} else if len(all.list) > all.client {
		s.admit(all)
		tellRefused(ctx, all)
		_, err := s.execute(ctx, all)
		s.record(all)
		if err != nil {
			return err
		}
		s.result.Stop = ClientTools
	}
	for _, it := range all.list {
		if !it.client {
			continue
		}
		raw, err := it.call.As(chat.Mend{ID: it.id, Name: it.Name, Arguments: it.Echo})
		if err != nil {
			s.result.Stop = Failed
			return &Error{Kind: Internal, Text: "a call of a client's tool could not be written", Err: err}
		}
		s.result.Calls = append(s.result.Calls, raw)
	}
	s.holdTurn(ctx, s.result.Turn, all, slices.Concat([]byte(`{"tool_calls":`), chat.List(s.result.Calls), []byte("}")))
	s.Logger.Debug("turn handed to the client", slog.String("run_id", s.Record.ID), slog.Int("calls", all.client))
	return nil
}
