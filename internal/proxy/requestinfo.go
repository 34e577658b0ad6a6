package proxy

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/limit"
	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/trace"
)

// requestInfo is what the middleware learns of a request on its way, for the log line and the metrics at its end. It
// belongs to the request's goroutine.
type requestInfo struct {
	requestID string
	start     time.Time
	route     string // for metrics, from a closed list
	model     string // label
	caller    *auth.Caller
	client    netip.Addr   // the zero one where nobody can tell
	proxied   bool         // the peer is a trusted proxy
	grant     *limit.Grant // nil for a key without limits
	tenure    *tenure      // of site; held until the handler returns
	site      *Site
	runID     string
	stop      string
	span      *span.Span // nil where nobody traces
	failure   string     // code of the error that ended a stream
}

type infoKey struct{}

// info is the request's; every request has one.
func info(r *http.Request) *requestInfo {
	i, ok := r.Context().Value(infoKey{}).(*requestInfo)
	if !ok {
		return &requestInfo{start: time.Now()}
	}
	return i
}

// requestContext is a request's context with what the middleware and the router keep there: a request is copied for each
// context that it gets, so that it gets one.
type requestContext struct {
	context.Context
	info  *requestInfo
	route *chi.Context
}

// Value is the info, the router's own, or what the server's context has.
func (c *requestContext) Value(key any) any {
	switch key {
	case infoKey{}:
		return c.info
	case chi.RouteCtxKey:
		return c.route
	}
	return c.Context.Value(key)
}

// withInfo begins a request: it takes the configuration that holds for all of it, and its id, the client's own where
// that is fit to be a header and a log value.
func (s *Server) withInfo(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := s.take()
		defer t.release()
		i := &requestInfo{start: time.Now(), route: "other", tenure: t, site: t.site, requestID: first(r.Header, "X-Request-Id")}
		if !fitID(i.requestID) {
			i.requestID = trace.NewID("req_")
		}
		w.Header().Set("X-Request-Id", i.requestID)
		route := chi.NewRouteContext()
		route.Routes, _ = next.(chi.Routes)
		next.ServeHTTP(w, r.WithContext(&requestContext{Context: r.Context(), info: i, route: route})) //nolint:contextcheck // it is r.Context() with what stands above
	})
}

// fitID says whether a client's request id is short and made of visible ASCII characters.
func fitID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
