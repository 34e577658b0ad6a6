package mcptool

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// errIdle ends the session of an identity that makes no calls.
var errIdle = errors.New("no call for a while")

// watch looks after a session until it ends; the error says why. It ends a session by itself where expired says so,
// which is asked now and then.
func (s *Server) watch(ctx context.Context, x *session, every time.Duration, expired func() bool) error {
	var look, due <-chan time.Time
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		look = t.C
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-x.gone:
			return x.reason
		case <-x.lost:
			return x.reason
		case <-x.changed:
			if due == nil { // servers tell of several changes in a row
				due = time.After(s.pace.debounce)
			}
		case <-due:
			due = nil
			err = s.refresh(ctx, x)
		case <-x.suspect:
			err = s.examine(ctx, x)
		case <-look:
			switch {
			case expired == nil:
				err = s.refresh(ctx, x)
			case expired():
				err = errIdle
			}
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// refresh asks for the tools again. A server that is busy with calls and does not answer in time is given more of it: it
// may do one thing after the other.
func (s *Server) refresh(ctx context.Context, x *session) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(s.config.ListTimeout), errNoAnswer)
	defer cancel()
	all, err := list(ctx, x.client)
	switch {
	case err == nil:
		s.publish(x, all)
		return nil
	case ctx.Err() != nil && x.calls.Load() > 0:
		return nil // where these end in a timeout too, they ask for a look
	}
	return because(ctx, err)
}

// examine is an error where the server does not answer and no call is under way that it may be busy with.
func (s *Server) examine(ctx context.Context, x *session) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(s.config.ListTimeout), errNoAnswer)
	defer cancel()
	if err := x.answers(ctx); err != nil && (ctx.Err() == nil || x.calls.Load() == 0) {
		return because(ctx, err)
	}
	return nil
}

// publish makes the list of a session that of the server. Where the session of nobody is there, its list is the one
// that counts.
func (s *Server) publish(x *session, all []*mcp.Tool) {
	s.telling.Lock()
	defer s.telling.Unlock()
	tools, warnings := s.offered(all)
	s.mu.Lock()
	if main := s.slot.live(); main != nil && main != x {
		s.mu.Unlock()
		return
	}
	back, changed := !s.listed, !s.listed || !sameTools(s.tools, tools)
	for _, w := range warnings {
		if !slices.Contains(s.warnings, w) { // one that is as before says nothing new
			s.log.Warn("mcp server's list of tools", slog.String("warning", w))
		}
	}
	s.tools, s.source, s.warnings = tools, x, warnings
	s.mu.Unlock()
	if changed {
		s.onTools(s.name, slices.Clone(tools))
	}
	s.mu.Lock()
	s.listed, s.err = true, nil // not before who offers the tools has them
	s.mu.Unlock()
	if back {
		s.log.Info("mcp server is there", slog.Int("tools", len(tools)), slog.String("protocol", x.client.InitializeResult().ProtocolVersion))
	}
}

// withdraw takes the tools away whose list is that of x. A nil x is an attempt that failed; it leaves the list of an
// identity alone.
func (s *Server) withdraw(x *session, reason error) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	news := s.err == nil || s.err.Error() != reason.Error()
	s.err = reason
	lost := s.listed && s.source == x
	if lost {
		s.tools, s.listed, s.source = nil, false, nil
	}
	s.mu.Unlock()
	switch {
	case errors.Is(reason, errStopped), !news: // the gateway ends, or a failure is as before
		s.log.Debug("mcp server is not there", slog.Any("err", reason))
	default:
		s.log.Warn("mcp server is not there", slog.Any("err", reason))
	}
	if lost {
		s.onTools(s.name, nil)
	}
}

// lister is the session whose list is the server's, nil without one.
func (s *Server) lister() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source
}
