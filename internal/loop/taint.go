package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"

	"github.com/toolgate/toolgate/internal/chat"
	stores "github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/trace"
)

// A run is tainted once its model has read what an untrusted tool brought: from the next step on, as the calls of the same
// turn were written before. What a later request of the conversation goes on with is tainted too: held turns have it with
// them, and an answer has a mark of its own, which stands where no turns are held and where a client leaves out the oldest
// messages.

// taint notes that an untrusted tool is among the calls of a turn that were made, failed ones too: what a failure says
// may be the service's.
func (s *state) taint(all items) {
	if s.tainted() {
		return
	}
	for _, it := range all.list {
		if it.state == ran && it.stop == nil && !it.answer && it.Tool.Untrusted() {
			s.setTaint(it.Name, fmt.Sprintf("step %d: %s, which is untrusted, has answered", s.step, it.Name))
			return
		}
	}
}

func (s *state) tainted() bool { return s.Record.Tainted != "" }

func (s *state) setTaint(by, note string) {
	if s.tainted() {
		return
	}
	s.Record.Tainted = by
	if s.View.Wary() {
		note += "; tools that are confirmed after untrusted are so from here on"
	}
	s.Record.Notes = append(s.Record.Notes, note)
}

// inherit takes over the taint of a turn of an earlier request. by is "" where it has none.
func (s *state) inherit(by string) {
	if by != "" {
		s.setTaint(by, "the conversation holds what "+by+", which is untrusted, has answered to an earlier request")
	}
}

// doubt is for a part of the conversation of which nothing is known: an untrusted tool may have answered in it.
func (s *state) doubt(why string) {
	if s.View.Wary() {
		s.setTaint(trace.Unknown, why+", so that an untrusted tool may have answered in it")
	}
}

// markKey is where the taint of an answer is noted: by its text and by the user's message before it, which stay beside
// each other however a client shortens its history.
func (s *state) markKey(c *conversation, i int, answer string) string {
	user := ""
	for i--; i >= 0; i-- {
		if m := c.messages[i]; m.Get("role").String() == "user" {
			h := sha256.New()
			writeMessage(h, m)
			user = hex.EncodeToString(h.Sum(nil))
			break
		}
	}
	return stores.Key("tainted", s.Record.Caller, s.View.Identity(), user, strings.TrimSpace(answer))
}

// inheritAnswer takes over the taint of the answer that message i is.
func (s *state) inheritAnswer(ctx context.Context, c *conversation, i int) {
	if s.tainted() || !s.View.Wary() {
		return
	}
	by, ok, err := s.Turns.Get(ctx, s.markKey(c, i, chat.ContentText(c.messages[i].Get("content"))))
	switch {
	case err != nil:
		s.Logger.Warn("taint of an answer can't be read", slog.String("run_id", s.Record.ID), slog.Any("err", err))
		s.doubt("what is known of an earlier answer can't be read")
	case ok:
		s.inherit(string(by))
	}
}

// holding is what holds the run's turns, where they are to be held, and the taint of its answer.
func (s *state) holding(hold func(context.Context, string)) func(context.Context, string) {
	if s.Turns == nil || !s.tainted() || s.result.Stop == ClientTools {
		return hold
	}
	return func(ctx context.Context, answer string) {
		c := s.clientMessages()
		if err := s.Turns.Put(ctx, s.markKey(c, len(c.messages), answer), []byte(s.Record.Tainted), heldFor); err != nil {
			s.Logger.Warn("taint of an answer could not be held", slog.String("run_id", s.Record.ID), slog.Any("err", err))
		}
		if hold != nil {
			hold(ctx, answer)
		}
	}
}
