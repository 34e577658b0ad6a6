package httptool

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// builder turns a Config into a plan, reports faults on the way and notes what the templates use.
type builder struct {
	n            *config.Node // the http part
	spec         tool.Spec
	params       []string // sorted
	used         map[string]bool
	callerFields []string
}

func newBuilder(n *config.Node, s tool.Spec) *builder {
	b := &builder{n: n, spec: s, used: map[string]bool{}}
	for name := range s.Params {
		b.params = append(b.params, name)
	}
	slices.Sort(b.params)
	return b
}

// template parses a text of the file. A faulty one is reported at n and is nil, the empty template.
func (b *builder) template(n *config.Node, text string) *placeholder.Template {
	t, err := placeholder.Parse(text)
	if err != nil {
		n.Fail("%v", err)
		return nil
	}
	known := func(name string) bool { _, ok := b.spec.Params[name]; return ok }
	for _, m := range t.Check(known, b.params...) {
		n.Fail("%s", m)
	}
	for _, name := range t.Names() {
		b.used[name] = true
	}
	b.callerFields = append(b.callerFields, t.CallerFields()...)
	return t
}

// visible are the arguments of a template that the model knows, for messages to it.
func (b *builder) visible(t *placeholder.Template) string {
	var names []string
	for _, name := range t.Names() {
		if !b.spec.Params[name].Bound {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// fixed is the text of a template without placeholders.
func fixed(t *placeholder.Template) (string, bool) {
	if !t.Static() {
		return "", false
	}
	text, _ := t.Expand(tool.Call{}, nil)
	return text, true
}

// warnUnused tells of parameters that no request ever holds.
func (b *builder) warnUnused(body *body) {
	if body != nil && body.rest {
		return
	}
	for _, name := range b.params {
		switch {
		case b.used[name]:
		case name == placeholder.RunID, name == placeholder.IdempotencyKey:
			b.n.Warn("parameter %q is not used: {%s} is the gateway's own", name, name)
		default:
			b.n.Warn("parameter %q is not used: it stands in no url, query, header or body", name)
		}
	}
}
