package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool"
)

// alone says whether a call waits for all before it and holds those after it.
func (it *item) alone() bool {
	return it.answer || it.Tool.Effect == tool.Write || it.Tool.Ending != tool.NoEnding || it.Tool.Confirm() != registry.ConfirmNone
}

// execute runs what may run, in order: neighbouring reads side by side, writes and final calls alone. It gives the
// final call that ended the turn, nil without one.
func (s *state) execute(ctx context.Context, all items) (*item, error) {
	reads, cancel := s.toolTime(ctx)
	defer cancel()
	writes := reads
	if all.write() { // one that has begun ends as it would have, though the client be gone: nobody could tell what became of it
		whole, cancelWhole := context.WithDeadlineCause(context.WithoutCancel(ctx), s.end, errTime)
		defer cancelWhole()
		var cancelWrites context.CancelFunc
		writes, cancelWrites = s.toolTime(whole)
		defer cancelWrites()
	}
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

// write says whether a call that may run is a write.
func (all items) write() bool {
	return slices.ContainsFunc(all.list, func(it *item) bool { return it.Tool != nil && it.Tool.Effect == tool.Write })
}

// toolTime is ctx, which ends with the run's time, with the end of the tools': earlier where some is kept for the answer.
func (s *state) toolTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Limits.Reserve > 0 {
		return context.WithDeadlineCause(ctx, s.end.Add(-s.Limits.Reserve), errReserve)
	}
	return ctx, func() {}
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
