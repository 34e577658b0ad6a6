package outbound

import (
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
	case quiet(w.c.raw):
		w.timer.Reset(earlyLook)
	default:
		w.early = true
		_ = w.c.SetWriteDeadline(time.Unix(1, 0))
	}
}

// stop ends the watch, and says whether it has stopped the writing.
func (w *earlyWatch) stop() bool {
	w.timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	return w.early
}
