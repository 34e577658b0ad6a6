// Package proxy owns HTTP towards clients: routes, authentication, limits, streams and errors. What a run does is the
// loop's; what a provider does is upstream's.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/cors"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/guard"
	"github.com/toolgate/toolgate/internal/limit"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/trace"
)

// Site is all that a configuration says of serving. Immutable once it is used; a request keeps the one that it began
// with.
type Site struct {
	Keys         *auth.Keys
	Trust        auth.Trust
	Models       *models.Table
	Tools        *registry.Set
	Endpoints    *Endpoints
	Streaming    StreamingConfig
	MaxBody      int64
	MaxInflight  int
	CORSOrigins  []string
	TraceContent bool
	Memory       bool // tool turns that a client never saw are put back in its next request
	Guard        bool // results of tools are marked as data for models
	MCP          bool // serve the tools at /mcp
	Mask         *mask.Masker
	Ready        func() error // nil once requests can be served; without it always
	// MaxConnections is how many are taken at once; 0 is by how many files the process may have open.
	MaxConnections int
	// Introduce, if it is not nil, lets tools that depend on who asks get ready before they are offered.
	Introduce func(ctx context.Context, caller map[string]any, header http.Header)

	cors *cors.Cors // made by Use; nil without origins
}

// Options is what a Server is made with. All of it is required but what says otherwise.
type Options struct {
	Logger   *slog.Logger
	Metrics  *Metrics
	Gatherer prometheus.Gatherer
	Store    trace.Store
	Turns    state.Store    // where turns are held for a client's next request; nil for nowhere
	Replies  state.Store    // where replies to requests with an Idempotency-Key are kept; nil for nowhere
	Limits   *limit.Limiter // of keys; without it they are counted in memory
	Version  string         // told to MCP clients
	// Confirmations is what is known of calls that want one; nil where none is.
	Confirmations *registry.Confirmations
	Tracer        *span.Tracer // nil where nobody traces
	OpenAPI       []byte       // served at /openapi.yaml; without it that is 404
}

// Server serves clients. Its site can be replaced while it does.
type Server struct {
	tenure  atomic.Pointer[tenure] // of the site in force
	log     *slog.Logger
	metrics *Metrics
	opts    Options
	replies *replies
	guard   *guard.Guard
	down    atomic.Bool // shutting down

	underway atomic.Int64 // requests of all listeners

	bodyTimeout, bodyIdle time.Duration
	connections           int // at once, where the site does not say
}

// New makes a server of a site.
func New(site *Site, o Options) *Server {
	s := &Server{
		log: o.Logger, metrics: o.Metrics, opts: o, replies: &replies{store: o.Replies}, guard: guard.New(),
		bodyTimeout: bodyTimeout, bodyIdle: bodyIdle,
		connections: defaultConnections(openFiles()),
	}
	if s.opts.Limits == nil {
		s.opts.Limits = limit.New(limit.NewMemory(time.Now))
	}
	s.Use(site)
	return s
}

// Routes, as the metrics name them.
const (
	routeChat   = "chat"
	routeModels = "models"
	routePass   = "passthrough"
	routeMCP    = "mcp"
	routeAdmin  = "admin"
	routeHealth = "health"
)

// Handler serves clients; with admin it serves the operator's endpoints too.
func (s *Server) Handler(admin bool) http.Handler {
	r := s.router()
	r.Group(func(r chi.Router) {
		r.Use(s.traced)        // outside of all that may take time
		r.Use(s.crossOrigin)   // before authentication: a preflight has no key
		r.Use(s.authenticate)  // before inflight: strangers take no places
		r.Use(s.limited(true)) // before inflight: nor do those who are over their limits
		r.Use(s.inflight)
		r.Post("/v1/chat/completions", s.routed(routeChat, s.chat))
		r.Get("/v1/models", s.routed(routeModels, s.models))
		r.Get("/v1/models/*", s.routed(routeModels, s.model))
		r.Head("/v1/models", s.routed(routeModels, s.models)) // GetHead would leave it to what is passed through, which takes any method
		r.Head("/v1/models/*", s.routed(routeModels, s.model))
		r.HandleFunc("/v1/*", s.routed(routePass, s.pass))
	})
	r.Group(func(r chi.Router) {
		r.Use(s.traced)
		r.Use(s.authenticate)
		r.Use(s.limited(false)) // no model is asked
		r.Use(s.inflight)
		r.Post("/mcp", s.mcp(s.mcpHandler())) // no session, so nothing to GET or DELETE
	})
	s.health(r)
	if admin {
		s.admin(r)
	}
	return s.entrance(r)
}

// AdminHandler serves the operator's endpoints alone.
func (s *Server) AdminHandler() http.Handler {
	r := s.router()
	s.health(r)
	s.admin(r)
	s.profiles(r)
	return s.entrance(r)
}

// entrance is a router with what stands before it.
type entrance struct {
	chi.Router
	first http.Handler
}

func (s *Server) entrance(r chi.Router) http.Handler { return entrance{r, s.withInfo(r)} }

// ServeHTTP serves a request.
func (e entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.first.ServeHTTP(w, r) }

// router is a router with what every request goes through, once it has its info.
func (s *Server) router() chi.Router {
	r := chi.NewRouter()
	r.Use(s.inTime)           // before anybody may refuse a request whose body is to come
	r.Use(s.believe)          // next: nobody reads a header that is not believed
	r.Use(s.accessLog)        // outside of recover, so that it sees the reply to a panic
	r.Use(s.recoverPanics)    // outside of everything that may panic
	r.Use(middleware.GetHead) // "All general-purpose servers MUST support the methods GET and HEAD" (RFC 9110, 9.1)
	notFound := s.handle(func(_ http.ResponseWriter, r *http.Request) error { return noEndpoint(r.URL.Path) })
	r.NotFound(notFound.ServeHTTP)
	r.MethodNotAllowed(s.handle(func(http.ResponseWriter, *http.Request) error { return errNoMethod }).ServeHTTP)
	return r
}

// noEndpoint says what is wrong with a path: mostly the base URL that a client was given.
func noEndpoint(path string) error {
	for _, end := range []string{"/chat/completions", "/models"} {
		if strings.HasSuffix(path, end) {
			return errBaseURL
		}
	}
	return errNoEndpoint
}

// handle adapts a handler that returns an error, which becomes the reply.
func (s *Server) handle(f func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := f(w, r)
		if err == nil {
			return
		}
		i := info(r)
		p := problem(err)
		p.log(r.Context(), s.log, i)
		if p.Status == statusClientGone {
			return
		}
		if r.URL.Path == "/v1/chat/completions" && w.Header().Get(trace.Header) == "" { // refused before it was a run
			record := trace.NewRun(time.Now())
			record.Stop = string(loop.Failed)
			w.Header().Set(trace.Header, record.Dictionary())
		}
		p.write(w, i.site.Mask)
	})
}

// routed is handle for a route that the metrics name.
func (s *Server) routed(name string, f func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		info(r).route = name
		return f(w, r)
	}).ServeHTTP
}

// Listeners are where a server is reached.
type Listeners struct {
	Main  net.Listener
	Admin net.Listener // nil: the operator's endpoints are on Main
}

// Serve serves until ctx ends, then lets running requests end for up to grace, which is asked for at that time.
func (s *Server) Serve(ctx context.Context, l Listeners, grace func() time.Duration) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	clients := limitConnections(l.Main, s.metrics, s.maxConnections)
	servers := []*http.Server{s.server(base, s.Handler(l.Admin == nil))}
	servers[0].ConnState = clients.state
	listeners := []net.Listener{clients}
	if l.Admin != nil {
		servers, listeners = append(servers, s.server(base, s.AdminHandler())), append(listeners, l.Admin)
	}
	failed := make(chan error, len(servers))
	for i, server := range servers {
		go func() { failed <- server.Serve(listeners[i]) }() // ends with Shutdown or Close below
	}
	var err error
	left := len(servers)
	select {
	case <-ctx.Done():
	case err = <-failed:
		left--
	}
	s.down.Store(true)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), grace())
	defer stop()
	for _, server := range servers {
		if e := server.Shutdown(end); e != nil {
			cancel() // what still runs is canceled
			s.log.Warn("requests were cut off at the end of shutdown_grace", slog.Any("err", e))
			_ = server.Close()
		}
	}
	for range left {
		if e := <-failed; err == nil {
			err = e
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// maxConnections is how many connections are taken at once.
func (s *Server) maxConnections() int {
	if n := s.tenure.Load().site.MaxConnections; n > 0 {
		return n
	}
	return s.connections
}

func (s *Server) server(base context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second, // against clients that trickle their header
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
