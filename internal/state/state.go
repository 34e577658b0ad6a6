// Package state keeps what must outlive a request: answers under idempotency keys, turns held for a conversation's next
// request, confirmations and approvals. It knows none of them: a Store has keys, values, and how long they are kept.
package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Store is one kind of things that are kept. All methods are safe for use by many goroutines, and, where the backend is
// shared, by many processes. What is kept may be gone before its time, if there is too much of it.
//
// The methods are those that a server such as Redis has as single commands, or as one script.
type Store interface {
	// Get is the value of a key; false where there is none.
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	// Put sets a value.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Claim sets a value where the key has none, and says whether it did. If not, held is the value that is there.
	Claim(ctx context.Context, key string, value []byte, ttl time.Duration) (held []byte, claimed bool, err error)
	// Swap sets a value where the key has the value old, and says whether it did. A nil value takes the key away.
	Swap(ctx context.Context, key string, old, value []byte, ttl time.Duration) (swapped bool, err error)
	// Delete takes a key away.
	Delete(ctx context.Context, key string) error
}

// Hints are what a Store has that can tell at once that a thing is not kept: from a part of what its key is made of, where
// the key itself takes longer to make than to look up.
type Hints interface {
	// Note notes a hint, for as long as what it hints at is kept.
	Note(hint []byte, ttl time.Duration)
	// Noted says whether the hint may have been noted. Where it says no, it was not.
	Noted(hint []byte) bool
}

// Key is a key made of parts, such that no two lists of parts have the same one. It says nothing of them.
func Key(parts ...string) string {
	var usual [512]byte
	b := usual[:0]
	for _, part := range parts {
		b = append(append(strconv.AppendInt(b, int64(len(part)), 10), ':'), part...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:20])
}
