package state

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLocksLetOneInAtATime(t *testing.T) {
	var l Locks
	var wg sync.WaitGroup
	inside, entries := map[string]int{}, 0
	var mu sync.Mutex
	for i := range 60 {
		key := []string{"a", "b", "c"}[i%3]
		wg.Go(func() {
			unlock, err := l.Lock(context.Background(), key)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			mu.Lock()
			inside[key]++
			entries++
			if inside[key] > 1 {
				t.Errorf("%d hold %s at once", inside[key], key)
			}
			mu.Unlock()
			time.Sleep(time.Microsecond)
			mu.Lock()
			inside[key]--
			mu.Unlock()
		})
	}
	wg.Wait()
	if entries != 60 || len(l.byKey) != 0 {
		t.Errorf("%d of 60 got in, and %d locks are left", entries, len(l.byKey))
	}
}

func TestLockIsWaitedForWithinTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		unlock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		late := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, late) {
			t.Errorf("Lock() = %v, want the cause", err)
		}
		unlock()
		again, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		again()
		if len(l.byKey) != 0 {
			t.Errorf("%d locks are left", len(l.byKey))
		}
	})
}

func TestPauseGrowsAndEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n, want := range map[int]time.Duration{0: 50 * time.Millisecond, 2: 200 * time.Millisecond, 5: time.Second, 1000: time.Second} {
			start := time.Now()
			if err := Pause(t.Context(), n); err != nil || time.Since(start) != want {
				t.Errorf("Pause(%d) = %v after %v, want %v", n, err, time.Since(start), want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Pause(ctx, 3); !errors.Is(err, context.Canceled) {
			t.Errorf("Pause() = %v, want canceled", err)
		}
	})
}
