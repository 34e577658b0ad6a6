package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/sse"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
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

// stream makes one choice for the client out of a run's many steps: one id, one role, the text of the answer as it
// comes, and nothing of the gateway's calls. Text that a turn writes before it calls a tool is no answer, so the first
// characters of a turn are held back until they are many enough, the turn has ended, or a call shows.
type stream struct {
	*wire
	index    int // of the choice
	hold     int // characters; negative: all
	progress Progress

	role  bool   // has been sent
	shown bool   // the client has seen text
	gap   bool   // text was seen that is no part of what comes next
	holds bool   // the run's turns, or what has tainted it, may be held for the client's next request
	whole []byte // all text that the client has seen, where they are

	direct   bool // nothing of this turn is held until it is long enough
	calls    bool // this turn has calls
	held     []chat.Kept
	heldOne  chat.Chunk // of held, while it is shown
	heldText int        // characters
	heldSize int        // bytes
	watch    func() func(text string) int
	visible  func(text string) int
	came     int         // bytes of this reply's text
	safe     int         // how many of them may be shown
	shownNow int         // how many of them the client has seen
	seen     bool        // the client has seen anything of this turn
	last     *chat.Chunk // with the finish_reason, when it has nothing else to show; kept
}

// maxHeld bounds what one turn holds back in bytes; beyond it the text is let go. Reasoning may be long.
const maxHeld = 4 << 20

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

// data adds an event of this choice.
func (st *stream) data(raw []byte) error {
	if st.index > 0 {
		var err error
		if raw, err = sjson.SetBytes(raw, "choices.0.index", st.index); err != nil {
			return err
		}
	}
	return st.wire.data(raw)
}

// Wait sends what has been added.
func (w *wire) Wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting != nil {
		_ = w.writeLocked(nil) // a client that left is noticed by the next chunk
	}
}

// Begin begins a turn.
func (st *stream) Begin(direct bool, watch func() func(string) int) {
	st.direct, st.watch = direct, watch
	st.anew()
}

// anew begins with a reply to the turn.
func (st *stream) anew() {
	st.calls, st.seen, st.last = false, false, nil
	st.visible, st.came, st.safe, st.shownNow = st.watch(), 0, 0, 0
	st.drop()
}

func (st *stream) drop() { st.held, st.heldText, st.heldSize = nil, 0, 0 }

// Header takes over what the provider says of its limits, unless the stream has begun.
func (st *stream) Header(h upstream.Header) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.begun {
		copyLimits(st.c.w.Header(), h)
	}
	if !st.seen { // another route takes over
		st.anew()
	}
}

// Visible says whether the client has seen anything of this turn.
func (st *stream) Visible() bool { return st.seen }

// Shown says whether the client has seen any text.
func (st *stream) Shown() bool { return st.shown }

// Chunk shows a chunk, or holds it back.
func (st *stream) Chunk(c *chat.Chunk) error {
	st.settle(c)
	st.calls = st.calls || c.Calls
	if c.Finish != "" && !c.Shows() && !c.Calls && c.HasDelta {
		st.last = c.Keep().Chunk()
	}
	if !c.HasDelta || !c.Shows() {
		return nil
	}
	if st.progress == progressReasoning && c.Reasoning && c.Text == "" && !c.Rest {
		return st.show(c)
	}
	if c.Text != "" {
		st.came += len(c.Text)
		st.safe = st.visible(c.Text)
	}
	letThrough := st.direct || st.shownNow > 0
	if letThrough && len(st.held) == 0 && st.safe == st.came { // the usual one, once the answer shows
		return st.show(c)
	}
	st.held = append(st.held, c.Keep())
	st.heldText += utf8.RuneCountInString(c.Text)
	st.heldSize += len(c.Raw)
	enough := !st.calls && st.hold >= 0 && st.heldText-(st.came-st.safe) > st.hold
	if letThrough || enough || st.heldSize > maxHeld && !st.calls {
		return st.letGo()
	}
	return nil
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

// letGo shows what was held back and may be shown.
func (st *stream) letGo() error {
	for len(st.held) > 0 {
		c := st.held[0].In(&st.heldOne)
		if more := st.safe - st.shownNow; len(c.Text) > more {
			if more <= 0 {
				return nil
			}
			return st.showPart(c, more)
		}
		st.held = st.held[1:]
		st.heldText -= utf8.RuneCountInString(c.Text)
		st.heldSize -= len(c.Raw)
		if err := st.show(c); err != nil {
			return err
		}
	}
	st.drop()
	return nil
}

// showPart shows the first n bytes of a chunk's text, and holds the rest.
func (st *stream) showPart(c *chat.Chunk, n int) error {
	part, err := c.WithText(c.Text[:n])
	if err != nil {
		return err
	}
	rest, err := chat.ReadChunk(chat.NewChunk(st.around(), `{"content":`+string(chat.Quote(c.Text[n:]))+`}`, "null"))
	if err != nil {
		return err
	}
	st.held[0] = rest.Keep()
	st.heldText -= utf8.RuneCountInString(part.Text)
	return st.show(part)
}

// show sends a chunk.
func (st *stream) show(c *chat.Chunk) error {
	if c.Text != "" {
		if err := st.bridge(); err != nil {
			return err
		}
		st.saw(c.Text)
		st.shownNow += len(c.Text)
	}
	st.seen = true
	raw, err := c.In(st.around(), st.firstRole())
	if err != nil {
		return err
	}
	return st.data(raw)
}

// maxWhole bounds the text of an answer whose turns are held, in bytes.
const maxWhole = 1 << 20

// saw notes that the client sees text.
func (st *stream) saw(text string) {
	if st.holds && len(st.whole) <= maxWhole {
		st.whole = append(st.whole, text...)
	}
	st.shown = true
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.wire.shown {
		st.c.metrics.firstToken.Observe(time.Since(st.c.record.Start).Seconds())
	}
	st.wire.shown = true
}

// bridge parts text from what was seen before and is no part of it, by a blank line.
func (st *stream) bridge() error {
	if !st.gap {
		return nil
	}
	st.gap = false
	st.saw("\n\n")
	return st.text("\n\n")
}

// text sends text of the gateway's own.
func (st *stream) text(s string) error { return st.delta(`"content":` + string(chat.Quote(s))) }

// delta sends a delta of the gateway's own, which has one member.
func (st *stream) delta(member string) error {
	role := ""
	if st.firstRole() {
		role = `"role":"assistant",`
	}
	return st.data(chat.NewChunk(st.around(), `{`+role+member+`}`, "null"))
}

// firstRole says whether the next chunk has to name the role, and that it does.
func (st *stream) firstRole() bool {
	first := !st.role
	st.role = true
	return first
}

// Started shows that a tool begins to run, where that is wanted.
func (st *stream) Started(tool string) {
	text := "tool " + tool + " started"
	switch st.progress {
	case progressComment:
		_ = st.write(sse.AppendComment(nil, text)) // a client that left is noticed by the run
	case progressReasoning:
		_ = st.delta(`"reasoning_content":` + string(chat.Quote(text+"\n")))
	case progressOff:
	}
}

// Hide drops what is held back: the turn was no answer.
func (st *stream) Hide() {
	st.gap = st.gap || st.shownNow > 0
	st.shownNow, st.last = 0, nil
	st.drop()
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

// answer shows what is left of a run's answer, and the client's calls.
func (st *stream) answer(ctx context.Context, result *loop.Result) error {
	st.awaits(result.Approval)
	if err := st.rest(result); err != nil {
		return err
	}
	if err := st.handCalls(result); err != nil {
		return err
	}
	if len(st.whole) <= maxWhole {
		st.c.hold(ctx, result, string(st.whole))
	}
	return nil
}

// awaits sets the header for what a call waits for, where the stream has not begun. The trace at its end says it in any
// case.
func (st *stream) awaits(approval string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if h := st.c.w.Header(); approval != "" && !st.begun {
		h.Set(headerApproval, withApproval(h.Get(headerApproval), approval))
	}
}

// rest shows what is left of the answer. Where the run gives its text, what was shown of this turn is its beginning.
func (st *stream) rest(result *loop.Result) error {
	if result.Content == nil {
		st.safe = st.came // what looked like calls was none
		return st.letGo()
	}
	for _, kept := range st.held {
		c := kept.In(&st.heldOne)
		if c.Text != "" {
			continue
		}
		if err := st.show(c); err != nil {
			return err
		}
	}
	rest := (*result.Content)[min(st.shownNow, len(*result.Content)):]
	if rest == "" {
		return nil
	}
	if err := st.bridge(); err != nil {
		return err
	}
	st.saw(rest)
	return st.text(rest)
}

func (st *stream) handCalls(result *loop.Result) error {
	if len(result.Calls) == 0 {
		return nil
	}
	delta, err := chat.CallsDelta(result.Calls)
	if err != nil {
		return err
	}
	if st.firstRole() {
		delta = `{"role":"assistant",` + delta[1:]
	}
	return st.data(chat.NewChunk(st.around(), delta, "null"))
}

// finishReason sends the chunk with the finish_reason: the provider's own where it has one to itself. The last one has
// the trace, if the client wants it.
func (st *stream) finishReason(result *loop.Result, last bool) error {
	finish := chat.Quote(result.Finish)
	delta := `{}`
	role := st.firstRole()
	if role {
		delta = `{"role":"assistant","content":""}`
	}
	chunk := chat.NewChunk(st.around(), delta, string(finish))
	if st.last != nil && result.Content == nil && len(result.Calls) == 0 {
		own, err := st.last.In(st.around(), role)
		if err == nil {
			chunk, err = sjson.SetRawBytes(own, "choices.0.finish_reason", finish)
		}
		if err != nil {
			return err
		}
	}
	if last && st.c.wantsTrace() {
		whole, err := json.Marshal(st.c.record)
		if err != nil {
			return err
		}
		if chunk, err = sjson.SetRawBytes(chunk, "gateway", whole); err != nil {
			return err
		}
	}
	return st.data(chunk)
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
