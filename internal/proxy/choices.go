package proxy

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/trace"
)

// choices are the runs of one request: one, or as many as n asks for, under one clock and budget.
type choices struct {
	c       *completion
	at      int // how many run at once
	runs    []*loop.Run
	streams []*stream // as many; empty for a reply in one piece
	results []*loop.Result
}

func (c *completion) newChoices(view *registry.View, limits budget.Limits, w *wire) *choices {
	all := &choices{c: c, at: limits.Parallel, results: make([]*loop.Result, c.req.N)}
	spent := &loop.Spent{}
	for i := range c.req.N {
		record := c.record
		if c.req.N > 1 {
			record = &trace.Run{ID: c.record.ID, Caller: c.record.Caller, Start: c.record.Start}
		}
		run := c.newRun(view, limits, record)
		run.Spent = spent
		if w != nil {
			st := w.choice(i)
			st.holds = st.holds || c.opts.Turns != nil && view.Taints()
			run.Stream = st
			all.streams = append(all.streams, st)
		}
		all.runs = append(all.runs, run)
	}
	return all
}

// run makes the runs, and gives what they came to together. The first that fails ends all of them with its error.
func (all *choices) run(ctx context.Context) (*loop.Result, error) {
	if len(all.runs) == 1 {
		err := all.one(ctx, 0)
		return all.results[0], err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	var failed error
	first := -1
	slots := make(chan struct{}, max(all.at, 1))
	var wg sync.WaitGroup
	var defect atomic.Pointer[error]
	for i := range all.runs {
		slots <- struct{}{}
		wg.Go(func() { // ends with its run
			defer func() { <-slots }()
			defer func() {
				if v := recover(); v != nil { // it would end the process, and not the request
					err := fmt.Errorf("%v\n%s", v, debug.Stack())
					defect.CompareAndSwap(nil, &err)
					cancel()
				}
			}()
			if err := all.one(ctx, i); err != nil {
				once.Do(func() { failed, first = err, i })
				cancel()
			}
		})
	}
	wg.Wait()
	if err := defect.Load(); err != nil {
		panic(*err)
	}
	sum := all.sum()
	if first >= 0 { // what the others came to then is no reason: they were ended
		all.c.record.Stop = all.runs[first].Record.Stop
	}
	return sum, failed
}

// one makes one run, and shows its answer.
func (all *choices) one(ctx context.Context, i int) error {
	var err error
	all.results[i], err = all.runs[i].Do(ctx)
	if err == nil && len(all.streams) > 0 {
		err = gone(all.streams[i].answer(ctx, all.results[i]))
	}
	return err
}

// sum puts the runs' results and records together.
func (all *choices) sum() *loop.Result {
	sum := &loop.Result{}
	record := all.c.record
	for i, result := range all.results {
		own := all.runs[i].Record
		for _, call := range own.Calls {
			call.Step += len(record.Steps)
			record.Calls = append(record.Calls, call)
		}
		record.Steps = append(record.Steps, own.Steps...)
		record.Notes = append(record.Notes, own.Notes...)
		record.Offered = own.Offered
		record.Cost += own.Cost
		record.Shortened += own.Shortened
		record.Lost += own.Lost
		if record.Tainted == "" {
			record.Tainted = own.Tainted
		}
		record.Approval = withApproval(record.Approval, own.Approval)
		if record.Stop == "" || record.Stop == string(loop.Completed) {
			record.Stop = own.Stop
		}
		if result == nil {
			continue
		}
		sum.Usage = chat.AddUsage(sum.Usage, result.Usage)
		sum.RanTools = sum.RanTools || result.RanTools
		sum.RanWrite = sum.RanWrite || result.RanWrite
		if sum.Header == nil {
			sum.Header = result.Header
		}
	}
	record.Usage, sum.Tokens = sum.Usage, chat.ReadTokens(sum.Usage)
	return sum
}
