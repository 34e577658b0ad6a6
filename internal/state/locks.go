package state

import (
	"context"
	"sync"
	"time"
)

// Locks lets one at a time of this process do what has a key. The zero value is ready for use by many goroutines at
// once. There are as many as are held or waited for.
type Locks struct {
	mu    sync.Mutex
	byKey map[string]*lock
}

type lock struct {
	turn  chan struct{} // full while it is held
	users int           // that hold it or wait for it; guarded by Locks.mu
}

// Lock waits until nobody else holds the key. Where ctx ends before, it returns its cause, and there is nothing to
// unlock.
func (l *Locks) Lock(ctx context.Context, key string) (unlock func(), err error) {
	k := l.enter(key)
	select {
	case k.turn <- struct{}{}:
		return func() {
			<-k.turn
			l.leave(key, k)
		}, nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, context.Cause(ctx)
	}
}

func (l *Locks) enter(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.byKey[key]
	if k == nil {
		k = &lock{turn: make(chan struct{}, 1)}
		if l.byKey == nil {
			l.byKey = map[string]*lock{}
		}
		l.byKey[key] = k
	}
	k.users++
	return k
}

func (l *Locks) leave(key string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.byKey, key)
	}
}

// Pause waits before what another process holds is looked at for the n-th time again, from 0: 50 ms at first, then
// longer, up to a second. Where ctx ends before, it returns its cause.
func Pause(ctx context.Context, n int) error {
	t := time.NewTimer(min(50*time.Millisecond<<min(n, 10), time.Second))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
