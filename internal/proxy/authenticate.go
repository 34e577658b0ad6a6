package proxy

import (
	"errors"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/internal/auth"
)

// authenticate finds who calls: by the key or token, and by the headers of a trusted proxy. A request without one that is known goes no
// further, whatever its path and headers.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		i := info(r)
		caller, err := i.site.Keys.Caller(r.Context(), bearer(r))
		if err != nil {
			if !errors.Is(err, auth.ErrUnavailable) {
				w.Header().Set("WWW-Authenticate", challenge(err))
			}
			return err
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

// challenge is what a refusal says in WWW-Authenticate (RFC 6750, section 3).
func challenge(err error) string {
	if _, ok := errors.AsType[*auth.Refused](err); ok {
		return `Bearer error="invalid_token"`
	}
	return "Bearer"
}

// bearer is the request's bearer token, "" without one.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(first(r.Header, "Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
