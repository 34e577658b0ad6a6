package script

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
)

// reply is what goes over the wire: one piece, or those of a stream.
type reply struct {
	status      int
	contentType string
	pieces      [][]byte
	stream      bool
}

const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
	typeText   = "text/plain; charset=utf-8"
)

// player gives one reply.
type player struct {
	turn   *Turn
	values map[string]string // what stands for names in braces
	model  string
	n      int64 // number of the request
}

// Reply is the turn as the reply in one piece to request n, of which a call without an id gets one.
func (t *Turn) Reply(n int, req *chat.Request) []byte {
	user, tool, _ := lastOf(req.Member("messages"))
	p := player{turn: t, values: map[string]string{"user": user, "tool": tool}, model: req.Model, n: int64(n)}
	return p.whole()
}

// reply is the turn as the reply to a request.
func (p player) reply(req *chat.Request) reply {
	t := p.turn
	r := reply{status: t.Status, contentType: typeJSON}
	switch key := t.inPlace(); {
	case key == "json":
		r.pieces = [][]byte{given(t.JSON)}
	case key == "events":
		events := make([][]byte, len(t.Events))
		for i, e := range t.Events {
			events[i] = given(e)
		}
		r = reply{status: t.Status, contentType: typeStream, pieces: t.pieces(events), stream: true}
	case key != "":
		r.pieces = [][]byte{t.raw}
		if req.Stream {
			r.contentType = typeStream
		}
	case t.Status >= http.StatusBadRequest, t.Error != "" && !req.Stream:
		var body []byte
		body, r.contentType = t.failure()
		r.pieces = [][]byte{body}
	case req.Stream:
		r = reply{status: t.Status, contentType: typeStream, pieces: t.pieces(p.events(req.IncludeUsage)), stream: true}
	default:
		r.pieces = [][]byte{p.whole()}
	}
	if t.ContentType != "" {
		r.contentType = t.ContentType
	}
	return r
}

// given is a value of the script as it is sent: a text as it is, anything else as JSON.
func given(n *config.Node) []byte {
	if n.Kind() == config.String {
		return []byte(n.Text())
	}
	return n.JSON()
}

// shapeInside200 is the ErrorShape that has no status of its own.
const shapeInside200 = "inside_200"

// failure is the body of an error reply, and its type.
func (t *Turn) failure() (body []byte, contentType string) {
	kind := t.ErrorType
	if kind == "" {
		kind = "mock_error"
	}
	body = chat.ErrorBody(t.Error, kind, "", t.Code)
	switch t.ErrorShape {
	case "string":
		body = encode(map[string]string{"error": t.Error})
	case "detail":
		body = encode(map[string]string{"detail": t.Error})
	case "list": // Gemini's OpenAI-compatible endpoint
		body = append(append([]byte("["), body...), ']')
	case "text":
		return []byte(t.Error), typeText
	}
	return body, typeJSON
}

// fill puts values in the place of names in braces; others stay.
func (p player) fill(s string) string {
	pairs := make([]string, 0, 2*len(p.values))
	for name, v := range p.values {
		pairs = append(pairs, "{"+name+"}", v)
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

func (p player) id() string { return fmt.Sprintf("chatcmpl-%d", p.n) }

// calls are the calls as they are sent at once, in a stream with an index.
func (p player) calls(indexed bool) []toolCall {
	q := p.turn.Quirks
	list := make([]toolCall, len(p.turn.Calls))
	for i, c := range p.turn.Calls {
		list[i] = toolCall{
			ID:       q.id(p.callID(i), p.callID(0), 0),
			Type:     json.RawMessage(`"function"`),
			Function: function{Name: q.name(c.Name, 0), Arguments: q.arguments(p.arguments(c))},
		}
		if indexed {
			list[i].Index = q.index(i)
		}
	}
	return list
}

func (p player) callID(i int) string {
	if id := p.turn.Calls[i].ID; id != "" {
		return id
	}
	return fmt.Sprintf("call_%d_%d", p.n, i+1)
}

func (p player) arguments(c Call) string {
	raw := c.Arguments.JSON()
	if v := gjson.ParseBytes(raw); v.Type == gjson.String {
		return p.fill(v.Str)
	}
	if len(raw) == 0 {
		return "{}"
	}
	return p.fill(string(raw))
}

// finish is the finish reason as JSON.
func (p player) finish() json.RawMessage {
	switch {
	case p.turn.Quirks.NoFinish:
		return json.RawMessage("null")
	case p.turn.Finish != "":
		return chat.Quote(p.turn.Finish)
	case len(p.turn.Calls) > 0:
		return chat.Quote(chat.FinishToolCalls)
	}
	return chat.Quote(chat.FinishStop)
}

// usage is the turn's token counts, with that many completion tokens.
func (p player) usage(completion int) map[string]int {
	prompt := p.turn.Usage.Prompt
	return map[string]int{"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
}

func (p player) message() map[string]any {
	m := map[string]any{"role": "assistant", "content": nil}
	if p.turn.Text != "" || len(p.turn.Calls) == 0 {
		m["content"] = p.fill(p.turn.Text)
	}
	if p.turn.Reasoning != "" {
		m["reasoning_content"] = p.fill(p.turn.Reasoning)
	}
	if len(p.turn.Calls) > 0 {
		m["tool_calls"] = p.calls(false)
	}
	if p.turn.Quirks.Role == "none" {
		delete(m, "role")
	}
	return m
}

// whole is the reply in one piece.
func (p player) whole() []byte {
	body := map[string]any{
		"id": p.id(), "object": "chat.completion", "created": time.Now().Unix(), "model": p.model,
		"choices": []any{map[string]any{"index": 0, "message": p.message(), "finish_reason": p.finish()}},
	}
	if p.turn.Quirks.Usage != "none" {
		body["usage"] = p.usage(p.turn.Usage.Completion)
	}
	return encode(body)
}

// encode is v as JSON; it is made of maps, texts and numbers, which always encode.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}
