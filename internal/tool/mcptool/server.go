// Package mcptool is the tools of MCP servers: it keeps sessions to them, says which tools they have, and calls these.
// A server that is down takes its own tools away and nothing else.
package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/tool"
)

// Options is what a Server is made with.
type Options struct {
	Logger    *slog.Logger      // default discards
	Transport http.RoundTripper // required for a server with a url; it must use no proxy
	// OnTools is told the whole list whenever it changes: the first one, a changed one, none when the server is lost,
	// again when it is back, and none when Run ends. Calls come one at a time, from goroutines of Run and Introduce,
	// which wait for them; Ready follows after.
	OnTools       func(server string, tools []Tool)
	ClientVersion string // what the server is told of us; default "dev"
}

// Server is one MCP server of the file. All methods may be called by many goroutines at once.
//
// A server without `forward` and without {caller.x} in its headers has one session, which everybody's calls share. Else
// it has one for each identity, begun by its first call; then the list of tools is that of a session of nobody, or
// where the server refuses nobody, that of the identity which was introduced last. It is one list for all.
type Server struct {
	name      string
	prefix    string
	config    *ServerConfig
	log       *slog.Logger
	transport http.RoundTripper
	onTools   func(string, []Tool)
	version   string
	pace      pace

	guests  *guests
	stopped chan struct{} // closed when Run has ended

	older atomic.Bool // sessions begin with `initialize`
	sse   atomic.Bool // the server only knows the transport of 2024-11-05

	telling  sync.Mutex // held while OnTools is told
	mu       sync.Mutex // guards what follows
	slot     *slot      // the session of all, or that of nobody
	tools    []Tool
	listed   bool     // tools are those of a server that is there
	source   *session // whose list it is
	err      error    // why it is not there
	warnings []string // of the last list
}

// pace is how fast things are done. Tests have their own.
type pace struct {
	debounce  time.Duration // from a change of the list to the question for it
	poll      time.Duration // between looks at a server over HTTP, which may change or vanish without a word
	base, max time.Duration // waits between attempts to reach a server
	settled   time.Duration // a session that has lasted this long starts the waits anew
	idle      time.Duration // an identity that makes no call for this long loses its session
}

var usualPace = pace{
	debounce: 250 * time.Millisecond,
	poll:     30 * time.Second,
	base:     500 * time.Millisecond,
	max:      time.Minute,
	settled:  10 * time.Second,
	idle:     10 * time.Minute,
}

// ErrNotYet is the Err of a server to which no attempt to connect has ended yet.
var ErrNotYet = errors.New("no session yet")

// New makes the server called name in the file, whose checked configuration is c. It does no I/O: Run does.
func New(name string, c *ServerConfig, o Options) (*Server, error) {
	switch {
	case name == "":
		return nil, errors.New("mcptool: a server needs a name")
	case (c.URL == "") == (len(c.Command) == 0):
		return nil, fmt.Errorf("mcptool: server %s: want exactly one of command, url", name)
	case c.URL != "" && o.Transport == nil:
		return nil, fmt.Errorf("mcptool: server %s: no transport", name)
	}
	transport, err := outbound.For(o.Transport, c.TLS)
	if err != nil {
		return nil, fmt.Errorf("mcptool: server %s: %w", name, err)
	}
	s := &Server{
		name: name, prefix: name + "__", config: c, transport: transport, onTools: o.OnTools, version: o.ClientVersion,
		pace: usualPace, slot: newSlot(), guests: newGuests(), stopped: make(chan struct{}), err: ErrNotYet,
	}
	if c.Prefix != nil {
		s.prefix = *c.Prefix
	}
	if s.version == "" {
		s.version = "dev"
	}
	if s.onTools == nil {
		s.onTools = func(string, []Tool) {}
	}
	s.log = o.Logger
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With(slog.String("mcp_server", name))
	return s, nil
}

// Name is the server's name in the file.
func (s *Server) Name() string { return s.name }

// Required says whether the gateway is not ready without the server.
func (s *Server) Required() bool { return s.config.Required }

// Ready says whether the server is there and its tools are known.
func (s *Server) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

// Err is why the server is not there, nil when it is. It is for the log, to be masked: it may name hosts and files and
// hold what a program wrote to stderr.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed {
		return nil
	}
	return s.err
}

// Tools is the list as it is now, none while the server is not there.
func (s *Server) Tools() []Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools)
}

// Connect begins a session, asks for the tools and ends it. It needs no Run. It takes up to twice list_timeout, for a
// server that does not know the newest handshake.
func (s *Server) Connect(ctx context.Context) ([]Tool, error) {
	h, err := s.config.headersFor(tool.Call{})
	if err != nil {
		return nil, err
	}
	before := s.older.Load()
	x, all, err := s.dial(ctx, h)
	if err != nil && ctx.Err() == nil && s.older.Load() != before {
		if again, list, errAgain := s.dial(ctx, h); errAgain == nil {
			x, all, err = again, list, nil
		}
	}
	if err != nil {
		return nil, err
	}
	x.close(errClosed)
	tools, warnings := s.offered(all)
	for _, w := range warnings {
		s.log.Warn("mcp server's list of tools", slog.String("warning", w))
	}
	return tools, nil
}

// Patience is how long the start of a session may take.
func (s *Server) Patience() time.Duration { return time.Duration(s.config.ListTimeout) }

// Run keeps the server's sessions until ctx ends. It returns when they are closed, and their processes and goroutines
// gone. It is called once.
func (s *Server) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if s.config.personal() {
		wg.Go(func() { s.serveGuests(ctx) })
	}
	s.keep(ctx)
	wg.Wait()
	s.withdraw(s.lister(), errStopped)
	close(s.stopped)
}

// errStopped is why there is no session once Run ends.
var errStopped = errors.New("the gateway is stopping")

// keep makes the main session again and again. Each session has its slot; while the next attempt is not due, there is
// one that holds the failure, so that calls need not wait for it.
func (s *Server) keep(ctx context.Context) {
	waits := s.waits()
	free := true // the next attempt needs no wait
	for {
		current, began := s.current(), time.Now()
		err := s.live(ctx, current)
		if ctx.Err() != nil {
			s.replace(failedSlot(errStopped))
			return
		}
		if current.session != nil && time.Since(began) >= s.pace.settled {
			waits, free = s.waits(), true
		}
		if !free || current.session == nil {
			s.replace(failedSlot(err))
			sleep(ctx, waits.NextBackOff())
		}
		free = false
		s.replace(newSlot())
	}
}

func (s *Server) waits() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: s.pace.base, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: s.pace.max}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// live is one session from its beginning to its end, which is the error.
func (s *Server) live(ctx context.Context, at *slot) error {
	h, err := s.config.headersFor(tool.Call{})
	if err != nil {
		at.settle(nil, err)
		s.withdraw(nil, err)
		return err
	}
	x, all, err := s.dial(ctx, h)
	if err != nil {
		at.settle(nil, err)
		s.withdraw(nil, ended(ctx, err))
		return err
	}
	at.settle(x, nil)
	s.publish(x, all)
	every := s.pace.poll
	if x.local {
		every = 0 // its end shows by itself
	}
	err = ended(ctx, s.watch(ctx, x, every, nil))
	x.lose(err)
	s.withdraw(x, err)
	x.close(err)
	return err
}

// ended is why a session is not there: err, or the end of the gateway.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errStopped
	}
	return err
}
