// Package prompted is tools for models without native calls: it describes them in a system message, reads the calls
// that a model writes as text, and writes turns and results as text. It also reads calls of models that do have native
// ones and stand behind a server that lacks the parser for their template; small models write them wherever they like.
//
// There are two ways of reading. Read takes a text that is calls and nothing else, each of a known tool, since an answer
// must never be taken for a call. Find, for models that were asked to write calls as text, takes calls with text around
// them, and gives broken ones too, so that the model can be told.
package prompted

import (
	"iter"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/chat"
)

// longest is how long a text of calls may be, in bytes.
const longest = 256 << 10

// looked is how much of the beginning of a text MayBe looks at, in bytes. It is longer than any name with what stands
// before it, blanks aside.
const looked = 1 << 10

const fence = "```"

// fenceNames are what stands behind the opening of a code fence with calls.
var fenceNames = []string{"", "json", "jsonl", "xml", "tool_call", "tool_calls"}

// Reader reads calls of the tools it knows. Immutable.
type Reader struct{ names []iter.Seq[string] }

// New makes a reader that knows tools by their names. It goes through them only where a text looks like calls.
func New(names ...iter.Seq[string]) *Reader { return &Reader{names: names} }

// some says whether is holds for the name of some tool.
func (r *Reader) some(is func(name string) bool) bool {
	for _, names := range r.names {
		for name := range names {
			if is(name) {
				return true
			}
		}
	}
	return false
}

// knows says whether all calls are of known tools.
func (r *Reader) knows(calls []call) bool {
	for _, c := range calls {
		if !r.some(func(name string) bool { return name == c.name }) {
			return false
		}
	}
	return len(calls) > 0
}

// Read gives the calls that text consists of, nil where it is anything else. They have no id.
func (r *Reader) Read(text string) []chat.Call {
	if len(text) > longest || !r.MayBe(text) {
		return nil
	}
	calls := whole(strings.TrimSpace(trimEnd(text)))
	if !r.knows(calls) {
		return nil
	}
	return inChat(calls)
}

func inChat(calls []call) []chat.Call {
	list := make([]chat.Call, len(calls))
	for i, c := range calls {
		list[i] = c.chat()
	}
	return list
}

// whole reads a text that is nothing but calls, nil where it is not: behind marks, as JSON, or either in a code fence.
func whole(text string) (all []call) {
	if strings.HasPrefix(text, fence) {
		_, body, _ := strings.Cut(text, "\n")
		body, ended := strings.CutSuffix(strings.TrimSpace(body), fence)
		if !ended || strings.HasPrefix(body, fence) {
			return nil
		}
		return whole(strings.TrimSpace(body))
	}
	if formAt(text) == nil {
		calls, rest, err := leading(text, "", true)
		if err != nil || strings.TrimSpace(rest) != "" {
			return nil
		}
		return calls
	}
	for text != "" {
		f := formAt(text)
		if f == nil {
			return nil
		}
		calls, rest, err := f.read(text[len(f.open):])
		if err != nil {
			return nil
		}
		all, text = append(all, calls...), strings.TrimSpace(trimEnd(rest))
	}
	return all
}

// MayBe says whether a text that begins so can turn out to be one that Read reads. Where it is false for a text, it is
// so for every text that begins with it. It looks at the beginning alone.
func (r *Reader) MayBe(text string) bool { return r.mayBegin(strings.TrimLeft(text, blanks)) }

// mayBegin is MayBe of a text whose calls begin with its first character.
func (r *Reader) mayBegin(text string) bool {
	if len(text) > looked {
		text = text[:looked]
	}
	switch {
	case mayMark(text), strings.HasPrefix(fence, text):
		return true
	case !strings.HasPrefix(text, fence):
		return r.mayBeJSON(text)
	}
	name, body, named := strings.Cut(text[len(fence):], "\n")
	name = strings.TrimRight(name, "\r ")
	if !named {
		return begins(fenceNames, name)
	}
	body = strings.TrimLeft(body, blanks)
	return slices.Contains(fenceNames, name) && (mayMark(body) || r.mayBeJSON(body))
}

// mayMark says whether a text begins with a mark, or may once there is more of it.
func mayMark(text string) bool {
	for i := range forms {
		if strings.HasPrefix(text, forms[i].open) || strings.HasPrefix(forms[i].open, text) {
			return true
		}
	}
	return false
}

// mayBeJSON is mayBegin for what has no mark before it.
func (r *Reader) mayBeJSON(text string) bool {
	s := scanner{strings.TrimLeft(text, blanks)}
	s.skip('[')
	if s.left == "" {
		return true
	}
	if !s.skip('{') {
		return false
	}
	if strings.HasPrefix(s.left, "{") { // braces that stand twice
		s.skip('{')
	}
	key, whole := s.word()
	switch {
	case !whole:
		return begins([]string{`"name"`, `"tool_name"`, `"function"`, `"type"`, `"arguments"`, `"parameters"`}, key)
	case key == `"arguments"` || key == `"parameters"`:
		return true
	case key != `"name"` && key != `"tool_name"` && key != `"function"` && key != `"type"`:
		return false
	}
	if s.left != "" && !s.skip(':') {
		return false
	}
	if key == `"function"` && s.skip('{') {
		return true
	}
	value, whole := s.word()
	if key == `"type"` {
		return value == `"function"` || !whole && strings.HasPrefix(`"function"`, value)
	}
	return r.some(func(name string) bool {
		quoted := `"` + name + `"`
		return quoted == value || !whole && strings.HasPrefix(quoted, value)
	})
}

// scanner goes through the beginning of a JSON text.
type scanner struct{ left string }

// skip goes past c and the blanks behind it, if it is next.
func (s *scanner) skip(c byte) bool {
	if s.left == "" || s.left[0] != c {
		return false
	}
	s.left = strings.TrimLeft(s.left[1:], blanks)
	return true
}

// word is the string that is next, with its quotes and as it is written. It is not whole where the text ends within it.
// Anything else than a string is a word that nothing begins with.
func (s *scanner) word() (word string, whole bool) {
	if s.left == "" {
		return "", false
	}
	if s.left[0] != '"' {
		return "\x00", false
	}
	end := strings.IndexByte(s.left[1:], '"')
	if end < 0 {
		return s.left, false
	}
	word, s.left = s.left[:end+2], strings.TrimLeft(s.left[end+2:], blanks)
	return word, true
}

func begins(words []string, text string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, text) })
}
