package loop

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/registry"
)

// maxTold bounds the arguments of a call in the answer that says what waits.
const maxTold = 2000

// said is how far the user has come in the client's messages.
func (c *conversation) said() registry.Said {
	var said registry.Said
	var last *chat.ClientMessage
	for i := range c.messages {
		if m := &c.messages[i]; m.Role == "user" {
			said.Messages++
			last = m
		}
	}
	if last != nil {
		said.Last = digestOf(last)
	}
	return said
}

// confirm asks for what a call needs before it is made, and refuses one that lacks it. Its error is the cause with which
// ctx ended.
func (s *state) confirm(ctx context.Context, it *item) error {
	if it.Tool.Confirm() == registry.ConfirmNone || it.Tool.ConfirmAfter() != "" && !s.tainted() {
		return nil
	}
	seen, err := s.View.Confirm(ctx, &it.Prepared, s.scope(it, s.writes[it.Name+"\x00"+it.Canonical]+1))
	if err != nil || seen == nil {
		return err
	}
	it.refuse(*seen)
	if seen.Waits != nil {
		it.state = waitsForApproval
		s.result.Approval, s.Record.Approval = seen.Waits.ID, seen.Waits.ID
	}
	return nil
}

// await ends the run with an answer that says what waits.
func (s *state) await(it *item, turn *chat.Turn, all items) {
	s.result.Stop, s.result.Finish = Confirmation, chat.FinishStop
	if s.Turns != nil && s.Memory {
		s.result.Hold = s.hold(s.withFinal(turn, all))
	}
	s.hide()
	a := it.seen.Waits
	arguments := []rune(a.Arguments)
	if len(arguments) > maxTold {
		arguments = append(arguments[:maxTold], '…')
	}
	text := fmt.Sprintf("This needs an approval before it is done: %s %s\nApproval: %s. Nothing has been done yet; once it is approved, send your request again.", a.Tool, string(arguments), a.ID)
	s.result.Content = &text
}
