package loop

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	stores "github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/trace"
)

// A run is tainted once its model has read what an untrusted tool brought: from the next step on, as the calls of the same
// turn were written before. What a later request of the conversation goes on with is tainted too. Held turns have it with
// them. Where none are held, there are two marks: of the conversation, whatever answer follows it, as a client may have
// stopped the answer half way; and of the answer, which stands where a client leaves out its oldest messages.

// taint notes that an untrusted tool is among the calls of a turn that were made, failed ones too: what a failure says
// may be the service's.
func (s *state) taint(ctx context.Context, all items) {
	if s.tainted() {
		return
	}
	for _, it := range all.list {
		if it.state == ran && it.stop == nil && !it.answer && it.Tool.Untrusted() {
			s.setTaint(ctx, it.Name, fmt.Sprintf("step %d: %s, which is untrusted, has answered", s.step, it.Name))
			return
		}
	}
}

func (s *state) tainted() bool { return s.Record.Tainted != "" }

func (s *state) setTaint(ctx context.Context, by, note string) {
	if s.tainted() {
		return
	}
	s.Record.Tainted = by
	if s.View.Wary() {
		note += "; tools that are confirmed after untrusted are so from here on"
	}
	s.Record.Notes = append(s.Record.Notes, note)
	if s.Turns != nil && s.Request.N <= 1 { // of several choices the others may be clean
		c := s.clientMessages()
		s.markTainted(ctx, s.conversationMark(c, len(c.messages)))
	}
}

// inherit takes over the taint of a turn of an earlier request. by is "" where it has none.
func (s *state) inherit(ctx context.Context, by string) {
	switch by {
	case "":
	case trace.Unknown:
		s.doubt(ctx, "a part of the conversation was lost to an earlier request")
	default:
		s.setTaint(ctx, by, "the conversation holds what "+by+", which is untrusted, has answered to an earlier request")
	}
}

// doubt is for a part of the conversation of which nothing is known: an untrusted tool may have answered in it.
func (s *state) doubt(ctx context.Context, why string) {
	if s.View.Wary() {
		s.setTaint(ctx, trace.Unknown, why+", so that an untrusted tool may have answered in it")
	}
}

// conversationMark is where it is noted that what follows the messages before number i is tainted.
func (s *state) conversationMark(c *conversation, i int) string {
	return stores.Key("tainted conversation", s.Record.Caller, s.View.Identity(), c.prefix(i))
}

// answerMark is where the taint of an answer is noted: by its text and by the user's message before it, which stay beside
// each other however a client shortens its history.
func (s *state) answerMark(c *conversation, i int, answer string) string {
	user := ""
	for i--; i >= 0; i-- {
		if m := &c.messages[i]; m.Role == "user" {
			user = digestOf(m)
			break
		}
	}
	return stores.Key("tainted answer", s.Record.Caller, s.View.Identity(), user, strings.TrimSpace(answer))
}

// markTainted notes the run's taint, though the client be gone: it may have read a part of the answer.
func (s *state) markTainted(ctx context.Context, key string) {
	if err := s.Turns.Put(context.WithoutCancel(ctx), key, []byte(s.Record.Tainted), heldFor); err != nil {
		s.Logger.Warn("taint could not be held", slog.String("run_id", s.Record.ID), slog.Any("err", err))
	}
}

// inheritAnswer takes over the taint of the answer that message i is.
func (s *state) inheritAnswer(ctx context.Context, c *conversation, i int) {
	if !s.View.Wary() {
		return
	}
	for _, key := range []string{s.conversationMark(c, i), s.answerMark(c, i, c.messages[i].Text())} {
		if s.tainted() {
			return
		}
		by, ok, err := s.Turns.Get(ctx, key)
		switch {
		case err != nil:
			s.Logger.Warn("taint can't be read", slog.String("run_id", s.Record.ID), slog.Any("err", err))
			s.doubt(ctx, "what is known of an earlier answer can't be read")
		case ok:
			s.inherit(ctx, string(by))
		}
	}
}

// holding is what holds the run's turns, where they are to be held, and the taint of its answer.
func (s *state) holding(hold func(context.Context, string)) func(context.Context, string) {
	if s.Turns == nil || !s.tainted() || s.result.Stop == ClientTools {
		return hold
	}
	return func(ctx context.Context, answer string) {
		c := s.clientMessages()
		s.markTainted(ctx, s.answerMark(c, len(c.messages), answer))
		if hold != nil {
			hold(ctx, answer)
		}
	}
}
