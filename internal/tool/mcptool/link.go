package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/retry"

	"github.com/toolgate/toolgate/internal/tool"
)

// link is the http.RoundTripper of one session. It sends the session's headers to the host of the file and nothing to
// any other, ends every request with the session, bounds what is read, and notes what became of a call.
type link struct {
	next    http.RoundTripper
	origin  *url.URL
	header  http.Header
	join    joiner
	trouble func()       // a request found no way to the server
	status  atomic.Int32 // of the last reply

	patience time.Duration // for the stream of notifications; 0 where there is no session without it
	opened   atomic.Bool   // it was asked for
}

// joiner derives a context that also ends with something else. The function ends it and frees what it holds.
type joiner func(context.Context) (context.Context, context.CancelFunc)

// joined is a joiner for the end of life.
func joined(life context.Context) joiner {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
		return ctx, func() {
			stop()
			cancel(context.Canceled)
		}
	}
}

// parting is the joiner of the request that ends a session at the server (MCP 2025-11-25, transports, session
// management). It is sent though what it ends may be over, by a handshake whose time has come or one that the gateway
// has no more need of: the server would keep the session for ever.
func parting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, farewell)
}

// maxHops is how many redirects are followed, on the server's own host.
const maxHops = 5

// client is what the SDK is given. It keeps no cookies.
func (l *link) client() *http.Client {
	return &http.Client{Transport: l, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxHops {
			return fmt.Errorf("more than %d redirects", maxHops)
		}
		return nil
	}}
}

// errOtherHost is a redirect, or an endpoint that an SSE server named, which would take the session's headers and what
// is in its calls to somebody else.
var errOtherHost = errors.New("the server points to another host, which is not followed")

// RoundTrip is for the SDK's client.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	stream := r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
	if stream && l.patience > 0 && !l.opened.Swap(true) {
		return l.open(r)
	}
	return l.send(r)
}

// open asks for the stream of notifications. The SDK does not begin a session before there is an answer, and tries for
// long where there is none, though a server need not have the stream. One that fails to give it in time has none, as
// 405 says (MCP 2025-11-25, transports, listening for messages).
func (l *link) open(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	late := time.AfterFunc(l.patience, cancel)
	reply, err := l.send(r.WithContext(ctx))
	switch {
	case err == nil && late.Stop():
		reply.Body = &body{reply.Body, cancel}
		return reply, nil
	case err == nil:
		err = context.DeadlineExceeded
		_ = reply.Body.Close()
	}
	cancel()
	if r.Method != http.MethodGet || errors.Is(err, errOtherHost) {
		return nil, err
	}
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}, nil
}

// send sends a request with what is the session's.
func (l *link) send(r *http.Request) (*http.Response, error) {
	if !tool.SameHost(r.URL, l.origin) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errOtherHost
	}
	join := l.join
	if r.Method == http.MethodDelete {
		join = parting
	}
	ctx, release := join(r.Context())
	out := r.Clone(ctx)
	maps.Copy(out.Header, l.header)
	reply, err := l.next.RoundTrip(out)
	if err == nil {
		l.status.Store(int32(reply.StatusCode)) //nolint:gosec // three digits
		err = readReply(r, reply)
	}
	noted(r.Context()).note(r, reply, err)
	if err != nil {
		if ctx.Err() == nil {
			l.trouble()
		}
		release()
		return nil, err
	}
	reply.Body = &body{reply.Body, release}
	return reply, nil
}

// mostError is how much is read of a reply that is an error.
const mostError = 64 << 10

// readReply reads a reply that is one JSON text, or an error, as a whole and within bounds. The SDK reads them without
// any, and ends the session where one is cut off. A stream is left alone: the SDK bounds its events.
func readReply(r *http.Request, reply *http.Response) error {
	kind, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type"))
	ok := reply.StatusCode >= 200 && reply.StatusCode <= 299
	if ok && kind != "application/json" {
		return nil
	}
	defer reply.Body.Close()
	if reply.StatusCode == http.StatusSwitchingProtocols { // such a body is the connection, which no context ends
		reply.Body = http.NoBody
		return nil
	}
	most := mostMessage
	if !ok {
		most = mostError
	}
	text, err := io.ReadAll(io.LimitReader(reply.Body, int64(most)+1))
	if err != nil && ok {
		return fmt.Errorf("reply: %w", err)
	}
	if len(text) > most {
		text = text[:most]
		if ok {
			text = tooLongReply(r)
		}
	}
	reply.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// tooLongReply is the response that stands in for one that is over mostMessage.
func tooLongReply(r *http.Request) []byte {
	var call struct {
		ID json.RawMessage `json:"id"`
	}
	if r.GetBody != nil {
		if b, err := r.GetBody(); err == nil {
			_ = json.NewDecoder(b).Decode(&call) // without an id the response is of no call
			_ = b.Close()
		}
	}
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call.ID, "error": errTooLong()})
	return text
}

// body frees what a request holds when its reply has been read.
type body struct {
	io.ReadCloser
	release context.CancelFunc
}

func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// exchange notes what becomes of the request of one call over HTTP.
type exchange struct {
	mu   sync.Mutex
	done bool
	outcome
}

// outcome is how the server answered. Its zero value is that of a call that has sent no request.
type outcome struct {
	status     int // 0 without a reply
	retryAfter time.Duration
	session    bool // the request named a session
	err        error
}

type exchangeKey struct{}

// watched is ctx for a call whose exchange is wanted.
func watched(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// noted is the exchange of ctx, nil without one.
func noted(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// note keeps the first outcome. Later ones are those of a stream that is taken up again and of the call's cancellation.
func (x *exchange) note(r *http.Request, reply *http.Response, err error) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done {
		return
	}
	x.done, x.err, x.session = true, err, r.Header.Get("Mcp-Session-Id") != ""
	if err == nil {
		x.status = reply.StatusCode
		x.retryAfter = retry.ParseRetryAfter(reply.Header.Get("Retry-After"), time.Now())
	}
}

// read is what is known by now.
func (x *exchange) read() outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.outcome
}

// forgotten says whether the server knows nothing of the session that the request named. MCP asks for a 404 then; the
// servers of the TypeScript SDK answer 400. Either way the request was not run.
func (o outcome) forgotten() bool {
	return o.session && (o.status == http.StatusNotFound || o.status == http.StatusBadRequest)
}
