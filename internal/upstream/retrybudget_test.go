package upstream

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func take(b *retryBudget) (n int) {
	for b.retry() {
		n++
	}
	return n
}

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRetryBudget(0.2)
		if n := take(b); n != 10 {
			t.Errorf("%d retries at the start, want the reserve of 10", n)
		}
		for range 50 {
			b.request()
		}
		if n := take(b); n != 10 {
			t.Errorf("%d retries after 50 requests, want a fifth of them", n)
		}
		time.Sleep(3 * time.Second)
		if n := take(b); n != 3 {
			t.Errorf("%d retries after three quiet seconds, want 3", n)
		}
		time.Sleep(time.Hour)
		if n := take(b); n != 10 {
			t.Errorf("%d retries after a quiet hour, want the reserve", n)
		}
		for range 100_000 {
			b.request()
		}
		if n := take(b); n != 100 {
			t.Errorf("%d retries after a busy day, want the bound of 100", n)
		}
	})
}

// Whatever happens, no more is retried than the share, the reserve, and one a second.
func TestRetryBudgetBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 3).Draw(t, "share")
		steps := rapid.SliceOfN(rapid.IntRange(0, 2), 0, 300).Draw(t, "steps")
		b := newRetryBudget(share)
		requests, retries, seconds := 0, 0, 0
		for _, step := range steps {
			switch step {
			case 0:
				b.request()
				requests++
			case 1:
				if b.retry() {
					retries++
				}
			case 2:
				b.at = b.at.Add(-time.Second) // as if one had passed
				seconds++
			}
		}
		if most := share*float64(requests) + budgetReserve + float64(seconds) + 1; float64(retries) > most {
			t.Fatalf("%d retries of %d requests in %d seconds, want at most %f", retries, requests, seconds, most)
		}
	})
}

func TestAskRetriesWithinItsBudget(t *testing.T) {
	s, n := script(t, status(503, `{"error":{"message":"down"}}`))
	u := client(t, s.URL, "retry: {attempts: 3, base: 1ms, max: 1ms, budget: 0}\nbreaker: {failures: 1000}\n")
	next, _ := script(t, good)
	down := NewRoutes(NewRoute(u, "", 0))
	start := time.Now()
	for range 8 {
		_, _ = down.Ask(t.Context(), ask(t, plain))
	}
	if got := n.Load(); got < 18 || float64(got) > 18+time.Since(start).Seconds() {
		t.Errorf("%d attempts of 8 requests, want 8 and the reserve of 10", got)
	}
	take(u.budget)
	n.Store(18)
	_, err := down.Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Status != 503 || e.Message != "down" || n.Load() != 19 {
		t.Errorf("Ask() error = %v after %d attempts, want the first failure at once", err, n.Load())
	}
	take(u.budget)
	both := NewRoutes(NewRoute(u, "", 0), NewRoute(client(t, next.URL, ""), "", 0))
	if _, err := both.Ask(t.Context(), ask(t, plain)); err != nil || n.Load() != 20 {
		t.Errorf("Ask() error = %v after %d attempts, want the next route's answer", err, n.Load())
	}
}
