package outbound

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outcome is what a transport makes of what a server does.
type outcome struct {
	Status  int
	Body    string
	Header  []string
	Trailer []string
	Fails   bool // with an error, of whatever words
	Cut     bool // in the body
}

func outcomeOf(resp *http.Response, err error) outcome {
	if err != nil {
		return outcome{Fails: true}
	}
	defer resp.Body.Close()
	o := outcome{Status: resp.StatusCode, Header: slices.Sorted(maps.Keys(resp.Header))}
	if resp.StatusCode == http.StatusSwitchingProtocols { // http.Transport hands the connection out
		return o
	}
	b, err := io.ReadAll(resp.Body)
	o.Body, o.Cut = string(b), err != nil
	if err == nil {
		o.Trailer = slices.Sorted(maps.Keys(resp.Trailer))
	}
	return o
}

// once is http.Transport, for one request.
func once(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxHeader}
}

// What a reply may be, whoever wrote it, is read as http.Transport reads it. Whatever came behind it, the next request has
// the reply to itself and no other.
func FuzzDirectIsLikeTransport(f *testing.F) {
	for _, reply := range []string{
		okReply,
		okReply + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
		"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\nforged",
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + okReply,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 5000) + "\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 20) + "2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n",
		"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\n folded\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\n: no name\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n" + okReply,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n" + okReply,
		"HTTP/1.1 000 \r\nContent-Length: 2\r\n\r\nok" + okReply,
		"HTTP/1.1 099 x\r\n\r\n" + okReply,
		"HTTP/1.1 -10 x\r\n\r\n", "HTTP/1.1 1000 x\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "\r\n" + okReply,
		"HTTP/1.1 200 OK\r\nConnection: close, keep-alive\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok" + okReply,
		"HTTP/1.1 200 OK\r\n\r\nto the end", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "HTTP/1.1 200", "SSH-2.0-x\r\n", "",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			f.Add(method, []byte(reply))
		}
	}
	f.Fuzz(func(t *testing.T, method string, reply []byte) {
		switch method {
		case http.MethodGet, http.MethodHead, http.MethodPost:
		default:
			return
		}
		if len(reply) > 16<<10 || bytes.Count(reply, []byte("HTTP/1.")) > maxInterim {
			return
		}
		var asked atomic.Bool
		url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, n int) bool {
			if n > 1 { // who does not ask again has to be told that there is no more
				_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			}
			if !reads(in) {
				return false
			}
			if asked.CompareAndSwap(false, true) {
				return say(c, string(reply))
			}
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnext")
			return false
		})
		ask := func(by http.RoundTripper, method string) (*http.Response, error) {
			r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if method == http.MethodPost {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
			}
			return by.RoundTrip(r)
		}
		pool := NewTransport(Dialer{}, nil)
		defer pool.CloseIdleConnections()
		got := outcomeOf(ask(pool, method))
		if next := outcomeOf(ask(pool, http.MethodGet)); next.Body != "next" {
			t.Errorf("the next request got %+v", next)
		}
		asked.Store(false)
		if want := outcomeOf(ask(once(Dialer{}.DialContext), method)); !cmp.Equal(got, want) {
			t.Errorf("%s of %q: direct and http.Transport differ:\n%s", method, reply, cmp.Diff(got, want))
		}
	})
}

// narrow dials with buffers that are smaller than a body.
func narrow(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// What a server does while a body is on its way to it comes out as with http.Transport. A reply's body was cut off 50 ms
// after a reply that came early, and a server that said 100 Continue unasked, and then read slowly, was taken for one that
// had answered.
func TestDirectIsLikeTransportWhileItWrites(t *testing.T) {
	readsSlowly := func(c net.Conn, body io.Reader) bool {
		time.Sleep(2*earlyLook + earlyLook/2)
		n, err := io.Copy(io.Discard, body)
		return err == nil && n == directBody && say(c, okReply)
	}
	for name, answer := range map[string]func(c net.Conn, body io.Reader) bool{
		"an early reply whose body comes late": func(c net.Conn, _ io.Reader) bool {
			say(c, "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 4\r\n\r\nno")
			time.Sleep(earlyLook + 6*earlyReply)
			say(c, "no")
			time.Sleep(2 * earlyReply)
			return false
		},
		"100 Continue": func(c net.Conn, body io.Reader) bool {
			return say(c, "HTTP/1.1 100 Continue\r\n\r\n") && readsSlowly(c, body)
		},
		"interim replies in parts": func(c net.Conn, body io.Reader) bool {
			return say(c, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 10") && readsSlowly(&late{Conn: c, before: "2 Processing\r\n\r\n"}, body)
		},
		"a reply behind an interim one": func(c net.Conn, _ io.Reader) bool {
			say(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 Payload Too Large\r\nContent-Length: 2\r\n\r\nno")
			time.Sleep(earlyLook + 2*earlyReply)
			return false
		},
	} {
		for _, limit := range []time.Duration{0, 10 * time.Second} {
			t.Run(name+" within "+limit.String(), func(t *testing.T) {
				t.Parallel() // it waits
				url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
					r, err := http.ReadRequest(in)
					return err == nil && answer(c, r.Body)
				})
				ask := func(by http.RoundTripper) outcome {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(make([]byte, directBody)))
					if err != nil {
						t.Fatal(err)
					}
					return outcomeOf(by.RoundTrip(r))
				}
				pool, other := newPool(t), once(narrow)
				pool.DialContext, pool.ResponseHeaderTimeout, other.ResponseHeaderTimeout = narrow, limit, limit
				if got, want := ask(pool), ask(other); !cmp.Equal(got, want) || got.Fails {
					t.Errorf("direct and http.Transport differ, or both fail:\n%s", cmp.Diff(got, want))
				}
			})
		}
	}
}

// late writes something before what it is to write first.
type late struct {
	net.Conn
	before string
}

func (l *late) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(append([]byte(l.before), b...))
	return min(n, len(b)), err
}

// A kept connection took a request whose context had ended: a write was made for a client that had left.
func TestNothingIsSentWhenItsContextHasEnded(t *testing.T) {
	errGone := errors.New("the client is gone")
	made := make(chan string, 10)
	url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
		r, err := http.ReadRequest(in)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		made <- r.Method
		return say(c, okReply)
	})
	pool := newPool(t)
	if _, _, err := send(t, pool, http.MethodGet, url, nil); err != nil {
		t.Fatal(err)
	}
	<-made
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	for _, to := range []string{url, "http://127.0.0.1:1/"} {
		body := &closed{Reader: strings.NewReader("a write")}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 7
		if _, err := pool.RoundTrip(r); !errors.Is(err, errGone) || !body.closed {
			t.Errorf("%v, body closed %t, want the cause and true", err, body.closed)
		}
	}
	if _, _, err := send(t, pool, http.MethodPut, url, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-made; got != http.MethodPut {
		t.Errorf("%s was made", got)
	}
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error { c.closed = true; return nil }

// http.Transport looks at method and host only behind what it leaves to others.
func TestDirectRefusesWhatTransportRefuses(t *testing.T) {
	url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool { return reads(in) && say(c, okReply) })
	for name, change := range map[string]func(r *http.Request){
		"a method of two requests": func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET" },
		"a method with a blank":    func(r *http.Request) { r.Method = "GET /admin HTTP/1.1 " },
		"no host":                  func(r *http.Request) { r.URL.Host = "" },
		"a header of two":          func(r *http.Request) { r.Header["X"] = []string{"a\r\nY: b"} },
		"a header's name of two":   func(r *http.Request) { r.Header["X: a\r\nY"] = []string{"b"} },
		"a path of two":            func(r *http.Request) { r.URL.Opaque = "//x/ HTTP/1.1\r\nX: y" },
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		if _, err := newPool(t).RoundTrip(r); err == nil || strings.Contains(err.Error(), "dial") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://bücher.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if newDirect(&http.Transport{}).takes(r) {
		t.Error("a host that is not ASCII is taken, which DNS does not know as it is written")
	}
}
