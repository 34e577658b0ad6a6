package script

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/sse"
)

// Server is a provider that follows a script. It is for use by many goroutines at once.
type Server struct {
	script *Script
	served atomic.Int64 // requests for completions so far
}

// NewServer makes a provider of a checked script.
func NewServer(s *Script) *Server { return &Server{script: s} }

// maxRequest bounds a request's body.
const maxRequest = 64 << 20

// ServeHTTP serves POST /v1/chat/completions and GET /v1/models.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%s,"object":"model","created":0,"owned_by":"mock"}]}`, chat.Quote(s.script.Model))
	case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
		s.complete(w, r)
	default:
		fail(w, http.StatusNotFound, "the mock serves POST /v1/chat/completions and GET /v1/models", "unknown_url")
	}
}

func fail(w http.ResponseWriter, status int, message, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(chat.ErrorBody(message, "mock_error", "", code))
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // the client has left
	}
	req, err := chat.ParseRequest(body)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "")
		return
	}
	n := s.served.Add(1)
	turn, values := s.turn(int(n-1), req)
	if turn == nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("the script has no reply for request %d", n), "unscripted")
		return
	}
	if !wait(r, time.Duration(turn.Delay)) {
		return
	}
	for name, v := range turn.Headers.All() {
		w.Header().Set(name, v)
	}
	if turn.Status >= 400 {
		fail(w, turn.Status, turn.Error, turn.Code)
		return
	}
	p := player{turn: turn, values: values, id: fmt.Sprintf("chatcmpl-%d", n), model: req.Model, n: n}
	if req.Stream {
		p.stream(w, r, req.IncludeUsage)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(turn.Status)
	_, _ = w.Write(p.reply())
}

// wait waits, and says whether the client is still there.
func wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// turn is what the script says to a request, nil where it says nothing, and what stands for names in braces.
func (s *Server) turn(n int, req *chat.Request) (*Turn, map[string]string) {
	user, tool, turns := lastOf(req.Member("messages"))
	values := map[string]string{"user": user, "tool": tool}
	if list := s.script.Replies; len(list) > 0 {
		if n >= len(list) && !s.script.Repeat {
			return nil, nil
		}
		return &list[n%len(list)], values
	}
	for i := range s.script.Conversations {
		c := &s.script.Conversations[i]
		found := c.when.FindStringSubmatch(user)
		if found == nil {
			continue
		}
		for at, name := range c.when.SubexpNames() {
			if name != "" {
				values[name] = found[at]
			}
		}
		return &c.Turns[min(turns, len(c.Turns)-1)], values
	}
	return nil, nil
}

// lastOf finds in a conversation the user's last message, the newest tool result, and how many turns of the model stand
// behind that message.
func lastOf(messages json.RawMessage) (user, tool string, turns int) {
	gjson.ParseBytes(messages).ForEach(func(_, m gjson.Result) bool {
		switch m.Get("role").String() {
		case "user":
			user, turns = text(m.Get("content")), 0
		case "tool":
			tool = text(m.Get("content"))
		case "assistant":
			turns++
		}
		return true
	})
	return user, tool, turns
}

func text(content gjson.Result) string {
	if !content.IsArray() {
		return content.String()
	}
	var b strings.Builder
	for _, part := range content.Array() {
		b.WriteString(part.Get("text").String())
	}
	return b.String()
}

// player gives one reply.
type player struct {
	turn   *Turn
	values map[string]string
	id     string
	model  string
	n      int64
}

// fill puts values in the place of names in braces; others stay.
func (p player) fill(s string) string {
	pairs := make([]string, 0, 2*len(p.values))
	for name, v := range p.values {
		pairs = append(pairs, "{"+name+"}", v)
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type toolCall struct {
	Index    *int     `json:"index,omitempty"`
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

func (p player) calls(indexed bool) []toolCall {
	list := make([]toolCall, len(p.turn.Calls))
	for i, c := range p.turn.Calls {
		list[i] = toolCall{ID: c.ID, Type: "function", Function: function{Name: c.Name, Arguments: p.arguments(c)}}
		if c.ID == "" {
			list[i].ID = fmt.Sprintf("call_%d_%d", p.n, i+1)
		}
		if indexed {
			list[i].Index = &i
		}
	}
	return list
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

func (p player) finish() string {
	switch {
	case p.turn.Finish != "":
		return p.turn.Finish
	case len(p.turn.Calls) > 0:
		return chat.FinishToolCalls
	}
	return chat.FinishStop
}

func (p player) usage() map[string]int {
	u := p.turn.Usage
	return map[string]int{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion}
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
	return m
}

// Reply is the turn as the reply to request n, of which a call without an id gets one.
func (t *Turn) Reply(n int, req *chat.Request) []byte {
	user, tool, _ := lastOf(req.Member("messages"))
	p := player{turn: t, values: map[string]string{"user": user, "tool": tool}, id: fmt.Sprintf("chatcmpl-%d", n), model: req.Model, n: int64(n)}
	return p.reply()
}

func (p player) reply() []byte {
	return encode(map[string]any{
		"id": p.id, "object": "chat.completion", "created": time.Now().Unix(), "model": p.model, "usage": p.usage(),
		"choices": []any{map[string]any{"index": 0, "message": p.message(), "finish_reason": p.finish()}},
	})
}

// encode is v as JSON; it is made of maps, texts and numbers, which always encode.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}

// stream sends the reply in pieces: a word each.
func (p player) stream(w http.ResponseWriter, r *http.Request, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(p.turn.Status)
	envelope := chat.Envelope{ID: p.id, Created: strconv.FormatInt(time.Now().Unix(), 10), Model: p.model}
	deltas := []map[string]any{{"role": "assistant", "content": ""}}
	if p.turn.Reasoning != "" {
		deltas = append(deltas, map[string]any{"reasoning_content": p.fill(p.turn.Reasoning)})
	}
	for word := range strings.SplitAfterSeq(p.fill(p.turn.Text), " ") {
		if word != "" {
			deltas = append(deltas, map[string]any{"content": word})
		}
	}
	if len(p.turn.Calls) > 0 {
		deltas = append(deltas, map[string]any{"tool_calls": p.calls(true)})
	}
	events := make([][]byte, 0, len(deltas)+3)
	for _, d := range deltas {
		events = append(events, chat.NewChunk(envelope, string(encode(d)), "null"))
	}
	events = append(events, chat.NewChunk(envelope, "{}", string(chat.Quote(p.finish()))))
	if usage {
		events = append(events, chat.UsageChunk(envelope, encode(p.usage())))
	}
	events = append(events, []byte(sse.Done))
	rc := http.NewResponseController(w)
	for i, e := range events {
		if i > 0 && !wait(r, time.Duration(p.turn.Between)) {
			return
		}
		if _, err := w.Write(sse.AppendData(nil, e)); err != nil {
			return
		}
		_ = rc.Flush() // a recorder in a test can't
	}
}
