package registry

import (
	"context"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/toolgate/toolgate/internal/tool"
)

// maxCache bounds the results that are kept, in bytes with their keys.
const maxCache = 64 << 20

// cache keeps good results of reads for a while, and lets equal calls under way share one.
type cache struct {
	kept   *otter.Cache[string, kept]
	shared *sharedResults // nil where no other process has any

	mu      sync.Mutex
	flights map[string]*flight
}

type kept struct {
	result tool.Result
	ttl    time.Duration
}

func newCache(shared *sharedResults) *cache {
	return &cache{shared: shared, flights: map[string]*flight{}, kept: otter.Must(&otter.Options[string, kept]{
		MaximumWeight:    maxCache,
		Weigher:          func(key string, v kept) uint32 { return uint32(min(len(key)+len(v.result.Text)+64, 1<<30)) },
		ExpiryCalculator: otter.ExpiryCreatingFunc(func(e otter.Entry[string, kept]) time.Duration { return e.Value.ttl }),
	})}
}

func (c *cache) close() { c.kept.StopAllGoroutines() }

// flight is a call under way, and how many wait for it. Its own context ends when nobody does any more.
type flight struct {
	cancel  context.CancelFunc
	waiting int
	done    chan struct{} // closed when result and err are there
	result  tool.Result
	err     error
}

// do gives the result kept under key, or that of the call under way, or makes the call. A caller whose ctx ends leaves
// the call to those that still wait.
func (c *cache) do(ctx context.Context, key string, ttl time.Duration, call func(context.Context) (tool.Result, error)) (tool.Result, error) {
	if v, ok := c.kept.GetIfPresent(key); ok {
		return v.result, nil
	}
	f := c.join(ctx, key, ttl, call)
	select {
	case <-f.done:
		return f.result, f.err
	case <-ctx.Done():
		c.leave(key, f)
		return tool.Result{}, context.Cause(ctx)
	}
}

func (c *cache) join(ctx context.Context, key string, ttl time.Duration, call func(context.Context) (tool.Result, error)) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[key]; f != nil {
		f.waiting++
		return f
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{cancel: cancel, waiting: 1, done: make(chan struct{})}
	c.flights[key] = f
	go func() { // ends with the call, which ends with own, which ends when the last one leaves
		defer cancel()
		f.result, f.err = c.fetch(own, key, ttl, call)
		c.mu.Lock()
		if c.flights[key] == f {
			delete(c.flights, key)
		}
		c.mu.Unlock()
		close(f.done)
	}()
	return f
}

// fetch is what another process has of a call, or the call; what it brings is kept.
func (c *cache) fetch(ctx context.Context, key string, ttl time.Duration, call func(context.Context) (tool.Result, error)) (tool.Result, error) {
	if result, left, ok := c.shared.get(ctx, key); ok {
		c.kept.Set(key, kept{result, min(left, ttl)})
		return result, nil
	}
	result, err := call(ctx)
	if err == nil {
		c.kept.Set(key, kept{result, ttl})
		c.shared.put(ctx, key, result, ttl)
	}
	return result, err
}

// leave is for one who waits no longer. The last one ends the call and waits for its end.
func (c *cache) leave(key string, f *flight) {
	c.mu.Lock()
	f.waiting--
	last := f.waiting == 0
	if last && c.flights[key] == f {
		delete(c.flights, key) // who comes now begins a call of its own
	}
	c.mu.Unlock()
	if last {
		f.cancel()
		<-f.done
	}
}
