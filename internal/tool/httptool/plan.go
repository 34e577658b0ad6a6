package httptool

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolgate/toolgate/internal/tool"
)

// plan is what the configuration says of a request and its reply, compiled. It is immutable.
type plan struct {
	method       string
	address      address
	query        []item
	secretQuery  string // an escaped item of the query; "" for none
	headers      []header
	secretHeader secretHeader
	body         *body
	result       *filter
	failWhen     *filter
	sameHost     bool // redirects on the same host are followed
	callerFields []string
}

// outgoing is one request, ready to be sent as often as redirects ask for it.
type outgoing struct {
	method string
	url    *url.URL
	header http.Header
	host   string // of the Host header; "" for the url's
	body   []byte
}

// request fills the plan in. It fails where the arguments can't stand where they would have to.
func (p *plan) request(c tool.Call) (*outgoing, error) {
	path, err := p.address.path(c)
	if err != nil {
		return nil, err
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, err
	}
	var query strings.Builder
	for _, i := range p.query {
		i.add(&query, c)
	}
	if p.secretQuery != "" {
		if query.Len() > 0 {
			query.WriteByte('&')
		}
		query.WriteString(p.secretQuery)
	}
	o := &outgoing{
		method: p.method,
		url: &url.URL{
			Scheme: p.address.scheme, Host: p.address.host,
			Path: plain, RawPath: path, RawQuery: query.String(),
		},
		header: make(http.Header, len(p.headers)+5),
	}
	o.header["User-Agent"] = []string{"toolgate"}
	o.header["Accept-Encoding"] = []string{"gzip"}
	if c.IdempotencyKey != "" {
		o.header["Idempotency-Key"] = []string{c.IdempotencyKey}
	}
	if p.body != nil {
		if o.body = p.body.encode(c); len(o.body) > 0 {
			o.header["Content-Type"] = []string{p.body.contentType}
		}
	}
	for _, h := range p.headers {
		if err := h.add(o.header, c); err != nil {
			return nil, err
		}
	}
	if s := p.secretHeader; s.name != "" {
		o.header[s.name] = []string{s.value}
	}
	if host := o.header["Host"]; host != nil {
		o.host = host[0]
		delete(o.header, "Host")
	}
	return o, nil
}

// request is the request that goes to the transport. An http.Transport sends a request again by itself when a kept
// connection breaks under it, if it takes it to be idempotent and can read the body again. With replay false nothing
// is left for it to do that with:
//
//   - a body has no GetBody, which the documentation of http.Transport makes a condition;
//   - without a body, a method that is idempotent by name (GET), or by an Idempotency-Key header (DELETE), gets a body
//     that is empty but not known to be;
//   - any other method (POST) would be sent in chunks then, so its key's header is spelled in a way that the transport
//     does not look for. The case of a header's name means nothing to a service. It holds for HTTP/1 alone: after a
//     PROTOCOL_ERROR of an HTTP/2 server, Go up to 1.26 sends again whatever has no body.
//
// With replay true a POST is repeated as well: a key without values counts, but is not sent.
func (o *outgoing) request(ctx context.Context, replay bool) *http.Request {
	r := (&http.Request{
		Method: o.method, URL: o.url, Host: o.host, Header: o.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(o.body)),
	}).WithContext(ctx)
	body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(o.body)), nil }
	switch {
	case len(o.body) > 0 && replay:
		r.GetBody = body
		fallthrough
	case len(o.body) > 0:
		r.Body, _ = body()
	case replay:
	case lacksBody(o.method):
		r.Body = empty{}
	default:
		r.Header = hideKeys(o.header)
	}
	if replay && o.header["Idempotency-Key"] == nil {
		r.Header["Idempotency-Key"] = nil
	}
	return r
}

// empty is a body without content. Unlike http.NoBody, the transport does not know that before it reads it.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }

// lacksBody says whether the transport finds out that a body is empty, and sends none, for a method.
func lacksBody(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions:
		return true
	}
	return false
}

func hideKeys(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
	return h
}
