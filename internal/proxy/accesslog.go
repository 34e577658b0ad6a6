package proxy

import (
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/go-chi/chi/v5/middleware"
)

// accessLog writes one line a request and counts it. A reply that was cut off on purpose, by http.ErrAbortHandler, is
// logged like any other before the panic goes on.
func (s *Server) accessLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		i, ctx := info(r), r.Context()
		whole := false
		s.underway.Add(1)
		defer func() {
			alone := s.underway.Add(-1) == 0
			took := time.Since(i.start)
			status := ww.Status()
			if status == 0 {
				status = statusClientGone
			}
			s.metrics.requests.With(requestLabels{i.route, i.model, status}).Inc()
			s.metrics.duration.With(i.route).Observe(took.Seconds())
			if alone && whole && r.Method != http.MethodHead && ww.Header()["Content-Length"] != nil {
				_ = http.NewResponseController(ww).Flush() // nobody need wait for what is left to do; the client may have left
			}
			level := slog.LevelInfo
			if i.route == routeHealth || status == http.StatusNotModified { // a page that looks every other second
				level = slog.LevelDebug
			}
			if h := s.log.Handler(); h.Enabled(ctx, level) {
				_ = h.Handle(ctx, i.line(r, level, status, took, ww.BytesWritten())) // nobody could be told
			}
			if !alone {
				// What has been written leaves when the handler returns. Whoever else can go on does so first: replies that
				// leave together wake those who wait for them once.
				runtime.Gosched()
			}
		}()
		next.ServeHTTP(ww, r)
		whole = true
	})
}

// line is the request's line in the log. It says nothing of where in the code it is written, which would take as long as
// all the rest.
func (i *requestInfo) line(r *http.Request, level slog.Level, status int, took time.Duration, bytes int) slog.Record {
	line := slog.NewRecord(i.start.Add(took), level, "request", 0)
	line.AddAttrs(
		slog.String("request_id", i.requestID), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", status), slog.Duration("duration", took), slog.Int("bytes", bytes),
		slog.String("client", i.clientName()), slog.String("key", i.keyName()), slog.String("model", i.model),
		slog.String("run_id", i.runID), slog.String("stop", i.stop),
	)
	if i.caller != nil && i.caller.Subject != "" {
		line.AddAttrs(slog.String("subject", i.caller.Subject))
	}
	if id := i.span.TraceID(); id != "" {
		line.AddAttrs(slog.String("trace_id", id))
	}
	return line
}

func (i *requestInfo) keyName() string {
	if i.caller == nil {
		return ""
	}
	return i.caller.Name
}

// clientName is the client's address, "" where nobody can tell.
func (i *requestInfo) clientName() string {
	if !i.client.IsValid() {
		return ""
	}
	return i.client.String()
}
