package chat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/plainjson"
)

// Turn is one reply of a model: an assistant message and what stands around it. Of a stream it is put together from
// the chunks.
type Turn struct {
	Reply     json.RawMessage // the whole reply of a request that was not streamed; nil for a stream
	Message   json.RawMessage // the assistant message with every field that the provider sent
	Text      string          // its text; parts of a list joined
	Refusal   string
	Reasoning bool // it has reasoning, under any of the names in use
	Other     bool // it has an answer that is no text, such as audio
	Calls     []Call
	Finish    string // finish_reason of OpenAI's list; "" where the provider gave none
	Usage     json.RawMessage
	Model     string
	ID        string // of the whole reply

	plain  bool   // Reply is as clients get it but perhaps for its finish reason
	finish string // which is that, as it came
	tidy   bool   // Message is as it is echoed, with Calls for its calls, but perhaps for what is mended in them
}

// Call is one tool call of a turn.
type Call struct {
	ID        string
	Name      string
	Custom    bool            // of type custom, which only clients declare
	Arguments json.RawMessage // the JSON value under arguments: mostly a string, nil where there is none
	Raw       json.RawMessage // the whole call as it came

	tidy bool   // Raw has all that a call needs to have
	text string // Arguments as text, where it is tidy
}

// Fault is a reply that is no chat completion.
type Fault struct{ Text string }

func (f *Fault) Error() string { return f.Text }

// ReadReply reads a reply that was not streamed. Its errors are *Fault, or *ErrorReply where the body holds an error
// object, which some providers send under status 200.
func ReadReply(body []byte) (*Turn, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if !json.Valid(body) {
		return nil, &Fault{Text: "the reply is not valid JSON"}
	}
	var root, choice, message view
	viewsOf(body, level{to: &root}, level{under: "choices", item: true, to: &choice}, level{under: "message", to: &message})
	if e := errorIn(root, choice); e != nil {
		return nil, e
	}
	if message.all == nil {
		return nil, &Fault{Text: "the reply has no choices with a message"}
	}
	finish := choice.get("finish_reason").String()
	t := &Turn{
		Reply:   body,
		Message: message.raw(),
		Finish:  finishReason(finish),
		Usage:   someObject(root.value("usage")),
		Model:   strings.Clone(root.get("model").String()),
		ID:      strings.Clone(root.get("id").String()),
	}
	t.readMessage(message)
	if index := choice.get("index"); index.Type == gjson.Number && index.Int() == 0 && len(choice.raw())+2 == len(root.value("choices")) &&
		!bytes.HasPrefix(message.value("content"), []byte("[")) && message.get("role").Str == "assistant" && !message.has("tool_calls") && !message.has("function_call") &&
		root.get("id").Str != "" && root.get("object").Str == "chat.completion" && root.get("created").Type == gjson.Number && root.get("model").Str != "" {
		t.plain, t.finish = true, finish
	}
	return t, nil
}

// someObject is a copy of a value, which is kept for longer than what it stands in; nil where it is no object or has no
// member.
func someObject(value []byte) json.RawMessage {
	if len(value) == 0 || value[0] != '{' || bytes.HasPrefix(bytes.TrimLeft(value[1:], " \t\r\n"), []byte("}")) {
		return nil
	}
	return bytes.Clone(value)
}

func rawObject(v gjson.Result) json.RawMessage {
	if v.Type != gjson.JSON { // most often there is none
		return nil
	}
	return someObject([]byte(v.Raw))
}

func (t *Turn) readMessage(message view) {
	t.readTexts(message)
	list := message.each("tool_calls", "function", func(call, function view) { t.Calls = append(t.Calls, readCallOf(call, function)) })
	if !list {
		t.Calls = nil
		eachCall(message.get("tool_calls"), func(c gjson.Result) { t.Calls = append(t.Calls, readCall(c)) })
	}
	t.tidy = list && !message.has("function_call") && message.get("role").Str == "assistant"
	if old := message.get("function_call"); len(t.Calls) == 0 && old.Get("name").String() != "" { // the form before tools
		t.Calls = append(t.Calls, readCall(asToolCall(old)))
	}
}

// readTexts reads what a message has beside its calls.
func (t *Turn) readTexts(message view) {
	t.Text = message.text("content")
	t.Refusal = message.get("refusal").String()
	t.Reasoning = hasReasoning(message)
	t.Other = message.get("audio").IsObject()
}

// eachCall goes through tool_calls: a list, or a single call in its place. Calls whose name and arguments stand beside
// the id are put into OpenAI's form.
func eachCall(calls gjson.Result, f func(gjson.Result)) {
	if calls.IsObject() {
		f(nested(calls))
		return
	}
	calls.ForEach(func(_, c gjson.Result) bool {
		if c.IsObject() {
			f(nested(c))
		}
		return true
	})
}

// nested is a call, or a delta of one, with its name and arguments under function.
func nested(c gjson.Result) gjson.Result {
	name, arguments := c.Get("name"), c.Get("arguments")
	if c.Get("function").Exists() || c.Get("custom").Exists() || !name.Exists() && !arguments.Exists() {
		return c
	}
	raw, function := c.Raw, `{}`
	for _, part := range []struct {
		key   string
		value gjson.Result
	}{{"name", name}, {"arguments", arguments}} {
		if part.value.Exists() {
			function, _ = sjson.SetRaw(function, part.key, part.value.Raw)
			raw, _ = sjson.Delete(raw, part.key)
		}
	}
	raw, _ = sjson.SetRaw(raw, "function", function)
	return gjson.Parse(raw)
}

// asToolCall is a function_call as the tool call that it would be today.
func asToolCall(old gjson.Result) gjson.Result {
	return gjson.Parse(`{"id":"","type":"function","function":` + old.Raw + `}`)
}

// readCallOf is readCall of a call that is most often as OpenAI's are.
func readCallOf(call, function view) Call {
	if function.all == nil {
		return readCall(nested(gjson.ParseBytes(call.raw())))
	}
	id, arguments := call.get("id"), function.get("arguments")
	c := Call{ID: id.String(), Name: function.get("name").String(), Arguments: function.value("arguments"), Raw: call.raw()}
	if id.Type == gjson.String && arguments.Type == gjson.String && call.get("type").Type == gjson.String {
		c.tidy, c.text = true, arguments.Str
	}
	return c
}

func readCall(c gjson.Result) Call {
	call := Call{ID: c.Get("id").String(), Raw: json.RawMessage(c.Raw)}
	part := c.Get("function")
	if custom := c.Get("custom"); custom.IsObject() && !part.IsObject() {
		call.Custom, part = true, custom
	}
	call.Name = part.Get("name").String()
	if args := part.Get("arguments"); args.Exists() {
		call.Arguments = json.RawMessage(args.Raw)
	}
	return call
}

// ContentText is the text of a message's content, which is a string, null or, with some providers, a list of parts.
func ContentText(content gjson.Result) string {
	if !content.IsArray() {
		return content.String()
	}
	var b strings.Builder
	content.ForEach(func(_, part gjson.Result) bool {
		if part.Type == gjson.String {
			b.WriteString(part.Str)
		} else if text := part.Get("text"); text.Type == gjson.String {
			b.WriteString(text.Str)
		}
		return true
	})
	return b.String()
}

// reasoningKeys are the fields in which providers send reasoning: reasoning_content by DeepSeek, vLLM, llama.cpp and
// others, reasoning by OpenRouter, Groq and Ollama, reasoning_details by OpenRouter.
var reasoningKeys = []string{"reasoning_content", "reasoning", "reasoning_details"}

func hasReasoning(message view) bool {
	for _, key := range reasoningKeys {
		if v := message.get(key); v.Type == gjson.String && v.Str != "" || v.Get("0").Exists() {
			return true
		}
	}
	return false
}

// finishReason maps what providers send onto OpenAI's list, since strict SDKs refuse anything else.
func finishReason(s string) string {
	switch strings.ToLower(s) {
	case "":
		return ""
	case "tool_calls", "tool_call", "tool_use", "function_call":
		return FinishToolCalls
	case "length", "max_tokens", "model_length":
		return FinishLength
	case "content_filter", "safety", "recitation", "blocklist", "prohibited_content":
		return FinishContentFilter
	}
	return FinishStop
}

// The finish reasons of OpenAI's list.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishToolCalls     = "tool_calls"
	FinishContentFilter = "content_filter"
)

// Empty says that the turn holds nothing that could be an answer: no text, no calls, nothing else.
func (t *Turn) Empty() bool {
	return strings.TrimSpace(t.Text) == "" && len(t.Calls) == 0 && !t.Other
}

// ReadAs makes the turn one that has calls in place of its text, which were written there.
func (t *Turn) ReadAs(calls []Call) (err error) {
	t.Calls, t.Text, t.plain, t.tidy = calls, "", false, false
	if t.Message, err = sjson.SetRawBytes(t.Message, "content", []byte("null")); err != nil || t.Reply == nil {
		return err
	}
	t.Reply, err = sjson.SetRawBytes(t.Reply, "choices.0.message", t.Message)
	return err
}

// Mend is how one call of a turn has to read in the echo.
type Mend struct {
	ID        string
	Name      string
	Arguments string // a JSON text
}

// Echo is the assistant message for the next request. It is the one that came, with the calls read as mends say; a
// call that reads so already keeps its bytes. There is one mend for each call, in order.
func (t *Turn) Echo(mends []Mend) (json.RawMessage, error) {
	if t.tidy && len(t.Calls) > 0 && slices.EqualFunc(t.Calls, mends, Call.reads) {
		return t.Message, nil // the usual one, which costs no further look
	}
	message := []byte(t.Message)
	var err error
	set := func(path string, value []byte) {
		if err == nil {
			message, err = sjson.SetRawBytes(message, path, value)
		}
	}
	if gjson.GetBytes(message, "role").String() != "assistant" {
		set("role", []byte(`"assistant"`))
	}
	calls := make([][]byte, 0, len(t.Calls))
	for i, m := range mends {
		call, err := t.Calls[i].As(m)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	if !cameAs(calls, gjson.GetBytes(message, "tool_calls")) {
		set("tool_calls", List(calls))
	}
	if gjson.GetBytes(message, "function_call").Exists() {
		message, err = sjson.DeleteBytes(message, "function_call")
	}
	return message, err
}

// cameAs says whether a message's tool_calls are the list of calls, byte for byte.
func cameAs(calls [][]byte, came gjson.Result) bool {
	return !came.IsObject() && slices.EqualFunc(calls, came.Array(), func(c []byte, v gjson.Result) bool { return string(c) == v.Raw })
}

// reads says whether the call is known to read as m says.
func (c Call) reads(m Mend) bool {
	return c.tidy && c.ID == m.ID && c.Name == m.Name && c.text == m.Arguments
}

// As is the call read as m says. One that reads so already keeps its bytes.
func (c Call) As(m Mend) (json.RawMessage, error) {
	if c.reads(m) {
		return c.Raw, nil
	}
	raw := []byte(c.Raw)
	var err error
	set := func(path string, value []byte) {
		if err == nil {
			raw, err = sjson.SetRawBytes(raw, path, value)
		}
	}
	if c.ID != m.ID || gjson.GetBytes(raw, "id").Type != gjson.String {
		set("id", Quote(m.ID))
	}
	if c.Custom {
		return raw, err
	}
	if c.Name != m.Name {
		set("function.name", Quote(m.Name))
	}
	if a := gjson.ParseBytes(c.Arguments); a.Type != gjson.String || a.Str != m.Arguments {
		set("function.arguments", Quote(m.Arguments))
	}
	if gjson.GetBytes(raw, "type").Type != gjson.String {
		set("type", []byte(`"function"`))
	}
	return raw, err
}

// List is JSON texts as a list.
func List[T ~[]byte](items []T) json.RawMessage {
	size := len("[]") + len(items)
	for _, item := range items {
		size += len(item)
	}
	list := append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, item...)
	}
	return append(list, ']')
}

// ToolMessage is a tool's message for the call id.
func ToolMessage(id, content string) json.RawMessage {
	const head, middle = `{"role":"tool","tool_call_id":`, `,"content":`
	b := append(make([]byte, 0, len(head)+len(middle)+len(id)+len(content)+len(content)/8+8), head...)
	b = append(plainjson.AppendQuoted(b, id), middle...)
	return append(plainjson.AppendQuoted(b, content), '}')
}

// SystemMessage is a message of role system.
func SystemMessage(text string) json.RawMessage { return Message("system", text) }

// Message is a message of a role that has a text.
func Message(role, text string) json.RawMessage {
	b := append([]byte(`{"role":`), Quote(role)...)
	b = append(append(b, `,"content":`...), Quote(text)...)
	return append(b, '}')
}
