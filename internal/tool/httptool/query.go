package httptool

import (
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// item is one item of the query. A value that is nothing but a placeholder of a list repeats the item; one with an
// absent argument drops it.
type item struct {
	name  string // escaped, with its "="; "" where value is the whole item
	value *placeholder.Template
	raw   bool // the literal text of value is a piece of a URL already, rather than plain text
}

// urlItem reads an item of the url itself.
func (b *builder) urlItem(n *config.Node, text string) item {
	name, value, ok := strings.Cut(text, "=")
	if plain, static := fixed(b.template(n, name)); ok && static {
		return item{name: placeholder.URLText(plain) + "=", value: b.template(n, value), raw: true}
	}
	return item{value: b.template(n, text), raw: true}
}

// query reads the `query` key.
func (b *builder) query(m config.Map[*config.Node]) []item {
	var items []item
	for name, n := range m.All() {
		values := []*config.Node{n}
		if n.Kind() == config.List {
			values = n.Items()
		}
		for _, v := range values {
			switch v.Kind() {
			case config.Null:
			case config.List, config.Mapping:
				v.Fail("want a text, or a list of texts, got %s", v.Kind())
			default:
				items = append(items, item{name: placeholder.QueryValue(name) + "=", value: b.template(v, v.Text())})
			}
		}
	}
	return items
}

// add writes the item for a call to a query.
func (i item) add(q *strings.Builder, c tool.Call) {
	if p, ok := i.value.Lone(); ok {
		v, ok := p.Value(c)
		if !ok {
			return
		}
		if list, ok := v.([]any); ok {
			for _, v := range list {
				if v != nil {
					i.write(q, placeholder.QueryValue(placeholder.Text(v)))
				}
			}
			return
		}
		i.write(q, placeholder.QueryValue(placeholder.Text(v)))
		return
	}
	var text string
	var missing bool
	if i.raw {
		text, missing = i.value.Expand(c, placeholder.QueryValue)
		text = placeholder.URLText(text)
	} else {
		text, missing = i.value.Expand(c, nil)
		text = placeholder.QueryValue(text)
	}
	if !missing {
		i.write(q, text)
	}
}

func (i item) write(q *strings.Builder, escaped string) {
	if q.Len() > 0 {
		q.WriteByte('&')
	}
	q.WriteString(i.name)
	q.WriteString(escaped)
}
