package proxy

import (
	"bytes"
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

// stream makes one stream for the client out of a run's many steps: one id, one role, the text of the answer as it
// comes, and nothing of the gateway's calls. Text that a turn writes before it calls a tool is no answer, so the first
// characters of a turn are held back until they are many enough, the turn has ended, or a call shows.
//
// It begins with its first byte: before, the run can still end in an error reply with a status of its own.
type stream struct {
	c         *completion
	rc        *http.ResponseController
	hold      int // characters; negative: all
	keepAlive time.Duration
	progress  Progress

	mu     sync.Mutex // of the writer, which the keep-alive timer shares
	begun  bool
	closed bool
	timer  *time.Timer
	buf    []byte
	unsent bool // something was written and not flushed

	envelope chat.Envelope // settled with the first chunk that is sent
	settled  bool
	role     bool   // has been sent
	shown    bool   // the client has seen text
	gap      bool   // text was seen that is no part of what comes next
	holds    bool   // the run's turns are held for the client's next request
	whole    []byte // all text that the client has seen, where it is held for its next request

	direct   bool // nothing of this turn is held until it is long enough
	calls    bool // this turn has calls
	held     []*chat.Chunk
	heldText int // characters
	heldSize int // bytes
	watch    func() func(text string) int
	visible  func(text string) int
	came     int         // bytes of this reply's text
	safe     int         // how many of them may be shown
	shownNow int         // how many of them the client has seen
	seen     bool        // the client has seen anything of this turn
	last     *chat.Chunk // with the finish_reason, when it has nothing else to show
}

// maxHeld bounds what one turn holds back in bytes; beyond it the text is let go. Reasoning may be long.
const maxHeld = 4 << 20

func newStream(c *completion) *stream {
	st := &stream{
		c:         c,
		rc:        http.NewResponseController(c.w),
		hold:      int(c.info.site.Streaming.Hold),
		keepAlive: time.Duration(c.info.site.Streaming.KeepAlive),
		progress:  c.progress,
		holds:     c.opts.Turns != nil && c.remembers(),
		envelope:  c.envelope(),
	}
	st.timer = time.AfterFunc(st.keepAlive, st.alive) // ends with close
	return st
}

// alive sends a comment, as nothing else has been sent for a while.
func (st *stream) alive() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.closed {
		_ = st.writeLocked(sse.AppendComment(nil, "keep-alive")) // a client that left is noticed by the run
	}
}

// close ends the stream for the timer. Nothing is written afterwards.
func (st *stream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	st.timer.Stop()
}

func (st *stream) write(b []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.writeLocked(b)
}

func (st *stream) writeLocked(b []byte) error {
	if !st.begun {
		st.begun = true
		h := st.c.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx would buffer the stream otherwise
		st.c.headers(nil)
		st.c.w.WriteHeader(http.StatusOK)
	}
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // without support, as in tests, there is none
	_, err := st.c.w.Write(b)
	if err == nil {
		err = st.rc.Flush()
	}
	st.unsent = false
	st.timer.Reset(st.keepAlive)
	return err
}

// data adds an event. It is sent with the next write, or once the provider is waited for, so that events that came
// together leave together.
func (st *stream) data(raw []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.begun {
		return st.writeLocked(sse.AppendData(st.buf[:0], oneLine(raw)))
	}
	st.buf = sse.AppendData(st.buf[:0], oneLine(raw))
	st.unsent = true
	_, err := st.c.w.Write(st.buf)
	return err
}

// Wait sends what has been added.
func (st *stream) Wait() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unsent {
		_ = st.writeLocked(nil) // a client that left is noticed by the next chunk
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
	if !st.settled && c.ID != "" {
		st.settle(c)
	}
	st.calls = st.calls || c.Calls
	if c.Finish != "" && !c.Shows() && !c.Calls && c.HasDelta {
		st.last = c
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
	st.held = append(st.held, c)
	st.heldText += utf8.RuneCountInString(c.Text)
	st.heldSize += len(c.Raw)
	enough := !st.calls && st.hold >= 0 && st.heldText-(st.came-st.safe) > st.hold
	if letThrough || enough || st.heldSize > maxHeld && !st.calls {
		return st.letGo()
	}
	return nil
}

// settle takes over id, time and model for the whole stream.
func (st *stream) settle(c *chat.Chunk) {
	st.settled = true
	st.envelope.ID = c.ID
	if gjson.Parse(c.Created).Type == gjson.Number {
		st.envelope.Created = c.Created
	}
	if c.Model != "" {
		st.envelope.Model = c.Model
	}
}

// letGo shows what was held back and may be shown.
func (st *stream) letGo() error {
	for len(st.held) > 0 {
		c := st.held[0]
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
	rest, err := chat.ReadChunk(chat.NewChunk(st.envelope, `{"content":`+string(chat.Quote(c.Text[n:]))+`}`, "null"))
	if err != nil {
		return err
	}
	st.held[0] = rest
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
	raw, err := c.In(st.envelope, st.firstRole())
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
	if !st.shown {
		st.c.metrics.firstToken.Observe(time.Since(st.c.record.Start).Seconds())
	}
	st.shown = true
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
	return st.data(chat.NewChunk(st.envelope, `{`+role+member+`}`, "null"))
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

// finish ends the stream in order: the rest of the answer, why it ended, the usage if the client asked for it, and the
// trace.
func (st *stream) finish(result *loop.Result) error {
	steps := []func(*loop.Result) error{st.rest, st.handCalls, st.finishReason, st.usage, st.end}
	for _, step := range steps {
		if err := step(result); err != nil {
			return err
		}
	}
	return nil
}

// rest shows what is left of the answer. Where the run gives its text, what was shown of this turn is its beginning.
func (st *stream) rest(result *loop.Result) error {
	if result.Content == nil {
		st.safe = st.came // what looked like calls was none
		return st.letGo()
	}
	for _, c := range st.held {
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
	return st.data(chat.NewChunk(st.envelope, delta, "null"))
}

// finishReason sends the chunk with the finish_reason: the provider's own where it has one to itself.
func (st *stream) finishReason(result *loop.Result) error {
	finish := chat.Quote(result.Finish)
	delta := `{}`
	role := st.firstRole()
	if role {
		delta = `{"role":"assistant","content":""}`
	}
	chunk := chat.NewChunk(st.envelope, delta, string(finish))
	if st.last != nil && result.Content == nil && len(result.Calls) == 0 {
		own, err := st.last.In(st.envelope, role)
		if err == nil {
			chunk, err = sjson.SetRawBytes(own, "choices.0.finish_reason", finish)
		}
		if err != nil {
			return err
		}
	}
	if st.c.wantsTrace() {
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

func (st *stream) usage(result *loop.Result) error {
	if !st.c.req.IncludeUsage || result.Usage == nil {
		return nil
	}
	return st.data(chat.UsageChunk(st.envelope, result.Usage))
}

func (st *stream) end(result *loop.Result) error {
	if len(st.whole) <= maxWhole {
		st.c.hold(result, string(st.whole))
	}
	dictionary := st.c.record.Dictionary()
	b := sse.AppendComment(nil, "trace "+dictionary)
	b = sse.AppendData(b, []byte(sse.Done))
	st.c.w.Header().Set(http.TrailerPrefix+trace.Header, dictionary)
	return st.write(b)
}

// fail ends a stream that has begun: one event with the error, no [DONE]. It returns false where nothing has been sent
// yet, so that the error can be a reply of its own.
func (st *stream) fail(p *Error) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	st.timer.Stop()
	if !st.begun {
		return false
	}
	st.c.w.Header().Set(http.TrailerPrefix+trace.Header, st.c.record.Dictionary())
	if p.Body != nil && !gjson.GetBytes(p.Body, "error").Exists() { // clients would take it for a chunk
		own := *p
		own.Body, p = nil, &own
	}
	if p.Status != statusClientGone {
		_ = st.writeLocked(sse.AppendData(nil, oneLine(p.body(st.c.info.site.Mask)))) // the client may have left meanwhile
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
