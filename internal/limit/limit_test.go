package limit

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clock is a clock that stands still but for add.
type clock struct{ t time.Time }

func newClock() *clock { return &clock{time.Unix(1_700_000_000, 0)} }

func (c *clock) now() time.Time      { return c.t }
func (c *clock) add(d time.Duration) { c.t = c.t.Add(d) }

// take takes 1 and gives whether it was there.
func take(t *testing.T, m *Memory, perMinute int64) Level {
	t.Helper()
	l, err := m.Take(t.Context(), "k", perMinute, 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestARateComesBackEvenly(t *testing.T) {
	c := newClock()
	m := NewMemory(c.now)
	for i, want := range []Level{
		{OK: true, Remaining: 1, Reset: 30 * time.Second},
		{OK: true, Remaining: 0, Reset: time.Minute},
		{OK: false, Remaining: 0, Reset: time.Minute, Retry: 30 * time.Second},
		{OK: false, Remaining: 0, Reset: time.Minute, Retry: 30 * time.Second}, // a refusal costs nothing
	} {
		if got := take(t, m, 2); got != want {
			t.Errorf("take %d: %+v, want %+v", i, got, want)
		}
	}
	c.add(30*time.Second - time.Nanosecond)
	if got := take(t, m, 2); got.OK || got.Retry != time.Nanosecond {
		t.Errorf("a moment too early: %+v", got)
	}
	c.add(time.Nanosecond)
	if got := take(t, m, 2); !got.OK || got.Remaining != 0 {
		t.Errorf("at its time: %+v", got)
	}
	c.add(time.Hour)
	if got := take(t, m, 2); !got.OK || got.Remaining != 1 {
		t.Errorf("after an hour: %+v, want no more than a minute's worth", got)
	}
}

// Whatever the limit is, a minute's worth is exactly that, in floating point too.
func TestAMinuteIsWorthItsLimit(t *testing.T) {
	for _, limit := range []int64{1, 3, 7, 49, 600, 10_007, 100_000} {
		m := NewMemory(newClock().now)
		for i := range limit {
			if l := take(t, m, limit); !l.OK || l.Remaining != limit-i-1 {
				t.Fatalf("%d of %d: %+v", i+1, limit, l)
			}
		}
		if l := take(t, m, limit); l.OK || l.Retry <= 0 {
			t.Errorf("one more than %d: %+v", limit, l)
		}
	}
}

// In any time, no more is had than a minute's worth and what has come back in it.
func TestNoMoreIsHadThanComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		m := NewMemory(c.now)
		limit := rapid.Int64Range(1, 1000).Draw(rt, "limit")
		start, had := c.t, int64(0)
		for range rapid.IntRange(1, 200).Draw(rt, "requests") {
			c.add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(rt, "pause")))
			cost := rapid.Int64Range(1, limit).Draw(rt, "cost")
			l, err := m.Take(t.Context(), "k", limit, cost)
			if err != nil || l.OK != (l.Retry == 0) || l.Remaining < 0 || l.Remaining > limit {
				rt.Fatalf("Take() = %+v, %v", l, err)
			}
			if l.OK {
				had += cost
			}
		}
		if most := float64(limit) * (1 + float64(c.t.Sub(start))/float64(time.Minute)); float64(had) > most+1e-3 {
			rt.Errorf("had %d, want at most %f", had, most)
		}
	})
}

func TestWhatWasOverspentHasToComeBackFirst(t *testing.T) {
	c := newClock()
	m := NewMemory(c.now)
	spend := func(n int64) Level {
		l, err := m.Spend(t.Context(), "k", 60, n)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	look := func() Level {
		l, err := m.Take(t.Context(), "k", 60, 0)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := look(); !l.OK || l.Remaining != 60 || l != look() {
		t.Errorf("untouched: %+v", l)
	}
	if l := spend(59); l.Remaining != 1 || !look().OK {
		t.Errorf("one is left: %+v", l)
	}
	if l := spend(121); l.Remaining != 0 || l.Reset != 3*time.Minute {
		t.Errorf("overspent: %+v", l)
	}
	if l := look(); l.OK || l.Retry != 2*time.Minute+time.Second {
		t.Errorf("afterwards: %+v", l)
	}
	c.add(2*time.Minute + time.Second)
	if l := look(); !l.OK || l.Remaining != 1 {
		t.Errorf("once it came back: %+v", l)
	}
	if l := spend(1 << 62); l.Reset != minute+maxDebt {
		t.Errorf("an absurd count: %+v, want at most %s", l, minute+maxDebt)
	}
}

func TestWhatIsFullIsForgotten(t *testing.T) {
	c := newClock()
	m := NewMemory(c.now)
	for i := range 3 * sweepAt {
		if _, err := m.Take(t.Context(), fmt.Sprint(i), 60, 1); err != nil {
			t.Fatal(err)
		}
		c.add(time.Millisecond)
	}
	if n := len(m.full); n > sweepAt {
		t.Errorf("%d are remembered, want at most %d", n, sweepAt)
	}
}

func TestAdmitNamesTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config Config
		spends bool
		text   string
		retry  time.Duration
	}{
		{"requests", Config{RequestsPerMinute: 1}, false, "requests_per_minute (1): try again in 1m0s", time.Minute},
		{"tokens", Config{TokensPerMinute: 10}, true, "tokens_per_minute (10): try again in 6s", 6 * time.Second},
		{"tokens before requests", Config{RequestsPerMinute: 1, TokensPerMinute: 10}, true, "tokens_per_minute (10)", 6 * time.Second},
		{"who spends none needs none", Config{RequestsPerMinute: 1, TokensPerMinute: 10}, false, "requests_per_minute (1)", time.Minute},
		{"places before all", Config{RequestsPerMinute: 1, TokensPerMinute: 10, Concurrent: 1}, true, "concurrent allows (1): try again when one of them has ended", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := New(NewMemory(newClock().now))
			first, err := l.Admit(t.Context(), "web", tt.config, tt.spends)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Spend(t.Context(), Use{Tokens: 10}); err != nil {
				t.Fatal(err)
			}
			_, err = l.Admit(t.Context(), "web", tt.config, tt.spends)
			refused, ok := errors.AsType[*Refused](err)
			if !ok || !strings.Contains(refused.Error(), tt.text) || refused.Retry != tt.retry {
				t.Errorf("Admit() error = %+v, want %q and %s", err, tt.text, tt.retry)
			}
			if _, err := l.Admit(t.Context(), "app", tt.config, tt.spends); err != nil {
				t.Errorf("another key: %v", err)
			}
		})
	}
}

// A refusal by one limit must not cost anything of another, or a client that insists would never get in again.
func TestARefusalTakesNothing(t *testing.T) {
	c := newClock()
	l := New(NewMemory(c.now))
	config := Config{RequestsPerMinute: 5, TokensPerMinute: 60, Concurrent: 1}
	first, err := l.Admit(t.Context(), "web", config, true)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := l.Admit(t.Context(), "web", config, true); err == nil {
			t.Fatal("two at once")
		}
	}
	if err := first.Spend(t.Context(), Use{Tokens: 60}); err != nil {
		t.Fatal(err)
	}
	first.Leave()
	first.Leave()
	for range 20 {
		if _, err := l.Admit(t.Context(), "web", config, true); err == nil {
			t.Fatal("no tokens are left")
		}
	}
	c.add(time.Second)
	for range 4 { // of five requests
		g, err := l.Admit(t.Context(), "web", config, true)
		if err != nil {
			t.Fatal(err)
		}
		g.Leave()
	}
	if _, err := l.Admit(t.Context(), "web", config, true); err == nil {
		t.Error("a sixth request")
	}
}

func TestAKeyWithoutLimitsCountsNothing(t *testing.T) {
	m := NewMemory(time.Now)
	g, err := New(m).Admit(t.Context(), "web", Config{}, true)
	if g != nil || err != nil || g.Counts() || g.Spend(t.Context(), Use{Tokens: 5}) != nil || len(m.full) > 0 {
		t.Errorf("Admit() = %v, %v", g, err)
	}
	g.Leave()
}

func TestExactlyTheRightNumberGetsIn(t *testing.T) {
	for name, config := range map[string]Config{"requests": {RequestsPerMinute: 1}, "places": {Concurrent: 1}, "three": {RequestsPerMinute: 3, Concurrent: 50}} {
		t.Run(name, func(t *testing.T) {
			want := max(config.RequestsPerMinute, 1)
			m := NewMemory(newClock().now)
			l := New(m)
			var in atomic.Int64
			var wg, all sync.WaitGroup
			all.Add(50)
			for range 50 {
				wg.Go(func() {
					g, err := l.Admit(t.Context(), "web", config, true)
					all.Done()
					all.Wait() // who is in stays until all have asked
					if err == nil {
						in.Add(1)
						g.Leave()
					}
				})
			}
			wg.Wait()
			if got := in.Load(); got != want {
				t.Errorf("%d got in, want %d", got, want)
			}
			if len(m.places) > 0 {
				t.Errorf("places that nobody has are taken: %v", m.places)
			}
		})
	}
}
