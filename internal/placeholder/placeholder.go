// Package placeholder fills texts of the configuration with what a call brings: "{name}" is an argument of the call,
// "{caller.x}" a field of who asks, "{idempotency_key}" and "{run_id}" are the call's own. How a value is escaped is
// up to the place where it stands; escape.go has the usual ways.
package placeholder

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/tool"
)

// The names that are the gateway's own. An argument of the same name can't be reached by a placeholder.
const (
	IdempotencyKey = "idempotency_key"
	RunID          = "run_id"
)

const callerPrefix = "caller."

// Template is a parsed text. It is immutable and may be used by many goroutines at once; the nil Template is empty.
type Template struct {
	parts []Part
	fixed int // bytes of literal text, to size the result
}

// Part is a piece of a template: either literal text or a placeholder.
type Part struct {
	text string // literal text, or what stands between the braces
	from source
}

type source int

const (
	literal source = iota
	argument
	caller
	idempotencyKey
	runID
)

// Parse reads a template. A placeholder is a name in braces without blanks; a name begins with a letter, "_" or "$"
// and goes on with these, digits, "-" and ".". "{{name}}" is the text "{name}". Any other brace is literal, so that
// JSON can be written as it is. The only fault is a placeholder "{caller.}" or "{caller}" that names no field.
func Parse(text string) (*Template, error) {
	t := &Template{}
	start := 0 // of the literal text that is not yet in parts
	for i := 0; i < len(text); {
		if text[i] != '{' {
			i++
			continue
		}
		if name, ok := nameAt(text, i+2); ok && text[i+1] == '{' && strings.HasPrefix(text[i+2+len(name):], "}}") {
			t.literal(text[start:i] + "{" + name + "}")
			i += len(name) + 4
			start = i
			continue
		}
		name, ok := nameAt(text, i+1)
		if !ok || !strings.HasPrefix(text[i+1+len(name):], "}") {
			i++
			continue
		}
		p, err := newPart(name)
		if err != nil {
			return nil, err
		}
		t.literal(text[start:i])
		t.parts = append(t.parts, p)
		i += len(name) + 2
		start = i
	}
	t.literal(text[start:])
	return t, nil
}

func (t *Template) literal(s string) {
	if s == "" {
		return
	}
	t.fixed += len(s)
	if n := len(t.parts); n > 0 && t.parts[n-1].from == literal {
		t.parts[n-1].text += s
		return
	}
	t.parts = append(t.parts, Part{text: s})
}

func newPart(name string) (Part, error) {
	switch field, ok := strings.CutPrefix(name, callerPrefix); {
	case ok && field == "", name == "caller":
		return Part{}, fmt.Errorf("{%s} names no field of the caller: want {caller.FIELD}", name)
	case ok:
		return Part{text: field, from: caller}, nil
	case name == IdempotencyKey:
		return Part{text: name, from: idempotencyKey}, nil
	case name == RunID:
		return Part{text: name, from: runID}, nil
	}
	return Part{text: name, from: argument}, nil
}

// nameAt is the longest name that begins at text[i].
func nameAt(text string, i int) (string, bool) {
	if i >= len(text) {
		return "", false
	}
	end := i
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		inner := end > i && (r == '-' || r == '.' || unicode.IsDigit(r))
		if !inner && r != '_' && r != '$' && !unicode.IsLetter(r) {
			break
		}
		end += size
	}
	return text[i:end], end > i
}

// Names are the arguments that the template uses, each once, in order.
func (t *Template) Names() []string { return t.names(argument) }

// CallerFields are the fields of the caller that the template uses, without "caller.", each once, in order.
func (t *Template) CallerFields() []string { return t.names(caller) }

func (t *Template) names(from source) []string {
	var names []string
	for p := range t.Parts() {
		if p.from == from && !slices.Contains(names, p.text) {
			names = append(names, p.text)
		}
	}
	return names
}

// Static says that the template has no placeholder.
func (t *Template) Static() bool {
	for p := range t.Parts() {
		if p.from != literal {
			return false
		}
	}
	return true
}

// Check is a message for each argument that known does not know, with the nearest of the names in among.
func (t *Template) Check(known func(name string) bool, among ...string) []string {
	var messages []string
	for _, name := range t.Names() {
		if known(name) {
			continue
		}
		m := fmt.Sprintf("{%s} names no parameter", name)
		if near := suggest.Nearest(name, among, 1); len(near) > 0 {
			m += fmt.Sprintf(": did you mean {%s}?", near[0])
		} else if len(among) > 0 && len(among) <= 12 {
			m += ": the known ones are " + strings.Join(among, ", ")
		}
		messages = append(messages, m)
	}
	return messages
}

// Parts are the pieces in order. Two literal ones never follow each other, and none is empty.
func (t *Template) Parts() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		if t == nil {
			return
		}
		for _, p := range t.parts {
			if !yield(p) {
				return
			}
		}
	}
}

// Lone is the placeholder of a template that is nothing else.
func (t *Template) Lone() (Part, bool) {
	if t == nil || len(t.parts) != 1 || t.parts[0].from == literal {
		return Part{}, false
	}
	return t.parts[0], true
}

// Expand is the text with each placeholder replaced by its escaped value; a nil escape changes nothing. What is absent,
// or null, is replaced by nothing and makes missing true.
func (t *Template) Expand(c tool.Call, escape func(string) string) (text string, missing bool) {
	if t == nil || len(t.parts) == 0 {
		return "", false
	}
	if len(t.parts) == 1 && t.parts[0].from == literal {
		return t.parts[0].text, false
	}
	var b strings.Builder
	b.Grow(t.fixed + 16*len(t.parts))
	for _, p := range t.parts {
		if p.from == literal {
			b.WriteString(p.text)
			continue
		}
		v, ok := p.Value(c)
		if !ok {
			missing = true
			continue
		}
		s := Text(v)
		if escape != nil {
			s = escape(s)
		}
		b.WriteString(s)
	}
	return b.String(), missing
}

// Literal is the text of a piece that is no placeholder.
func (p Part) Literal() (string, bool) { return p.text, p.from == literal }

// Value is what a placeholder stands for in c, with its JSON type. It is absent where c lacks it or has null there.
func (p Part) Value(c tool.Call) (v any, ok bool) {
	switch p.from {
	case literal:
		return p.text, true
	case argument:
		v = c.Args[p.text]
	case caller:
		v = c.Caller[p.text]
	case idempotencyKey:
		return c.IdempotencyKey, c.IdempotencyKey != ""
	case runID:
		return c.RunID, c.RunID != ""
	}
	return v, v != nil
}

// Text is a value as it reads inside a text: a string as it is, null as nothing, anything else as JSON.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return string(tool.EncodeJSON(v))
}
