// Package jsontree holds JSON as a tree that keeps what maps and floats lose: the order of keys and the spelling of
// numbers. Its reader is strict where lenient ones disagree with each other, so that nothing can pass a check in one
// reading and act in another: a key that stands twice in an object is an error, and so is a number that no reader
// takes exactly. What is too deep or too large is refused before it costs anything.
package jsontree

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Kind is what a value is.
type Kind uint8

// The kinds of JSON values.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Object
)

// String is the kind's name in a sentence, with its article.
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// Value is one JSON value. Values that more than one goroutine reads must not be changed.
type Value struct {
	Kind    Kind
	Text    string   // of a String its characters, of a Number its spelling, of a Bool "true" or "false"
	Items   []*Value // of a List
	Members []Member // of an Object, in order
}

// Member is one entry of an object.
type Member struct {
	Key   string
	Value *Value
}

// Text is a string value.
func Text(s string) *Value { return &Value{Kind: String, Text: s} }

// Boolean is a boolean value.
func Boolean(b bool) *Value { return &Value{Kind: Bool, Text: strconv.FormatBool(b)} }

// Texts is a list of string values.
func Texts(ss ...string) *Value {
	v := &Value{Kind: List}
	for _, s := range ss {
		v.Items = append(v.Items, Text(s))
	}
	return v
}

// Get is the value of a key, nil when there is none or v is no object.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Key == key {
			return v.Members[i].Value
		}
	}
	return nil
}

// Set replaces the value of a key where it stands, or adds it at the end.
func (v *Value) Set(key string, to *Value) {
	for i := range v.Members {
		if v.Members[i].Key == key {
			v.Members[i].Value = to
			return
		}
	}
	v.Members = append(v.Members, Member{key, to})
}

// Delete takes a key away.
func (v *Value) Delete(key string) {
	v.Members = slices.DeleteFunc(v.Members, func(m Member) bool { return m.Key == key })
}

// Is says whether v is there and of kind k.
func (v *Value) Is(k Kind) bool { return v != nil && v.Kind == k }

// IsText says whether v is the string s.
func (v *Value) IsText(s string) bool { return v.Is(String) && v.Text == s }

// JSON is v as compact JSON in which <, > and & stay as they are.
func (v *Value) JSON() []byte { return v.Append(nil) }

// Append is JSON appended to b.
func (v *Value) Append(b []byte) []byte {
	switch v.Kind {
	case Null:
		return append(b, "null"...)
	case Bool, Number:
		return append(b, v.Text...)
	case String:
		return appendString(b, v.Text)
	case List:
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.Append(b)
		}
		return append(b, ']')
	default:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, m.Key), ':')
			b = m.Value.Append(b)
		}
		return append(b, '}')
	}
}

// appendString quotes s as encoding/json does without HTML escaping.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		escaped := ""
		switch {
		case c == '"':
			escaped = `\"`
		case c == '\\':
			escaped = `\\`
		case c == '\n':
			escaped = `\n`
		case c == '\r':
			escaped = `\r`
		case c == '\t':
			escaped = `\t`
		case c < 0x20:
			escaped = `\u00` + string(hex[c>>4]) + string(hex[c&0xf])
		case c == utf8.RuneError && size == 1:
			escaped = `\ufffd`
		case c == '\u2028':
			escaped = `\u2028`
		case c == '\u2029':
			escaped = `\u2029`
		}
		if escaped != "" {
			b = append(append(b, s[start:i]...), escaped...)
			start = i + size
		}
		i += size
	}
	return append(append(b, s[start:]...), '"')
}

// Any is v as encoding/json gives it, numbers as json.Number. The result shares nothing with v.
func (v *Value) Any() any {
	switch v.Kind {
	case Bool:
		return v.Text == "true"
	case Number:
		return json.Number(v.Text)
	case String:
		return v.Text
	case List:
		list := make([]any, len(v.Items))
		for i, item := range v.Items {
			list[i] = item.Any()
		}
		return list
	case Object:
		object := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			object[m.Key] = m.Value.Any()
		}
		return object
	default:
		return nil
	}
}
