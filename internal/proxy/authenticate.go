package proxy

import (
	"net/http"
	"strings"
)

// authenticate finds who calls. A request without a known key goes no further, whatever its path.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		i := info(r)
		caller, err := i.site.Keys.Caller(bearer(r))
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			return errUnauthorized
		}
		i.caller = caller
		next.ServeHTTP(w, r)
		return nil
	})
}

// bearer is the request's bearer token, "" without one.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
