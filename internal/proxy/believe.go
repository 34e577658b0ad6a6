package proxy

import (
	"net/http"
	"net/netip"
)

const headerForwardedFor = "X-Forwarded-For"

// believe finds out where a request comes from. What a peer that is no trusted proxy says of that, and of who calls, is
// taken out of the header, so that it reaches neither the gateway nor a tool that such headers go along to.
func (s *Server) believe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := info(r)
		trust := &i.site.Trust
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			i.proxied = trust.Proxy(peer.Addr())
			i.client = trust.Client(peer.Addr(), r.Header[headerForwardedFor])
		}
		if !i.proxied {
			for name := range r.Header {
				if name == headerForwardedFor || trust.Names(name) {
					delete(r.Header, name)
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}
