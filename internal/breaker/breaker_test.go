package breaker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// report makes one call with an outcome and fails the test when it is not let through.
func report(t *testing.T, b *Breaker, o Outcome) {
	t.Helper()
	done, err := b.Allow()
	if err != nil {
		t.Fatalf("Allow() = %v, want it let through", err)
	}
	done(o)
}

func TestFailuresInARowOpen(t *testing.T) {
	tests := []struct {
		name     string
		outcomes []Outcome
		want     State
	}{
		{"one too few", []Outcome{Failure, Failure}, Closed},
		{"enough", []Outcome{Failure, Failure, Failure}, Opened},
		{"a success begins anew", []Outcome{Failure, Failure, Success, Failure, Failure}, Closed},
		{"an ignored one counts as neither", []Outcome{Failure, Ignored, Failure, Ignored, Failure}, Opened},
		{"ignored ones alone never open", []Outcome{Ignored, Ignored, Ignored, Ignored}, Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(Options{Name: "db", Failures: 3})
			for _, o := range tt.outcomes {
				report(t, b, o)
			}
			if got := b.State(); got != tt.want {
				t.Errorf("State() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOpenBreakerRefusesAndProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		b := New(Options{Name: "db", Failures: 2, OpenFor: 10 * time.Second, OnChange: func(name string, s State) {
			changes = append(changes, fmt.Sprintf("%s %s", name, s))
		}})
		report(t, b, Failure)
		report(t, b, Failure)
		time.Sleep(4 * time.Second)
		_, err := b.Allow()
		var open *Open
		if !errors.As(err, &open) || open.Name != "db" || open.RetryAfter != 6*time.Second {
			t.Fatalf("Allow() = %#v, want *Open of db for another 6s", err)
		}

		time.Sleep(6*time.Second + 1)
		if got := b.State(); got != HalfOpen {
			t.Fatalf("State() = %v after its time, want half open", got)
		}
		done, err := b.Allow()
		if err != nil {
			t.Fatalf("Allow() = %v, want the probe let through", err)
		}
		if _, err := b.Allow(); !errors.As(err, &open) || open.RetryAfter != 0 {
			t.Fatalf("Allow() = %v beside the probe, want *Open without a time", err)
		}
		done(Ignored) // the client of the probe left: the next call is the probe
		report(t, b, Failure)
		if _, err := b.Allow(); !errors.As(err, &open) || open.RetryAfter != 10*time.Second {
			t.Fatalf("Allow() = %v after a failed probe, want *Open for 10s", err)
		}

		time.Sleep(10*time.Second + 1)
		report(t, b, Success)
		if got := b.State(); got != Closed {
			t.Errorf("State() = %v after a good probe, want closed", got)
		}
		want := []string{"db open", "db half_open", "db open", "db half_open", "db closed"}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("changes (-want +got)\n%s", diff)
		}
	})
}

func TestOutcomeOfAnEarlierTimeChangesNothing(t *testing.T) {
	b := New(Options{Failures: 1})
	late, err := b.Allow()
	if err != nil {
		t.Fatal(err)
	}
	report(t, b, Failure)
	late(Success)
	if got := b.State(); got != Opened {
		t.Errorf("State() = %v after a success from before the opening, want open", got)
	}
}

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		for range 4 {
			report(t, b, Failure)
		}
		if b.State() != Closed {
			t.Error("open after 4 failures, want 5")
		}
		report(t, b, Failure)
		var open *Open
		if _, err := b.Allow(); !errors.As(err, &open) || open.RetryAfter != 15*time.Second {
			t.Errorf("Allow() = %v, want *Open for 15s", err)
		}
	})
}

func TestStatesAreTheGaugesNumbers(t *testing.T) {
	if Closed != 0 || HalfOpen != 1 || Opened != 2 {
		t.Errorf("states are %d, %d, %d, want 0, 1, 2", Closed, HalfOpen, Opened)
	}
}

func TestManyAtOnceLetOneProbeThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Failures: 1, OpenFor: time.Second})
		report(t, b, Failure)
		time.Sleep(time.Second + 1)
		var through atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := b.Allow(); err == nil {
					through.Add(1)
				}
			})
		}
		wg.Wait()
		if got := through.Load(); got != 1 {
			t.Errorf("%d calls let through, want 1", got)
		}
	})
}
