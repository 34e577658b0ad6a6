package script

import (
	"encoding/json"
	"fmt"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
)

// Quirks is what providers were seen to do to the messages that they send. The zero value is OpenAI's way. What
// speaks of deltas does nothing to a reply in one piece.
type Quirks struct {
	Index       string `yaml:"index" enum:"zero,none,gap" doc:"Index of calls in deltas: zero (for each call), none, gap (1, 4, 7)."`
	IDs         string `yaml:"ids" enum:"none,empty,same,repeated,changing,empty_later" doc:"Ids of calls: none, empty, same (for all calls), repeated (with each delta), changing (with each delta), empty_later (in all deltas but the first)."`
	Names       string `yaml:"names" enum:"repeated,empty_later" doc:"Names of calls: repeated (with each delta), empty_later (in all deltas but the first)."`
	Arguments   string `yaml:"arguments" enum:"object,empty,none,leading" doc:"Arguments of calls: object (in place of a text), empty (a text), none, leading (a delta with {} ahead of the real ones)."`
	Interleaved bool   `yaml:"interleaved" doc:"true: the deltas of the calls take turns."`
	Nulls       bool   `yaml:"nulls" doc:"true: deltas have null for every field without a value."`
	Role        string `yaml:"role" enum:"none,repeated" doc:"Role of deltas: none (also of a message), repeated (with each)."`
	Whole       string `yaml:"whole" enum:"delta,message" doc:"A stream has the whole reply in one chunk: as its delta, or as a message in place of one."`
	NoFinish    bool   `yaml:"no_finish" doc:"true: finish_reason is null to the end."`
	Usage       string `yaml:"usage" enum:"chunk,last,every,choice,x_groq,none" doc:"Usage of a stream, asked for or not: chunk (of its own), last (chunk), every (chunk, with growing counts), choice (of the last chunk), x_groq (in the last chunk), none (also of a message). Default chunk where it was asked for."`
}

// Check reports what no reader could make sense of.
func (q *Quirks) Check(n *config.Node) {
	if q.Interleaved && (q.Index == "zero" || q.Index == "none") {
		n.FailKey("interleaved", "goes with an index that tells the calls apart")
	}
}

// continues says whether a quirk shows only where a call has several deltas.
func (q Quirks) continues() bool {
	later := q.IDs == "repeated" || q.IDs == "changing" || q.IDs == "empty_later"
	return later || q.Names != "" || q.Arguments == "leading" || q.Interleaved
}

// function and toolCall are a call on the wire; what is nil is left out.
type function struct {
	Name      json.RawMessage `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

type toolCall struct {
	Index    *int            `json:"index,omitempty"`
	ID       json.RawMessage `json:"id,omitempty"`
	Type     json.RawMessage `json:"type,omitempty"`
	Function function        `json:"function"`
}

// index is that of call i in a delta.
func (q Quirks) index(i int) *int {
	switch q.Index {
	case "none":
		return nil
	case "zero":
		i = 0
	case "gap":
		i = 1 + 3*i
	}
	return &i
}

// id is what delta number d of a call has as its id. first is the id of the first call.
func (q Quirks) id(own, first string, d int) json.RawMessage {
	switch {
	case q.IDs == "none":
		return nil
	case q.IDs == "empty", q.IDs == "empty_later" && d > 0:
		own = ""
	case q.IDs == "same" && d == 0:
		own = first
	case q.IDs == "changing" && d > 0:
		own = fmt.Sprintf("%s_%d", own, d)
	case d > 0 && q.IDs != "repeated":
		return nil
	}
	return chat.Quote(own)
}

// name is what delta number d of a call has as its name.
func (q Quirks) name(own string, d int) json.RawMessage {
	switch {
	case d == 0, q.Names == "repeated":
		return chat.Quote(own)
	case q.Names == "empty_later":
		return chat.Quote("")
	}
	return nil
}

// arguments are those of a call that is sent at once.
func (q Quirks) arguments(text string) json.RawMessage {
	switch {
	case q.Arguments == "none":
		return nil
	case q.Arguments == "empty":
		text = ""
	case q.Arguments == "object" && json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return chat.Quote(text)
}

// dress gives a delta the fields that it would not have: a role with each, null for those without a value. first is
// the one that has the role anyway.
func (q Quirks) dress(delta map[string]any, first bool) map[string]any {
	if first && q.Role == "none" {
		delete(delta, "role")
	}
	if q.Role == "repeated" {
		delta["role"] = "assistant"
	}
	if !q.Nulls {
		return delta
	}
	for _, key := range []string{"role", "content", "reasoning_content", "refusal", "function_call", "tool_calls"} {
		if _, has := delta[key]; !has {
			delta[key] = nil
		}
	}
	if calls, ok := delta["tool_calls"].([]toolCall); ok {
		for i := range calls {
			c := &calls[i]
			for _, field := range []*json.RawMessage{&c.ID, &c.Type, &c.Function.Name, &c.Function.Arguments} {
				if *field == nil {
					*field = json.RawMessage("null")
				}
			}
		}
	}
	return delta
}
