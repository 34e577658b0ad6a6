package mcptool

import (
	"context"
)

// slot is the place of one session: it is being made, or is there, or could not be made.
type slot struct {
	settled  chan struct{} // closed when session or err is set
	replaced chan struct{} // closed when another slot has taken its place
	session  *session
	err      error
}

func newSlot() *slot { return &slot{settled: make(chan struct{}), replaced: make(chan struct{})} }

// failedSlot has no session and won't get one.
func failedSlot(err error) *slot {
	t := newSlot()
	t.settle(nil, err)
	return t
}

// settle is called once.
func (t *slot) settle(x *session, err error) {
	t.session, t.err = x, err
	close(t.settled)
}

// live is the session if it is there.
func (t *slot) live() *session {
	select {
	case <-t.settled:
	default:
		return nil
	}
	if t.session == nil || t.session.over() {
		return nil
	}
	return t.session
}

// wait is the session once it is there.
func (t *slot) wait(ctx context.Context) (*session, error) {
	select {
	case <-t.settled:
		return t.session, t.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// current is the slot of the main session.
func (s *Server) current() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slot
}

// replace puts another slot in place of the current one.
func (s *Server) replace(t *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.slot.replaced)
	s.slot = t
}

// mainSession is the main session. One that has ended is not taken: the next attempt is under way then, and its outcome
// is waited for.
func (s *Server) mainSession(ctx context.Context) (*session, error) {
	for {
		t := s.current()
		x, err := t.wait(ctx)
		if err != nil || !x.over() {
			return x, err
		}
		select {
		case <-t.replaced:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
