package trace

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/state/redistest"
)

func sharedRuns(t *testing.T, s *redistest.Server, keep int) *Redis {
	t.Helper()
	r, err := state.NewRedis(state.RedisOptions{
		URL: s.URL, Prefix: "test:", Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), OnBreaker: func(string, breaker.State) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return NewRedis(r, keep, time.Hour, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// Every field of a run comes back, those that are still to be thought of too.
func TestAllOfARunComesBack(t *testing.T) {
	r := sample(1)
	r.Steps = []Step{{}}
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(time.UnixMilli(1_700_000_000_123).UTC()))
		case v.Type() == reflect.TypeFor[json.RawMessage]():
			v.SetBytes([]byte(`{"a":1}`))
		case v.Kind() == reflect.Struct:
			for _, f := range v.Fields() {
				fill(f)
			}
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		case v.Kind() == reflect.String:
			v.SetString("x")
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.CanFloat():
			v.SetFloat(1.5)
		case v.CanInt():
			v.SetInt(int64(7 * time.Millisecond)) // of durations and counts alike
		}
	}
	fill(reflect.ValueOf(r).Elem())
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got := &Run{}
	if err := json.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
}

func TestRunsOfSeveralProcesses(t *testing.T) {
	s := redistest.Start(t)
	one, two := sharedRuns(t, s, 2), sharedRuns(t, s, 2)
	defer two.Close()
	runs := []*Run{sample(1), sample(2), sample(0)}
	for i, r := range runs {
		r.Caller, r.Start = "web", time.Now().Add(time.Duration(i)*time.Second)
		one.Add(r)
	}
	if _, err := one.Get(t.Context(), runs[2].ID, Access{Caller: "web"}); err != nil {
		t.Errorf("a process does not find its own run at once: %v", err)
	}
	one.Close() // sends what waits
	for i, want := range []bool{false, true, true} {
		got, err := two.Get(t.Context(), runs[i].ID, Access{Caller: "web"})
		if (err == nil) != want {
			t.Errorf("run %d of 3 where 2 are kept: %v", i, err)
		}
		if want {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(runs[i])
			if diff := cmp.Diff(string(b), string(a)); diff != "" {
				t.Error(diff)
			}
		}
	}
	if _, err := two.Get(t.Context(), runs[2].ID, Access{Caller: "app"}); !errors.Is(err, ErrNotKept) {
		t.Errorf("another caller: %v", err)
	}
	keys, err := s.Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 3 {
		t.Errorf("keys: %v, %v", keys, err)
	}
	for _, key := range keys {
		if ttl := s.Client().TTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Hour {
			t.Errorf("%s is kept for %s", key, ttl)
		}
	}
	s.Kill()
	if _, err := two.Get(t.Context(), runs[2].ID, Access{Caller: "web"}); err == nil || errors.Is(err, ErrNotKept) {
		t.Errorf("without Redis: %v, want that nobody knows", err)
	}
}

// While Redis hangs, nobody waits for it, and what it did not get is counted.
func TestRunsDoNotWaitForRedis(t *testing.T) {
	s := redistest.Start(t)
	runs := sharedRuns(t, s, 10)
	s.Hang()
	defer s.Resume()
	begin := time.Now()
	for range 2*maxQueue + 10 {
		runs.Add(sample(0))
	}
	if took := time.Since(begin); took > 500*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	runs.Close()
	if n := testutil.ToFloat64(runs.dropped); n < maxQueue {
		t.Errorf("%v runs are counted as dropped", n)
	}
	runs.Add(sample(0)) // after the end
}

func TestARunThatIsTooLargeStaysHere(t *testing.T) {
	runs := sharedRuns(t, redistest.Start(t), 10)
	defer runs.Close()
	r := sample(1)
	r.Calls[0].Result = strings.Repeat("x", maxRun)
	runs.put(context.Background(), r)
	if n := testutil.ToFloat64(runs.dropped); n != 1 {
		t.Errorf("%v runs are counted as dropped", n)
	}
}
