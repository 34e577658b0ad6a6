package outbound

import (
	"bytes"
	"strconv"
	"sync"
	"time"
)

// earlyWatch stops the writing of a request once the server has answered it: one that does so without reading on, and
// keeps the connection, would never let it end.
type earlyWatch struct {
	c     *directConn
	timer *time.Timer

	mu    sync.Mutex
	ended bool
	early bool
}

func watchForEarly(c *directConn) *earlyWatch {
	w := &earlyWatch{c: c}
	w.mu.Lock() // the first look needs the timer
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(earlyLook, w.look)
	return w
}

func (w *earlyWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case w.waits():
		w.timer.Reset(earlyLook)
	default:
		w.early = true
		_ = w.c.SetWriteDeadline(time.Unix(1, 0))
	}
}

// waits says whether there is no reply yet. Interim ones, which a server may send unasked while it reads on, are none.
func (w *earlyWatch) waits() bool {
	var b [1 << 10]byte
	n, open := peek(w.c.raw, b[:])
	return open && onlyInterim(b[:n])
}

// onlyInterim says whether what has come is interim replies, or too little to tell.
func onlyInterim(b []byte) bool {
	const version, status = len("HTTP/1.1 "), len("HTTP/1.1 100")
	for len(b) >= status {
		code, err := strconv.Atoi(string(b[version:status]))
		if err != nil || !isInterim(code) {
			return false
		}
		_, rest, whole := bytes.Cut(b, []byte("\r\n\r\n"))
		if !whole {
			return true
		}
		b = rest
	}
	return true
}

// stop ends the watch, and says whether it has stopped the writing.
func (w *earlyWatch) stop() bool {
	w.timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	return w.early
}
