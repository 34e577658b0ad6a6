package httptool

import (
	"bytes"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// tree is a YAML tree as JSON. A string that is nothing but a placeholder is the value with its type, and is left out
// of its mapping or list where the value is absent; in other strings placeholders are text.
type tree struct {
	fixed  []byte // the whole JSON, when there is no placeholder below
	text   *placeholder.Template
	keys   [][]byte // a mapping's, each with quotes and colon
	values []tree   // a mapping's or a list's
	list   bool
}

// tree reads a value of the file. The order of keys and the spelling of numbers stay.
func (b *builder) tree(n *config.Node) tree {
	switch n.Kind() {
	case config.String:
		t := b.template(n, n.Text())
		if text, ok := fixed(t); ok {
			return tree{fixed: tool.EncodeJSON(text)}
		}
		return tree{text: t}
	case config.List:
		t := tree{list: true}
		for _, item := range n.Items() {
			t.values = append(t.values, b.tree(item))
		}
		return t.fold()
	case config.Mapping:
		var t tree
		for _, key := range n.Keys() {
			t.keys = append(t.keys, append(tool.EncodeJSON(key), ':'))
			t.values = append(t.values, b.tree(n.Get(key)))
		}
		return t.fold()
	default:
		return tree{fixed: n.JSON()}
	}
}

// fold makes one text of a mapping or list without placeholders.
func (t tree) fold() tree {
	for _, v := range t.values {
		if v.fixed == nil {
			return t
		}
	}
	var out bytes.Buffer
	t.write(&out, tool.Call{})
	return tree{fixed: out.Bytes()}
}

func treeBody(t tree) func(tool.Call) []byte {
	return func(c tool.Call) []byte {
		var out bytes.Buffer
		t.write(&out, c)
		return out.Bytes()
	}
}

// write appends the value for a call. It says whether there is one; where not, nothing was written.
func (t tree) write(out *bytes.Buffer, c tool.Call) bool {
	switch {
	case t.fixed != nil:
		out.Write(t.fixed)
		return true
	case t.text != nil:
		return t.writeText(out, c)
	}
	opening, closing := byte('{'), byte('}')
	if t.list {
		opening, closing = '[', ']'
	}
	out.WriteByte(opening)
	first := true
	for i, v := range t.values {
		before := out.Len()
		if !first {
			out.WriteByte(',')
		}
		if !t.list {
			out.Write(t.keys[i])
		}
		if !v.write(out, c) {
			out.Truncate(before)
			continue
		}
		first = false
	}
	out.WriteByte(closing)
	return true
}

func (t tree) writeText(out *bytes.Buffer, c tool.Call) bool {
	p, ok := t.text.Lone()
	if !ok {
		text, _ := t.text.Expand(c, nil)
		out.Write(tool.EncodeJSON(text))
		return true
	}
	v, present := p.Value(c)
	if present {
		out.Write(tool.EncodeJSON(v))
	}
	return present
}
