package main

import (
	"io"
	"sync"
	"time"
)

const (
	// logWait is how long a line of the log waits for others. A process that is killed loses no more than that.
	logWait = 10 * time.Millisecond
	// logBuffer is how many bytes wait at most. A line beyond it waits for the output itself.
	logBuffer = 32 << 10
)

// logBuffered is a log's output that takes lines together, since under load a write for each costs more than making
// it. It is for many goroutines.
type logBuffered struct {
	mu    sync.Mutex
	to    io.Writer
	buf   []byte
	timer *time.Timer // runs while something waits
}

func newLogBuffered(to io.Writer) *logBuffered {
	b := &logBuffered{to: to, buf: make([]byte, 0, logBuffer)}
	b.timer = time.AfterFunc(time.Hour, b.flush)
	b.timer.Stop()
	return b
}

// Write takes a line. It never fails: nobody could be told.
func (b *logBuffered) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.buf)+len(line) > logBuffer {
		b.flushLocked()
	}
	if len(b.buf) == 0 {
		b.timer.Reset(logWait)
	}
	b.buf = append(b.buf, line...)
	if len(b.buf) > logBuffer { // a line that is longer than all that may wait
		b.flushLocked()
		b.buf = make([]byte, 0, logBuffer)
	}
	return len(line), nil
}

// flush writes what waits.
func (b *logBuffered) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushLocked()
}

func (b *logBuffered) flushLocked() {
	if len(b.buf) > 0 {
		_, _ = b.to.Write(b.buf) // nobody could be told
		b.buf = b.buf[:0]
	}
}
