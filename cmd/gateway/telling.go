package main

import (
	"bytes"
	"io"
	"net/http"

	"github.com/toolgate/toolgate/internal/outbound"
)

// tellingTransport is the tools' connection pools, which can tell what goes out.
type tellingTransport struct {
	*outbound.Pools
	tell func(r *http.Request, body []byte) // nil but in commands that show it
}

func newTellingTransport() *tellingTransport {
	return &tellingTransport{Pools: outbound.NewPools(outbound.Dialer{})}
}

// RoundTrip makes the request.
func (t *tellingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.through(t.Transport, r)
}

// For is the pool of some TLS settings, which can tell too.
func (t *tellingTransport) For(settings *outbound.TLS) http.RoundTripper {
	return tellingPool{t, t.Pools.For(settings)}
}

type tellingPool struct {
	all  *tellingTransport
	next http.RoundTripper
}

// RoundTrip makes the request.
func (p tellingPool) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.all.through(p.next, r)
}

func (t *tellingTransport) through(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if t.tell == nil {
		return next.RoundTrip(r)
	}
	var body bytes.Buffer
	if r.Body != nil && r.Body != http.NoBody {
		sent := *r // a RoundTripper must not change what it is given
		sent.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &body), r.Body}
		resp, err := next.RoundTrip(&sent)
		t.tell(r, body.Bytes())
		return resp, err
	}
	t.tell(r, nil)
	return next.RoundTrip(r)
}
