package limit

import (
	"context"
	"time"
)

// OnError is what becomes of limits while the store that processes share can't be reached: `state.on_error`.
type OnError string

// The ways to do without the shared store.
const (
	FailOpen   OnError = "open"   // each process counts by itself
	FailClosed OnError = "closed" // nobody who has limits is let in
)

// Fallback counts in a shared store, and in this process while that can't be reached.
type Fallback struct{ shared, own Store }

// NewFallback makes a Fallback to own.
func NewFallback(shared, own Store) *Fallback { return &Fallback{shared, own} }

// Take is as Memory's.
func (f *Fallback) Take(ctx context.Context, name string, perMinute, cost int64) (Level, error) {
	l, err := f.shared.Take(ctx, name, perMinute, cost)
	if err != nil && ctx.Err() == nil {
		return f.own.Take(ctx, name, perMinute, cost)
	}
	return l, err
}

// Spend is as Memory's.
func (f *Fallback) Spend(ctx context.Context, name string, perMinute, cost int64) (Level, error) {
	l, err := f.shared.Spend(ctx, name, perMinute, cost)
	if err != nil && ctx.Err() == nil {
		return f.own.Spend(ctx, name, perMinute, cost)
	}
	return l, err
}

// Enter is as Memory's.
func (f *Fallback) Enter(ctx context.Context, name string, most int64) (leave func(), ok bool, err error) {
	leave, ok, err = f.shared.Enter(ctx, name, most)
	if err != nil && ctx.Err() == nil {
		return f.own.Enter(ctx, name, most)
	}
	return leave, ok, err
}

// Today is as Memory's.
func (f *Fallback) Today(ctx context.Context, name string, add int64) (sum int64, left time.Duration, err error) {
	sum, left, err = f.shared.Today(ctx, name, add)
	if err != nil && ctx.Err() == nil {
		return f.own.Today(ctx, name, add)
	}
	return sum, left, err
}
