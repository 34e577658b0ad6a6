// Package upstream owns the providers: which one a request goes to, its attempts, breaker and timeouts, and reading
// what comes back. It knows requests and replies, and nothing of tools.
package upstream

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/retry"
	"github.com/toolgate/toolgate/internal/span"
)

// Client is one upstream. It is for use by many goroutines at once.
type Client struct {
	name        string
	provider    string // as OpenTelemetry calls it
	at          addresses
	azure       bool // the key goes out as api-key
	key         string
	credentials http.Header // of key
	forward     bool
	headers     http.Header
	transport   *outbound.Transport
	secure      bool // the upstream's URL is https
	idle        time.Duration
	policy      retry.Policy
	budget      *retryBudget
	metrics     *Metrics

	breaking  breaker.Options // without a name
	mu        sync.Mutex
	breakers  map[string]*breaker.Breaker // by the model's name in a route; "" is that of all other names
	onBreaker func(string, breaker.State)

	dialect         *dialect // nil changes nothing
	schemaWithTools bool     // they may go together
	streamUsage     bool
	noOptions       atomic.Bool // the provider has refused stream_options
}

// NewClient makes the client of a checked configuration.
// onBreaker hears of each change of its breakers.
func NewClient(name string, c *Config, m *Metrics, onBreaker func(string, breaker.State)) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(c.BaseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("upstream %s: base_url: %w", name, err)
	}
	dialect, err := newDialect(&c.Switches)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", name, err)
	}
	u := &Client{
		name:     name,
		provider: providerName(c),
		at:       newAddresses(base, c),
		secure:   base.Scheme == "https",
		azure:    c.Kind == kindAzure,
		key:      c.APIKey.Reveal(),
		forward:  c.ForwardClientKey,
		headers:  http.Header{},
		idle:     time.Duration(c.IdleTimeout),

		dialect:         dialect,
		schemaWithTools: c.SchemaWithTools,
		streamUsage:     c.StreamUsage,
		policy:          c.Retry.policy(),
		budget:          newRetryBudget(c.Retry.Budget),
		breaking:        c.Breaker.Options(""),
		breakers:        map[string]*breaker.Breaker{},
		onBreaker:       onBreaker,
		metrics:         m,
		transport:       outbound.NewTransport(outbound.Dialer{Timeout: time.Duration(c.ConnectTimeout)}, c.TLS),
	}
	if u.key != "" {
		u.credentials = u.withKey(u.key)
	}
	u.transport.ResponseHeaderTimeout = time.Duration(c.FirstByteTimeout)
	u.transport.MaxIdleConnsPerHost = 4096
	u.transport.MaxConnsPerHost = c.MaxConns
	u.breakerOf("")
	for name, value := range c.Headers.All() {
		u.headers.Set(name, value.Reveal())
	}
	m.known(name)
	return u, nil
}

// breakerOf is the breaker of a model, so that one that is down does not close the others. It is called for the names in
// the file, never for one that a client sends.
func (c *Client) breakerOf(model string) *breaker.Breaker {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.breakers[model]
	if b == nil {
		o := c.breaking
		o.OnChange = c.onBreaker
		if o.Name = "upstream:" + c.name; model != "" {
			o.Name += "/" + model
		}
		b = breaker.New(o)
		c.breakers[model] = b
		c.onBreaker(o.Name, breaker.Closed) // its series exists from the start
	}
	return b
}

// Name is the key under `upstreams`.
func (c *Client) Name() string { return c.name }

// ForwardsClientKey says whether the client's own bearer token is sent.
func (c *Client) ForwardsClientKey() bool { return c.key == "" && c.forward }

// Close drops kept connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// call is one HTTP request to a provider.
type call struct {
	breaker *breaker.Breaker
	method  string
	url     *url.URL
	header  http.Header // the client's, without what is the gateway's own business
	key     string      // the client's bearer token
	body    chat.Body
	once    bool // it may change something at the provider, so that it is never made twice
}

// do makes the request, again after failures that may pass. It returns a reply with a status below 400 or one of 4xx
// that is about the request; everything else is an *Error. The caller closes the reply's body, and says how it ended.
func (c *Client) do(ctx context.Context, r call) (reply, error) {
	c.budget.request()
	made := 0
	resp, err := retry.Do(ctx, c.policy, func(err error) (bool, time.Duration) {
		var e *Error
		if !errors.As(err, &e) || !e.passes() || r.once || made >= c.policy.Attempts || !c.budget.retry() {
			return false, 0
		}
		return true, e.RetryAfter
	}, func(ctx context.Context, attempt int) (reply, error) {
		made = attempt
		return c.once(ctx, r, attempt)
	})
	var e *Error
	if err != nil && !errors.As(err, &e) {
		err = &Error{Upstream: c.name, Kind: Canceled, Err: err}
	}
	return resp, err
}

// once is one attempt, the n-th.
func (c *Client) once(ctx context.Context, r call, n int) (reply, error) {
	done, err := r.breaker.Allow()
	if err != nil {
		e := &Error{Upstream: c.name, Kind: Open, Err: err}
		if open, ok := errors.AsType[*breaker.Open](err); ok {
			e.RetryAfter = open.RetryAfter
		}
		c.metrics.requests.With(requestLabels{c.name, string(Open)}).Inc()
		return reply{}, e
	}
	end := newVerdict(r.breaker, done)
	start := time.Now()
	ctx, traced := c.attempt(ctx, r, n)
	resp, err := c.roundTrip(ctx, r) //nolint:bodyclose // whoever reads the reply closes it
	tellAttempt(traced, resp, err)
	c.metrics.duration.With(c.name).Observe(time.Since(start).Seconds())
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Upstream: c.name, Kind: Broken, Err: err}
		}
		c.metrics.requests.With(requestLabels{c.name, codeLabel(e)}).Inc()
		end.is(outcome(e))
		return reply{}, e
	}
	c.metrics.requests.With(requestLabels{c.name, strconv.Itoa(resp.StatusCode)}).Inc()
	return reply{resp, end}, nil
}

func codeLabel(e *Error) string {
	if e.Status != 0 {
		return strconv.Itoa(e.Status)
	}
	return string(e.Kind)
}

// maxErrorBody bounds what is read of a reply that is an error.
const maxErrorBody = 1 << 20

func (c *Client) roundTrip(ctx context.Context, r call) (*http.Response, error) {
	req := (&http.Request{
		Method:        r.method,
		URL:           r.url,
		Host:          r.url.Host,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        c.header(ctx, r),
		ContentLength: r.body.Len(),
	}).WithContext(ctx)
	if r.body.Len() > 0 {
		req.Body = r.body.Reader()
		// Without it the transport could not go on by itself where a kept connection was closed before a byte was written.
		req.GetBody = func() (io.ReadCloser, error) { return r.body.Reader(), nil }
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	timed := &idleBody{ReadCloser: resp.Body, limit: c.idle}
	if b, ok := resp.Body.(interface{ Here() bool }); ok && b.Here() {
		timed.limit = 0
	}
	resp.Body = timed
	if resp.StatusCode == http.StatusSwitchingProtocols { // such a body is the connection, which no context ends
		_ = resp.Body.Close()
		return nil, &Error{Upstream: c.name, Kind: Broken, Err: errSwitched}
	}
	if redirects(resp.StatusCode) { // not followed, and where it leads, perhaps inside, is nobody's business
		_ = resp.Body.Close()
		return nil, &Error{Upstream: c.name, Kind: Broken, Status: resp.StatusCode, Err: fmt.Errorf("redirected to %s", resp.Header.Get("Location"))}
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	body, err := readAll(resp, maxErrorBody)
	if err != nil && ctx.Err() != nil {
		return nil, c.failure(ctx, err)
	}
	if err != nil {
		body = nil // the status still says what may be done
	}
	e := fromReply(c.name, resp, body, retry.ParseRetryAfter(retryAfter(resp.Header), time.Now()))
	e.Err = err
	if e.Kind == Auth && c.ForwardsClientKey() {
		e.Kind = Refused // it is about the client's key, so it is the client's to read
	}
	return nil, e
}

// retryAfter is the header that says when to ask again. LiteLLM hands on what a provider said under a name of its own
// (1.108.7: llm_provider-retry-after); its own Retry-After is about itself and goes first.
func retryAfter(h http.Header) string {
	return cmp.Or(h.Get("Retry-After"), h.Get("Llm_provider-Retry-After"))
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// withKey are the headers that a key goes out in.
func (c *Client) withKey(key string) http.Header {
	if c.azure {
		return http.Header{"Api-Key": {key}}
	}
	return http.Header{"Authorization": {"Bearer " + key}}
}

// header is the request's header. The file has the last word.
func (c *Client) header(ctx context.Context, r call) http.Header {
	h := maps.Clone(r.header)
	if h == nil {
		h = http.Header{}
	}
	credentials := c.credentials
	if c.key == "" && c.forward && r.key != "" {
		credentials = c.withKey(r.key)
	}
	maps.Copy(h, credentials)
	span.Inject(ctx, h)
	maps.Copy(h, c.headers)
	return h
}

var (
	errIdle     = errors.New("nothing came for idle_timeout")
	errSwitched = errors.New("it switched to a protocol that nobody asked for")
)

// failure classes an error of the transport or of reading a body.
func (c *Client) failure(ctx context.Context, err error) *Error {
	e := &Error{Upstream: c.name, Kind: Broken, Err: err}
	var netErr net.Error
	switch cause := context.Cause(ctx); {
	case errors.Is(err, errIdle):
		e.Kind = Slow
	case cause != nil:
		e.Kind, e.Err = Canceled, cause
	case errors.As(err, &netErr) && netErr.Timeout():
		e.Kind = Slow
	}
	return e
}

// idleBody ends a body that brings nothing for a while.
type idleBody struct {
	io.ReadCloser
	limit time.Duration // 0 for none
	timer *time.Timer
	err   error       // which has ended it
	ended atomic.Bool // for nothing came
}

func (b *idleBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	switch {
	case b.limit == 0:
	case b.timer == nil:
		b.timer = time.AfterFunc(b.limit, b.end)
	default:
		b.timer.Reset(b.limit)
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if b.timer != nil {
			b.timer.Stop()
		}
		if b.ended.Load() {
			err = errIdle
		}
		b.err = err
	}
	return n, err
}

// end makes a read that is under way fail.
func (b *idleBody) end() {
	b.ended.Store(true)
	_ = b.ReadCloser.Close() // of a connection of HTTP/1.1 or a stream of HTTP/2, whose reader may be waiting
}

func (b *idleBody) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.ReadCloser.Close()
}

var errTooLarge = errors.New("the reply is too large")

// readAll reads and closes a body, decoded, up to limit bytes.
func readAll(resp *http.Response, limit int64) ([]byte, error) {
	defer resp.Body.Close()
	if resp.ContentLength > limit {
		return nil, errTooLarge
	}
	in, err := decoded(resp)
	if err != nil {
		return nil, err
	}
	if in == io.Reader(resp.Body) && resp.ContentLength > 0 && resp.ContentLength <= atOnce {
		return readSized(in, resp.ContentLength)
	}
	var b bytes.Buffer
	err = fill(&b, in, limit)
	return b.Bytes(), err
}

// atOnce is up to which size a body is taken at its word: of a longer one there is no more memory than has come.
const atOnce = 1 << 20

// readSized reads in, which has that size, to its end.
func readSized(in io.Reader, size int64) ([]byte, error) {
	b := make([]byte, size)
	switch _, err := io.ReadFull(in, b); {
	case errors.Is(err, io.EOF): // of a reply to HEAD, which has none
		return b[:0], nil
	case err != nil:
		return nil, err
	}
	var end [1]byte
	if _, err := in.Read(end[:]); !errors.Is(err, io.EOF) { // a connection is used again behind the end alone
		return nil, cmp.Or(err, errTooLarge)
	}
	return b, nil
}

// fill reads in to its end, up to limit bytes.
func fill(b *bytes.Buffer, in io.Reader, limit int64) error {
	n, err := b.ReadFrom(io.LimitReader(in, limit+1))
	if err == nil && n > limit {
		err = errTooLarge
	}
	return err
}

// decoded is the body without its content encoding. The gateway asks for none, but some proxies compress all the same.
func decoded(resp *http.Response) (io.Reader, error) {
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(resp.Body)
	}
	return nil, fmt.Errorf("content encoding %q was not asked for", resp.Header.Get("Content-Encoding"))
}

// errorObject is what stands under "error" in a body, or the body itself where it is an object with a message; nil
// without either.
func errorObject(body []byte) json.RawMessage {
	if !json.Valid(body) {
		return nil
	}
	root := gjson.ParseBytes(body)
	if root.IsArray() { // Gemini's compatible endpoint puts its error object into a list
		root = root.Get("0")
	}
	if e := root.Get("error"); e.IsObject() || e.Type == gjson.String {
		return json.RawMessage(e.Raw)
	}
	if root.IsObject() {
		return json.RawMessage(root.Raw)
	}
	return nil
}
