package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/tidwall/gjson"
)

func TestDefaultConnections(t *testing.T) {
	for files, want := range map[uint64]int{8: 8, 64: 16, 256: 112, 1024: 496, 65536: 16384, 1 << 20: 16384, 1<<64 - 1: 16384} {
		if got := defaultConnections(files); got != want {
			t.Errorf("defaultConnections(%d) = %d, want %d", files, got, want)
		}
	}
}

// crowd is a server with few places for connections.
type crowd struct {
	*connections
	t       *testing.T
	addr    string
	metrics *Metrics
	release chan struct{} // for requests of /wait
}

func newCrowd(t *testing.T, places int) *crowd {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, addr: l.Addr().String(), metrics: NewMetrics(prometheus.NewRegistry()), release: make(chan struct{})}
	limited := limitConnections(l, c.metrics, func() int { return places })
	c.connections = limited
	s := &http.Server{ReadHeaderTimeout: time.Minute, ConnState: limited.state, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-c.release
		}
		_, _ = io.WriteString(w, "served")
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(limited) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if n := testutil.ToFloat64(c.metrics.connections); n != 0 {
			t.Errorf("%v connections are counted when all are closed", n)
		}
		for range cap(limited.told) { // nobody is being told any more
			limited.told <- struct{}{}
		}
	})
	return c
}

func (c *crowd) dial() net.Conn {
	c.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(c.t.Context(), "tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// get sends a request over a connection, and reads the reply's header.
func (c *crowd) get(conn net.Conn, path string) (*http.Response, error) {
	_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(conn), nil)
}

func (c *crowd) served(conn net.Conn, path string) {
	c.t.Helper()
	resp, err := c.get(conn, path)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Errorf("GET %s = %v, %v, want 200", path, resp, err)
		return
	}
	if path != "/wait" {
		if body, err := io.ReadAll(resp.Body); string(body) != "served" {
			c.t.Errorf("GET %s = %q, %v", path, body, err)
		}
	}
}

// waiting waits until so many connections are known to be between two requests.
func (c *crowd) waiting(n int) {
	c.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		got := c.idle.Len()
		c.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%d connections wait, want %d", got, n)
		}
	}
}

// Where each connection has a request under way, a further one is told so at once, and takes no place.
func TestConnectionsBeyondTheLimitAreToldSo(t *testing.T) {
	c := newCrowd(t, 2)
	c.served(c.dial(), "/wait")
	c.served(c.dial(), "/wait")
	for range 3 {
		begin := time.Now()
		resp, err := c.get(c.dial(), "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !resp.Close || gjson.GetBytes(body, "error.code").Str != "overloaded" {
			t.Errorf("got %d %v %s, %v", resp.StatusCode, resp.Header, body, err)
		}
		if took := time.Since(begin); took > tellFor {
			t.Errorf("it took %s", took)
		}
	}
	if n := testutil.ToFloat64(c.metrics.rejections.WithLabelValues("", maxConnections)); n != 3 {
		t.Errorf("%v refusals are counted", n)
	}
	close(c.release)
	deadline, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for { // those that were served wait for their next request soon
		resp, err := c.get(c.dial(), "/")
		if err == nil && resp.StatusCode == http.StatusOK {
			break
		}
		if deadline.Err() != nil {
			t.Fatalf("no place is free again: %v", err)
		}
	}
}

// The connection that has waited longest for its next request makes place for a new one.
func TestIdleConnectionsMakePlace(t *testing.T) {
	c := newCrowd(t, 3)
	defer close(c.release)
	longest, next, busy := c.dial(), c.dial(), c.dial()
	c.served(busy, "/wait")
	c.served(longest, "/")
	c.waiting(1)
	c.served(next, "/")
	c.waiting(2)
	c.served(c.dial(), "/")
	if _, err := c.get(longest, "/"); err == nil {
		t.Error("the connection that waited longest is still served")
	}
	c.served(next, "/")
}

// Connections that never send anything make place too, once they have had the time to.
func TestSilentConnectionsMakePlace(t *testing.T) {
	c := newCrowd(t, 4)
	for range 4 {
		c.dial()
	}
	time.Sleep(freshFor + 100*time.Millisecond)
	for range 8 {
		c.served(c.dial(), "/")
	}
}

// Clients beyond the places of those who are told are reset.
func TestAFloodOfConnectionsTakesNoPlaces(t *testing.T) {
	c := newCrowd(t, 1)
	defer close(c.release)
	c.served(c.dial(), "/wait")
	var silent []net.Conn
	for range 200 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.addr)
		if err != nil { // reset by then
			continue
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	for _, conn := range silent {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || strings.Contains(err.Error(), "timeout") {
			t.Fatalf("a silent connection beyond the limit: %d, %v; want its end", n, err)
		}
	}
}
