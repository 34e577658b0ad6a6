package proxy

import (
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/sse"
	"github.com/toolgate/toolgate/internal/upstream"
)

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
