package upstream

import (
	"sync"
	"time"
)

// What a retryBudget has beside its share: a reserve that fills up with time, so that a quiet upstream's failures are
// retried too, and a bound, so that a busy day does not pay for the retries of a long outage.
const (
	budgetReserve   = 10.0 // tokens, all of them there at the start
	budgetPerSecond = 1.0  // up to the reserve
	budgetMost      = 100.0
)

// retryBudget bounds the retries of an upstream to a share of its requests, so that an outage is not met with three
// times the usual load. It is a bucket: each request puts the share in, each retry takes one out.
type retryBudget struct {
	share float64

	mu     sync.Mutex
	tokens float64
	at     time.Time // of the last look
}

func newRetryBudget(share float64) *retryBudget {
	return &retryBudget{share: share, tokens: budgetReserve, at: time.Now()}
}

// request notes a request, retries aside.
func (b *retryBudget) request() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	b.tokens = min(b.tokens+b.share, max(budgetMost, b.tokens))
}

// retry says whether one more retry may be made, and accounts for it.
func (b *retryBudget) retry() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	if b.tokens < 1-1e-6 { // ten times 0.1 is less than 1
		return false
	}
	b.tokens = max(b.tokens-1, 0)
	return true
}

func (b *retryBudget) fill() {
	now := time.Now()
	if b.tokens < budgetReserve {
		b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*budgetPerSecond, budgetReserve)
	}
	b.at = now
}
