package proxy

import (
	"net/http"

	"github.com/go-chi/cors"

	"github.com/toolgate/toolgate/internal/trace"
)

// newCORS lets pages of these origins call; nil without any.
func newCORS(origins []string) *cors.Cors {
	if len(origins) == 0 {
		return nil
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: append([]string{trace.Header, headerApproval, "X-Request-Id", "Retry-After", "X-Should-Retry"}, limitHeaders()...),
	})
}

// crossOrigin answers preflights, and marks replies for the browsers of the site's origins.
func (s *Server) crossOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := info(r).site.cors; c != nil {
			c.Handler(next).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
