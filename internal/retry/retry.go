// Package retry repeats what may succeed later: exponential back-off with jitter, never beyond the deadline of the
// context, and never sooner than the other side asked for. Whether something may be repeated at all is its caller's to
// say. Upstreams and tools share it.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy says how often and how fast. The first wait is about Base, each further one about twice the one before, none
// over Max by itself; each is spread by half its length, so that callers who failed together don't come back together.
type Policy struct {
	Attempts int           // in all; 1 or less: one
	Base     time.Duration // default 200ms
	Max      time.Duration // default 2s
}

const (
	defaultBase = 200 * time.Millisecond
	defaultMax  = 2 * time.Second
)

// Waits is how long all waits between the attempts are together, jitter and Retry-After aside.
func (p Policy) Waits() time.Duration {
	wait, most := p.Base, p.Max
	if wait <= 0 {
		wait = defaultBase
	}
	if most <= 0 {
		most = defaultMax
	}
	var total time.Duration
	for range p.Attempts - 1 {
		total += min(wait, most)
		wait *= 2
	}
	return total
}

// Do calls f until it succeeds, a failure is final, or the attempts or the time of ctx are used up. It gives what the
// last call gave. again says whether a failure may be tried again, and how long to wait at least; that wait may be over
// p.Max. attempt counts from 1.
//
// Do never sleeps past the deadline of ctx: where the wait would not end before it, the last failure is returned at
// once. Where ctx is canceled during a wait, the error wraps the cause and the last failure. Where ctx is done before
// the first attempt, f is not called.
func Do[T any](ctx context.Context, p Policy, again func(error) (bool, time.Duration), f func(ctx context.Context, attempt int) (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	last, failure := f(ctx, 1)
	if failure == nil { // the usual case, which costs nothing
		return last, nil
	}
	return goOn(ctx, p, again, f, last, failure)
}

// goOn is Do after a first call that failed.
func goOn[T any](ctx context.Context, p Policy, again func(error) (bool, time.Duration), f func(ctx context.Context, attempt int) (T, error), last T, failure error) (T, error) {
	final := false
	attempts := max(p.Attempts, 1)
	waits := newWaits(ctx, p)
	attempt := 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if attempt++; attempt > 1 {
			last, failure = f(ctx, attempt)
		}
		if failure == nil {
			return struct{}{}, nil
		}
		ok, after := again(failure)
		if !ok || attempt >= attempts {
			final = true
			return struct{}{}, backoff.Permanent(failure)
		}
		waits.atLeast = after
		return struct{}{}, failure
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0))
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return last, nil
	case !final && errors.Is(ctx.Err(), context.Canceled) && !errors.Is(failure, cause):
		return last, fmt.Errorf("%w: %w", cause, failure)
	}
	return last, failure
}

// waits is a backoff.BackOff that knows the deadline and what the other side asked for.
type waits struct {
	backoff.ExponentialBackOff
	ctx     context.Context
	atLeast time.Duration
}

func newWaits(ctx context.Context, p Policy) *waits {
	w := &waits{ctx: ctx, ExponentialBackOff: backoff.ExponentialBackOff{
		InitialInterval:     p.Base,
		RandomizationFactor: 0.5,
		Multiplier:          2,
		MaxInterval:         p.Max,
	}}
	if w.InitialInterval <= 0 {
		w.InitialInterval = defaultBase
	}
	if w.MaxInterval <= 0 {
		w.MaxInterval = defaultMax
	}
	w.InitialInterval = min(w.InitialInterval, w.MaxInterval)
	return w
}

// NextBackOff is the next wait, or backoff.Stop where it would not end before the deadline.
func (w *waits) NextBackOff() time.Duration {
	next := max(min(w.ExponentialBackOff.NextBackOff(), w.MaxInterval), w.atLeast)
	if deadline, ok := w.ctx.Deadline(); ok && time.Until(deadline) <= next {
		return backoff.Stop
	}
	return next
}
