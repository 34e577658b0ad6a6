package upstream

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
)

// The roles that a dialect looks at.
const (
	roleSystem    = "system"
	roleDeveloper = "developer"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleFunction  = "function" // the form before tools
)

// conversation is the messages of a request in which some have to change. nil is one in which none has to.
type conversation struct {
	before json.RawMessage
	client []json.RawMessage // nil where they stay as they are
	after  []json.RawMessage // likewise
}

// conversation takes the messages apart, as far as the dialect may have to do with them.
func (t *dialect) conversation(d *draft) *conversation {
	messages := d.edits.Messages
	if messages == nil {
		messages = d.req.Member("messages")
	}
	c := &conversation{before: d.edits.Before}
	if t.touches(messages) || t.system == systemUser && c.before != nil {
		if !gjson.ValidBytes(messages) {
			return nil // it is the provider's to refuse
		}
		gjson.ParseBytes(messages).ForEach(func(_, m gjson.Result) bool {
			c.client = append(c.client, json.RawMessage(m.Raw))
			return true
		})
	}
	if slices.ContainsFunc(d.edits.After, func(m json.RawMessage) bool { return t.touches(m) }) {
		c.after = slices.Clone(d.edits.After)
	}
	if c.client == nil && c.after == nil {
		return nil
	}
	return c
}

// all goes through the messages that may change.
func (c *conversation) all(f func(m gjson.Result)) {
	if c == nil {
		return
	}
	for _, list := range [][]json.RawMessage{c.client, c.after} {
		for _, m := range list {
			f(gjson.ParseBytes(m))
		}
	}
}

// names are the names of tools in the messages.
func (c *conversation) names() []string {
	var names []string
	c.all(func(m gjson.Result) {
		eachCallName(m, func(_, name string) { names = append(names, name) })
		if name := m.Get("name"); m.Get("role").Str == roleTool && name.Type == gjson.String {
			names = append(names, name.Str)
		}
	})
	return names
}

// ids are the ids of calls in the messages.
func (c *conversation) ids() []string {
	var ids []string
	c.all(func(m gjson.Result) {
		eachCallID(m, func(_, id string) { ids = append(ids, id) })
	})
	return ids
}

// eachCallName goes through the names of an assistant message's calls, each with its path.
func eachCallName(m gjson.Result, f func(path, name string)) {
	calls := m.Get("tool_calls")
	if !calls.IsArray() {
		return
	}
	for i, call := range calls.Array() {
		for _, part := range []string{"function.name", "custom.name"} {
			if name := call.Get(part); name.Type == gjson.String {
				f("tool_calls."+strconv.Itoa(i)+"."+part, name.Str)
			}
		}
	}
}

// eachCallID goes through the ids of calls in a message, whether it makes or answers them.
func eachCallID(m gjson.Result, f func(path, id string)) {
	if id := m.Get("tool_call_id"); id.Type == gjson.String {
		f("tool_call_id", id.Str)
	}
	calls := m.Get("tool_calls")
	if !calls.IsArray() {
		return
	}
	for i, call := range calls.Array() {
		if id := call.Get("id"); id.Type == gjson.String {
			f("tool_calls."+strconv.Itoa(i)+".id", id.Str)
		}
	}
}

// rewrite makes the messages what the provider takes. One that it takes as it is keeps its bytes.
func (c *conversation) rewrite(t *dialect, names *renames) {
	if c == nil {
		return
	}
	ids := fitIDs(t.ids, c.ids())
	for _, list := range [][]json.RawMessage{c.client, c.after} {
		for i, m := range list {
			if t.touches(m) {
				list[i] = t.message(m, names, ids)
			}
		}
	}
	if c.client != nil {
		c.system(t.system)
	}
}

// put makes the messages those of the request.
func (c *conversation) put(d *draft) {
	if c == nil {
		return
	}
	d.edits.Before = c.before
	if c.client != nil {
		d.edits.Messages = chat.List(c.client)
	}
	if c.after != nil {
		d.edits.After = c.after
	}
}

// message is one message as the provider takes it.
func (t *dialect) message(m json.RawMessage, names *renames, ids map[string]string) json.RawMessage {
	v := gjson.ParseBytes(m)
	if !v.IsObject() {
		return m
	}
	now := []byte(m)
	role := v.Get("role").Str
	if role == roleDeveloper && !t.developer {
		now = setRaw(now, "role", chat.Quote(roleSystem))
	}
	for _, field := range t.dropFields {
		now = dropField(now, v, role, field)
	}
	eachCallID(v, func(path, id string) {
		if to, ok := ids[id]; ok {
			now = setRaw(now, path, chat.Quote(to))
		}
	})
	if names != nil {
		eachCallName(v, func(path, name string) {
			if to, ok := names.out[name]; ok {
				now = setRaw(now, path, chat.Quote(to))
			}
		})
		if to, ok := names.out[gjson.GetBytes(now, "name").String()]; ok && role == roleTool {
			now = setRaw(now, "name", chat.Quote(to))
		}
	}
	if t.content && role == roleAssistant && v.Get("tool_calls").IsArray() && gjson.GetBytes(now, "content").Type == gjson.Null {
		now = setRaw(now, "content", []byte(`""`))
	}
	return now
}

// dropField takes a field out of the message v, which now is.
func dropField(now []byte, v gjson.Result, role, field string) []byte {
	value := v.Get(field)
	if !value.Exists() || field == "name" && role == roleFunction { // without it, it would answer nothing
		return now
	}
	if field == "refusal" && value.Str != "" && v.Get("content").Type == gjson.Null {
		now = setRaw(now, "content", chat.Quote(value.Str)) // the only text that the message has
	}
	return deleted(now, field)
}
