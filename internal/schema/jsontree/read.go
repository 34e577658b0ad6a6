package jsontree

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep lists and objects may stand in each other.
const MaxDepth = 64

// Bounds of a number. Arithmetic on what a million digits or the exponent 1e999999999 spell would take minutes.
const (
	maxDigits   = 1000
	maxExponent = 9999
)

// SyntaxError is a text that is no JSON, or more of it than is allowed.
type SyntaxError struct {
	Char   int // where, counted in characters from 1
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not valid JSON at character %d: %s", e.Char, e.Reason)
}

// DuplicateError is a key that stands twice in one object.
type DuplicateError struct {
	Path string // dotted, "address.state"; an item of a list is "items[2]"
	Char int    // of the second one, counted from 1
}

func (e *DuplicateError) Error() string { return fmt.Sprintf("the key %q stands twice", e.Path) }

// DepthError is a value that is nested deeper than MaxDepth.
type DepthError struct{}

func (*DepthError) Error() string {
	return fmt.Sprintf("nested deeper than %d levels", MaxDepth)
}

// Parse reads data, one JSON value and nothing else. Its errors are a *SyntaxError, a *DuplicateError or a
// *DepthError.
func Parse(data []byte) (*Value, error) {
	r := NewReader(string(data))
	v, err := r.Next()
	if err != nil {
		return nil, err
	}
	if r.More() {
		return nil, r.fail("there is more text after the value")
	}
	return v, nil
}

// Reader reads JSON values that stand one after the other in a text.
type Reader struct {
	text  string
	at    int // in bytes
	depth int
	path  []step
}

// step is one step down from the value that Next reads.
type step struct {
	key  string
	item int // used where key is ""
	list bool
}

// NewReader reads from text.
func NewReader(text string) *Reader { return &Reader{text: text} }

// More says whether anything but white space is left.
func (r *Reader) More() bool {
	r.skip()
	return r.at < len(r.text)
}

// Next reads one value. After an error the Reader is of no use. Errors are those of Parse.
func (r *Reader) Next() (*Value, error) {
	r.path = r.path[:0]
	return r.value()
}

func (r *Reader) skip() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// peek is the next byte that is no white space, 0 at the end.
func (r *Reader) peek() byte {
	r.skip()
	if r.at >= len(r.text) {
		return 0
	}
	return r.text[r.at]
}

func (r *Reader) fail(format string, args ...any) error {
	return &SyntaxError{Char: r.char(r.at), Reason: fmt.Sprintf(format, args...)}
}

func (r *Reader) char(at int) int {
	return utf8.RuneCountInString(r.text[:min(at, len(r.text))]) + 1
}

func (r *Reader) value() (*Value, error) {
	switch c := r.peek(); {
	case c == '{':
		return r.object()
	case c == '[':
		return r.list()
	case c == '"':
		s, err := r.string()
		if err != nil {
			return nil, err
		}
		return Text(s), nil
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	default:
		return r.word()
	}
}

func (r *Reader) enter() error {
	if r.depth++; r.depth > MaxDepth {
		return &DepthError{}
	}
	r.at++
	return nil
}

func (r *Reader) leave() {
	r.depth--
	r.at++
}

func (r *Reader) list() (*Value, error) {
	v := &Value{Kind: List}
	if err := r.enter(); err != nil {
		return nil, err
	}
	if r.peek() == ']' {
		r.leave()
		return v, nil
	}
	r.path = append(r.path, step{list: true})
	for {
		r.path[len(r.path)-1].item = len(v.Items)
		item, err := r.value()
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, item)
		end, err := r.separator(']', "list")
		if err != nil {
			return nil, err
		}
		if end {
			r.path = r.path[:len(r.path)-1]
			r.leave()
			return v, nil
		}
		if r.peek() == ']' {
			return nil, r.fail("a comma before ]")
		}
	}
}

func (r *Reader) object() (*Value, error) {
	v := &Value{Kind: Object}
	if err := r.enter(); err != nil {
		return nil, err
	}
	if r.peek() == '}' {
		r.leave()
		return v, nil
	}
	r.path = append(r.path, step{})
	var seen keys
	for {
		key, err := r.key()
		if err != nil {
			return nil, err
		}
		r.path[len(r.path)-1].key = key.name
		if seen.add(v.Members, key.name) {
			return nil, &DuplicateError{Path: r.where(), Char: r.char(key.at)}
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		v.Members = append(v.Members, Member{key.name, value})
		end, err := r.separator('}', "object")
		if err != nil {
			return nil, err
		}
		if end {
			r.path = r.path[:len(r.path)-1]
			r.leave()
			return v, nil
		}
	}
}

type key struct {
	name string
	at   int
}

// key reads a key and its colon.
func (r *Reader) key() (key, error) {
	c := r.peek()
	k := key{at: r.at}
	switch {
	case c == '"':
	case c == 0 && r.at >= len(r.text):
		return k, r.fail("the text ends inside an object")
	case c == '\'':
		return k, r.fail("keys stand in double quotes, not single ones")
	case c == '}':
		return k, r.fail("a comma before }")
	default:
		return k, r.fail("a key in double quotes is missing")
	}
	var err error
	if k.name, err = r.string(); err != nil {
		return k, err
	}
	if r.peek() != ':' {
		return k, r.fail("a colon is missing after the key")
	}
	r.at++
	return k, nil
}

// separator reads the comma after an entry, or stands before the end.
func (r *Reader) separator(end byte, of string) (atEnd bool, err error) {
	switch c := r.peek(); {
	case c == end:
		return true, nil
	case c == ',':
		r.at++
		return false, nil
	case c == 0 && r.at >= len(r.text):
		return false, r.fail("the text ends inside %s", article(of))
	default:
		return false, r.fail("a comma or %c is missing", end)
	}
}

func article(noun string) string {
	if noun == "object" {
		return "an object"
	}
	return "a " + noun
}

// string reads a string. Escapes are decoded as encoding/json does: half a surrogate pair and bytes that are no UTF-8
// become U+FFFD.
func (r *Reader) string() (string, error) {
	start := r.at
	plain := true
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.unquote(start, plain)
		case c == '\\':
			plain = false
			r.at++
		case c < 0x20:
			return "", r.fail("a line break or control character inside a string must be escaped")
		}
	}
	r.at = len(r.text)
	return "", r.fail("the text ends inside a string")
}

func (r *Reader) unquote(start int, plain bool) (string, error) {
	raw := r.text[start:r.at]
	if plain && utf8.ValidString(raw) {
		return raw[1 : len(raw)-1], nil
	}
	var s string
	if json.Unmarshal([]byte(raw), &s) != nil {
		r.at = start
		return "", r.fail("the string has a wrong escape")
	}
	return s, nil
}

func (r *Reader) number() (*Value, error) {
	start := r.at
	if r.text[r.at] == '-' {
		r.at++
	}
	whole := r.digits()
	if whole == 0 || whole > 1 && r.text[r.at-whole] == '0' {
		return nil, r.bad(start)
	}
	digits := whole
	if r.is('.') {
		r.at++
		fraction := r.digits()
		if fraction == 0 {
			return nil, r.bad(start)
		}
		digits += fraction
	}
	exponent := 0
	if r.is('e') || r.is('E') {
		r.at++
		if r.is('+') || r.is('-') {
			r.at++
		}
		from := r.at
		if r.digits() == 0 {
			return nil, r.bad(start)
		}
		for _, c := range r.text[from:r.at] {
			exponent = min(exponent*10+int(c-'0'), maxExponent+1)
		}
	}
	if digits > maxDigits || exponent > maxExponent {
		r.at = start
		return nil, r.fail("the number is too large")
	}
	return &Value{Kind: Number, Text: r.text[start:r.at]}, nil
}

func (r *Reader) bad(start int) error {
	r.at = start
	return r.fail("a wrong number")
}

func (r *Reader) is(c byte) bool { return r.at < len(r.text) && r.text[r.at] == c }

func (r *Reader) digits() int {
	start := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at - start
}

var words = []struct {
	text  string
	value Value
}{
	{"null", Value{}},
	{"true", Value{Kind: Bool, Text: "true"}},
	{"false", Value{Kind: Bool, Text: "false"}},
}

func (r *Reader) word() (*Value, error) {
	rest := r.text[r.at:]
	for _, w := range words {
		if strings.HasPrefix(rest, w.text) && !continues(rest[len(w.text):]) {
			r.at += len(w.text)
			v := w.value
			return &v, nil
		}
	}
	switch {
	case rest == "":
		return nil, r.fail("the text ends where a value is due")
	case rest[0] == '\'':
		return nil, r.fail("strings stand in double quotes, not single ones")
	case rest[0] == ',' || rest[0] == '}' || rest[0] == ']' || rest[0] == ':':
		return nil, r.fail("a value is missing before %c", rest[0])
	default:
		return nil, r.fail("this is no JSON value; strings stand in double quotes")
	}
}

// continues says whether a word goes on in rest.
func continues(rest string) bool {
	return rest != "" && (rest[0] == '_' || rest[0] >= '0' && rest[0] <= '9' || rest[0]|0x20 >= 'a' && rest[0]|0x20 <= 'z')
}

// where is the path of the value that is read.
func (r *Reader) where() string {
	var b strings.Builder
	for _, s := range r.path {
		switch {
		case s.list:
			fmt.Fprintf(&b, "[%d]", s.item)
		case b.Len() == 0:
			b.WriteString(s.key)
		default:
			b.WriteString("." + s.key)
		}
	}
	return b.String()
}

// keys finds duplicates: by looking through the members while they are few, then in a set.
type keys struct{ set map[string]bool }

// add says whether key is among the members before it.
func (k *keys) add(before []Member, key string) bool {
	const few = 8
	if len(before) < few {
		for _, m := range before {
			if m.Key == key {
				return true
			}
		}
		return false
	}
	if k.set == nil {
		k.set = make(map[string]bool, 2*few)
		for _, m := range before {
			k.set[m.Key] = true
		}
	}
	if k.set[key] {
		return true
	}
	k.set[key] = true
	return false
}
