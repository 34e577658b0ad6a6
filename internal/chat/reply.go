package chat

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// ReplyEdits is what the gateway changes in a model's last reply before it is the client's.
type ReplyEdits struct {
	Content  *string           // replaces the text; nil leaves it
	Finish   string            // finish_reason
	Calls    []json.RawMessage // the client's own calls; without any, tool_calls is taken out
	Usage    json.RawMessage   // nil leaves it
	Gateway  json.RawMessage   // added as "gateway"; nil adds nothing
	Fallback Envelope          // for fields that the provider left out or empty
}

// ReplyFor is the reply to the client made of the turn's. A reply that needs no edit keeps its bytes.
func (t *Turn) ReplyFor(e ReplyEdits) (json.RawMessage, error) {
	if t.plain && e.Content == nil && len(e.Calls) == 0 && e.Finish == t.finish && e.Usage == nil && e.Gateway == nil {
		return t.Reply, nil // the usual one, which costs no further look
	}
	if t.plain && e.Content == nil && len(e.Calls) == 0 && e.Finish == t.finish && e.Gateway == nil {
		if reply := withValue(t.Reply, "usage", e.Usage); reply != nil {
			return reply, nil // that of several steps
		}
	}
	reply := []byte(t.Reply)
	if reply == nil {
		reply = t.ownReply()
	}
	var err error
	set := func(path string, value []byte) {
		if err == nil {
			reply, err = sjson.SetRawBytes(reply, path, value)
		}
	}
	root := gjson.ParseBytes(reply)
	if root.Get("choices.#").Int() > 1 {
		set("choices", []byte("["+root.Get("choices.0").Raw+"]"))
	}
	choice := t.choiceFor(root.Get("choices.0"), e)
	if choice != root.Get("choices.0").Raw {
		set("choices.0", []byte(choice))
	}
	if e.Usage != nil && string(e.Usage) != root.Get("usage").Raw {
		set("usage", e.Usage)
	}
	if root.Get("id").Str == "" {
		set("id", Quote(e.Fallback.ID))
	}
	if root.Get("object").String() != "chat.completion" {
		set("object", []byte(`"chat.completion"`))
	}
	if c := root.Get("created"); c.Type != gjson.Number {
		set("created", []byte(e.Fallback.Created))
	}
	if root.Get("model").Str == "" {
		set("model", Quote(e.Fallback.Model))
	}
	if e.Gateway != nil {
		set("gateway", e.Gateway)
	}
	return reply, err
}

// withValue is an object with another value for a member, nil where it has none of that name.
func withValue(object []byte, name string, value []byte) []byte {
	at, ok := viewOf(object).find(name)
	if !ok {
		return nil
	}
	return slices.Concat(object[:at.Start], value, object[at.End:])
}

func (t *Turn) choiceFor(choice gjson.Result, e ReplyEdits) string {
	text := choice.Raw
	set := func(path string, value []byte) {
		if next, err := sjson.SetRaw(text, path, string(value)); err == nil {
			text = next
		}
	}
	if e.Content != nil && (choice.Get("message.content").Type != gjson.String || choice.Get("message.content").Str != *e.Content) {
		set("message.content", Quote(*e.Content))
	}
	if e.Content == nil && choice.Get("message.content").IsArray() && t.Text != "" {
		set("message.content", Quote(t.Text)) // parts, which clients do not read in replies
	}
	if choice.Get("message.role").String() != "assistant" {
		set("message.role", []byte(`"assistant"`))
	}
	switch calls := choice.Get("message.tool_calls"); {
	case len(e.Calls) > 0:
		list := make([][]byte, len(e.Calls))
		for i, c := range e.Calls {
			list[i] = c
		}
		if joined := List(list); string(joined) != calls.Raw {
			set("message.tool_calls", joined)
		}
	case calls.Exists():
		text, _ = sjson.Delete(text, "message.tool_calls")
	}
	if choice.Get("message.function_call").Exists() {
		text, _ = sjson.Delete(text, "message.function_call")
	}
	if choice.Get("finish_reason").String() != e.Finish {
		set("finish_reason", Quote(e.Finish))
	}
	if choice.Get("index").Type != gjson.Number || choice.Get("index").Int() != 0 {
		set("index", []byte("0"))
	}
	return text
}

// ownReply is a whole reply around the message of a turn that came as a stream.
func (t *Turn) ownReply() []byte {
	b := append([]byte(`{"id":"","object":"chat.completion","created":null,"model":`), Quote(t.Model)...)
	b = append(b, `,"choices":[{"index":0,"message":`...)
	b = append(b, t.Message...)
	b = append(b, `,"finish_reason":null}]`...)
	if t.Usage != nil {
		b = append(append(b, `,"usage":`...), t.Usage...)
	}
	return append(b, '}')
}

// WithChoice is a reply with the choice of another one at the end, as number index.
func WithChoice(reply, other json.RawMessage, index int) (json.RawMessage, error) {
	choice, err := sjson.SetBytes([]byte(gjson.GetBytes(other, "choices.0").Raw), "index", index)
	if err != nil {
		return nil, err
	}
	return sjson.SetRawBytes(reply, "choices.-1", choice)
}
