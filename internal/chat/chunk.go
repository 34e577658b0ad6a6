package chat

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Chunk is one event of a streamed reply, with what the gateway looks at read out of it. Null fields read like absent
// ones.
type Chunk struct {
	Raw     json.RawMessage
	ID      string
	Object  string
	Model   string
	Created string // as it is written
	Usage   json.RawMessage

	HasDelta  bool // it has a choice with a delta; Azure's filter chunks have none
	Role      bool
	Text      string
	Reasoning bool
	Calls     bool
	Rest      bool // the delta has something else, such as a refusal, audio or annotations
	Finish    string

	choice      gjson.Result
	choiceUsage gjson.Result // where Moonshot puts it
	delta       gjson.Result
	plain       bool // one choice, written as clients get it but perhaps for its role, and no usage

	// Of a chunk that is like an earlier one but for its text; choice and delta are that one's.
	like              *likeness // nil for any other
	said              string    // the text, of an answer or of reasoning
	textAt, paddingAt Span      // in Raw
}

// ReadChunk reads the data of one event. It returns nil without an error for data that says nothing: empty or null,
// which some providers send to keep the connection alive. Its errors are *Fault and *ErrorReply.
func ReadChunk(data []byte) (*Chunk, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	if !gjson.ValidBytes(data) {
		return nil, &Fault{Text: "an event of the stream is not valid JSON"}
	}
	root := gjson.ParseBytes(data)
	if !root.IsObject() {
		return nil, &Fault{Text: "an event of the stream is not a JSON object"}
	}
	c := &Chunk{Raw: data}
	var odd json.RawMessage // usage in another place
	failed := false
	c.plain = true
	root.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "id":
			c.ID = v.Str // a number is none
		case "object":
			c.Object = v.String()
		case "model":
			c.Model = v.Str
		case "created":
			c.Created = v.Raw
		case "usage":
			c.Usage, c.plain = rawObject(v), false
		case "error":
			failed = v.Type != gjson.Null
		case "x_groq":
			odd = rawObject(v.Get("usage"))
		case "choices":
			c.choice = firstChoice(v)
			c.plain = c.plain && len(c.choice.Raw)+2 == len(v.Raw) // there is no other, and no blank
		}
		return true
	})
	failed = c.readChoice() || failed || !c.choice.Exists()
	if failed {
		if e := errorIn(viewOf(data), viewOf([]byte(c.choice.Raw))); e != nil {
			return nil, e
		}
	}
	if c.Usage == nil {
		c.Usage = odd
	}
	if c.Usage == nil {
		c.Usage = rawObject(c.choiceUsage)
	}
	return c, nil
}

// firstChoice is the choice with index 0, or the first one where the provider sends no index. Others are of no use: the
// gateway asks for one choice.
func firstChoice(choices gjson.Result) gjson.Result {
	var first gjson.Result
	choices.ForEach(func(_, v gjson.Result) bool {
		if index := v.Get("index"); !v.IsObject() || index.Exists() && index.Int() != 0 {
			return true
		}
		first = v
		return false
	})
	return first
}

// readChoice reads the choice, and says whether it may hold an error.
func (c *Chunk) readChoice() (failed bool) {
	index, finish := false, false
	c.choice.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "index":
			index = v.Type == gjson.Number
		case "delta":
			c.delta = v
		case "message": // in place of a delta, when a provider streams a whole reply
			c.plain = false
			if !c.delta.Exists() {
				c.delta = v
			}
		case "finish_reason":
			c.Finish = finishReason(v.String())
			finish = v.Type == gjson.Null
		case "usage":
			c.choiceUsage = v
		case "error":
			failed = v.Type != gjson.Null
		}
		return true
	})
	c.plain = c.plain && index && finish
	c.HasDelta = c.delta.IsObject()
	c.delta.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "role", "tool_calls", "function_call":
			c.plain = false
		}
		switch {
		case v.Type == gjson.Null:
		case key.Str == "role":
			c.Role = true
		case key.Str == "content":
			c.Text = ContentText(v)
			c.plain = c.plain && !v.IsArray()
		case key.Str == "tool_calls":
			c.Calls = c.Calls || v.IsObject() || v.Get("#").Int() > 0
		case key.Str == "function_call":
			c.Calls = c.Calls || v.IsObject()
		case slices.Contains(reasoningKeys, key.Str):
			c.Reasoning = c.Reasoning || v.Type == gjson.String && v.Str != "" || v.Get("0").Exists()
		case v.Type != gjson.String || v.Str != "":
			c.Rest = true
		}
		return true
	})
	return failed
}

// Shows says whether the delta holds anything that a client could show.
func (c *Chunk) Shows() bool { return c.Text != "" || c.Reasoning || c.Rest }

// WithText is the chunk with text in place of its own.
func (c *Chunk) WithText(text string) (*Chunk, error) {
	if c.like != nil {
		whole, err := ReadChunk(c.Raw)
		if err != nil {
			return nil, err
		}
		return whole.WithText(text)
	}
	delta, err := sjson.SetRawBytes([]byte(c.delta.Raw), "content", Quote(text))
	if err != nil {
		return nil, err
	}
	choice, err := sjson.SetRawBytes([]byte(c.choice.Raw), "delta", delta)
	if err != nil {
		return nil, err
	}
	raw, err := sjson.SetRawBytes([]byte(c.Raw), "choices", slices.Concat([]byte("["), choice, []byte("]")))
	if err != nil {
		return nil, err
	}
	return ReadChunk(raw)
}

// Envelope is what all chunks of one stream have in common.
type Envelope struct {
	ID      string
	Created string // a JSON number
	Model   string
}

const chunkObject = "chat.completion.chunk"

// In is the chunk inside the envelope e, as a client gets it: with a role if role is true, else without one, and
// without calls, finish_reason and usage. A chunk that is so already keeps its bytes. What it gives is valid until the
// next call for a chunk of the same stream.
func (c *Chunk) In(e Envelope, role bool) (json.RawMessage, error) {
	if c.like != nil {
		if !role {
			if raw := c.like.inEnvelope(c, e); raw != nil {
				return raw, nil
			}
		}
		whole, err := ReadChunk(c.Raw)
		if err != nil {
			return nil, err
		}
		return whole.In(e, role)
	}
	if c.plain && !role && c.HasDelta && c.ID == e.ID && c.Object == chunkObject && c.Created == e.Created && c.Model == e.Model {
		return c.Raw, nil // the usual one, which costs no further look
	}
	raw := []byte(c.Raw)
	var err error
	set := func(path string, value []byte) {
		if err == nil {
			raw, err = sjson.SetRawBytes(raw, path, value)
		}
	}
	drop := func(path string) {
		if err == nil {
			raw, err = sjson.DeleteBytes(raw, path)
		}
	}
	choice := c.choiceIn(role)
	if string(choice) != c.choice.Raw || gjson.GetBytes(raw, "choices.#").Int() != 1 {
		set("choices", slices.Concat([]byte("["), choice, []byte("]")))
	}
	if c.Usage != nil || gjson.GetBytes(raw, "usage").Exists() {
		drop("usage")
	}
	if c.ID != e.ID {
		set("id", Quote(e.ID))
	}
	if c.Object != chunkObject {
		set("object", Quote(chunkObject))
	}
	if c.Created != e.Created {
		set("created", []byte(e.Created))
	}
	if c.Model != e.Model {
		set("model", Quote(e.Model))
	}
	return raw, err
}

// choiceIn is the choice of In.
func (c *Chunk) choiceIn(role bool) []byte {
	choice := []byte(c.choice.Raw)
	edit := func(next []byte, err error) {
		if err == nil {
			choice = next
		}
	}
	if d := c.choice.Get("delta"); !d.IsObject() {
		edit(sjson.SetRawBytes(choice, "delta", []byte(c.delta.Raw)))
		edit(sjson.DeleteBytes(choice, "message"))
	}
	for _, key := range []string{"tool_calls", "function_call"} {
		if c.delta.Get(key).Exists() {
			edit(sjson.DeleteBytes(choice, "delta."+key))
		}
	}
	if c.delta.Get("content").IsArray() { // parts, which clients do not read in replies
		edit(sjson.SetRawBytes(choice, "delta.content", Quote(c.Text)))
	}
	switch given := c.delta.Get("role"); {
	case role && given.String() != "assistant":
		edit(sjson.SetRawBytes(choice, "delta.role", []byte(`"assistant"`)))
	case !role && given.Exists():
		edit(sjson.DeleteBytes(choice, "delta.role"))
	}
	if !c.choice.Get("index").Exists() {
		edit(sjson.SetRawBytes(choice, "index", []byte("0")))
	}
	if f := c.choice.Get("finish_reason"); f.Type != gjson.Null || !f.Exists() {
		edit(sjson.SetRawBytes(choice, "finish_reason", []byte("null")))
	}
	return choice
}

// NewChunk is a chunk of the gateway's own. delta and finish are JSON texts.
func NewChunk(e Envelope, delta, finish string) json.RawMessage {
	b := e.open()
	b = append(b, `,"choices":[{"index":0,"delta":`...)
	b = append(b, delta...)
	b = append(b, `,"finish_reason":`...)
	b = append(b, finish...)
	return append(b, '}', ']', '}')
}

// UsageChunk is the chunk that ends a stream whose client asked for usage.
func UsageChunk(e Envelope, usage json.RawMessage) json.RawMessage {
	b := append(e.open(), `,"choices":[],"usage":`...)
	return append(append(b, usage...), '}')
}

func (e Envelope) open() []byte {
	b := append([]byte(`{"id":`), Quote(e.ID)...)
	b = append(b, `,"object":"`+chunkObject+`","created":`...)
	b = append(b, e.Created...)
	return append(append(b, `,"model":`...), Quote(e.Model)...)
}

// CallsDelta is the delta that hands whole calls to a client in a stream, numbered from 0.
func CallsDelta(calls []json.RawMessage) (string, error) {
	list := make([][]byte, len(calls))
	for i, c := range calls {
		indexed, err := sjson.SetBytes([]byte(c), "index", i)
		if err != nil {
			return "", err
		}
		list[i] = indexed
	}
	return `{"tool_calls":` + string(List(list)) + `}`, nil
}
