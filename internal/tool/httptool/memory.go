package httptool

import (
	"context"
	"errors"
	"runtime/metrics"
	"time"
)

// The bounds of a program's memory. gojq has none of its own, so a program that runs on is watched from outside: where
// the heap grows by more than maxGrowth while it runs, it ends. That is coarse: others
// use the heap too, and one step may double a text. It is meant for programs that would take all memory there is.
const (
	watchEvery = 20 * time.Millisecond
	maxGrowth  = 512 << 20
)

var errMemory = errors.New("the program takes too much memory")

// guarded is a context that ends when the heap grows too much. One that is stopped before its first look, as that of
// nearly every program, costs a timer alone.
func guarded(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var start uint64
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(watchEvery, func() { // ends with cancel
		<-ready
		now := heap()
		switch {
		case ctx.Err() != nil:
			return
		case start == 0:
			start = now
		case now > start+maxGrowth:
			cancel(errMemory)
			return
		}
		timer.Reset(watchEvery)
	})
	close(ready)
	return ctx, func() {
		cancel(nil)
		timer.Stop()
	}
}

// heap is the bytes that objects on the heap take, those not yet swept among them.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
