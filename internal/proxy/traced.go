package proxy

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/toolgate/toolgate/internal/span"
)

// traced makes the span of a request, in the client's trace where it names one. Without a tracer it only keeps what the
// client sent, which goes on to tools; to providers it goes with the client's other headers.
func (s *Server) traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Tracer == nil && !span.Traced(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		i := info(r)
		ctx, traced := s.opts.Tracer.Begin(r.Context(), r.Header, method(r), i.site.TraceContent)
		i.span = traced
		returned := false
		defer func() {
			defer traced.End()
			if traced.Recording() {
				tellRequest(traced, w, r, i, returned)
			}
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
		returned = true
	})
}

// tellRequest says what a request was and came to. Its path is there without the query.
func tellRequest(traced *span.Span, w http.ResponseWriter, r *http.Request, i *requestInfo, returned bool) {
	if route := chi.RouteContext(r.Context()); route != nil && route.RoutePattern() != "" {
		traced.Rename(method(r) + " " + route.RoutePattern())
		traced.Text("http.route", route.RoutePattern())
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	traced.Text("http.request.method", method(r))
	traced.Text("url.scheme", scheme)
	traced.Text("url.path", r.URL.Path)
	traced.Text("client.address", i.clientName())
	traced.Text("toolgate.request_id", i.requestID)
	traced.Text("toolgate.run_id", i.runID)
	traced.Text("toolgate.caller", i.keyName())
	traced.Text("toolgate.model", i.model)
	traced.Text("toolgate.stop", i.stop)
	status := statusClientGone
	if own, ok := w.(middleware.WrapResponseWriter); ok && own.Status() != 0 {
		status = own.Status()
	}
	switch {
	case !returned && status == statusClientGone: // a panic on its way to become a reply
		status = http.StatusInternalServerError
	case !returned:
		traced.Fail("cut_off")
	case i.failure != "": // of a stream, whose status had been sent
		traced.Fail(i.failure)
	}
	traced.Number("http.response.status_code", int64(status))
	if status >= http.StatusInternalServerError {
		traced.Fail(strconv.Itoa(status))
	}
}

// method is the request's, from a closed list.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "_OTHER"
}
