package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
)

// Server is a provider that follows a script. It is for use by many goroutines at once.
type Server struct {
	// Seen, if it is not nil, is told of each request for a completion before its reply is sent; it is called from many
	// goroutines at once. It must be set before the first request.
	Seen func(Exchange)

	script *Script
	served atomic.Int64 // requests for completions that were not refused so far

	mu    sync.Mutex
	given map[*Turn]int // how often a turn with times was given in conversations
}

// Exchange is a request for a completion and what the script says to it.
type Exchange struct {
	Body   []byte // of the request
	Place  string // in the script, such as replies.0 or refuse.1; "" where it says nothing to the request
	Status int    // of the reply, also if the connection is cut before it
}

// NewServer makes a provider of a checked script.
func NewServer(s *Script) *Server { return &Server{script: s, given: map[*Turn]int{}} }

// maxRequest bounds a request's body.
const maxRequest = 64 << 20

// ServeHTTP serves POST /v1/chat/completions and GET /v1/models. Where the script cuts a reply it panics with
// http.ErrAbortHandler, which closes the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/v1/models":
		w.Header().Set("Content-Type", typeJSON)
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%s,"object":"model","created":0,"owned_by":"mock"}]}`, chat.Quote(s.script.Model))
	case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
		s.complete(w, r)
	default:
		fail(w, http.StatusNotFound, "mock_error", refusal{message: "the mock serves POST /v1/chat/completions and GET /v1/models", code: "unknown_url"})
	}
}

func fail(w http.ResponseWriter, status int, kind string, f refusal) {
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(chat.ErrorBody(f.message, kind, f.param, f.code))
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		fail(w, http.StatusRequestEntityTooLarge, "mock_error", refusal{message: "the body is too large for the mock"})
		return
	}
	if err != nil {
		return // the client has left
	}
	seen := func(place string, status int) {
		if s.Seen != nil {
			s.Seen(Exchange{Body: body, Place: place, Status: status})
		}
	}
	req, err := chat.ParseRequest(body)
	if err != nil {
		seen("", http.StatusBadRequest)
		fail(w, http.StatusBadRequest, "mock_error", refusal{message: err.Error()})
		return
	}
	if rule, why, i := s.script.refuse(req); rule != nil {
		seen(fmt.Sprintf("refuse.%d", i), rule.Status)
		fail(w, rule.Status, "invalid_request_error", *why)
		return
	}
	n := s.served.Add(1)
	c := s.choose(n, req)
	if c.turn == nil {
		seen("", http.StatusInternalServerError)
		fail(w, http.StatusInternalServerError, "mock_error", refusal{message: fmt.Sprintf("the script has no reply for request %d", n), code: "unscripted"})
		return
	}
	seen(c.place, c.turn.Status)
	p := player{turn: c.turn, values: c.values, model: req.Model, n: n}
	if err := send(r.Context(), w, c.turn, p.reply(req)); errors.Is(err, errCut) {
		panic(http.ErrAbortHandler)
	}
}

// choice is what the script says to a request: a turn, nil where it says nothing, where that stands, and what stands
// for names in braces.
type choice struct {
	turn   *Turn
	place  string
	values map[string]string
}

// choose finds the reply to request n, counted from 1.
func (s *Server) choose(n int64, req *chat.Request) choice {
	user, tool, turns := lastOf(req.Member("messages"))
	values := map[string]string{"user": user, "tool": tool}
	if len(s.script.Replies) > 0 {
		i := s.script.inOrder(n - 1)
		if i < 0 {
			return choice{}
		}
		return choice{&s.script.Replies[i], fmt.Sprintf("replies.%d", i), values}
	}
	for i := range s.script.Conversations {
		c := &s.script.Conversations[i]
		groups, found := c.When.find(user)
		if _, meant := c.Model.find(req.Model); !found || !meant {
			continue
		}
		at := s.take(c.Turns, turns)
		if at < 0 {
			continue
		}
		maps.Copy(values, groups)
		return choice{&c.Turns[at], fmt.Sprintf("conversations.%d.turns.%d", i, at), values}
	}
	return choice{}
}

// inOrder is which of the replies is the one after n others, -1 beyond the last.
func (s *Script) inOrder(n int64) int {
	var all int64
	for _, t := range s.Replies {
		all += int64(max(t.Times, 1))
	}
	if n >= all && !s.Repeat {
		return -1
	}
	n %= all
	for i, t := range s.Replies {
		if n -= int64(max(t.Times, 1)); n < 0 {
			return i
		}
	}
	return -1
}

// take is which of a conversation's turns follows so many of the model's, -1 where all are used up. It counts the
// turns that are given a number of times.
func (s *Server) take(turns []Turn, before int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := -1
	for i := range turns {
		t := &turns[i]
		switch {
		case t.Times > 0 && s.given[t] >= t.Times:
			continue
		case before == 0:
			s.given[t]++
			return i
		case t.Times == 0:
			before--
			last = i
		}
	}
	return last
}

// The tags in which a model without native calls reads results.
const responseOpen, responseClose = "<tool_response>", "</tool_response>"

// lastOf finds in a conversation the user's last message, the newest tool result, and how many turns of the model stand
// behind that message.
func lastOf(messages json.RawMessage) (user, tool string, turns int) {
	gjson.ParseBytes(messages).ForEach(func(_, m gjson.Result) bool {
		switch m.Get("role").String() {
		case "user":
			said := text(m.Get("content"))
			if result, ok := strings.CutPrefix(said, responseOpen); ok { // of a model that is told of its tools in a message
				tool = strings.TrimSpace(result[:max(strings.Index(result, responseClose), 0)])
				break
			}
			user, turns = said, 0
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
