// Package limit says how much a key may have: requests and tokens a minute, cost a day, and requests at once. It knows no
// HTTP.
package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"
)

// Name is a limit by its key in the file, which is the metric's label too.
type Name string

// The limits of a key.
const (
	Requests   Name = "requests_per_minute"
	Tokens     Name = "tokens_per_minute" //nolint:gosec // the name of a key of the file
	CostPerDay Name = "cost_per_day"
	Concurrent Name = "concurrent"
)

// Names are all limits of a key.
func Names() []Name { return []Name{Requests, Tokens, CostPerDay, Concurrent} }

// Refused is a request that is over a limit. Nothing has been taken for it.
type Refused struct {
	Limit Name
	Max   float64
	Retry time.Duration // until it may be asked again; a guess where nobody can tell, above 0
}

// Error says which limit it is and when to try again.
func (e *Refused) Error() string {
	most := strconv.FormatFloat(e.Max, 'f', -1, 64)
	if e.Limit == Concurrent {
		return fmt.Sprintf("this key has as many requests at once as its limit %s allows (%s): try again when one of them has ended", e.Limit, most)
	}
	return fmt.Sprintf("this key has used up its limit %s (%s): try again in %s", e.Limit, most, wait(e.Retry))
}

// wait is a time in whole seconds, as Retry-After says it.
func wait(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// Unavailable is a request of which nobody can say whether it is over a limit.
type Unavailable struct{ Err error }

// Error is for the log.
func (e *Unavailable) Error() string { return "limits can't be counted: " + e.Err.Error() }

// Unwrap is the inner error.
func (e *Unavailable) Unwrap() error { return e.Err }

// Store is where limits are counted. Memory is one. Its errors are of stores that are reached over a network.
type Store interface {
	Take(ctx context.Context, name string, perMinute, cost int64) (Level, error)
	Spend(ctx context.Context, name string, perMinute, cost int64) (Level, error)
	Enter(ctx context.Context, name string, most int64) (leave func(), ok bool, err error)
	Today(ctx context.Context, name string, add int64) (sum int64, left time.Duration, err error)
}

// Limiter lets requests of keys in, as far as their limits allow. It is for many goroutines, and outlives a
// configuration: what a key has used counts on under its name.
type Limiter struct{ store Store }

// New makes a Limiter that counts in a store.
func New(s Store) *Limiter { return &Limiter{store: s} }

// Grant is a request that was let in, or one that was not: what is left for its key. A nil one, of a key without
// limits, counts nothing.
type Grant struct {
	store    Store
	key      string
	config   Config
	leave    func()
	requests Level

	mu     sync.Mutex // a stream may begin by a timer while its run pays
	tokens Level
}

// Admit asks whether a request of a key may begin; the Grant is nil for a key without limits. A *Refused says no; nothing
// is taken for it then, and the Grant says what is left all the same. An *Unavailable says that nobody knows. spends is for requests that may use tokens: they
// are refused while none are left. Who was let in calls Leave at the end.
func (l *Limiter) Admit(ctx context.Context, key string, c Config, spends bool) (*Grant, error) {
	if c == (Config{}) {
		return nil, nil
	}
	g := &Grant{store: l.store, key: key, config: c}
	err := g.admit(ctx, spends)
	if err == nil {
		return g, nil
	}
	g.Leave()
	if _, refused := errors.AsType[*Refused](err); !refused && ctx.Err() == nil {
		err = &Unavailable{err}
	}
	return g, err
}

// admit asks for what is given back first, and takes what is not at last, so that nobody pays for a refusal.
func (g *Grant) admit(ctx context.Context, spends bool) error {
	if most := g.config.Concurrent; most > 0 {
		leave, ok, err := g.store.Enter(ctx, g.key, most)
		if err != nil {
			return fmt.Errorf("limit %s: %w", Concurrent, err)
		}
		g.leave = leave
		if !ok {
			return g.refuse(ctx)
		}
	}
	if err := g.look(ctx); err != nil {
		return err
	}
	if spends && g.config.TokensPerMinute > 0 && !g.tokens.OK {
		return &Refused{Tokens, float64(g.config.TokensPerMinute), g.tokens.Retry}
	}
	if most := g.config.CostPerDay; spends && most > 0 {
		spent, left, err := g.store.Today(ctx, g.rate(CostPerDay), 0)
		if err != nil {
			return fmt.Errorf("limit %s: %w", CostPerDay, err)
		}
		if spent >= nanos(most) {
			return &Refused{CostPerDay, most, left}
		}
	}
	if most := g.config.RequestsPerMinute; most > 0 {
		var err error
		if g.requests, err = g.store.Take(ctx, g.rate(Requests), most, 1); err != nil {
			return fmt.Errorf("limit %s: %w", Requests, err)
		}
		if !g.requests.OK {
			return &Refused{Requests, float64(most), g.requests.Retry}
		}
	}
	return nil
}

// refuse is the refusal of a request for which there is no place. When there will be one nobody knows.
func (g *Grant) refuse(ctx context.Context) error {
	if err := g.look(ctx); err != nil {
		return err
	}
	return &Refused{Concurrent, float64(g.config.Concurrent), time.Second}
}

// look is what is left of the rates.
func (g *Grant) look(ctx context.Context) (err error) {
	if most := g.config.RequestsPerMinute; most > 0 {
		if g.requests, err = g.store.Take(ctx, g.rate(Requests), most, 0); err != nil {
			return fmt.Errorf("limit %s: %w", Requests, err)
		}
	}
	if most := g.config.TokensPerMinute; most > 0 {
		if g.tokens, err = g.store.Take(ctx, g.rate(Tokens), most, 0); err != nil {
			return fmt.Errorf("limit %s: %w", Tokens, err)
		}
	}
	return nil
}

func (g *Grant) rate(n Name) string { return string(n) + " " + g.key }

// Leave gives the request's place back. Further calls do nothing.
func (g *Grant) Leave() {
	if g != nil && g.leave != nil {
		g.leave()
		g.leave = nil
	}
}

// Counts says whether it matters what the request uses.
func (g *Grant) Counts() bool {
	return g != nil && (g.config.TokensPerMinute > 0 || g.config.CostPerDay > 0)
}

// Use is what a request has used.
type Use struct {
	Tokens int64
	Cost   float64
}

// nanos is a cost in billionths, so that sums are exact.
func nanos(cost float64) int64 { return int64(min(math.Ceil(cost*1e9), maxSum)) }

// Spend pays for what the request has used.
func (g *Grant) Spend(ctx context.Context, u Use) error {
	if !g.Counts() {
		return nil
	}
	var failed []error
	if u.Tokens > 0 && g.config.TokensPerMinute > 0 {
		left, err := g.store.Spend(ctx, g.rate(Tokens), g.config.TokensPerMinute, u.Tokens)
		if err != nil {
			failed = append(failed, fmt.Errorf("limit %s: %w", Tokens, err))
		} else {
			g.mu.Lock()
			g.tokens = left
			g.mu.Unlock()
		}
	}
	if u.Cost > 0 && g.config.CostPerDay > 0 {
		if _, _, err := g.store.Today(ctx, g.rate(CostPerDay), nanos(u.Cost)); err != nil {
			failed = append(failed, fmt.Errorf("limit %s: %w", CostPerDay, err))
		}
	}
	return errors.Join(failed...)
}

// Rate is a limit by the minute, and what is left of it.
type Rate struct {
	Name Name
	Max  int64
	Level
}

// Rates are those that the key has.
func (g *Grant) Rates() []Rate {
	var rates []Rate
	if most := g.config.RequestsPerMinute; most > 0 {
		rates = append(rates, Rate{Requests, most, g.requests})
	}
	if most := g.config.TokensPerMinute; most > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		rates = append(rates, Rate{Tokens, most, g.tokens})
	}
	return rates
}
