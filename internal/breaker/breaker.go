// Package breaker keeps callers away from what is known to be down: after a number of failures in a row it is open,
// refuses at once, and after a while lets one call through to see. What counts as a failure is its caller's to say.
// Upstreams and tools share it.
package breaker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Probes says whether a call that is let through now is one to see whether the other side is back.
func (b *Breaker) Probes() bool { return b.probe.Load() }

// State of a breaker. The numbers are the values of the gauge.
type State int

// The states. In HalfOpen one call is let through; its outcome closes or opens the breaker.
const (
	Closed State = iota
	HalfOpen
	Opened
)

// String is the state's name, for logs.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half_open"
	case Opened:
		return "open"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Outcome of a call that was let through.
type Outcome int

// The outcomes. Ignored is neither: a client that left says nothing about what was called.
const (
	Success Outcome = iota
	Failure
	Ignored
)

// Open is the error of a call that was not let through.
type Open struct {
	Name       string
	RetryAfter time.Duration // until a call may be let through; 0 when one is under way just now
}

// Error names the breaker, for the log.
func (e *Open) Error() string {
	return fmt.Sprintf("breaker %s is open for another %s", e.Name, e.RetryAfter.Round(time.Millisecond))
}

// Options tunes a Breaker. A field that is not positive takes its default.
type Options struct {
	Name     string
	Failures int           // in a row, that open it; default 5
	OpenFor  time.Duration // default 15s
	// OnChange is called at each change of state, one at a time and inside the breaker's lock: it must be quick and
	// must not call the breaker. nil is fine.
	OnChange func(name string, state State)
}

const (
	defaultFailures = 5
	defaultOpenFor  = 15 * time.Second
)

// Breaker is for use by many goroutines at once.
type Breaker struct {
	name  string
	two   *gobreaker.TwoStepCircuitBreaker[struct{}]
	until atomic.Pointer[time.Time] // when the last opening ends
	probe atomic.Bool               // it lets calls through to see
}

var (
	errFailure = errors.New("failure")
	errIgnored = errors.New("ignored")
)

// New makes a closed breaker.
func New(o Options) *Breaker {
	if o.Failures <= 0 {
		o.Failures = defaultFailures
	}
	if o.OpenFor <= 0 {
		o.OpenFor = defaultOpenFor
	}
	b := &Breaker{name: o.Name}
	b.two = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        o.Name,
		MaxRequests: 1,
		Timeout:     o.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(o.Failures) },
		IsExcluded:  func(err error) bool { return errors.Is(err, errIgnored) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.probe.Store(to == gobreaker.StateHalfOpen)
			if to == gobreaker.StateOpen {
				until := time.Now().Add(o.OpenFor)
				b.until.Store(&until)
			}
			if o.OnChange != nil {
				o.OnChange(o.Name, state(to))
			}
		},
	})
	return b
}

// Allow lets a call through or fails with an *Open. Whoever is let through calls done exactly once, however the call
// ends: in HalfOpen nobody else is let through before.
func (b *Breaker) Allow() (done func(Outcome), err error) {
	report, err := b.two.Allow()
	if err != nil {
		return nil, &Open{Name: b.name, RetryAfter: b.remaining(err)}
	}
	return func(o Outcome) {
		switch o {
		case Success:
			report(nil)
		case Failure:
			report(errFailure)
		case Ignored:
			report(errIgnored)
		}
	}, nil
}

func (b *Breaker) remaining(err error) time.Duration {
	until := b.until.Load()
	if until == nil || !errors.Is(err, gobreaker.ErrOpenState) {
		return 0
	}
	return max(time.Until(*until), 0)
}

// State is the state now. The time that it is open for passes without a call too.
func (b *Breaker) State() State { return state(b.two.State()) }

func state(s gobreaker.State) State {
	switch s {
	case gobreaker.StateHalfOpen:
		return HalfOpen
	case gobreaker.StateOpen:
		return Opened
	default:
		return Closed
	}
}
