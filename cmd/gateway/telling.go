package main

import (
	"bytes"
	"io"
	"net/http"

	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/span"
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
	r = inTrace(r)
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

// inTrace is a request that says which trace it is part of, unless the file has it say so itself. Of what a client sent,
// tools get the ids and nothing else: tracestate may hold any text.
func inTrace(r *http.Request) *http.Request {
	parent := span.Traceparent(r.Context())
	if parent == "" || len(r.Header["Traceparent"]) > 0 {
		return r
	}
	out := *r // a RoundTripper must not change what it is given
	if out.Header = r.Header.Clone(); out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header["Traceparent"] = []string{parent}
	return &out
}
