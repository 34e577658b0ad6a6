package state

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// suite is what holds for every backend.
func suite(t *testing.T, s Store) {
	ctx := t.Context()
	want := func(key, value string) {
		t.Helper()
		got, ok, err := s.Get(ctx, key)
		if err != nil || string(got) != value || ok != (value != "") {
			t.Errorf("Get(%s) = %q, %v, %v, want %q", key, got, ok, err, value)
		}
	}
	want("none", "")
	if err := s.Put(ctx, "a", []byte("1"), time.Minute); err != nil {
		t.Fatal(err)
	}
	want("a", "1")
	if held, claimed, err := s.Claim(ctx, "a", []byte("2"), time.Minute); claimed || string(held) != "1" || err != nil {
		t.Errorf("Claim of what is there = %q, %v, %v", held, claimed, err)
	}
	if _, claimed, err := s.Claim(ctx, "b", []byte("2"), time.Minute); !claimed || err != nil {
		t.Errorf("Claim of what is not there = %v, %v", claimed, err)
	}
	want("b", "2")
	if swapped, err := s.Swap(ctx, "b", []byte("1"), []byte("3"), time.Minute); swapped || err != nil {
		t.Errorf("Swap of another value = %v, %v", swapped, err)
	}
	if swapped, err := s.Swap(ctx, "b", []byte("2"), []byte("3"), time.Minute); !swapped || err != nil {
		t.Errorf("Swap = %v, %v", swapped, err)
	}
	want("b", "3")
	if swapped, err := s.Swap(ctx, "none", []byte(""), []byte("3"), time.Minute); swapped || err != nil {
		t.Errorf("Swap of what is not there = %v, %v", swapped, err)
	}
	if swapped, err := s.Swap(ctx, "b", []byte("3"), nil, 0); !swapped || err != nil {
		t.Errorf("Swap with nothing = %v, %v", swapped, err)
	}
	want("b", "")
	if err := s.Delete(ctx, "a"); err != nil {
		t.Error(err)
	}
	want("a", "")
	value := []byte("mine")
	_ = s.Put(ctx, "own", value, time.Minute)
	value[0] = 'X'
	want("own", "mine")
	if err := s.Put(ctx, "short", []byte("1"), 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, ok, _ := s.Get(ctx, "short"); !ok {
			break
		}
		if time.Now().After(end) {
			t.Fatal("what has a time is still there after it")
		}
	}
	atOnce(t, s)
}

// atOnce holds that of many who claim or swap at once one alone does.
func atOnce(t *testing.T, s Store) {
	var claims, swaps atomic.Int64
	var wg sync.WaitGroup
	_ = s.Put(t.Context(), "swap", []byte("0"), time.Minute)
	for i := range 50 {
		wg.Go(func() {
			if _, claimed, _ := s.Claim(context.Background(), "claim", []byte(strconv.Itoa(i)), time.Minute); claimed {
				claims.Add(1)
			}
			if swapped, _ := s.Swap(context.Background(), "swap", []byte("0"), []byte(strconv.Itoa(i+1)), time.Minute); swapped {
				swaps.Add(1)
			}
		})
	}
	wg.Wait()
	if claims.Load() != 1 || swaps.Load() != 1 {
		t.Errorf("%d claimed and %d swapped, want one each", claims.Load(), swaps.Load())
	}
}

func TestMemory(t *testing.T) {
	m := NewMemory(Limits{})
	defer m.Close()
	suite(t, m)
}

func TestMemoryIsBounded(t *testing.T) {
	for _, tt := range []struct {
		limits Limits
		value  int
		most   int
	}{
		{Limits{Bytes: 1 << 20}, 10_000, 110},
		{Limits{Entries: 100}, 1, 110},
	} {
		m := NewMemory(tt.limits)
		reg := prometheus.NewRegistry()
		NewMetrics(reg, map[string]*Memory{"held": m})
		for i := range 1000 {
			_ = m.Put(t.Context(), strconv.Itoa(i), make([]byte, tt.value), time.Hour)
		}
		m.kept.CleanUp()
		if n := m.Len(); n > tt.most || n == 0 {
			t.Errorf("%+v keeps %d entries of %d bytes, want at most %d", tt.limits, n, tt.value, tt.most)
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("metrics: %v, %v", problems, err)
		}
		if n, err := testutil.GatherAndCount(reg); err != nil || n != 2 {
			t.Errorf("%d series, %v", n, err)
		}
		m.Close()
	}
}

func TestHints(t *testing.T) {
	m := NewMemory(Limits{Entries: 100})
	defer m.Close()
	if m.Noted([]byte("a")) {
		t.Error("noted before it was")
	}
	m.Note([]byte("a"), time.Hour)
	m.Note([]byte("b"), time.Nanosecond)
	time.Sleep(time.Millisecond)
	for hint, want := range map[string]bool{"a": true, "b": false, "c": false, "": false} {
		if got := m.Noted([]byte(hint)); got != want {
			t.Errorf("%q noted: %t, want %t", hint, got, want)
		}
	}
	for i := range 10_000 {
		m.Note([]byte(strconv.Itoa(i)), time.Hour)
	}
	m.hints.CleanUp()
	if n := m.hints.EstimatedSize(); n > 110 {
		t.Errorf("%d hints are kept, want at most 100", n)
	}
}

func TestKeysOfOtherPartsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"ab", ""}, {"", "ab"}, {"1:a"}, {"a1:b"}} {
		k := Key(parts...)
		if seen[k] || len(k) != 40 || strings.ContainsAny(k, "ab") && k == strings.Join(parts, "") {
			t.Errorf("Key(%q) = %s, which another list has", parts, k)
		}
		seen[k] = true
	}
}
