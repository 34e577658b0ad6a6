package proxy

import (
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/internal/trace"
)

// The client's headers that are the gateway's own business.
const (
	headerTools      = "X-Gateway-Tools"
	headerMaxSteps   = "X-Gateway-Max-Steps"
	headerMaxSeconds = "X-Gateway-Max-Seconds"
	headerProgress   = "X-Gateway-Progress"
	headerIdempotent = "Idempotency-Key"
	// headerReadTimeout is sent by the Python SDK (openai-python, _base_client.py): its own read timeout in seconds.
	headerReadTimeout = "X-Stainless-Read-Timeout"
)

// first is the first value of a header, "" without one. name is in canonical form, which http.Header.Get would make
// sure of for each request again.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// hopByHop are headers of one connection (RFC 9110, section 7.6.1, and what older software sends).
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// clientOnly are headers that a provider does not get: credentials for the gateway, and where the client is.
var clientOnly = map[string]bool{
	"Authorization": true, "Cookie": true, "Api-Key": true, "X-Api-Key": true, "Host": true, "Content-Length": true,
	"Forwarded": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, "X-Real-Ip": true,
	"Via": true, headerIdempotent: true, "X-Request-Id": true, "Expect": true,
	// Of a browser: a page's address is the site's own business, and Ollama refuses origins that it does not know.
	"Origin": true, "Referer": true,
}

// toProvider is what of a client's header goes to a provider. own is for a request whose reply the gateway reads
// itself: it asks for no content encoding then. Nor does a request whose tokens count ask for one: the reply is looked at
// for them. Who the caller is, as a proxy tells it, is the gateway's to know.
func (i *requestInfo) toProvider(from http.Header, own bool) http.Header {
	to := make(http.Header, len(from))
	named := connectionNames(from)
	for name, values := range from {
		switch {
		case hopByHop[name], clientOnly[name], named[name], strings.HasPrefix(name, "X-Gateway-"), strings.HasPrefix(name, "Sec-"):
		case own && name == "Accept", (own || i.grant.Counts()) && name == "Accept-Encoding":
		case i.site.Trust.Names(name):
		default:
			to[name] = values
		}
	}
	if own {
		to["Content-Type"] = []string{"application/json"}
	}
	return to
}

// connectionNames are the further hop-by-hop headers that Connection names.
func connectionNames(h http.Header) map[string]bool {
	var names map[string]bool
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if names == nil {
				names = map[string]bool{}
			}
			names[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return names
}

// notPassed are headers of a provider's reply that the gateway sets itself or that are about the provider's own site.
var notPassed = map[string]bool{
	"Set-Cookie": true, "X-Request-Id": true, trace.Header: true, "Alt-Svc": true, "Strict-Transport-Security": true,
	"Access-Control-Allow-Origin": true, "Access-Control-Expose-Headers": true,
}

// copyReply copies the header of a reply that is passed through.
func copyReply(to, from http.Header) {
	named := connectionNames(from)
	for name, values := range from {
		if !hopByHop[name] && !notPassed[name] && !named[name] {
			to[name] = values
		}
	}
	if id := from.Get("X-Request-Id"); id != "" {
		to.Set("X-Upstream-Request-Id", id)
	}
}

// copyLimits copies what a client may want to know of the provider behind a run.
func copyLimits(to, from http.Header) {
	for name, values := range from {
		if strings.HasPrefix(name, "X-Ratelimit-") {
			to[name] = values
		}
	}
	if id := from.Get("X-Request-Id"); id != "" {
		to.Set("X-Upstream-Request-Id", id)
	}
}
