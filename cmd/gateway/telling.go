package main

import (
	"bytes"
	"io"
	"net/http"
)

// tellingTransport is the tools' connection pool, which can tell what goes out.
type tellingTransport struct {
	*http.Transport
	tell func(r *http.Request, body []byte) // nil but in commands that show it
}

// RoundTrip makes the request.
func (t *tellingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.tell == nil {
		return t.Transport.RoundTrip(r)
	}
	var body bytes.Buffer
	if r.Body != nil && r.Body != http.NoBody {
		sent := *r // a RoundTripper must not change what it is given
		sent.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &body), r.Body}
		resp, err := t.Transport.RoundTrip(&sent)
		t.tell(r, body.Bytes())
		return resp, err
	}
	t.tell(r, nil)
	return t.Transport.RoundTrip(r)
}
