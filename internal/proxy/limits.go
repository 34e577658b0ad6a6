package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/internal/limit"
)

// limited lets requests of a key in as far as its limits allow. Nothing queues. spends is for endpoints that may use
// tokens; a request that only reads there does not.
func (s *Server) limited(spends bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return s.handle(func(w http.ResponseWriter, r *http.Request) error {
			i := info(r)
			grant, err := s.opts.Limits.Admit(r.Context(), i.caller.ID, i.caller.Limits, spends && r.Method == http.MethodPost)
			if refused, ok := errors.AsType[*limit.Refused](err); ok {
				s.metrics.rejections.WithLabelValues(i.caller.Name, string(refused.Limit)).Inc()
				setLimits(w.Header(), grant)
			}
			if err != nil {
				return err
			}
			if grant == nil {
				next.ServeHTTP(w, r)
				return nil
			}
			defer grant.Leave()
			i.grant = grant
			next.ServeHTTP(&limitedWriter{ResponseWriter: w, grant: grant}, r)
			return nil
		})
	}
}

// rateNames are the ends of the headers' names, as OpenAI's API has them.
var rateNames = map[limit.Name]string{limit.Requests: "Requests", limit.Tokens: "Tokens"}

// limitHeaders are the headers that tell of limits.
func limitHeaders() []string {
	var names []string
	for _, of := range []string{rateNames[limit.Requests], rateNames[limit.Tokens]} {
		names = append(names, "X-Ratelimit-Limit-"+of, "X-Ratelimit-Remaining-"+of, "X-Ratelimit-Reset-"+of)
	}
	return names
}

// setLimits says what is left of a key's rates. Reset is a duration until all of it is there again, as in OpenAI's API.
func setLimits(h http.Header, g *limit.Grant) {
	for _, rate := range g.Rates() {
		of := rateNames[rate.Name]
		h.Set("X-Ratelimit-Limit-"+of, strconv.FormatInt(rate.Max, 10))
		h.Set("X-Ratelimit-Remaining-"+of, strconv.FormatInt(rate.Remaining, 10))
		h.Set("X-Ratelimit-Reset-"+of, rate.Reset.Round(time.Millisecond).String())
	}
}

// limitedWriter sets the headers that tell of the key's limits when the header is sent: after those of a provider, which
// they replace, and with what the request has paid by then.
type limitedWriter struct {
	http.ResponseWriter
	grant *limit.Grant
	begun bool
}

// Unwrap is for http.ResponseController.
func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *limitedWriter) begin() {
	if !w.begun {
		w.begun = true
		setLimits(w.Header(), w.grant)
	}
}

// WriteHeader sends the header.
func (w *limitedWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (w *limitedWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// FlushError sends what has been written.
func (w *limitedWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is FlushError for who asks for an http.Flusher.
func (w *limitedWriter) Flush() { _ = w.FlushError() } // the client may have left

// spend pays for what a request has used. It does so too where the client has left.
func (s *Server) spend(r *http.Request, u limit.Use) {
	i := info(r)
	if err := i.grant.Spend(context.WithoutCancel(r.Context()), u); err != nil {
		s.log.Warn("what a request used was not counted", slog.String("request_id", i.requestID), slog.String("key", i.keyName()), slog.Any("err", err))
	}
}
