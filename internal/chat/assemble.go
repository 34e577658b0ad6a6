package chat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Assembler puts the chunks of one stream together into the turn that the same reply would have been without
// streaming. The zero value is ready.
type Assembler struct {
	message fields
	calls   []*callParts
	byIndex map[int64]*callParts // the newest call with that index
	finish  string
	usage   json.RawMessage
	model   string
	id      string
	chunks  int
	legacy  bool // the calls came as function_call
}

// Add takes in the next chunk.
func (a *Assembler) Add(c *Chunk) {
	a.chunks++
	if c.Usage != nil {
		a.usage = c.Usage // running totals: the last one counts
	}
	if c.Finish != "" {
		a.finish = c.Finish
	}
	if a.model == "" {
		a.model = c.Model
	}
	if a.id == "" {
		a.id = c.ID
	}
	if c.like != nil {
		a.message.addText(c.like.key, c.said)
		return
	}
	c.delta.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "tool_calls":
			eachCall(v, a.addCall)
		case "function_call": // the form before tools
			if v.IsObject() && (len(a.calls) == 0 || a.legacy) {
				a.legacy = true
				a.addCall(asToolCall(v))
			}
		default:
			a.message.add(key.Str, v)
		}
		return true
	})
}

// Finished says whether the provider has given a finish reason.
func (a *Assembler) Finished() bool { return a.finish != "" }

// Chunks is how many chunks were added.
func (a *Assembler) Chunks() int { return a.chunks }

// callParts is a call in the making.
type callParts struct {
	id, name  string
	custom    bool
	arguments bytes.Buffer // of the text, or of the input of a custom call
	object    string       // arguments that came as JSON of another kind than a string
	rest      fields       // every other field of the call
	inner     fields       // every other field of its function
}

// addCall takes in one element of a delta's tool_calls.
func (a *Assembler) addCall(d gjson.Result) {
	p := a.callFor(d)
	d.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "index":
		case "id":
			if p.id == "" { // some providers make a new one for each delta
				p.id = v.String()
			}
		case "function", "custom":
			if v.IsObject() {
				p.custom = key.Str == "custom"
				v.ForEach(p.addInner)
			}
		default:
			p.rest.add(key.Str, v)
		}
		return true
	})
}

func (p *callParts) addInner(key, v gjson.Result) bool {
	switch key.Str {
	case "name":
		p.addName(v.String())
	case "arguments", "input":
		switch v.Type {
		case gjson.String:
			again := len(v.Str) == p.arguments.Len() && v.Str == p.arguments.String() && p.whole()
			if !again {
				p.arguments.WriteString(v.Str)
			}
		case gjson.Null:
		default:
			p.object = v.Raw
		}
	default:
		p.inner.add(key.Str, v)
	}
	return true
}

// addName takes in a name: providers send it once, with each delta, growing, or in pieces before the arguments.
func (p *callParts) addName(name string) {
	switch {
	case name == "" || strings.HasSuffix(p.name, name) && p.name == name:
	case p.name == "" || strings.HasPrefix(name, p.name):
		p.name = name
	case p.arguments.Len() == 0:
		p.name += name
	}
}

// callFor finds the call that a delta goes on with, or opens one. An id tells calls apart before an index does, since
// some providers number every call 0 and some give no index at all.
func (a *Assembler) callFor(d gjson.Result) *callParts {
	id, name, index := d.Get("id").String(), d.Get("function.name").String(), d.Get("index")
	if name == "" {
		name = d.Get("custom.name").String()
	}
	if a.byIndex == nil {
		a.byIndex = map[int64]*callParts{}
	}
	var p *callParts
	if index.Type == gjson.Number {
		p = a.byIndex[index.Int()]
	} else if len(a.calls) > 0 {
		p = a.calls[len(a.calls)-1]
		if same := a.byID(id); same != nil {
			p = same
		}
	}
	switch {
	case p == nil:
		p = nil
	case name == "":
	case id != "" && p.id != "" && id != p.id:
		p = nil
	case p.whole() && p.goesBeyond(id, name, d.Get("function.arguments")):
		p = nil // without ids of their own: a name after whole arguments begins the next call
	}
	if p == nil {
		p = &callParts{}
		a.calls = append(a.calls, p)
	}
	if index.Type == gjson.Number {
		a.byIndex[index.Int()] = p
	}
	return p
}

// goesBeyond says whether a delta that names its function belongs to a call after p, which is whole: it has another
// name, or arguments that are not p's over again.
func (p *callParts) goesBeyond(id, name string, arguments gjson.Result) bool {
	if text := strings.TrimSpace(arguments.String()); text != "" {
		return text != strings.TrimSpace(p.arguments.String()) || id == ""
	}
	return id == "" && name != p.name
}

func (a *Assembler) byID(id string) *callParts {
	for _, p := range a.calls {
		if id != "" && p.id == id {
			return p
		}
	}
	return nil
}

// whole says whether the arguments are an object that is complete. An empty one does not count: some providers send it
// ahead of the real one.
func (p *callParts) whole() bool {
	if p.object != "" {
		return true
	}
	text := bytes.TrimSpace(p.arguments.Bytes())
	return len(text) > 2 && text[0] == '{' && text[len(text)-1] == '}' && json.Valid(text)
}

func (p *callParts) call() Call {
	arguments := Quote(p.arguments.String())
	if p.object != "" && p.arguments.Len() == 0 {
		arguments = []byte(p.object)
	}
	c := Call{ID: p.id, Name: p.name, Custom: p.custom, Arguments: arguments}
	part, argumentsKey := "function", "arguments"
	if p.custom {
		part, argumentsKey = "custom", "input"
	}
	if !p.rest.has("type") {
		p.rest.add("type", gjson.ParseBytes(Quote(part)))
	}
	var b bytes.Buffer
	b.WriteString(`{"id":`)
	b.Write(Quote(p.id))
	p.rest.write(&b)
	b.WriteString(`,"` + part + `":{"name":`)
	b.Write(Quote(p.name))
	b.WriteString(`,"` + argumentsKey + `":`)
	b.Write(arguments)
	p.inner.write(&b)
	b.WriteString("}}")
	c.Raw = b.Bytes()
	return c
}

// Turn is the turn as far as it has come.
func (a *Assembler) Turn() *Turn {
	t := &Turn{Finish: a.finish, Usage: a.usage, Model: a.model, ID: a.id}
	var b bytes.Buffer
	b.WriteString(`{"role":"assistant"`)
	a.message.drop("role")
	if !a.message.has("content") {
		b.WriteString(`,"content":null`)
	}
	a.message.write(&b)
	if len(a.calls) > 0 {
		raws := make([][]byte, len(a.calls))
		for i, p := range a.calls {
			call := p.call()
			raws[i] = call.Raw
			t.Calls = append(t.Calls, call)
		}
		b.WriteString(`,"tool_calls":`)
		b.Write(List(raws))
	}
	b.WriteByte('}')
	t.Message = b.Bytes()
	t.readTexts(viewOf(t.Message))
	return t
}

// fields are members of an object put together from deltas, in the order in which they first came.
type fields struct {
	names  []string
	values map[string]*field
}

// field is one of them: strings are joined, lists are joined, anything else is replaced by what comes later.
type field struct {
	text *strings.Builder
	list []string
	raw  string
}

// add takes in a delta's member. Null is no value, but holds a place until one comes.
func (f *fields) add(name string, v gjson.Result) {
	old := f.values[name]
	if old == nil {
		if f.values == nil {
			f.values = map[string]*field{}
		}
		old = &field{raw: "null"}
		f.names, f.values[name] = append(f.names, name), old
	}
	switch {
	case v.Type == gjson.Null:
	case name == "type": // "function", with each delta
		old.raw = v.Raw
	case v.Type == gjson.String:
		if old.text == nil {
			old.text = &strings.Builder{}
		}
		old.text.WriteString(v.Str)
	case v.IsArray():
		v.ForEach(func(_, item gjson.Result) bool {
			old.list = append(old.list, item.Raw)
			return true
		})
	default:
		old.raw = v.Raw
	}
}

// addText adds a text that is not empty.
func (f *fields) addText(name, text string) {
	if old := f.values[name]; old != nil && old.text != nil {
		old.text.WriteString(text)
		return
	}
	f.add(name, gjson.Result{Type: gjson.String, Str: text})
}

func (f *fields) has(name string) bool { return f.values[name] != nil }

func (f *fields) drop(name string) { delete(f.values, name) }

// write adds the members to an object that has one already.
func (f *fields) write(b *bytes.Buffer) {
	for _, name := range f.names {
		v := f.values[name]
		if v == nil {
			continue
		}
		b.WriteByte(',')
		b.Write(Quote(name))
		b.WriteByte(':')
		switch {
		case v.text != nil && v.list == nil:
			b.Write(Quote(v.text.String()))
		case v.list != nil:
			list := v.list
			if name == "content" && v.text != nil && v.text.Len() > 0 { // thoughts came as parts, the text as a string
				list = append(slices.Clip(list), `{"type":"text","text":`+string(Quote(v.text.String()))+`}`)
			}
			b.WriteString("[" + strings.Join(list, ",") + "]")
		default:
			b.WriteString(v.raw)
		}
	}
}
