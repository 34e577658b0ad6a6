package limit

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/state/redistest"
)

// shared is a store of limits in a test's own server.
func shared(t *testing.T, s *redistest.Server) *Redis {
	t.Helper()
	r, err := state.NewRedis(state.RedisOptions{
		URL: s.URL, Prefix: "test:", Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), OnBreaker: func(string, breaker.State) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	store := NewRedis(r, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		store.Close()
		_ = r.Close()
	})
	return store
}

// near says whether a time is what it should be, but for what the test took.
func near(got, want time.Duration) bool { return got <= want && got > want-10*time.Second }

func TestRatesOfSeveralProcessesAreOne(t *testing.T) {
	s := redistest.Start(t)
	stores := []*Redis{shared(t, s), shared(t, s)}
	for i := range int64(4) {
		l, err := stores[i%2].Take(t.Context(), "k", 4, 1)
		if err != nil || !l.OK || l.Remaining != 3-i || !near(l.Reset, time.Duration(i+1)*15*time.Second) || l.Retry != 0 {
			t.Errorf("take %d: %+v, %v", i, l, err)
		}
	}
	l, err := stores[0].Take(t.Context(), "k", 4, 1)
	if err != nil || l.OK || l.Remaining != 0 || !near(l.Retry, 15*time.Second) {
		t.Errorf("one more: %+v, %v", l, err)
	}
	if l, err := stores[0].Take(t.Context(), "k", 4, 0); err != nil || l.OK {
		t.Errorf("a look: %+v, %v", l, err)
	}
	if l, err := stores[1].Spend(t.Context(), "k", 4, 4); err != nil || !l.OK || l.Remaining != 0 || !near(l.Reset, 2*time.Minute) {
		t.Errorf("a debt: %+v, %v", l, err)
	}
	if l, err := stores[0].Spend(t.Context(), "k", 4, 1<<60); err != nil || !near(l.Reset, minute+maxDebt) {
		t.Errorf("an absurd debt: %+v, %v", l, err)
	}
	if l, err := stores[0].Take(t.Context(), "other", 4, 0); err != nil || !l.OK || l.Remaining != 4 {
		t.Errorf("another: %+v, %v", l, err)
	}
}

// A minute's worth is exactly that for the server too, but for what came back while the test ran.
func TestAMinuteIsWorthItsLimitInRedis(t *testing.T) {
	store := shared(t, redistest.Start(t))
	for _, limit := range []int64{1, 3, 7, 49, 600} {
		name, begin := time.Now().String(), time.Now()
		for i := range limit {
			if l, err := store.Take(t.Context(), name, limit, 1); err != nil || !l.OK {
				t.Fatalf("%d of %d: %+v, %v", i+1, limit, l, err)
			}
		}
		l, err := store.Take(t.Context(), name, limit, 1)
		if err != nil || l.OK && time.Since(begin) < minute/time.Duration(limit) {
			t.Errorf("one more than %d: %+v, %v", limit, l, err)
		}
	}
}

func TestExactlyTheRightNumberGetsInByRedis(t *testing.T) {
	s := redistest.Start(t)
	stores := []*Redis{shared(t, s), shared(t, s)}
	for name, config := range map[string]Config{"requests": {RequestsPerMinute: 1}, "places": {Concurrent: 3}} {
		t.Run(name, func(t *testing.T) {
			var in atomic.Int64
			var wg sync.WaitGroup
			for i := range 30 {
				wg.Go(func() {
					_, err := New(stores[i%2]).Admit(context.Background(), name, config, true)
					if err == nil {
						in.Add(1)
					} else if _, ok := errors.AsType[*Refused](err); !ok {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if want := max(config.RequestsPerMinute, config.Concurrent); in.Load() != want {
				t.Errorf("%d got in, want %d", in.Load(), want)
			}
		})
	}
}

// A place is given back, is held for as long as its process lives, and is free a while after that died.
func TestPlacesInRedis(t *testing.T) {
	s := redistest.Start(t)
	store := shared(t, s)
	leave, ok, err := store.Enter(t.Context(), "k", 1)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, ok, err := store.Enter(t.Context(), "k", 1); ok || err != nil {
		t.Errorf("two places of one: %v, %v", ok, err)
	}
	key := "test:limits:at once k"
	score := func() float64 {
		t.Helper()
		all, err := s.Client().ZRangeWithScores(t.Context(), key, 0, -1).Result()
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0].Score
	}
	before := score()
	time.Sleep(5 * time.Millisecond)
	if err := store.renewAll(t.Context()); err != nil || score() <= before {
		t.Errorf("a place that is held is not held longer: %v", err)
	}
	leave()
	if _, ok, err := store.Enter(t.Context(), "k", 1); !ok || err != nil {
		t.Errorf("a place that was given back: %v, %v", ok, err)
	}
	if err := s.Client().Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := store.renewAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Enter(t.Context(), "k", 1); ok || err != nil {
		t.Errorf("a place that Redis forgot is free: %v, %v", ok, err)
	}
	dead := redis.Z{Score: float64(time.Now().Add(-time.Second).UnixMilli()), Member: "dead"}
	if err := s.Client().ZAdd(t.Context(), "test:limits:at once d", dead).Err(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Enter(t.Context(), "d", 1); !ok || err != nil {
		t.Errorf("the place of a process that died: %v, %v", ok, err)
	}
}

func TestADaysCost(t *testing.T) {
	c := newClock()
	memory := NewMemory(c.now)
	server := redistest.Start(t)
	for name, store := range map[string]Store{"memory": memory, "redis": shared(t, server)} {
		t.Run(name, func(t *testing.T) {
			l := New(store)
			config := Config{CostPerDay: 1.5}
			for range 3 {
				g, err := l.Admit(t.Context(), "web", config, true)
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Spend(t.Context(), Use{Tokens: 1000, Cost: 0.5}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := l.Admit(t.Context(), "web", config, true)
			refused, ok := errors.AsType[*Refused](err)
			if !ok || refused.Limit != CostPerDay || refused.Retry <= 0 || refused.Retry > 24*time.Hour || !strings.Contains(err.Error(), "cost_per_day (1.5)") {
				t.Fatalf("Admit() error = %v", err)
			}
			if _, err := l.Admit(t.Context(), "web", config, false); err != nil {
				t.Errorf("what costs nothing: %v", err)
			}
			if name == "redis" {
				return
			}
			c.add(refused.Retry - time.Nanosecond)
			if _, err := l.Admit(t.Context(), "web", config, true); err == nil {
				t.Error("a moment before midnight")
			}
			c.add(time.Nanosecond)
			if _, err := l.Admit(t.Context(), "web", config, true); err != nil {
				t.Errorf("at midnight: %v", err)
			}
		})
	}
	// A sum of another day counts nothing.
	if err := server.Client().HSet(t.Context(), "test:limits:cost_per_day web", "day", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if sum, _, err := shared(t, server).Today(t.Context(), "cost_per_day web", 0); sum != 0 || err != nil {
		t.Errorf("of a day long ago: %d, %v", sum, err)
	}
}

func TestLimitsWithoutRedis(t *testing.T) {
	s := redistest.Start(t)
	store := shared(t, s)
	s.Kill()
	config := Config{RequestsPerMinute: 2, TokensPerMinute: 10, CostPerDay: 1, Concurrent: 1}
	_, err := New(store).Admit(t.Context(), "web", config, true)
	if _, ok := errors.AsType[*Unavailable](err); !ok {
		t.Errorf("Admit() error = %v, want that nobody knows", err)
	}
	l := New(NewFallback(store, NewMemory(time.Now)))
	for i, want := range []bool{true, true, false} {
		g, err := l.Admit(t.Context(), "web", config, true)
		if (err == nil) != want {
			t.Errorf("request %d by itself: %v", i, err)
		}
		if err := g.Spend(t.Context(), Use{Tokens: 1, Cost: 0.1}); err != nil {
			t.Error(err)
		}
		g.Leave()
	}
}
