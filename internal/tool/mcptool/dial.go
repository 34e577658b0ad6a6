package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// errNoAnswer is a server that takes longer than it may.
var errNoAnswer = errors.New("the server does not answer")

// older is the newest protocol whose sessions begin with `initialize`. From 2026-07-28 on they begin with
// `server/discover`, which some older servers take amiss: they die of it, or never answer.
const older = "2025-11-25"

// dial begins a session with the headers of an identity and asks for the tools. ctx bounds that, not the session.
func (s *Server) dial(ctx context.Context, h http.Header) (*session, []*mcp.Tool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(s.config.ListTimeout),
		fmt.Errorf("%w: list_timeout (%s) has passed", errNoAnswer, time.Duration(s.config.ListTimeout)))
	defer cancel()
	x, err := s.connect(ctx, h)
	if err != nil {
		return nil, nil, because(ctx, err)
	}
	tools, err := list(ctx, x.client)
	if err != nil {
		err = because(ctx, err)
		x.close(err)
		return nil, nil, err
	}
	return x, tools, nil
}

// because is err, or what ended ctx where that is the reason for it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// connect begins a session by the way that the file names, or else by the one that works.
func (s *Server) connect(ctx context.Context, h http.Header) (*session, error) {
	wire := s.config.wire()
	if s.config.URL == "" {
		return s.connectProcess(ctx)
	}
	if wire == "" && s.sse.Load() {
		wire = wireSSE
	}
	if wire == wireSSE {
		x, _, err := s.connectHTTP(ctx, h, wireSSE)
		if err != nil {
			s.sse.Store(false) // the next time see whether it has learned
		}
		return x, err
	}
	x, status, err := s.connectHTTP(ctx, h, wireStreamable)
	if err == nil || wire != "" || !isOldServer(status) || ctx.Err() != nil {
		return x, err
	}
	// MCP 2025-11-25, transports, backwards compatibility: a POST that is refused with a 4xx is the sign of a server
	// that only knows the transport of 2024-11-05.
	old, _, errSSE := s.connectHTTP(ctx, h, wireSSE)
	if errSSE != nil {
		return nil, fmt.Errorf("%w (as an SSE server: %w)", err, errSSE)
	}
	s.sse.Store(true)
	return old, nil
}

func isOldServer(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

func (s *Server) connectProcess(ctx context.Context) (*session, error) {
	t := &stdioTransport{config: s.config, log: s.log}
	x := newSession(ctx)
	x.local = true
	x.cut = func(error) { _ = t.conn.Close() }
	asOlder := s.older.Load()
	err := s.begin(ctx, x, t)
	if t.conn != nil {
		x.spent = t.conn.process.done
	}
	switch {
	case err == nil:
		return x, nil
	case t.conn == nil:
		return nil, err
	}
	x.cut(err)
	<-x.spent
	if t.conn.process.early {
		s.older.CompareAndSwap(asOlder, !asOlder) // it may have died of the handshake
		return nil, t.conn.process.ending()
	}
	if said := t.conn.process.tail.text(); said != "" {
		err = fmt.Errorf("%w; stderr: %s", err, said)
	}
	return nil, err
}

// connectHTTP also gives the status of the last reply.
func (s *Server) connectHTTP(ctx context.Context, h http.Header, wire string) (*session, int, error) {
	origin, err := url.Parse(s.config.URL)
	if err != nil {
		return nil, 0, errors.New("the url can't be read") // Check has said so; err would repeat the address
	}
	life, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	x := newSession(ctx)
	x.cut, x.spent = cut, life.Done()
	l := &link{
		next: s.transport, origin: origin, header: h, join: joined(life), trouble: x.doubt,
		patience: time.Duration(s.config.ListTimeout) / 2,
	}
	var t mcp.Transport = &mcp.StreamableClientTransport{
		Endpoint: s.config.URL, HTTPClient: l.client(),
		// The stream for notifications is taken up again as long as the session lasts; with a limit, a proxy that
		// ends quiet streams would end the session in the middle of calls. Whether the server is still there is
		// looked at apart from that.
		MaxRetries: 1 << 20,
		// go-sdk 1.8.0 says that 0 is its default, and takes it for no limit.
		MaxEventSize: mostMessage,
	}
	if wire == wireSSE {
		l.patience = 0 // all that an SSE server says is on the stream
		t = &mcp.SSEClientTransport{Endpoint: s.config.URL, HTTPClient: l.client(), MaxEventSize: mostMessage}
	}
	if err := s.begin(ctx, x, t); err != nil {
		cut(err)
		status := int(l.status.Load())
		if status >= 400 {
			err = &refusedError{status, err}
		}
		return nil, status, err
	}
	return x, 0, nil
}

// refusedError is a session that the server did not begin, with the HTTP status of its last reply, which is an error.
type refusedError struct {
	status int
	err    error
}

func (e *refusedError) Error() string { return fmt.Sprintf("HTTP status %d: %v", e.status, e.err) }
func (e *refusedError) Unwrap() error { return e.err }

// begin does the handshake. Where ctx ends before it, what carries the session is cut.
func (s *Server) begin(ctx context.Context, x *session, t mcp.Transport) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "toolgate", Version: s.version}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{}, // no roots, no sampling, no elicitation
		Logger:                 s.log,
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { poke(x.changed) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			s.log.Debug("mcp progress", slog.Any("token", r.Params.ProgressToken), slog.Float64("progress", r.Params.Progress),
				slog.Float64("total", r.Params.Total), slog.String("text", r.Params.Message))
		},
	})
	var o mcp.ClientSessionOptions
	asOlder := s.older.Load()
	if asOlder {
		o.ProtocolVersion = older
	}
	// The SDK ties the stream of an SSE server to the context of Connect, which therefore must not end with ctx.
	// It also has requests of its own in Connect that no context of ours ends, so that the link has to be cut.
	handshake, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	overtaken := context.AfterFunc(ctx, func() {
		stop(context.Cause(ctx))
		if !x.local {
			x.cut(context.Cause(ctx))
		}
	})
	cs, err := client.Connect(handshake, t, &o)
	inTime := overtaken()
	switch {
	case err != nil:
		if ctx.Err() != nil {
			s.older.CompareAndSwap(asOlder, !asOlder) // it may answer the other handshake
		}
		stop(err)
		return err
	case !inTime:
		s.older.CompareAndSwap(asOlder, !asOlder)
		_ = cs.Close()
		return context.Cause(ctx)
	}
	x.client = cs
	cut := x.cut
	x.cut = func(reason error) {
		cut(reason)
		stop(reason)
	}
	go func() {
		err := cs.Wait()
		if err == nil {
			err = errClosed
		}
		x.once.Do(func() { x.reason = err })
		close(x.gone)
	}()
	return nil
}
