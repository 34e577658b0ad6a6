package loop

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/tool"
)

// conversation is the client's messages with what tells their beginnings apart.
type conversation struct {
	messages []chat.ClientMessage
	digests  [][sha256.Size]byte // of each message, of the messages before it; one more for all of them; nil until they are needed
}

// prefix tells the messages before number i from others.
func (c *conversation) prefix(i int) string {
	if c.digests == nil {
		c.digest()
	}
	return hex.EncodeToString(c.digests[i][:])
}

// all tells the whole conversation from others.
func (c *conversation) all() string { return c.prefix(len(c.messages)) }

// clientMessages reads the client's messages, once.
func (s *state) clientMessages() *conversation {
	if s.client == nil {
		s.client = &conversation{messages: chat.Messages(s.Request.Member("messages"))}
	}
	return s.client
}

// digest goes over all of the conversation, which takes longer than all else that is done with a long one.
func (c *conversation) digest() {
	c.digests = make([][sha256.Size]byte, len(c.messages)+1)
	longest := 0
	for i := range c.messages {
		longest = max(longest, len(c.messages[i].Content))
	}
	d := digest{Hash: sha256.New(), buf: make([]byte, 0, longest+16)}
	for i := range c.messages {
		d.Sum(c.digests[i][:0])
		d.message(&c.messages[i])
	}
	d.Sum(c.digests[len(c.messages)][:0])
}

// digestOf tells a message from others.
func digestOf(m *chat.ClientMessage) string {
	d := digest{Hash: sha256.New()}
	d.message(m)
	return hex.EncodeToString(d.Sum(nil))
}

// digest is a hash over messages.
type digest struct {
	hash.Hash
	buf []byte
}

// message adds what of a message stays the same when a client sends it again: SDKs add empty fields and write JSON in
// their own way.
func (d *digest) message(m *chat.ClientMessage) {
	d.part(append(d.buf[:0], m.Role...))
	if len(m.Content) > 0 && m.Content[0] == '[' && m.Role != "assistant" {
		d.part(append(d.buf[:0], canonical(gjson.ParseBytes(m.Content))...))
	} else {
		d.part(m.AppendText(d.buf[:0]))
	}
	if m.CallID != nil {
		d.part(chat.AppendText(d.buf[:0], m.CallID))
	}
	if m.HasCalls() {
		d.part(append(d.buf[:0], callsOf(m.Calls)...))
	}
}

// part adds a text, with its length behind it, so that no two lists of texts are the same.
func (d *digest) part(text []byte) {
	size := len(text)
	d.buf = binary.BigEndian.AppendUint64(text, uint64(size))
	_, _ = d.Write(d.buf) // a hash takes everything
}

// canonical is a JSON value in the one way that the gateway writes it.
func canonical(v gjson.Result) string {
	d := json.NewDecoder(strings.NewReader(v.Raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return v.Raw
	}
	return string(tool.EncodeJSON(value))
}

// callsOf tells an assistant message's calls from others: ids, names and arguments.
func callsOf(calls json.RawMessage) string {
	var b strings.Builder
	gjson.ParseBytes(calls).ForEach(func(_, c gjson.Result) bool {
		arguments := c.Get("function.arguments")
		text := canonical(arguments)
		if arguments.Type == gjson.String {
			text = canonical(gjson.Parse(arguments.Str))
		}
		fmt.Fprintf(&b, "%q %q %q\n", c.Get("id").String(), c.Get("function.name").String(), text)
		return true
	})
	return b.String()
}
