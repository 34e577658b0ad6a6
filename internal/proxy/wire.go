package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/sse"
	"github.com/toolgate/toolgate/internal/trace"
)

// wire is the one stream that a client gets, whatever writes to it. It begins with its first byte: before, the run can
// still end in an error reply with a status of its own.
type wire struct {
	c         *completion
	patience  *patience
	keepAlive time.Duration

	mu       sync.Mutex // of all that follows: the keep-alive timer and, of several choices, each one's run share it
	begun    bool
	closed   bool
	timer    *time.Timer
	waiting  *[]byte       // events to be sent; of waitings, and nil where there are none
	err      error         // of the last write: the client has left
	envelope chat.Envelope // settled with the first chunk that is sent
	settled  bool
	shown    bool // the client has seen text
}

func newWire(c *completion) *wire {
	w := &wire{
		c:         c,
		patience:  newPatience(c.w),
		keepAlive: time.Duration(c.info.site.Streaming.KeepAlive),
		envelope:  c.envelope(),
	}
	w.timer = time.AfterFunc(w.keepAlive, w.alive) // ends with close
	return w
}

// choice is the stream of one choice.
func (w *wire) choice(index int) *stream {
	return &stream{
		wire:     w,
		index:    index,
		hold:     int(w.c.info.site.Streaming.Hold),
		progress: w.c.progress,
		holds:    w.c.opts.Turns != nil && w.c.remembers(),
	}
}

// alive sends a comment, as nothing else has been sent for a while.
func (w *wire) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		_ = w.writeLocked(sse.AppendComment(nil, "keep-alive")) // a client that left is noticed by the run
	}
}

// close ends the stream for the timer. Nothing is written afterwards.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
}

func (w *wire) write(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeLocked(b)
}

// writeLocked sends what waits and b.
func (w *wire) writeLocked(b []byte) error {
	w.begin()
	w.patience.begin()
	waiting := w.waits()
	*waiting = append(*waiting, b...)
	_, w.err = w.c.w.Write(*waiting)
	w.waiting = nil
	if cap(*waiting) <= maxPooled {
		*waiting = (*waiting)[:0]
		waitings.Put(waiting)
	}
	if w.err == nil {
		w.err = w.patience.rc.Flush()
	}
	w.timer.Reset(w.keepAlive)
	return w.err
}

// begin settles the header.
func (w *wire) begin() {
	if w.begun {
		return
	}
	w.begun = true
	h := w.c.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer the stream otherwise
	w.c.headers(nil)
	w.c.w.WriteHeader(http.StatusOK)
}

const (
	// maxWaiting is how many bytes of events wait for others.
	maxWaiting = 4 << 10
	// maxPooled is how many bytes a buffer of events may have grown to, and be used again.
	maxPooled = 64 << 10
)

// waitings are buffers for events. A stream that waits for its provider has none.
var waitings = sync.Pool{New: func() any { b := make([]byte, 0, maxWaiting+maxWaiting/2); return &b }}

// waits is the buffer of the events to be sent.
func (w *wire) waits() *[]byte {
	if w.waiting == nil {
		w.waiting = waitings.Get().(*[]byte)
	}
	return w.waiting
}

// data adds an event. It is sent with the next write, or once the provider is waited for, so that events that came
// together leave together.
func (w *wire) data(raw []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.waits()
	*waiting = sse.AppendData(*waiting, oneLine(raw))
	if w.err == nil && (!w.begun || len(*waiting) > maxWaiting) {
		return w.writeLocked(nil)
	}
	return w.err
}

// Wait sends what has been added.
func (w *wire) Wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting != nil {
		_ = w.writeLocked(nil) // a client that left is noticed by the next chunk
	}
}

// settle takes over id, time and model of the first chunk for the whole stream.
func (w *wire) settle(c *chat.Chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.settled || c.ID == "" {
		return
	}
	w.settled = true
	w.envelope.ID = c.ID
	if gjson.Parse(c.Created).Type == gjson.Number {
		w.envelope.Created = c.Created
	}
	if c.Model != "" {
		w.envelope.Model = c.Model
	}
}

// around is what all chunks have in common.
func (w *wire) around() chat.Envelope {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.envelope
}

// finish ends the stream in order: why each choice ended, the usage if the client asked for it, and the trace. What was
// left of the answers has been shown by then.
func (w *wire) finish(choices []*stream, results []*loop.Result, usage json.RawMessage) error {
	for i, st := range choices {
		if err := st.finishReason(results[i], i == len(choices)-1); err != nil {
			return err
		}
	}
	if w.c.req.IncludeUsage && usage != nil {
		if err := w.data(chat.UsageChunk(w.around(), usage)); err != nil {
			return err
		}
	}
	return w.end()
}

// end sends the trace, and the end.
func (w *wire) end() error {
	dictionary := w.c.record.Dictionary()
	b := sse.AppendComment(nil, "trace "+dictionary)
	b = sse.AppendData(b, []byte(sse.Done))
	w.c.w.Header().Set(http.TrailerPrefix+trace.Header, dictionary)
	return w.write(b)
}

// fail ends a stream that has begun: one event with the error, no [DONE]. It returns false where nothing has been sent
// yet, so that the error can be a reply of its own.
func (w *wire) fail(p *Error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
	if !w.begun {
		return false
	}
	w.c.w.Header().Set(http.TrailerPrefix+trace.Header, w.c.record.Dictionary())
	if p.Body != nil && !gjson.GetBytes(p.Body, "error").Exists() { // clients would take it for a chunk
		own := *p
		own.Body, p = nil, &own
	}
	if p.Status != statusClientGone {
		_ = w.writeLocked(sse.AppendData(nil, oneLine(p.body(w.c.info.site.Mask)))) // the client may have left meanwhile
	}
	return true
}

// oneLine is a JSON text without line ends, which would end the event. In JSON they are blanks.
func oneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, b)
}
