package outbound

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// direct makes requests of plain HTTP/1.1 in the goroutine of who asks. http.Transport has two further ones for each
// connection, which every request wakes in turn; between a gateway and a model server or a tool beside it, that costs more
// than all else it does for a request. Messages are written and read by net/http all the same.
//
// What it can't do as http.Transport does is left to that: HTTPS, a limit of connections a host, large bodies and ones of
// a length that nobody knows, hosts that are not ASCII, and systems where nothing tells whether a kept connection was
// closed. So are requests that it refuses.
type direct struct {
	of *http.Transport // whose settings hold

	mu    sync.Mutex
	idle  map[string][]*directConn // by address; the newest last
	all   int                      // of idle
	sweep *time.Timer              // runs while there are idle ones
}

const (
	// directBody is how large a body may be, in bytes.
	directBody = 1 << 20
	// unwatchedBody is how large a body may be, in bytes, to be written without a look for an early reply: so much goes
	// into the buffers between a server and us even where it reads nothing.
	unwatchedBody = 32 << 10
	// earlyLook is how often a reply is looked for while a larger body is written.
	earlyLook = 250 * time.Millisecond
	// earlyReply is how long a reply is waited for after the request could not be written to its end.
	earlyReply = 50 * time.Millisecond
	// firstReader is the size of a connection's buffer for reading, in bytes. One that is full again and again, by streams
	// that come fast, has fastReader from its next request on.
	firstReader = 4 << 10
	fastReader  = 8 << 10
	manyFull    = 8
	// idleLook is how often kept connections are looked at.
	idleLook = 2 * time.Second
	// maxInterim bounds the replies before the reply, such as 103 Early Hints.
	maxInterim = 5
)

func newDirect(of *http.Transport) *direct { return &direct{of: of, idle: map[string][]*directConn{}} }

// directConn is a connection, which one request has at a time.
type directConn struct {
	net.Conn
	raw     syscall.RawConn // of Conn
	quiet   func() bool     // of raw
	address string
	in      *bufio.Reader // of the connection by Read
	full    int           // reads that filled it
	left    int64         // bytes that Read may still give, while a header is read; negative: no limit
	since   time.Time     // when it became idle
	used    bool          // it has had a reply
}

var errNoSocket = errors.New("outbound: the dialer gives no socket")

var errHeaderTooLarge = errors.New("outbound: server response headers exceeded the limit")

// Read reads from the connection.
func (c *directConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errHeaderTooLarge
	}
	if c.left > 0 && int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	if n == firstReader {
		c.full++
	}
	if c.left > 0 {
		c.left -= int64(n)
	}
	return n, err
}

// takes says whether a request is one for direct.
func (d *direct) takes(r *http.Request) bool {
	return canPeek && r.URL != nil && r.URL.Scheme == "http" && isPlain(r) && isValid(r.Header) && d.of.MaxConnsPerHost == 0 && (hasNoBody(r) || r.ContentLength > 0 && r.ContentLength <= directBody) &&
		r.Header["Expect"] == nil && r.Header["Upgrade"] == nil && !r.Close && len(r.TransferEncoding) == 0 && r.Trailer == nil && r.Method != http.MethodConnect
}

func hasNoBody(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// isPlain says whether the method is made of letters, and the host of ASCII. Nothing else looks at the method before it
// is written: one with a line end would be two requests.
func isPlain(r *http.Request) bool {
	for _, c := range []byte(r.Method) {
		if c |= 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return r.URL.Host != "" && isASCII(r.URL.Host)
}

// isValid says whether a header can be sent. One with a line end would be several.
func isValid(h http.Header) bool {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return false
		}
	}
	return h != nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// RoundTrip makes a request that it takes.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	for again := false; ; again = true {
		if cause := context.Cause(r.Context()); cause != nil { // a kept connection would take the request all the same
			closeBody(r)
			return nil, cause
		}
		c, err := d.connect(r.Context(), r.URL, again)
		if err != nil {
			closeBody(r)
			return nil, because(r.Context(), err)
		}
		resp, err := d.ask(c, r)
		if err == nil {
			return resp, nil
		}
		_ = c.Close()
		if cause := context.Cause(r.Context()); cause != nil {
			return nil, cause
		}
		// A server may close a connection that is kept just as it is used again.
		if again || !errors.Is(err, errNoReply) || !c.used || !replayable(r) {
			return nil, err
		}
		if !hasNoBody(r) {
			body, bodyErr := r.GetBody()
			if bodyErr != nil {
				return nil, err
			}
			next := *r
			next.Body = body
			r = &next
		}
	}
}

// errNoReply is a connection that ended before the first byte of a reply.
var errNoReply = errors.New("outbound: the connection was closed before the reply")

// replayable says whether a request may be made twice, by the rule of http.Transport.
func replayable(r *http.Request) bool {
	if !hasNoBody(r) && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// because is the cause that ctx has ended for, or else err.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// connect takes a kept connection, or makes one: where fresh is, always.
func (d *direct) connect(ctx context.Context, to *url.URL, fresh bool) (*directConn, error) {
	address := to.Host
	if to.Port() == "" {
		address = net.JoinHostPort(to.Hostname(), "80")
	}
	for !fresh {
		c := d.take(address)
		if c == nil {
			break
		}
		if c.quiet() {
			return c, nil
		}
		_ = c.Close()
	}
	made, err := d.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	c := &directConn{Conn: made, address: address, left: -1}
	if sc, ok := made.(syscall.Conn); ok {
		c.raw, err = sc.SyscallConn()
	} else {
		err = errNoSocket
	}
	if err != nil {
		_ = made.Close()
		return nil, err
	}
	c.in, c.quiet = bufio.NewReaderSize(c, firstReader), quietOf(c.raw)
	return c, nil
}

// inOnePiece is a writer whose header net/http does not send before the body, which it does with a bufio.Writer and a body
// that it does not know to lie in memory.
type inOnePiece struct{ *bufio.Writer }

// dial makes a connection, in a goroutine that ends with that: net's calls go so deep that a run's own stack, which is kept
// for as long as its stream lasts, would double for them.
func (d *direct) dial(ctx context.Context, address string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = d.of.DialContext(ctx, "tcp", address)
	}()
	<-done // it ends with ctx
	return c, err
}

// directWriters are for a request each, while it is written. What goes into one is written, and arrives, in one piece: a
// request that came in two would wake its server twice.
var directWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 32<<10) }}

// ask makes a request on a connection.
func (d *direct) ask(c *directConn, r *http.Request) (*http.Response, error) {
	if c.full > manyFull && c.in.Size() == firstReader {
		c.in = bufio.NewReaderSize(c, fastReader)
	}
	ctx := r.Context()
	limit := d.of.ResponseHeaderTimeout
	if limit > 0 {
		_ = c.SetDeadline(time.Now().Add(limit)) // of a connection that is closed, writing tells
	}
	stop := context.AfterFunc(ctx, c.interrupt) // behind the deadline, which would take that of an interruption away
	resp, err := d.exchange(c, r)
	if err == nil {
		if limit > 0 || resp.Close {
			_ = c.SetDeadline(time.Time{})
		}
		err = context.Cause(ctx) // whose interruption that may have undone
	}
	if err != nil {
		stop()
		return nil, err
	}
	body := &directReply{ReadCloser: resp.Body, d: d, c: c, stop: stop, ctx: ctx, keep: !resp.Close}
	body.here = resp.ContentLength >= 0 && resp.ContentLength <= int64(c.in.Buffered())
	c.used = true
	if resp.StatusCode < http.StatusOK { // another protocol, which nobody asked for, or what is none of HTTP's statuses
		body.keep = false
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = http.NoBody
	}
	if resp.Body == http.NoBody {
		body.end(true)
		return resp, nil
	}
	resp.Body = body
	return resp, nil
}

// exchange writes the request and reads the reply's header.
func (d *direct) exchange(c *directConn, r *http.Request) (*http.Response, error) {
	var watch *earlyWatch
	if r.ContentLength > unwatchedBody {
		watch = watchForEarly(c)
	}
	out := directWriters.Get().(*bufio.Writer)
	out.Reset(c.Conn)
	err := write(out, r)
	if err == nil {
		// Whoever else can go on does so first: requests that leave together wake their server once.
		runtime.Gosched()
		err = out.Flush()
	}
	out.Reset(nil)
	directWriters.Put(out)
	early := watch != nil && watch.stop()
	if err == nil {
		resp, err := d.readReply(c, r)
		if err == nil && early { // just after the end
			resp.Close = true
		}
		return resp, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !early {
		return nil, err
	}
	// A server that refuses a request may answer, and close, before it has read it.
	_ = c.SetReadDeadline(time.Now().Add(earlyReply))
	resp, readErr := d.readReply(c, r)
	if readErr != nil {
		return nil, err
	}
	resp.Close = true
	return resp, nil
}

// readReply reads the header of the reply.
func (d *direct) readReply(c *directConn, r *http.Request) (*http.Response, error) {
	c.left = d.of.MaxResponseHeaderBytes
	defer func() { c.left = -1 }()
	if _, err := c.in.Peek(1); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errNoReply, err)
	}
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(c.in, r)
		if err != nil || !isInterim(resp.StatusCode) {
			return resp, err
		}
	}
	return nil, errors.New("outbound: too many interim replies")
}

// isInterim says whether another reply follows one of that status.
func isInterim(status int) bool {
	return status >= http.StatusContinue && status < http.StatusOK && status != http.StatusSwitchingProtocols
}

// interrupt ends whatever the connection is waited for.
func (c *directConn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// directReply is a reply's body.
type directReply struct {
	io.ReadCloser
	d     *direct
	c     *directConn
	stop  func() bool // no interruption from now on; false where there was one
	ctx   context.Context
	keep  bool
	here  bool
	ended atomic.Bool
}

// Here says whether all of the body has come, so that reading it takes no time.
func (b *directReply) Here() bool { return b.here }

// Read reads the body. With its end the connection is kept.
func (b *directReply) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.end(true)
	default:
		err = because(b.ctx, err)
		b.end(false)
	}
	return n, err
}

// Close ends the connection of a body that was not read to its end.
func (b *directReply) Close() error {
	b.end(false)
	return nil
}

func (b *directReply) end(whole bool) {
	if !b.ended.CompareAndSwap(false, true) {
		return
	}
	if b.stop() && whole && b.keep && b.c.in.Buffered() == 0 {
		b.d.put(b.c)
		return
	}
	_ = b.c.Close()
}
