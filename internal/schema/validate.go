package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of what Validate returns: a model can't use more, and pays for it.
const (
	maxFaults = 20
	maxFault  = 300 // characters
)

// Validate is every fault of v as "path: message", in the order of the schema's properties, nil when v is valid: at
// most 20, each of at most 300 characters. v is made of JSON's own types with json.Number for numbers. The messages
// are for a model to act on: they say what would be right and do not repeat values.
//
//	cep: does not match pattern '^\d{8}$'
//	lang: must be one of "pt", "en"
//	items[2].id: is required
//	address.state: must be a string, got a list
func (s *Schema) Validate(v any) []string {
	values := 0
	if path := tooLarge(v, nil, &values); path != nil {
		return []string{line(v, path, "is a number out of all bounds")}
	}
	if !s.cost.affordable(s.form, v, values) {
		return []string{"the arguments are too many and too deep to be checked"}
	}
	var wrong *jsonschema.ValidationError
	if err := s.compiled.Validate(v); !errors.As(err, &wrong) {
		return nil
	}
	return s.messages(reading{v}.flat(wrong), v)
}

// tooLarge is the path to a number in v that can't be calculated with, nil when there is none. It counts the values.
func tooLarge(v any, path []string, values *int) []string {
	*values++
	switch v := v.(type) {
	case json.Number:
		if !computable(v) {
			return append([]string{}, path...)
		}
	case map[string]any:
		for name, value := range v {
			if found := tooLarge(value, append(path, name), values); found != nil {
				return found
			}
		}
	case []any:
		for i, value := range v {
			if found := tooLarge(value, append(path, strconv.Itoa(i)), values); found != nil {
				return found
			}
		}
	}
	return nil
}

// messages are faults in order and in words.
func (s *Schema) messages(faults []fault, v any) []string {
	ranks := make(map[string][]int, len(faults))
	for i, f := range faults {
		faults[i].where = strings.Join(f.path, "\x00")
		if _, ok := ranks[faults[i].where]; !ok {
			ranks[faults[i].where] = s.rank(f.path)
		}
	}
	slices.SortStableFunc(faults, func(a, b fault) int {
		if c := slices.Compare(ranks[a.where], ranks[b.where]); c != 0 {
			return c
		}
		if c := slices.Compare(a.path, b.path); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	var lines []string
	for _, f := range faults {
		if l := line(v, f.path, f.text); !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
		if len(lines) == maxFaults {
			break
		}
	}
	return lines
}

// line is one message: the path of the value, nothing for v itself, and what is wrong with it.
func line(v any, path []string, text string) string {
	if len(path) > 0 {
		text = pathText(v, path, 0) + ": " + text
	}
	return cut(text, maxFault)
}

// last is the rank of what the schema does not name.
const last = 1 << 30

// rank is the way to a value as positions in the schema.
func (s *Schema) rank(path []string) []int {
	fs := []*form{s.form}
	rank := make([]int, 0, len(path))
	for _, token := range path {
		fs = everywhere(fs)
		position, before := last, 0
		var below []*form
		for _, f := range fs {
			for i, p := range f.properties {
				if p.name == token && position == last {
					position = before + i
				}
			}
			before += len(f.properties)
			below = append(below, f.under(token)...)
		}
		if i, err := strconv.Atoi(token); err == nil && position == last {
			position = min(i, last)
			for _, f := range fs {
				below = append(below, f.at(i)...)
			}
		}
		rank = append(rank, position)
		fs = below
	}
	return rank
}

// pathText is the path of a value in v as one writes it: address.state, items[2].id, without the first steps of it.
// What a model made up is cut.
func pathText(v any, path []string, skip int) string {
	var b strings.Builder
	for i, token := range path {
		text := ""
		switch inner := v.(type) {
		case []any:
			text = "[" + token + "]"
			if at, err := strconv.Atoi(token); err == nil && at < len(inner) {
				v = inner[at]
			}
		case map[string]any:
			text, v = keyText(token), inner[token]
		default:
			text = keyText(token)
		}
		if i < skip {
			continue
		}
		if b.Len() > 0 && text[0] != '[' {
			b.WriteByte('.')
		}
		b.WriteString(text)
	}
	return b.String()
}

// keyText is a key as it stands in a path: quoted where it would not read as one word.
func keyText(key string) string {
	key = cut(key, 64)
	for _, c := range key {
		if c <= ' ' || c == 0x7f || strings.ContainsRune(`".:[]`, c) || !strconv.IsPrint(c) {
			return strconv.Quote(key)
		}
	}
	if key == "" {
		return `""`
	}
	return key
}
