package loop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
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

// alone says whether a call waits for all before it and holds those after it.
func (it *item) alone() bool {
	return it.answer || it.Tool.Effect == tool.Write || it.Tool.Ending != tool.NoEnding || it.Tool.Confirm() != registry.ConfirmNone
}

// execute runs what may run, in order: neighbouring reads side by side, writes and final calls alone. It gives the
// final call that ended the turn, nil without one.
func (s *state) execute(ctx context.Context, all items) (*item, error) {
	reads, cancel := s.deadline(ctx)
	defer cancel()
	// A write that has begun ends as it would have, though the client be gone: nobody could tell what became of it.
	writes, cancelWrites := s.deadline(context.WithoutCancel(ctx))
	defer cancelWrites()
	defer func() { s.taint(ctx, all) }() // after all of the turn's calls, which were written before any result was there
	for i := 0; i < len(all.list); {
		batch := nextBatch(all.list[i:])
		i += batch.skip
		if len(batch.items) == 0 {
			continue
		}
		it := batch.items[0]
		if it.answer { // it costs no time
			it.state = ran
			return it, nil
		}
		if ctx.Err() != nil || reads.Err() != nil {
			return nil, s.interrupted(ctx, all, it)
		}
		if err := s.confirm(reads, it); err != nil {
			it.stop = err
			return nil, s.interrupted(ctx, all, it)
		}
		switch it.state {
		case waitsForApproval:
			if all.client > 0 { // the client gets its own calls, and the gateway's have results of some kind
				continue
			}
			return it, nil
		case refused:
			continue
		case waiting, ran:
		}
		s.runBatch(reads, writes, batch.items)
		for _, it := range batch.items {
			if it.stop != nil {
				return nil, s.interrupted(ctx, all, it)
			}
		}
		if it.Tool.Ending != tool.NoEnding && it.seen.OK() {
			return it, nil
		}
	}
	return nil, nil
}

// deadline is ctx with the end of the tools' time: that of the run, or earlier where some is kept for the answer.
func (s *state) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Limits.Reserve > 0 {
		return context.WithDeadlineCause(ctx, s.end.Add(-s.Limits.Reserve), errReserve)
	}
	return context.WithDeadlineCause(ctx, s.end, errTime)
}

type batch struct {
	items []*item // that run side by side
	skip  int     // how many places of the list it covers
}

// nextBatch is what can run next: neighbouring reads, or one call alone. Calls that do not run stand in nobody's way.
func nextBatch(list []*item) batch {
	b := batch{}
	for _, it := range list {
		if it.client || it.state != waiting {
			b.skip++
			continue
		}
		if it.alone() && len(b.items) > 0 {
			return b
		}
		b.items = append(b.items, it)
		b.skip++
		if it.alone() {
			return b
		}
	}
	return b
}

// runBatch runs calls side by side, at most max_parallel at once, begun in order, and waits for all of them.
func (s *state) runBatch(reads, writes context.Context, list []*item) {
	for _, it := range list {
		s.result.RanTools = true
		s.result.RanWrite = s.result.RanWrite || it.Tool.Effect == tool.Write
	}
	if s.Stream != nil {
		for _, it := range list {
			s.Stream.Started(it.Name)
		}
		s.Stream.Wait() // it shows while they run
	}
	if len(list) == 1 {
		ctx := reads
		if list[0].Tool.Effect == tool.Write {
			ctx = writes
		}
		s.runOne(ctx, list[0], s.attempt(list[0]))
		return
	}
	slots := make(chan struct{}, s.Limits.Parallel)
	var wg sync.WaitGroup
	var defect atomic.Pointer[error]
	for _, it := range list {
		slots <- struct{}{}
		n := s.attempt(it)
		wg.Go(func() { // ends with its call, which ends with ctx
			defer func() { <-slots }()
			defer func() {
				if v := recover(); v != nil { // it would end the process, and not the request
					err := fmt.Errorf("%v\n%s", v, debug.Stack())
					defect.CompareAndSwap(nil, &err)
				}
			}()
			s.runOne(reads, it, n)
		})
	}
	wg.Wait()
	if err := defect.Load(); err != nil {
		panic(*err)
	}
}

// attempt counts which of the equal calls of the run this one is.
func (s *state) attempt(it *item) int {
	key := it.Name + "\x00" + it.Canonical
	s.writes[key]++
	return s.writes[key]
}

func (s *state) runOne(ctx context.Context, it *item, attempt int) {
	it.start = s.Now()
	it.seen, it.stop = s.View.Run(ctx, it.Prepared, s.scope(it, attempt))
	it.took = s.Now().Sub(it.start)
	it.state = ran
}

// scope is the run, for a call.
func (s *state) scope(it *item, attempt int) registry.Scope {
	scope := registry.Scope{RunID: s.Record.ID, Key: s.Key, CallID: it.id, Caller: s.Record.Caller, Attempt: attempt, Headers: s.Client, Conversation: s.conversation, Tainted: s.tainted()}
	if scope.Key == "" {
		scope.Key = s.Record.ID
	}
	if it.Tool.Confirm() == registry.ConfirmUser {
		scope.Said = s.clientMessages().said()
	}
	return scope
}

// conversation is the run's messages so far, as a JSON list. Nothing is added while calls are under way.
func (s *state) conversation() json.RawMessage {
	messages := bytes.TrimSpace(s.messages())
	list := append([]byte{}, messages[:len(messages)-1]...)
	for _, m := range s.after {
		list = append(append(list, ','), m...)
	}
	return append(list, ']')
}

// interrupted deals with the end of the tools' time while it was at work or about to be. With time kept for an answer
// the model reads of it, and the run goes on to its last step.
func (s *state) interrupted(ctx context.Context, all items, it *item) error {
	if cause := context.Cause(ctx); cause == nil && (it.stop == nil || errors.Is(it.stop, errReserve)) {
		s.limit = TimedOut
		for _, rest := range all.list {
			if !rest.client && (rest.state == waiting || rest.stop != nil) {
				rest.refuse(s.View.Refuse(registry.Interrupted, "interrupted: the time for tools is used up; answer with what you have"))
			}
		}
		return nil
	} else if cause == nil || errors.Is(cause, errTime) {
		s.result.Stop = TimedOut
		it.seen = s.View.Refuse(registry.Interrupted, "interrupted")
		return &Error{Kind: Timeout, Text: fmt.Sprintf("tool '%s' interrupted: the time budget ran out", it.Name), Err: it.stop}
	}
	s.result.Stop = Canceled
	return &Error{Kind: Gone, Text: "the client left", Err: context.Cause(ctx)}
}

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
