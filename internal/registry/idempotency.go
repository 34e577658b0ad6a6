package registry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
)

// Writes knows which write calls have been made and what came of each, so that none is made twice: not in a request that
// is repeated, not in another choice of its run, not in another process that shares the store. It outlives a Set.
type Writes struct {
	store state.Store
	locks state.Locks
}

// NewWrites keeps what it knows in store.
func NewWrites(store state.Store) *Writes { return &Writes{store: store} }

const (
	writeKept    = 24 * time.Hour
	runKept      = time.Hour        // where the key is the run's own: nobody asks for it again once the run is over
	writeGrace   = 10 * time.Second // on top of all attempts, after which a call without an outcome is given up for lost
	storeTimeout = 5 * time.Second  // to keep an outcome, though the run be over
	storeWait    = 3 * time.Second  // for a store that fails: one that is restarted is back by then
)

// written is what the store has under a call's key: that it is under way, or what came of it.
type written struct {
	Owner string    `json:"owner,omitempty"` // of a call under way: who makes it, unlike every other
	Until time.Time `json:"until,omitzero"`  // and when that has surely ended
	Text  string    `json:"text,omitempty"`
	Code  Code      `json:"code,omitempty"`
	Class string    `json:"class,omitempty"`
	Empty bool      `json:"empty,omitempty"`
}

func (w written) underWay() bool { return w.Owner != "" }

func (w written) observation() Observation {
	return Observation{Text: w.Text, Code: w.Code, Class: w.Class, Empty: w.Empty}
}

func (w written) encode() []byte {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // texts, a time and a boolean always encode
	}
	return b
}

func outcome(o Observation) []byte {
	return written{Text: o.Text, Code: o.Code, Class: o.Class, Empty: o.Empty}.encode()
}

// write makes a write call, or gives what came of it where it was made before, and writes the line for the audit.
func (v *View) write(ctx context.Context, t *Tool, call tool.Call, s Scope) (Observation, error) {
	seen, replayed, err := v.writeOnce(ctx, t, call, s)
	outcome := "ok"
	switch {
	case err != nil:
		outcome = string(Interrupted)
	case !seen.OK():
		outcome = string(seen.Code)
	}
	sum := sha256.Sum256(call.JSON())
	v.set.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "write",
		slog.String("run_id", s.RunID), slog.String("call_id", s.CallID), slog.String("caller", s.Caller), slog.String("tool", t.Name),
		slog.String("arguments_sha256", hex.EncodeToString(sum[:])), slog.String("outcome", outcome),
		slog.String("idempotency_key", call.IdempotencyKey), slog.Bool("replayed", replayed), slog.Bool("tainted", s.Tainted))
	return seen, err
}

func (v *View) writeOnce(ctx context.Context, t *Tool, call tool.Call, s Scope) (seen Observation, replayed bool, err error) {
	w := v.set.opts.Writes
	if w == nil {
		m := v.make(ctx, t, call, s)
		return m.seen, false, m.ended
	}
	unlock, err := w.locks.Lock(ctx, call.IdempotencyKey)
	if err != nil {
		return Observation{}, false, err
	}
	defer unlock()
	e := entry{key: call.IdempotencyKey, kept: writeKept, lease: t.lease(), again: t.idempotent, lost: v.set.unknown()}
	if s.Key == s.RunID {
		e.kept = runKept
	}
	there, claim, err := w.claim(ctx, e)
	switch {
	case err != nil && ctx.Err() != nil:
		return Observation{}, false, context.Cause(ctx)
	case err != nil: // nobody can say whether it was made before
		v.set.opts.Logger.Error("state of write calls can't be reached", slog.String("run_id", s.RunID), slog.String("tool", t.Name), slog.Any("err", err))
		return v.set.failure(Code(tool.Unavailable), "not run: the gateway can't tell at present whether this call was made before; try again later", true, string(tool.Unavailable)), false, nil
	case claim == nil:
		return there, true, nil
	}
	m := v.make(ctx, t, call, s)
	keep, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer stop()
	if err := w.settle(keep, e, claim, v.set.toKeep(t, m), m.failure == nil); err != nil {
		v.set.opts.Logger.Error("outcome of a write call could not be kept", slog.String("run_id", s.RunID), slog.String("tool", t.Name), slog.Any("err", err))
	}
	return m.seen, false, m.ended
}

// toKeep is what stays of a call under its key, nil where it may be made again under the same one: it changed nothing,
// or nobody knows and the service itself makes it once.
func (s *Set) toKeep(t *Tool, m made) []byte {
	switch {
	case m.failure == nil:
		return outcome(m.seen)
	case m.failure.NotDone, t.idempotent && (m.ended != nil || m.failure.Transient()):
		return nil
	case m.ended != nil:
		return outcome(s.unknown())
	}
	return outcome(m.seen)
}

// unknown is what the model reads of a call that was begun and left no trace of its end.
func (s *Set) unknown() Observation {
	return s.failure(Code(tool.Unavailable), "it is not known whether this call was carried out: it was begun before and broken off without a reply; it is not made again, so look whether it was carried out", false, string(tool.Unavailable))
}

// lease is the time after which a call has surely ended, whatever its service does.
func (t *Tool) lease() time.Duration {
	return time.Duration(t.config.Timeout)*time.Duration(max(t.policy.Attempts, 1)) + t.policy.Waits() + writeGrace
}

// entry is what is to be known of a call.
type entry struct {
	key   string
	kept  time.Duration
	lease time.Duration
	again bool        // it may be made again where nobody knows what came of it
	lost  Observation // else what the model reads of it then
}

// claim gives what came of a call, or a claim to make it. It waits for one that is under way. One that has been under way
// for longer than it can be is lost: its process died.
func (w *Writes) claim(ctx context.Context, e entry) (Observation, []byte, error) {
	for n := 0; ; n++ {
		now := time.Now()
		mine := written{Owner: rand.Text(), Until: now.Add(storeWait + e.lease).Round(0)}.encode()
		var held []byte
		var claimed bool
		err := insist(ctx, func() (err error) { // with the same value: one whose answer was lost may be there
			held, claimed, err = w.store.Claim(ctx, e.key, mine, e.kept)
			return err
		})
		if err != nil || claimed {
			return Observation{}, mine, err
		}
		var there written
		if err := json.Unmarshal(held, &there); err != nil {
			return Observation{}, nil, err
		}
		if !there.underWay() {
			return there.observation(), nil, nil
		}
		if now.Before(there.Until) {
			if err := state.Pause(ctx, n); err != nil {
				return Observation{}, nil, err
			}
			continue
		}
		next := mine
		if !e.again {
			next = outcome(e.lost)
		}
		swapped, err := w.store.Swap(ctx, e.key, held, next, e.kept)
		switch {
		case err != nil:
			return Observation{}, nil, err
		case swapped && e.again:
			return Observation{}, mine, nil
		case swapped:
			return e.lost, nil, nil
		}
	}
}

// settle puts what came of a call in the place of its claim; with nil it gives the claim up. A claim that is not there
// any more had to make room, or somebody gave the call up for lost: a good result is known better then.
func (w *Writes) settle(ctx context.Context, e entry, claim, value []byte, good bool) error {
	return insist(ctx, func() error {
		swapped, err := w.store.Swap(ctx, e.key, claim, value, e.kept)
		switch {
		case err != nil || swapped || value == nil:
			return err
		case good:
			return w.store.Put(ctx, e.key, value, e.kept)
		}
		_, _, err = w.store.Claim(ctx, e.key, value, e.kept)
		return err
	})
}

// insist does what a store is asked for again while that fails, for storeWait.
func insist(ctx context.Context, do func() error) error {
	end := time.Now().Add(storeWait)
	for n := 0; ; n++ {
		err := do()
		if err == nil || time.Now().After(end) {
			return err
		}
		if state.Pause(ctx, n) != nil {
			return err
		}
	}
}

// idempotencyKey tells one write call from every other, and is the same when it is made again. Who calls is part of it,
// so that nobody reads another's results.
func idempotencyKey(s Scope, c tool.Call, name string) string {
	return "tg_" + state.Key(s.Caller, string(tool.EncodeJSON(c.Caller)), s.Key, name, string(c.JSON()), strconv.Itoa(s.Attempt))
}
