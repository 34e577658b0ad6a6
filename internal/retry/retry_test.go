package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

// fails is a call that fails n times, each taking a time, and notes when it was started.
func fails(n int, takes time.Duration, starts *[]time.Duration) func(context.Context, int) (int, error) {
	begin := time.Now()
	return func(_ context.Context, attempt int) (int, error) {
		*starts = append(*starts, time.Since(begin))
		time.Sleep(takes)
		if attempt <= n {
			return -attempt, fmt.Errorf("attempt %d: %w", attempt, errDown)
		}
		return attempt, nil
	}
}

func always(after time.Duration) func(error) (bool, time.Duration) {
	return func(error) (bool, time.Duration) { return true, after }
}

func TestDo(t *testing.T) {
	second := Policy{Attempts: 4, Base: time.Second, Max: 10 * time.Second}
	tests := []struct {
		name     string
		policy   Policy
		again    func(error) (bool, time.Duration)
		failures int
		deadline time.Duration // 0: none
		calls    int
		want     int // of the last call
		ok       bool
		within   [][2]time.Duration // when each call is started
	}{
		{
			name: "a success is not repeated", policy: second, again: always(0),
			calls: 1, want: 1, ok: true,
		},
		{
			name: "waits double, each spread by half", policy: second, again: always(0), failures: 3,
			calls: 4, want: 4, ok: true,
			within: [][2]time.Duration{{0, 0}, {500 * time.Millisecond, 1500 * time.Millisecond}, {1500 * time.Millisecond, 4500 * time.Millisecond}, {3500 * time.Millisecond, 10500 * time.Millisecond}},
		},
		{
			name: "no wait is over the maximum", policy: Policy{Attempts: 3, Base: time.Minute, Max: time.Second}, again: always(0), failures: 3,
			calls: 3, want: -3,
			within: [][2]time.Duration{{0, 0}, {500 * time.Millisecond, time.Second}, {time.Second, 2 * time.Second}},
		},
		{
			name: "attempts run out with the last failure", policy: second, again: always(0), failures: 9,
			calls: 4, want: -4,
		},
		{
			name: "a final failure is not repeated", policy: second, failures: 9,
			again: func(error) (bool, time.Duration) { return false, 0 },
			calls: 1, want: -1,
		},
		{
			name: "what was asked for is waited for, over the maximum too", policy: second, again: always(30 * time.Second), failures: 1,
			calls: 2, want: 2, ok: true,
			within: [][2]time.Duration{{0, 0}, {30 * time.Second, 30 * time.Second}},
		},
		{
			name: "no wait goes past the deadline", policy: second, again: always(30 * time.Second), failures: 9, deadline: 20 * time.Second,
			calls: 1, want: -1,
		},
		{
			name: "no attempts at all are one", policy: Policy{}, again: always(0), failures: 9,
			calls: 1, want: -1,
		},
		{
			name: "the default back-off is quick", policy: Policy{Attempts: 2}, again: always(0), failures: 1,
			calls: 2, want: 2, ok: true,
			within: [][2]time.Duration{{0, 0}, {100 * time.Millisecond, 300 * time.Millisecond}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				var starts []time.Duration
				begin := time.Now()
				got, err := Do(ctx, tt.policy, tt.again, fails(tt.failures, 0, &starts))
				if len(starts) != tt.calls || got != tt.want || (err == nil) != tt.ok {
					t.Fatalf("Do() = %d, %v after %d calls, want %d, ok %t after %d", got, err, len(starts), tt.want, tt.ok, tt.calls)
				}
				if err != nil && err.Error() != fmt.Sprintf("attempt %d: down", tt.calls) {
					t.Errorf("Do() = %v, want the last failure as it was", err)
				}
				if tt.deadline > 0 && time.Since(begin) >= tt.deadline {
					t.Errorf("Do() took %v, up to the deadline", time.Since(begin))
				}
				for i, w := range tt.within {
					if starts[i] < w[0] || starts[i] > w[1] {
						t.Errorf("call %d began after %v, want between %v and %v", i+1, starts[i], w[0], w[1])
					}
				}
			})
		})
	}
}

func TestDoIsEndedByItsContext(t *testing.T) {
	errGone := errors.New("client gone")
	t.Run("canceled in a wait: the cause, then the last failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errGone) })
			var starts []time.Duration
			begin := time.Now()
			_, err := Do(ctx, Policy{Attempts: 5, Base: time.Minute, Max: time.Minute}, always(0), fails(9, 0, &starts))
			if !errors.Is(err, errGone) || !errors.Is(err, errDown) || time.Since(begin) != time.Second || len(starts) != 1 {
				t.Errorf("Do() = %v after %v and %d calls, want both causes after 1s and 1 call", err, time.Since(begin), len(starts))
			}
		})
	})
	t.Run("deadline passed in a call: its failure, no further call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var starts []time.Duration
			_, err := Do(ctx, Policy{Attempts: 5, Base: time.Millisecond}, always(0), fails(9, 2*time.Second, &starts))
			if !errors.Is(err, errDown) || len(starts) != 1 {
				t.Errorf("Do() = %v after %d calls, want the failure after 1", err, len(starts))
			}
		})
	})
	t.Run("done before: nothing is called", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		_, err := Do(ctx, Policy{}, always(0), func(context.Context, int) (int, error) {
			t.Error("called")
			return 0, nil
		})
		if !errors.Is(err, errGone) {
			t.Errorf("Do() = %v, want %v", err, errGone)
		}
	})
}

func TestJitterSpreadsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		for range 20 {
			var starts []time.Duration
			_, _ = Do(t.Context(), Policy{Attempts: 2, Base: time.Second, Max: 2 * time.Second}, always(0), fails(9, 0, &starts))
			waits = append(waits, starts[1])
		}
		slices.Sort(waits)
		if len(slices.Compact(waits)) < 10 {
			t.Errorf("20 first waits are %v, want them spread", waits)
		}
	})
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	for h, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"120":                            2 * time.Minute,
		" 3 ":                            3 * time.Second,
		"0.5":                            500 * time.Millisecond,
		"-5":                             0,
		"NaN":                            0,
		"soon":                           0,
		"1e300":                          24 * time.Hour,
		"99999999999999999999":           24 * time.Hour,
		"Mon, 04 May 2026 10:00:30 GMT":  30 * time.Second,
		"Monday, 04-May-26 10:00:30 GMT": 30 * time.Second,
		"Mon, 04 May 2026 09:00:00 GMT":  0,
		"Mon, 04 May 2099 10:00:00 GMT":  24 * time.Hour,
	} {
		if got := ParseRetryAfter(h, now); got != want {
			t.Errorf("ParseRetryAfter(%q) = %v, want %v", h, got, want)
		}
	}
}
