package registry

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
)

const cached = "a: {description: A., parameters: {q: string}, cache: 80ms, fake: x}"

// counted is a set with a cached tool, whose calls are counted and end when release is closed.
func counted(t *testing.T, release <-chan struct{}, err error) (*Set, func() int) {
	t.Helper()
	var mu sync.Mutex
	calls := 0
	s := newSet(t, cached, func(ctx context.Context, c tool.Call) (tool.Result, error) {
		mu.Lock()
		calls++
		mu.Unlock()
		select {
		case <-release:
			return tool.Result{Text: c.Args["q"].(string)}, err
		case <-ctx.Done():
			return tool.Result{}, &tool.Error{Class: tool.Failed, Err: ctx.Err()}
		}
	})
	t.Cleanup(s.Close)
	return s, func() int {
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
}

func ask(ctx context.Context, s *Set, caller, q string) (Observation, error) {
	v := s.View(nil, map[string]any{"id": caller})
	args, _ := json.Marshal(map[string]string{"q": q})
	return v.Run(ctx, v.Prepare("a", args), Scope{Caller: caller})
}

func TestCacheServesTheSameCallerForAWhile(t *testing.T) {
	open := make(chan struct{})
	close(open)
	s, calls := counted(t, open, nil)
	for i, tt := range []struct {
		caller, q string
		wait      time.Duration
		calls     int
	}{
		{"web", "x", 0, 1}, {"web", "x", 0, 1}, {"web", "y", 0, 2}, {"app", "x", 0, 3}, {"web", "x", 120 * time.Millisecond, 4},
	} {
		time.Sleep(tt.wait)
		got, err := ask(t.Context(), s, tt.caller, tt.q)
		if err != nil || got.Text != tt.q || calls() != tt.calls {
			t.Errorf("call %d: %q, %v after %d calls, want %q after %d", i, got.Text, err, calls(), tt.q, tt.calls)
		}
	}
}

func TestCacheKeepsNoFailure(t *testing.T) {
	open := make(chan struct{})
	close(open)
	s, calls := counted(t, open, &tool.Error{Class: tool.Business})
	for range 2 {
		if got, err := ask(t.Context(), s, "web", "x"); err != nil || got.OK() {
			t.Errorf("Run() = %+v, %v", got, err)
		}
	}
	if calls() != 2 {
		t.Errorf("%d calls, want 2", calls())
	}
}

func TestEqualCallsUnderWayShareOne(t *testing.T) {
	release := make(chan struct{})
	s, calls := counted(t, release, nil)
	leaving, leave := context.WithCancelCause(t.Context())
	left := errors.New("left")
	results := make(chan error, 4)
	for i := range 4 {
		ctx := t.Context()
		if i == 0 {
			ctx = leaving // the first one, whose call it is, goes while others wait
		}
		go func() {
			_, err := ask(ctx, s, "web", "x")
			results <- err
		}()
		for s.waiting() != i+1 {
			time.Sleep(time.Millisecond)
		}
	}
	leave(left)
	if err := <-results; !errors.Is(err, left) {
		t.Errorf("who left got %v", err)
	}
	close(release)
	for range 3 {
		if err := <-results; err != nil {
			t.Errorf("who stayed got %v", err)
		}
	}
	if calls() != 1 {
		t.Errorf("%d calls, want one", calls())
	}
}

// waiting is how many wait for calls under way.
func (s *Set) waiting() int {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	n := 0
	for _, f := range s.cache.flights {
		n += f.waiting
	}
	return n
}

func TestTheLastOneToLeaveEndsTheCall(t *testing.T) {
	s, calls := counted(t, nil, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, s, "web", "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run() error = %v", err)
	}
	if calls() != 1 || s.waiting() != 0 {
		t.Errorf("%d calls, %d waiting", calls(), s.waiting())
	}
}
