package proxy

import (
	"bufio"
	"bytes"
	"container/list"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/chat"
)

// maxConnections is the limit of connections, as the metrics name it.
const maxConnections = "max_connections"

const (
	// mostConnections is the default where the process may have any number of files open.
	mostConnections = 16384
	// freshFor is how long a connection that has sent nothing is left in peace: most clients send at once.
	freshFor = time.Second
	// tellFor bounds how long a client is told that there is no place for it.
	tellFor = 500 * time.Millisecond
	// mostTold bounds how many are told at a time. A further one waits for tellSoon, and is reset then.
	mostTold = 64
	tellSoon = 10 * time.Millisecond
)

// defaultConnections is how many connections are taken where the file does not say, by how many files the process may
// have open: a half of them, as what is behind the gateway needs a connection for each request too.
func defaultConnections(files uint64) int {
	const kept = 32 // log, databases, listeners, who is told that there is no place
	if files > 2*mostConnections+kept {
		return mostConnections
	}
	return max(8, (int(files)-kept)/2)
}

// connections is a listener that bounds the connections that are open. Where there are as many as it takes, the one that
// has waited longest for its next request makes place for a new one. Where each has a request under way, the new one is
// told so at once, with 503: nobody queues unseen in the kernel, and a balancer asks another gateway.
type connections struct {
	net.Listener
	max     func() int
	gauge   prometheus.Gauge
	refused prometheus.Counter
	told    chan struct{} // has a place for each that is being told

	mu    sync.Mutex
	open  int
	fresh *list.List // of *connection that have sent nothing yet, in the order that they came
	idle  *list.List // of *connection between two requests, in the order that they became so
}

func limitConnections(l net.Listener, m *Metrics, most func() int) *connections {
	return &connections{
		Listener: l,
		max:      most,
		gauge:    m.connections,
		refused:  m.rejections.WithLabelValues("", maxConnections),
		told:     make(chan struct{}, min(mostTold, max(4, most()/2))),
		fresh:    list.New(),
		idle:     list.New(),
	}
}

// connection is one that was taken.
type connection struct {
	net.Conn
	of     *connections
	closed bool // set under of.mu

	// Where it is while it waits for a request, nil at other times. Of of.mu.
	in    *list.List
	at    *list.Element
	since time.Time
}

// Accept is the next connection that there is a place for.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.place() {
			return &connection{Conn: c, of: l}, nil
		}
		l.refused.Inc()
		l.refuse(c)
	}
}

// place takes a place for a connection, if there is one or one can be made.
func (l *connections) place() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.max() {
		waits := l.waits(time.Now())
		if waits == nil {
			return false
		}
		_ = waits.closeLocked() // it is of no use in any case
	}
	l.open++
	l.gauge.Set(float64(l.open))
	return true
}

// waits is the connection that may best be closed, nil for none.
func (l *connections) waits(now time.Time) *connection {
	if e := l.idle.Front(); e != nil {
		return e.Value.(*connection) // the lists hold nothing else
	}
	if e := l.fresh.Front(); e != nil {
		c := e.Value.(*connection)
		if now.Sub(c.since) >= freshFor {
			return c
		}
	}
	return nil
}

// state is for http.Server.
func (l *connections) state(conn net.Conn, s http.ConnState) {
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.leave()
	if c.closed {
		return
	}
	switch s {
	case http.StateNew:
		c.enter(l.fresh)
	case http.StateIdle:
		c.enter(l.idle)
	case http.StateActive, http.StateHijacked, http.StateClosed:
	}
}

func (c *connection) enter(in *list.List) {
	c.since = time.Now()
	c.in, c.at = in, in.PushBack(c)
}

func (c *connection) leave() {
	if c.in != nil {
		c.in.Remove(c.at)
		c.in, c.at = nil, nil
	}
}

// Close closes the connection and frees its place.
func (c *connection) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.closeLocked()
}

func (c *connection) closeLocked() error {
	if !c.closed {
		c.closed = true
		c.leave()
		c.of.open--
		c.of.gauge.Set(float64(c.of.open))
	}
	return c.Conn.Close()
}

// refuse tells a client that there is no place for it, if not too many are being told so already.
func (l *connections) refuse(c net.Conn) {
	late := time.NewTimer(tellSoon)
	defer late.Stop()
	select {
	case l.told <- struct{}{}:
		go func() { // ends within tellFor
			defer func() { <-l.told }()
			defer c.Close()
			tell(c)
		}()
	case <-late.C:
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // no memory of it stays in the kernel
		}
		_ = c.Close()
	}
}

// tell answers the first request of a connection. Its header is waited for: some clients take a reply that comes before
// it for a fault of the connection, and a connection that is closed before all was read takes the reply with it.
func tell(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(tellFor))
	in := bufio.NewReader(io.LimitReader(c, 64<<10))
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			break
		}
	}
	body := chat.ErrorBody(errCrowded.Message, errCrowded.Type, "", errCrowded.Code)
	_, err := fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body)
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		_ = tcp.CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20)) // until the client closes it
	}
}
