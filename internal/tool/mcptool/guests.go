package mcptool

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
)

// guests are the sessions of identities. None is ever used by another identity.
type guests struct {
	ask chan *guest // to serveGuests

	mu   sync.Mutex // guards what follows
	list map[string]*guest
}

// guest is the session of one identity.
type guest struct {
	*slot
	key    string
	header http.Header

	// guarded by guests.mu
	busy int       // calls that have or await the session
	used time.Time // when the last of them ended
}

// mostGuests is how many identities have a session at once. The one that has been idle for longest makes room.
const mostGuests = 256

func newGuests() *guests { return &guests{ask: make(chan *guest), list: map[string]*guest{}} }

// errCrowded is no room for another identity.
var errCrowded = errors.New("every session is busy with calls of other identities")

// enter is the guest with those headers. fresh says that it is new and has to be asked for.
func (g *guests) enter(h http.Header) (found *guest, fresh bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := identity(h)
	found = g.list[key]
	if found == nil || found.failed() {
		if len(g.list) >= mostGuests && found == nil && !g.makeRoom() {
			return nil, false, errCrowded
		}
		found, fresh = &guest{slot: newSlot(), key: key, header: h}, true
		g.list[key] = found
	}
	found.busy++
	return found, fresh, nil
}

// failed says whether the guest is settled and has no session that can be used.
func (a *guest) failed() bool {
	select {
	case <-a.settled:
		return a.live() == nil
	default:
		return false
	}
}

// leave ends what enter began.
func (g *guests) leave(a *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a.busy--
	a.used = time.Now()
}

// makeRoom ends the session that has been idle for longest, if one is.
func (g *guests) makeRoom() bool {
	var oldest *guest
	for _, a := range g.list {
		if a.busy == 0 && (oldest == nil || a.used.Before(oldest.used)) {
			oldest = a
		}
	}
	if oldest == nil {
		return false
	}
	delete(g.list, oldest.key)
	if x := oldest.live(); x != nil {
		x.lose(errIdle)
	}
	return true
}

// expire says whether the guest has been idle for that long. It is off the list then.
func (g *guests) expire(a *guest, idle time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.busy > 0 || time.Since(a.used) < idle {
		return false
	}
	g.drop(a)
	return true
}

// remove takes the guest off the list.
func (g *guests) remove(a *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(a)
}

func (g *guests) drop(a *guest) {
	if g.list[a.key] == a {
		delete(g.list, a.key)
	}
}

// serveGuests makes the sessions that are asked for and looks after them until ctx ends.
func (s *Server) serveGuests(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case a := <-s.guests.ask:
			wg.Go(func() { s.host(ctx, a) })
		case <-ctx.Done():
			return
		}
	}
}

// host is one session of an identity from its beginning to its end.
func (s *Server) host(ctx context.Context, a *guest) {
	defer s.guests.remove(a)
	x, all, err := s.dial(ctx, a.header)
	if err != nil {
		a.settle(nil, err)
		s.unreachable(err)
		return
	}
	a.settle(x, nil)
	s.publish(x, all)
	err = ended(ctx, s.watch(ctx, x, s.pace.idle/4, func() bool { return s.guests.expire(a, s.pace.idle) }))
	s.guests.remove(a)
	x.lose(err)
	x.close(err)
}

// unreachable takes the list of an identity away where there is no server.
func (s *Server) unreachable(err error) {
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.status < http.StatusInternalServerError {
		return // the server is there: it does not want this one
	}
	if source := s.lister(); source != nil && s.current().live() == nil {
		s.withdraw(source, err)
	}
}

// guestSession is the session with those headers. The function ends its use.
func (s *Server) guestSession(ctx context.Context, h http.Header) (*session, func(), error) {
	a, fresh, err := s.guests.enter(h)
	if err != nil {
		return nil, nil, err
	}
	leave := func() { s.guests.leave(a) }
	if fresh {
		select {
		case s.guests.ask <- a:
		case <-s.stopped:
			err = errStopped
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			s.guests.remove(a)
			a.settle(nil, err)
			leave()
			return nil, nil, err
		}
	}
	x, err := a.wait(ctx)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return x, leave, nil
}

// acquire is a session for the headers of a call. The function ends its use.
func (s *Server) acquire(ctx context.Context, h http.Header) (*session, func(), error) {
	if !s.config.personal() {
		x, err := s.mainSession(ctx)
		return x, func() {}, err
	}
	return s.guestSession(ctx, h)
}

// Introduce begins the session of the call's identity, if it has none, so that its first call need not wait. It also
// asks for the tools, which matters for a server that refuses nobody's session: until somebody is introduced it has no
// tools. A server whose sessions have no identities needs no introduction.
func (s *Server) Introduce(ctx context.Context, c tool.Call) error {
	if !s.config.personal() {
		return nil
	}
	h, err := s.config.headersFor(c)
	if err != nil {
		return err
	}
	x, leave, err := s.guestSession(ctx, h)
	if err != nil {
		return err
	}
	defer leave()
	if s.Ready() {
		return nil
	}
	return s.refresh(ctx, x)
}
