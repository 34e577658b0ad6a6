package proxy

import (
	"net/http"
	"strings"
)

// authenticate finds who calls: by the key, and by the headers of a trusted proxy. A request without a known key goes no
// further, whatever its path and headers.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		i := info(r)
		caller, err := i.site.Keys.Caller(bearer(r))
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			return errUnauthorized
		}
		if i.proxied {
			fields, err := i.site.Trust.Fields(r.Header)
			if err != nil {
				return err
			}
			caller = caller.With(fields)
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
