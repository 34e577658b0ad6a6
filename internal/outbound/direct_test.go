package outbound

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wireServer answers each request on each connection by what answer writes; a false from it ends the connection.
func wireServer(t *testing.T, answer func(c net.Conn, in *bufio.Reader, n int) bool) (url string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = &atomic.Int32{}
	var wg sync.WaitGroup
	var open sync.Map
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			open.Store(c, true)
			wg.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				n := 1
				for answer(c, in, n) {
					n++
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return "http://" + l.Addr().String(), connections
}

// reads reads a whole request.
func reads(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func say(c net.Conn, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

const okReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func newPool(t *testing.T) *Transport {
	t.Helper()
	pool := NewTransport(Dialer{}, nil)
	t.Cleanup(pool.CloseIdleConnections)
	return pool
}

func send(t *testing.T, pool http.RoundTripper, method, url string, body io.Reader) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := pool.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func TestDirectKeepsConnections(t *testing.T) {
	for name, tt := range map[string]struct {
		method, reply, body string
		kept                bool
	}{
		"a length":                    {"POST", okReply, "ok", true},
		"chunks and trailers":         {"POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", "ok", true},
		"nothing":                     {"POST", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
		"a HEAD":                      {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "", true},
		"interim replies":             {"POST", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + okReply, "ok", true},
		"one that says close":         {"POST", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		"HTTP/1.0":                    {"POST", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		"more than was asked for":     {"POST", okReply + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nextra", "ok", false},
		"a protocol nobody asked for": {"POST", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nxxxx", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool { return reads(in) && say(c, tt.reply) })
			pool := newPool(t)
			for range 3 {
				_, body, err := send(t, pool, tt.method, url, strings.NewReader("hello"))
				if err != nil || body != tt.body {
					t.Fatalf("%q, %v, want %q", body, err, tt.body)
				}
			}
			if got := connections.Load(); (got == 1) != tt.kept {
				t.Errorf("%d connections for three requests, kept is to be %t", got, tt.kept)
			}
		})
	}
}

func TestDirectFindsOutThatAKeptConnectionIsClosed(t *testing.T) {
	url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
		reads(in)
		say(c, okReply)
		return false
	})
	pool := newPool(t)
	for range 5 {
		if _, body, err := send(t, pool, http.MethodPost, url, strings.NewReader("a write")); err != nil || body != "ok" {
			t.Fatalf("%q, %v", body, err)
		}
		time.Sleep(20 * time.Millisecond) // until the end has come
	}
	if got := connections.Load(); got != 5 {
		t.Errorf("%d connections, want 5", got)
	}
}

// A connection that ends just as it is used again is no fault of a request that may be made twice, and one of any other.
func TestDirectRepeatsWhatMayBeRepeated(t *testing.T) {
	for _, tt := range []struct {
		method string
		body   io.Reader
		key    string
		ok     bool
	}{
		{method: "GET", ok: true},
		{method: "POST", body: strings.NewReader("a write")},
		{method: "POST", body: strings.NewReader("a write"), key: "k", ok: true},
		{method: "POST", body: io.MultiReader(strings.NewReader("a write")), key: "k"}, // of a body that is gone
	} {
		url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, n int) bool {
			return reads(in) && n == 1 && say(c, okReply) // the second request on a connection gets nothing
		})
		pool := newPool(t)
		if _, _, err := send(t, pool, http.MethodGet, url, nil); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), tt.method, url, tt.body)
		if err != nil {
			t.Fatal(err)
		}
		if tt.body != nil {
			r.ContentLength = int64(len("a write"))
		}
		if tt.key != "" {
			r.Header.Set("Idempotency-Key", tt.key)
		}
		resp, err := pool.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != tt.ok || connections.Load() > 2 {
			t.Errorf("%s with key %q: %v after %d connections, want it made %t", tt.method, tt.key, err, connections.Load(), tt.ok)
		}
	}
}

func TestDirectEndsWithItsContext(t *testing.T) {
	errGone := errors.New("the client is gone")
	for name, reply := range map[string]string{"before the header": "", "in the body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"} {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
				if !reads(in) {
					return false
				}
				say(c, reply)
				<-end
				return false
			})
			defer close(end)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(30*time.Millisecond, func() { cancel(errGone) })
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := newPool(t).RoundTrip(r)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if !errors.Is(err, errGone) || connections.Load() != 1 {
				t.Errorf("%v, want the cause", err)
			}
		})
	}
	t.Run("not with one that ends after the body", func(t *testing.T) {
		url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool { return reads(in) && say(c, okReply) })
		pool := newPool(t)
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
			resp, err := pool.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		if got := connections.Load(); got != 1 {
			t.Errorf("%d connections, want one", got)
		}
	})
}

func TestDirectBoundsTheWaitAndTheHeader(t *testing.T) {
	t.Run("the wait", func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		url, _ := wireServer(t, func(net.Conn, *bufio.Reader, int) bool { <-end; return false })
		pool := newPool(t)
		pool.ResponseHeaderTimeout = 30 * time.Millisecond
		_, _, err := send(t, pool, http.MethodPost, url, strings.NewReader("x"))
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v, want a timeout", err)
		}
	})
	t.Run("not the body's", func(t *testing.T) {
		url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
			reads(in)
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			time.Sleep(80 * time.Millisecond)
			return say(c, "ok")
		})
		pool := newPool(t)
		pool.ResponseHeaderTimeout = 30 * time.Millisecond
		if _, body, err := send(t, pool, http.MethodPost, url, strings.NewReader("x")); err != nil || body != "ok" {
			t.Errorf("%q, %v", body, err)
		}
	})
	t.Run("the header", func(t *testing.T) {
		url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
			return reads(in) && say(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", MaxHeader)+"\r\n\r\n") && false
		})
		if _, _, err := send(t, newPool(t), http.MethodPost, url, strings.NewReader("x")); !errors.Is(err, errHeaderTooLarge) {
			t.Errorf("%v, want the header refused", err)
		}
	})
	t.Run("interim replies", func(t *testing.T) {
		url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
			return reads(in) && say(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 50)) && false
		})
		if _, _, err := send(t, newPool(t), http.MethodPost, url, strings.NewReader("x")); err == nil {
			t.Error("fifty interim replies were taken")
		}
	})
}

// A server that refuses a body may answer and close before it has read it.
func TestDirectReadsARefusalThatComesEarly(t *testing.T) {
	url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
		say(c, "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.CopyN(io.Discard, in, 600<<10)
		return false
	})
	resp, _, err := send(t, newPool(t), http.MethodPost, url, bytes.NewReader(make([]byte, 700<<10)))
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%v, %v, want 413", resp, err)
	}
}

// A server that answers without reading the body may as well keep the connection open, and never read on.
func TestDirectReadsAReplyWhileItWrites(t *testing.T) {
	ended := make(chan struct{})
	url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
		if _, err := http.ReadRequest(in); err != nil {
			return false
		}
		say(c, "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 2\r\n\r\nno")
		<-ended
		return false
	})
	defer close(ended)
	body := bytes.NewReader(make([]byte, directBody))
	pool := newPool(t)
	pool.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) { // buffers smaller than the body
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		}
		return c, err
	}
	for n := range 2 {
		resp, text, err := send(t, pool, http.MethodPost, url, body)
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || text != "no" {
			t.Fatalf("%v, %q, %v, want 413", resp, text, err)
		}
		if got := connections.Load(); int(got) != n+1 {
			t.Errorf("%d connections after %d requests: one that was written to in part is not to be kept", got, n+1)
		}
		body.Reset(make([]byte, directBody))
	}
}

// A server that reads slowly, and answers when it has all, is waited for.
func TestDirectWaitsForASlowReader(t *testing.T) {
	url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool {
		r, err := http.ReadRequest(in)
		if err != nil {
			return false
		}
		time.Sleep(2*earlyLook + earlyLook/2)
		n, err := io.Copy(io.Discard, r.Body)
		return err == nil && n == directBody && say(c, okReply)
	})
	pool := newPool(t)
	for range 2 {
		if _, text, err := send(t, pool, http.MethodPost, url, bytes.NewReader(make([]byte, directBody))); err != nil || text != "ok" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("%d connections, want one", got)
	}
}

func TestDirectLeavesTheRest(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := &http.Transport{MaxIdleConns: 10, MaxIdleConnsPerHost: 10}
	d := newDirect(plain)
	ask := func(change func(r *http.Request)) bool {
		r := httptest.NewRequest(http.MethodPost, "http://x.test/", strings.NewReader("x"))
		change(r)
		return d.takes(r)
	}
	for name, change := range map[string]func(r *http.Request){
		"https":             func(r *http.Request) { r.URL.Scheme = "https" },
		"an unknown length": func(r *http.Request) { r.ContentLength = -1 },
		"a large body":      func(r *http.Request) { r.ContentLength = directBody + 1 },
		"Expect":            func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"an upgrade":        func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
	} {
		if ask(change) {
			t.Errorf("%s is taken", name)
		}
	}
	if !ask(func(*http.Request) {}) {
		t.Error("the usual one is not taken")
	}
	plain.MaxConnsPerHost = 1
	if ask(func(*http.Request) {}) {
		t.Error("a limit of connections is not kept")
	}
}

func TestDirectClosesWhatIsIdle(t *testing.T) {
	url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool { return reads(in) && say(c, okReply) })
	pool := newPool(t)
	pool.IdleConnTimeout = 50 * time.Millisecond
	pool.MaxIdleConnsPerHost = 3
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 5 {
				if _, _, err := send(t, pool, http.MethodGet, url, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	idle := func() int {
		pool.direct.mu.Lock()
		defer pool.direct.mu.Unlock()
		return pool.direct.all
	}
	if got := idle(); got < 1 || got > 3 {
		t.Errorf("%d are kept, want up to 3", got)
	}
	for end := time.Now().Add(5 * time.Second); idle() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d are kept for good", idle())
		}
	}
}

// A connection that its server has closed held its descriptor for as long as it might have been idle.
func TestDirectLetsGoOfWhatItsServerHasClosed(t *testing.T) {
	end := make(chan struct{})
	url, _ := wireServer(t, func(c net.Conn, in *bufio.Reader, n int) bool {
		if n > 1 {
			<-end
			return false
		}
		return reads(in) && say(c, okReply)
	})
	pool := newPool(t)
	if _, _, err := send(t, pool, http.MethodGet, url, nil); err != nil {
		t.Fatal(err)
	}
	close(end)
	for stop := time.Now().Add(10 * idleLook); ; time.Sleep(20 * time.Millisecond) {
		pool.direct.mu.Lock()
		kept, sweeps := pool.direct.all, pool.direct.sweep != nil
		pool.direct.mu.Unlock()
		if kept == 0 && !sweeps {
			return
		}
		if time.Now().After(stop) {
			t.Fatalf("%d are kept, and looked at %t", kept, sweeps)
		}
	}
}

// A connection on which much comes at once reads more at once from its next request on; one that trickles stays small.
func TestDirectReadsMoreWhereMoreComes(t *testing.T) {
	for _, tt := range []struct{ chunks, want int }{{400, fastReader}, {1, firstReader}} {
		reply := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("c8\r\n"+strings.Repeat("x", 200)+"\r\n", tt.chunks) + "0\r\n\r\n"
		url, connections := wireServer(t, func(c net.Conn, in *bufio.Reader, _ int) bool { return reads(in) && say(c, reply) })
		pool := newPool(t)
		for range 3 {
			_, body, err := send(t, pool, http.MethodPost, url, strings.NewReader("x"))
			if err != nil || len(body) != 200*tt.chunks {
				t.Fatalf("%d bytes, %v", len(body), err)
			}
		}
		c := pool.direct.take(strings.TrimPrefix(url, "http://"))
		if got := c.in.Size(); got != tt.want || connections.Load() != 1 {
			t.Errorf("after %d chunks each time the buffer has %d bytes, want %d", tt.chunks, got, tt.want)
		}
		_ = c.Close()
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") }))
	defer server.Close()
	pool := NewTransport(Dialer{}, nil)
	defer pool.CloseIdleConnections()
	other := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: Dialer{}.DialContext}
	defer other.CloseIdleConnections()
	for name, of := range map[string]http.RoundTripper{"direct": pool, "http.Transport": other} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader("hello"))
				resp, err := of.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}
