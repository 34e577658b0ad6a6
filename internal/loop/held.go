package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/chat"
	stores "github.com/toolgate/toolgate/internal/state"
)

// What the client does not get to see of a conversation is held for its next request: the turns with calls of the
// gateway's tools before an answer, found again by the conversation up to it and its text; and those before a turn that
// calls the client's tools, found again by these calls.
const (
	heldFor  = 24 * time.Hour
	maxHeld  = 1 << 20 // bytes of one answer's or turn's messages
	maxAlike = 8       // turns that have the same calls, in other conversations of the same caller
)

// noResult is what a model reads in place of a result that the client did not give.
const noResult = "(the client gave no result)"

// heldTurn is what was held of a run that ended with calls of the client's.
type heldTurn struct {
	Prefix  string            `json:"prefix"`  // the conversation up to it, as the client has it
	Before  []json.RawMessage `json:"before"`  // messages of earlier steps
	Turn    json.RawMessage   `json:"turn"`    // the whole assistant message
	Results []heldResult      `json:"results"` // in the order of its calls
	Tainted string            `json:"tainted"` // the untrusted tool that has answered, "" without
}

// heldAnswer is what was held of a run that ended with an answer.
type heldAnswer struct {
	Messages []json.RawMessage `json:"messages"` // before it
	Tainted  string            `json:"tainted"`
}

// heldResult is the result of one call; Text is nil where the client gives it.
type heldResult struct {
	ID   string  `json:"id"`
	Text *string `json:"text,omitempty"`
}

// encode leaves the messages as they are, to the byte: providers' prompt caches want them so.
func (h heldAnswer) encode() []byte {
	return slices.Concat([]byte(`{"tainted":`), chat.Quote(h.Tainted), []byte(`,"messages":`), chat.List(h.Messages), []byte("}"))
}

// restore puts what is held back into the conversation. Where nothing is, the client's messages stay as they are.
func (s *state) restore(ctx context.Context) {
	if s.Turns == nil || !bytes.Contains(s.Request.Member("messages"), []byte(`"assistant"`)) {
		return
	}
	c := s.clientMessages()
	var out []json.RawMessage
	found := 0
	for i := 0; i < len(c.messages); i++ {
		m := &c.messages[i]
		switch {
		case m.Role != "assistant":
		case m.HasCalls():
			if held := s.heldTurn(ctx, c, i); held != nil {
				results, used := held.messages(c.messages[i+1:])
				out = append(append(append(out, held.Before...), held.Turn), results...)
				i += used
				found++
				s.inherit(ctx, held.Tainted)
				continue
			}
			s.Record.Lost++
		case s.Memory && !s.forgetful:
			if held := s.heldAnswer(ctx, c, i); held != nil {
				s.recalled++
				out = append(out, held.Messages...)
				found++
				s.inherit(ctx, held.Tainted)
			}
			s.inheritAnswer(ctx, c, i)
		default:
			s.inheritAnswer(ctx, c, i)
		}
		out = append(out, m.Raw)
	}
	if s.Record.Lost > 0 {
		s.Record.Notes = append(s.Record.Notes, fmt.Sprintf("%d turns of the client's history call tools, and nothing is held of what came before them", s.Record.Lost))
		s.doubt(ctx, "a part of the conversation is lost")
	}
	if found > 0 {
		s.restored = chat.List(out)
		s.Logger.Debug("held turns put back", slog.String("run_id", s.Record.ID), slog.Int("turns", found))
	}
}

// heldTurn is what is held of the turn that message i was made of, nil where it is gone.
func (s *state) heldTurn(ctx context.Context, c *conversation, i int) *heldTurn {
	var alike []heldTurn
	value, ok, err := s.Turns.Get(ctx, s.turnKey(callsOf(c.messages[i].Calls)))
	if err != nil {
		s.Logger.Warn("held turns can't be read", slog.String("run_id", s.Record.ID), slog.Any("err", err))
		return nil
	}
	if !ok || json.Unmarshal(value, &alike) != nil {
		return nil
	}
	for j := range alike {
		if alike[j].Prefix == c.prefix(i) {
			return &alike[j]
		}
	}
	if len(alike) == 1 { // the client has edited what came before, and it can be no other
		return &alike[0]
	}
	return nil
}

func (s *state) turnKey(calls string) string {
	return stores.Key("turn", s.Record.Caller, s.View.Identity(), calls)
}

// messages are the results of a held turn's calls, in their order, with those of the client out of the messages that
// follow, and how many of these are used.
func (h *heldTurn) messages(following []chat.ClientMessage) (results []json.RawMessage, used int) {
	given := map[string]json.RawMessage{}
	var others []json.RawMessage
	for _, m := range following {
		if m.Role != "tool" {
			break
		}
		used++
		id := string(chat.AppendText(nil, m.CallID))
		switch _, twice := given[id]; {
		case twice:
		case !h.has(id):
			others = append(others, m.Raw)
		default:
			given[id] = m.Raw
		}
	}
	for _, r := range h.Results {
		switch m, ok := given[r.ID]; {
		case r.Text != nil:
			results = append(results, chat.ToolMessage(r.ID, *r.Text))
		case ok:
			results = append(results, m)
		default:
			results = append(results, chat.ToolMessage(r.ID, noResult))
		}
	}
	return append(results, others...), used
}

func (h *heldTurn) has(id string) bool {
	for _, r := range h.Results {
		if r.ID == id && r.Text == nil {
			return true
		}
	}
	return false
}

// holdTurn holds what the client does not see of a turn that calls its tools. given is the message that it gets.
func (s *state) holdTurn(ctx context.Context, turn *chat.Turn, all items, given json.RawMessage) {
	if s.Turns == nil {
		return
	}
	whole := *turn
	if s.Prompt { // its text has the marks
		var err error
		if whole.Message, err = sjson.SetRawBytes(turn.Message, "content", chat.Quote(turn.Text)); err != nil {
			return
		}
	}
	mends := make([]chat.Mend, len(all.list))
	held := heldTurn{Before: s.after, Prefix: s.clientMessages().all(), Tainted: s.Record.Tainted}
	for i, it := range all.list {
		mends[i] = chat.Mend{ID: it.id, Name: it.Name, Arguments: it.Echo}
		r := heldResult{ID: it.id}
		if !it.client {
			text := s.resultOf(it).marked()
			r.Text = &text
		}
		held.Results = append(held.Results, r)
	}
	var err error
	if held.Turn, err = whole.Echo(mends); err != nil {
		s.Logger.Warn("a turn could not be held", slog.String("run_id", s.Record.ID), slog.Any("err", err))
		return
	}
	s.keepTurn(ctx, s.turnKey(callsOf(json.RawMessage(gjson.GetBytes(given, "tool_calls").Raw))), held)
}

// keepTurn adds a turn to those with the same calls, the newest first.
func (s *state) keepTurn(ctx context.Context, key string, held heldTurn) {
	for range 10 { // others may do so at the same time
		old, ok, err := s.Turns.Get(ctx, key)
		alike := []heldTurn{held}
		var before []heldTurn
		if ok && json.Unmarshal(old, &before) == nil {
			for _, b := range before {
				if b.Prefix != held.Prefix && len(alike) < maxAlike {
					alike = append(alike, b)
				}
			}
		}
		value, marshalErr := json.Marshal(alike)
		if err == nil {
			err = marshalErr
		}
		if len(value) > maxHeld && len(alike) > 1 {
			value, err = json.Marshal(alike[:1])
		}
		if err != nil || len(value) > maxHeld {
			s.Logger.Warn("a turn could not be held", slog.String("run_id", s.Record.ID), slog.Int("bytes", len(value)), slog.Any("err", err))
			return
		}
		done := false
		if ok {
			done, err = s.Turns.Swap(ctx, key, old, value, heldFor)
		} else {
			_, done, err = s.Turns.Claim(ctx, key, value, heldFor)
		}
		if done || err != nil {
			return
		}
	}
}

func (s *state) answerKey(prefix, text string) string {
	return stores.Key("answer", s.Record.Caller, s.View.Identity(), prefix, strings.TrimSpace(text))
}

// answerHint is the hint at an answer of the caller's: its text, which appendText appends. It is put in place of b.
func (s *state) answerHint(b []byte, appendText func([]byte) []byte) []byte {
	b = append(append(b[:0], s.Record.Caller...), 0)
	head := len(b)
	b = appendText(b)
	return append(b[:head], bytes.TrimSpace(b[head:])...)
}

// heldAnswer is what is held of the answer that message i is, nil where nothing is.
func (s *state) heldAnswer(ctx context.Context, c *conversation, i int) *heldAnswer {
	if hints, ok := s.Turns.(stores.Hints); ok {
		if s.hint = s.answerHint(s.hint, c.messages[i].AppendText); !hints.Noted(s.hint) {
			return nil
		}
	}
	value, ok, err := s.Turns.Get(ctx, s.answerKey(c.prefix(i), c.messages[i].Text()))
	held := &heldAnswer{}
	if err != nil || !ok || json.Unmarshal(value, held) != nil {
		return nil
	}
	return held
}

// hold holds the run's turns for the next request, once the answer that the client gets is known.
func (s *state) hold(messages []json.RawMessage) func(context.Context, string) {
	if s.Turns == nil || !s.Memory || len(s.results) == 0 {
		return nil
	}
	return func(ctx context.Context, answer string) {
		value := heldAnswer{messages, s.Record.Tainted}.encode()
		if len(value) > maxHeld {
			return
		}
		if hints, ok := s.Turns.(stores.Hints); ok {
			hints.Note(s.answerHint(nil, func(b []byte) []byte { return append(b, answer...) }), heldFor)
		}
		if err := s.Turns.Put(ctx, s.answerKey(s.clientMessages().all(), answer), value, heldFor); err != nil {
			s.Logger.Warn("turns could not be held", slog.String("run_id", s.Record.ID), slog.Any("err", err))
		}
	}
}

// withFinal is the run's turns with the one whose final call has ended it.
func (s *state) withFinal(turn *chat.Turn, all items) []json.RawMessage {
	for _, it := range all.list {
		if it.state == waiting {
			it.seen.Text = notRun
		}
	}
	before, stop := s.after, s.result.Stop
	if s.remember(turn, all) != nil { // then the turns before it have to do
		s.result.Stop = stop
		return before
	}
	return s.after
}

// notRun is what a model reads of calls behind the one that ended the run.
const notRun = "(not run: the conversation had been answered)"

// forget takes back turns of earlier answers, as the model's context is full, and says whether there were any.
func (s *state) forget(ctx context.Context) bool {
	if s.recalled == 0 {
		return false
	}
	s.Record.Shortened += s.recalled
	s.Record.Notes = append(s.Record.Notes, fmt.Sprintf("step %d: the model's context was full; the tool turns before %d earlier answers were left out and the step was asked once more", s.step+1, s.recalled))
	s.recalled, s.forgetful, s.restored, s.ids = 0, true, nil, nil
	lost, notes := s.Record.Lost, s.Record.Notes
	s.restore(ctx)
	s.Record.Lost, s.Record.Notes = lost, notes
	return true
}
