// Package prompted reads tool calls that a model wrote as text, as models do behind a server that lacks the parser for
// their template, and small models do wherever they like. Only a text that is calls and nothing else is read so, and
// only where every name is that of a known tool: an answer must never be taken for a call.
package prompted

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
)

// longest is how long a text of calls may be, in bytes.
const longest = 256 << 10

// looked is how much of the beginning of a text MayBe looks at, in bytes. It is longer than any name with what stands
// before it, blanks aside.
const looked = 1 << 10

// The marks that chat templates put before calls.
const (
	tagOpen, tagClose = "<tool_call>", "</tool_call>" // Hermes, Qwen: one call in each
	mistralMark       = "[TOOL_CALLS]"                // Mistral: a JSON list; since its v11 tokenizer NAME[ARGS]{...} behind each mark
	mistralID         = "[CALL_ID]"
	mistralArgs       = "[ARGS]"
	llamaMark         = "<|python_tag|>" // Llama 3.1: calls parted by semicolons, with parameters
	fence             = "```"
)

// endTokens are special tokens that end a turn, which servers should have taken away.
var endTokens = []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "</s>"}

// fenceNames are what stands behind the opening of a code fence with calls.
var fenceNames = []string{"", "json", "jsonl", "tool_call", "tool_calls"}

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

// Read gives the calls that text consists of, nil where it is anything else. They have no id.
func (r *Reader) Read(text string) []chat.Call {
	if len(text) > longest || !r.MayBe(text) {
		return nil
	}
	text = strings.TrimSpace(text)
	for _, t := range endTokens {
		text = strings.TrimSpace(strings.TrimSuffix(text, t))
	}
	var calls []call
	var err error
	switch {
	case strings.HasPrefix(text, tagOpen):
		calls, err = tagged(text)
	case strings.HasPrefix(text, mistralMark):
		calls, err = mistral(text)
	case strings.HasPrefix(text, llamaMark):
		calls, err = values(text[len(llamaMark):], ";", false)
	case strings.HasPrefix(text, fence):
		_, text, _ = strings.Cut(text, "\n")
		body, ended := strings.CutSuffix(strings.TrimSpace(text), fence)
		if !ended {
			return nil
		}
		calls, err = values(body, "", true)
	default:
		calls, err = values(text, "", true)
	}
	if err != nil {
		return nil
	}
	list := make([]chat.Call, len(calls))
	for i, c := range calls {
		if !r.some(func(name string) bool { return name == c.name }) {
			return nil
		}
		list[i] = c.chat()
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// call is one call: its arguments are a JSON object, or a JSON string with what the model takes for one.
type call struct {
	name      string
	arguments json.RawMessage
}

func (c call) chat() chat.Call {
	arguments := c.arguments
	if arguments[0] != '"' {
		arguments = chat.Quote(string(arguments))
	}
	raw := slices.Concat([]byte(`{"id":"","type":"function","function":{"name":`), chat.Quote(c.name), []byte(`,"arguments":`), arguments, []byte("}}"))
	return chat.Call{Name: c.name, Arguments: arguments, Raw: raw}
}

var errNoCall = errors.New("this is no call")

// tagged reads calls in tags. The last one may lack its end, which servers cut off as a stop word.
func tagged(text string) (all []call, err error) {
	for text != "" {
		body, ok := strings.CutPrefix(text, tagOpen)
		if !ok {
			return nil, errNoCall
		}
		calls, rest, err := leading(body, "", false)
		if err != nil || len(calls) == 0 {
			return nil, errNoCall
		}
		all = append(all, calls...)
		rest = strings.TrimSpace(rest)
		if after, ok := strings.CutPrefix(rest, tagClose); ok {
			rest = strings.TrimSpace(after)
		}
		text = rest
	}
	return all, nil
}

// mistral reads calls behind Mistral's mark, in its older form and its newer one.
func mistral(text string) (all []call, err error) {
	for text != "" {
		body, ok := strings.CutPrefix(text, mistralMark)
		if !ok {
			return nil, errNoCall
		}
		body = strings.TrimSpace(body)
		if strings.HasPrefix(body, "[{") || strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[ ") || strings.HasPrefix(body, "[\n") {
			calls, rest, err := leading(body, "", false)
			if err != nil {
				return nil, err
			}
			all, text = append(all, calls...), strings.TrimSpace(rest)
			continue
		}
		at := strings.IndexByte(body, '{')
		if at < 0 {
			return nil, errNoCall
		}
		name, _ := strings.CutSuffix(strings.TrimSpace(body[:at]), mistralArgs)
		name, _, _ = strings.Cut(name, mistralID)
		d := json.NewDecoder(strings.NewReader(body[at:]))
		var arguments json.RawMessage
		if err := d.Decode(&arguments); err != nil {
			return nil, err
		}
		all = append(all, call{strings.TrimSpace(name), arguments})
		text = strings.TrimSpace(body[at+int(d.InputOffset()):])
	}
	return all, nil
}

// values reads a text of JSON values that are calls or lists of calls, one after the other with sep between.
func values(text, sep string, strict bool) ([]call, error) {
	calls, rest, err := leading(text, sep, strict)
	if err == nil && strings.TrimSpace(rest) != "" {
		err = errNoCall
	}
	return calls, err
}

// leading reads the values at the beginning of a text, and gives what follows them.
func leading(text, sep string, strict bool) (calls []call, rest string, err error) {
	for {
		text = strings.TrimSpace(text)
		if sep != "" && len(calls) > 0 {
			text = strings.TrimSpace(strings.TrimPrefix(text, sep))
		}
		if text == "" || text[0] != '{' && (text[0] != '[' || len(calls) > 0) {
			return calls, text, nil
		}
		d := json.NewDecoder(strings.NewReader(text))
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, "", errors.Join(errNoCall, err)
		}
		text = text[d.InputOffset():]
		for _, item := range items(v) {
			c, ok := read(item, strict)
			if !ok {
				return nil, "", errNoCall
			}
			calls = append(calls, c)
		}
	}
}

func items(v json.RawMessage) []gjson.Result {
	if parsed := gjson.ParseBytes(v); parsed.IsArray() {
		return parsed.Array()
	}
	return []gjson.Result{gjson.ParseBytes(v)}
}

// read reads an object as a call: name and arguments, Llama's parameters, or OpenAI's own form with function. With
// strict, as nothing but the object says that it is a call, it needs arguments and may hold nothing else.
func read(v gjson.Result, strict bool) (c call, ok bool) {
	if !v.IsObject() {
		return c, false
	}
	ok = true
	v.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "name":
			c.name = v.Str
		case "function":
			if c.name = v.Str; v.IsObject() {
				c, ok = read(v, strict)
			}
		case "arguments", "parameters":
			c.arguments = argumentsOf(v)
			ok = ok && c.arguments != nil
		case "id":
		case "type":
			ok = ok && (!strict || v.Str == "function")
		default:
			ok = ok && !strict
		}
		return ok
	})
	if c.arguments == nil {
		c.arguments = json.RawMessage("{}")
		ok = ok && !strict
	}
	return c, ok && c.name != ""
}

// argumentsOf is a call's arguments, nil where they are none.
func argumentsOf(v gjson.Result) json.RawMessage {
	switch {
	case v.IsObject():
		var b bytes.Buffer
		if json.Compact(&b, []byte(v.Raw)) != nil {
			return nil
		}
		return b.Bytes()
	case v.Type == gjson.String:
		return chat.Quote(v.Str)
	case v.Type == gjson.Null:
		return json.RawMessage("{}")
	}
	return nil
}

// MayBe says whether a text that begins so can turn out to be one that Read reads. Where it is false for a text, it is
// so for every text that begins with it. It looks at the beginning alone.
func (r *Reader) MayBe(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	if len(text) > looked {
		text = text[:looked]
	}
	for _, mark := range []string{tagOpen, mistralMark, llamaMark} {
		if strings.HasPrefix(text, mark) || strings.HasPrefix(mark, text) {
			return true
		}
	}
	if strings.HasPrefix(fence, text) {
		return true
	}
	if body, ok := strings.CutPrefix(text, fence); ok {
		name, rest, whole := strings.Cut(body, "\n")
		if !whole {
			return begins(fenceNames, strings.TrimRight(name, "\r "))
		}
		if !slices.Contains(fenceNames, strings.TrimRight(name, "\r ")) {
			return false
		}
		text = rest
	}
	return r.mayBeJSON(text)
}

// mayBeJSON is MayBe for what has no mark before it.
func (r *Reader) mayBeJSON(text string) bool {
	s := scanner{strings.TrimLeft(text, " \t\r\n")}
	s.skip('[')
	if s.left == "" {
		return true
	}
	if !s.skip('{') {
		return false
	}
	key, whole := s.word()
	switch {
	case !whole:
		return begins([]string{`"name"`, `"function"`, `"type"`, `"arguments"`, `"parameters"`}, key)
	case key == `"arguments"` || key == `"parameters"`:
		return true
	case key != `"name"` && key != `"function"` && key != `"type"`:
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
	s.left = strings.TrimLeft(s.left[1:], " \t\r\n")
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
	word, s.left = s.left[:end+2], strings.TrimLeft(s.left[end+2:], " \t\r\n")
	return word, true
}

func begins(words []string, text string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, text) })
}
