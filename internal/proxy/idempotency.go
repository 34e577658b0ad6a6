package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/trace"
)

const (
	headerReplayed = "Idempotent-Replayed" // on a reply that is a kept one

	maxKey       = 255     // characters of an Idempotency-Key
	maxReply     = 4 << 20 // bytes of a body that is kept
	replyKept    = 24 * time.Hour
	storeTimeout = 5 * time.Second // to keep a reply, though the client be gone

	// Who answers says so again and again. Without a word for claimHeld its process is dead, and another may answer.
	claimHeld  = 20 * time.Second
	claimRenew = 5 * time.Second
)

// replies keeps the replies to requests with an Idempotency-Key.
type replies struct {
	store state.Store // nil: none is kept
	locks state.Locks
}

// kept is what the store has under a key: that a request is under way, or its reply. The body follows the JSON, after a
// line end.
type kept struct {
	Request string            `json:"request"`         // a digest of what was asked
	Owner   string            `json:"owner,omitempty"` // while it is under way: who answers it, unlike every other
	RunID   string            `json:"run_id,omitempty"`
	Stop    string            `json:"stop,omitempty"`
	Status  int               `json:"status,omitempty"`
	Header  map[string]string `json:"header,omitempty"`
	Trailer string            `json:"trailer,omitempty"` // the trace of a stream

	body []byte
}

func (k *kept) encode() ([]byte, error) {
	head, err := json.Marshal(k)
	return append(append(head, '\n'), k.body...), err
}

func readKept(b []byte) (*kept, error) {
	head, body, _ := bytes.Cut(b, []byte("\n"))
	k := &kept{body: body}
	if err := json.Unmarshal(head, k); err != nil {
		return nil, fmt.Errorf("kept reply: %w", err)
	}
	return k, nil
}

var (
	errKeyTooLong = &Error{
		Status: http.StatusBadRequest, Type: invalidRequest, Param: headerIdempotent,
		Message: fmt.Sprintf("%s: want at most %d characters", headerIdempotent, maxKey),
	}
	errKeyReused = &Error{
		Status: http.StatusConflict, Type: invalidRequest, Param: headerIdempotent, Code: "idempotency_key_reused", NoRetry: true,
		Message: "the Idempotency-Key was sent before with another body or other X-Gateway headers: idempotency wants a key of its own for each request, and the same request for each key",
	}
	errStillUnderWay = &Error{
		Status: http.StatusGatewayTimeout, Type: "timeout_error", Code: string(loop.Timeout),
		Message: "an equal request with the same Idempotency-Key is still under way; send it again to get its reply",
	}
)

// errWaited is the cause with which the run's time ends the wait for an equal request.
var errWaited = errors.New("the run's time is used up by waiting for an equal request")

// once answers a request with an Idempotency-Key as it was answered before, or makes its run and keeps the reply. It
// waits for an equal request that is under way; where that brings no reply that may be kept, it makes a run of its own,
// whose writes the registry knows by their keys.
func (c *completion) once(view *registry.View, limits budget.Limits) error {
	key := first(c.r.Header, headerIdempotent)
	switch {
	case len(key) > maxKey:
		return c.refuseKey(errKeyTooLong)
	case key == "" || c.replies.store == nil:
		return c.run(view, limits)
	}
	ctx, cancel := context.WithDeadlineCause(c.r.Context(), c.record.Start.Add(limits.Time), errWaited)
	defer cancel()
	t := &taking{replies: c.replies, key: c.callersKey(key), request: c.digest(), log: c.log}
	there, err := t.take(ctx)
	defer t.release()
	switch {
	case errors.Is(err, errKeyReused):
		return c.refuseKey(errKeyReused)
	case c.r.Context().Err() != nil:
		return gone(context.Cause(c.r.Context()))
	case errors.Is(err, errWaited):
		return c.refuseKey(errStillUnderWay)
	case err != nil: // what must not be done twice, the registry sees to
		c.log.Error("kept replies can't be reached", slog.String("run_id", c.record.ID), slog.Any("err", err))
		return c.run(view, limits)
	case there != nil:
		return c.replay(there)
	}
	recorded := &recorder{ResponseWriter: c.w}
	c.w = recorded
	err = c.run(view, limits)
	if e := t.keep(context.WithoutCancel(c.r.Context()), c.toKeep(recorded, err)); e != nil {
		c.log.Error("reply could not be kept", slog.String("run_id", c.record.ID), slog.Any("err", e))
	}
	return err
}

// refuseKey is a refusal before there is a run.
func (c *completion) refuseKey(e *Error) error {
	c.record.Stop = string(loop.Failed)
	c.info.stop = c.record.Stop
	c.w.Header().Set(trace.Header, c.record.Dictionary())
	return e
}

// callersKey is the client's key as a key of the caller: nobody gets another's reply.
func (c *completion) callersKey(key string) string {
	fields, err := json.Marshal(c.info.caller.Fields)
	if err != nil {
		panic(err) // texts, numbers and booleans always encode
	}
	return state.Key(c.info.caller.ID, string(fields), key)
}

// digest is equal for equal requests: of the body, and of the headers that make a difference to its reply.
func (c *completion) digest() string {
	parts := []string{string(c.req.Raw)}
	for _, name := range []string{headerTools, headerMaxSteps, headerMaxSeconds, headerProgress, trace.Header} {
		parts = append(parts, c.r.Header.Get(name))
	}
	return state.Key(parts...)
}

// toKeep is what stays of a reply, nil for nothing: one that says what waits for an approval, one that SDKs ask for again
// by themselves, of a client that left before there was an answer, or too large. The same request is run again then.
func (c *completion) toKeep(recorded *recorder, err error) *kept {
	k := &kept{RunID: c.record.ID, Stop: c.record.Stop, Status: recorded.status, Header: map[string]string{}, body: recorded.body.Bytes()}
	p := c.failure
	if err != nil && (p != nil || c.req.Stream) { // what the client got is still to be written, or was cut off
		p = problem(err)
		k.Status, k.body = p.Status, p.body(c.info.site.Mask)
		k.Header["Content-Type"] = "application/json"
		if p.NoRetry {
			k.Header["X-Should-Retry"] = "false"
		}
	}
	if c.record.Stop == string(loop.Confirmation) { // once it is decided, the same request goes on
		return nil
	}
	if p != nil && (repeated(p.Status) || p.Status == statusClientGone) || recorded.over || k.Status == 0 {
		return nil
	}
	h := recorded.Header()
	for _, name := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering", trace.Header} {
		if v := h.Get(name); v != "" && k.Header[name] == "" {
			k.Header[name] = v
		}
	}
	k.Trailer = h.Get(http.TrailerPrefix + trace.Header)
	return k
}

// replay sends a kept reply.
func (c *completion) replay(k *kept) error {
	c.info.runID, c.info.stop = k.RunID, k.Stop
	h := c.w.Header()
	for name, v := range k.Header {
		h.Set(name, v)
	}
	h.Set(headerReplayed, "true")
	if !strings.HasPrefix(k.Header["Content-Type"], "text/event-stream") {
		h.Set("Content-Length", strconv.Itoa(len(k.body)))
	}
	patience := newPatience(c.w)
	patience.begin()
	c.w.WriteHeader(k.Status)
	_, err := c.w.Write(k.body)
	if err == nil {
		err = patience.rc.Flush()
	}
	if k.Trailer != "" {
		h.Set(http.TrailerPrefix+trace.Header, k.Trailer)
	}
	return gone(err)
}

// taking is one request's hold on its key.
type taking struct {
	*replies
	key     string
	request string
	log     *slog.Logger

	unlock func() // nil where it has no turn
	claim  []byte // nil where it has none
	hold   func() // ends the renewal of the claim
}

// take gives the reply that is there; without one the request may be answered. An equal request under way, here or in
// another process, is waited for.
func (t *taking) take(ctx context.Context) (*kept, error) {
	// A look before the wait: what is another request, or has its reply, need not wait.
	if held, ok, err := t.store.Get(ctx, t.key); err == nil && ok {
		if k, err := t.read(held); err != nil || k != nil {
			return k, err
		}
	}
	var err error
	if t.unlock, err = t.locks.Lock(ctx, t.key); err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		mine, err := (&kept{Request: t.request, Owner: rand.Text()}).encode()
		if err != nil {
			return nil, err
		}
		held, claimed, err := t.store.Claim(ctx, t.key, mine, claimHeld)
		switch {
		case err != nil:
			return nil, err
		case claimed:
			t.claim, t.hold = mine, t.renew(mine) //nolint:contextcheck // a client that leaves does not end its run
			return nil, nil
		}
		if k, err := t.read(held); err != nil || k != nil {
			return k, err
		}
		if err := state.Pause(ctx, n); err != nil {
			return nil, err
		}
	}
}

// renew keeps a claim for as long as the request is answered, which is until stop is called. Where it can't, the claim
// may end and an equal request be answered beside this one: what must not be done twice, the registry sees to.
func (t *taking) renew(claim []byte) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		tick := time.NewTicker(claimRenew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := t.store.Swap(ctx, t.key, claim, claim, claimHeld); err != nil && ctx.Err() == nil {
				t.log.Warn("the claim of a request under way was not renewed", slog.Any("err", err))
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// read gives a kept reply to the same request, nil where that is under way.
func (t *taking) read(held []byte) (*kept, error) {
	k, err := readKept(held)
	switch {
	case err != nil:
		return nil, err
	case k.Request != t.request:
		return nil, errKeyReused
	case k.Owner != "":
		return nil, nil
	}
	return k, nil
}

// keep puts a reply in the place of the claim; with nil it gives the claim up.
func (t *taking) keep(ctx context.Context, k *kept) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	t.hold()
	claim := t.claim
	t.claim = nil
	if k == nil {
		_, err := t.store.Swap(ctx, t.key, claim, nil, 0)
		return err
	}
	k.Request = t.request
	value, err := k.encode()
	if err != nil {
		return err
	}
	swapped, err := t.store.Swap(ctx, t.key, claim, value, replyKept)
	if err == nil && !swapped { // it had to make room, or its time was over
		_, _, err = t.store.Claim(ctx, t.key, value, replyKept)
	}
	return err
}

// release lets the next one have the key. A claim that is left, of a run that panicked, goes.
func (t *taking) release() {
	if t.claim != nil {
		_ = t.keep(context.Background(), nil) // else it goes with the end of its time
	}
	if t.unlock != nil {
		t.unlock()
	}
}

// recorder keeps what goes through to the client, up to maxReply.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing was written
	body   bytes.Buffer
	over   bool // it was more
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes what is written, though the client be gone.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.over = r.over || r.body.Len()+len(b) > maxReply; r.over {
		r.body = bytes.Buffer{}
	} else {
		r.body.Write(b)
	}
	return r.ResponseWriter.Write(b)
}
