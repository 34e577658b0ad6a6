package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// Request is a chat completion request as the client sent it, with what the gateway rules on read out of it.
// Everything else stays in the bytes. Immutable; Raw must not change while it is in use.
type Request struct {
	Raw          []byte
	Model        string
	Stream       bool
	IncludeUsage bool   // stream_options.include_usage
	N            int    // choices asked for, 1 where the client says nothing
	ToolChoice   string // "", none, auto, required, or "named" for one that names a tool
	Legacy       bool   // uses functions or function_call, the form before tools

	members []Member
	names   map[string]bool // tools that the client declares
}

// Invalid is a request that can't be taken. Param is the field at fault, "" for the whole body.
type Invalid struct {
	Param string
	Text  string
}

func (e *Invalid) Error() string { return e.Text }

// ruled are the keys that the gateway reads or writes. One that stands twice is refused, since a provider may read
// the other one of the two.
var ruled = []string{
	"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "n", "response_format",
	"functions", "function_call",
}

// ParseRequest reads a request body. Its errors are *Invalid.
func ParseRequest(body []byte) (*Request, error) {
	members, err := Scan(body)
	if err != nil {
		return nil, &Invalid{Text: "the body is not valid JSON: " + err.Error()}
	}
	r := &Request{Raw: body, N: 1, members: members}
	var seen [16]bool // by the place in ruled
	for _, m := range members {
		at := slices.Index(ruled, m.Name)
		if at < 0 {
			continue
		}
		if seen[at] {
			return nil, &Invalid{Param: m.Name, Text: fmt.Sprintf("the key %q stands twice in the body", m.Name)}
		}
		seen[at] = true
		if err := r.read(m); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Model == "":
		return nil, &Invalid{Param: "model", Text: "the body has no model: want the name of one, a string"}
	case r.Member("messages") == nil:
		return nil, &Invalid{Param: "messages", Text: "the body has no messages: want a list with at least one"}
	}
	return r, nil
}

// read takes in one ruled member.
func (r *Request) read(m Member) error {
	v := m.Value.of(r.Raw)
	if string(v) == "null" && m.Name != "model" && m.Name != "messages" {
		return nil
	}
	var err error
	switch m.Name {
	case "model":
		var bad error
		if v[0] == '"' {
			r.Model, bad = unquote(v)
		}
		err = want(v[0] == '"' && bad == nil, m.Name, "a string")
	case "messages":
		err = want(v[0] == '[' && len(bytes.TrimSpace(v[1:len(v)-1])) > 0, m.Name, "a list with at least one message")
	case "stream":
		r.Stream = string(v) == "true"
		err = want(r.Stream || string(v) == "false", m.Name, "true or false")
	case "stream_options":
		err = want(v[0] == '{', m.Name, "an object")
		r.IncludeUsage = gjson.GetBytes(v, "include_usage").Bool()
	case "n":
		n, bad := strconv.Atoi(string(v))
		r.N = n
		err = want(bad == nil && n >= 1 && n <= 128, m.Name, "a whole number from 1 to 128")
	case "tools":
		err = want(v[0] == '[', m.Name, "a list")
		r.names = toolNames(v)
	case "tool_choice":
		r.ToolChoice = "named"
		if v[0] == '"' {
			err = json.Unmarshal(v, &r.ToolChoice)
			if r.ToolChoice == "any" { // Mistral's word for it
				r.ToolChoice = "required"
			}
		}
	case "functions", "function_call":
		r.Legacy = true
	}
	return err
}

func want(ok bool, param, text string) error {
	if ok {
		return nil
	}
	return &Invalid{Param: param, Text: fmt.Sprintf("%s: want %s", param, text)}
}

// toolNames are the names in a list of tools, of type function, custom or one unknown yet.
func toolNames(tools []byte) map[string]bool {
	names := map[string]bool{}
	gjson.ParseBytes(tools).ForEach(func(_, t gjson.Result) bool {
		for _, path := range []string{"function.name", "custom.name"} {
			if name := t.Get(path); name.Type == gjson.String {
				names[name.Str] = true
			}
		}
		return true
	})
	return names
}

// Declares says whether the client's own tools have one of that name.
func (r *Request) Declares(name string) bool { return r.names[name] }

// DeclaredNames are the names of the client's own tools, in no order.
func (r *Request) DeclaredNames() iter.Seq[string] { return maps.Keys(r.names) }

// ClientTools is how many named tools the client declares.
func (r *Request) ClientTools() int { return len(r.names) }

// Member is the raw value of a key at the top level, nil where the request lacks it.
func (r *Request) Member(name string) json.RawMessage {
	for _, m := range r.members {
		if m.Name == name {
			return m.Value.of(r.Raw)
		}
	}
	return nil
}

// CallIDs are the ids of tool calls in a list of messages, so that new ones can be told apart from them.
func CallIDs(messages json.RawMessage) map[string]bool {
	ids := map[string]bool{}
	if !bytes.Contains(messages, []byte(`"tool_calls"`)) {
		return ids
	}
	gjson.ParseBytes(messages).ForEach(func(_, m gjson.Result) bool {
		m.Get("tool_calls").ForEach(func(_, call gjson.Result) bool {
			ids[call.Get("id").String()] = true
			return true
		})
		return true
	})
	return ids
}

// ParseObject reads the body of another endpoint's request, of which only the model matters. Its errors are *Invalid.
func ParseObject(body []byte) (*Request, error) {
	members, err := Scan(body)
	if err != nil {
		return nil, &Invalid{Text: "the body is not valid JSON: " + err.Error()}
	}
	r := &Request{Raw: body, N: 1, members: members}
	seen := false
	for _, m := range members {
		if m.Name != "model" {
			continue
		}
		if seen {
			return nil, &Invalid{Param: "model", Text: `the key "model" stands twice in the body`}
		}
		seen = true
		if err := r.read(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}
