package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// read makes the tree of a text, which is one YAML document or JSON. It is nil when the text can't be parsed.
func (d *document) read(data []byte) (root *Node) {
	defer func() {
		// The YAML parser is not ours and has panicked on broken input before.
		if recover() != nil {
			d.fail(Pos{1, 1}, "not valid YAML")
			root = nil
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	d.data = data
	if len(data) > MaxBytes {
		d.fail(Pos{1, 1}, "the file is too large: more than %s", Size(MaxBytes))
		return nil
	}
	if at := badCharacter(data); at >= 0 {
		if name := foreignEncoding(data); name != "" {
			d.fail(Pos{1, 1}, "the file is in %s: save it as UTF-8", name)
		} else if r, size := utf8.DecodeRune(data[at:]); size == 1 && r == utf8.RuneError {
			d.fail(d.posOf(at), "the file must be UTF-8: the byte 0x%02x is not", data[at])
		} else {
			d.fail(d.posOf(at), `the control character 0x%02x is not allowed: write "\x%02x" in double quotes`, data[at], data[at])
		}
		return nil
	}
	b := &builder{document: d, anchors: map[string]ast.Node{}, targets: map[*ast.AliasNode]ast.Node{}}
	// JSON is YAML; its own reader is exact in every corner and has no limit on keys.
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(data) {
		return b.readJSON(data)
	}
	body, ok := d.parse(string(data))
	if !ok {
		return nil
	}
	if body == nil {
		return b.node(nil, "", Pos{1, 1}, Mapping)
	}
	return b.build(body, nil, "", Pos{}, 0)
}

// parse is the body of the only document of a YAML text, nil for an empty one. ok is false when it has a fault, which
// has been reported: the parser stops at the first.
func (d *document) parse(text string) (body ast.Node, ok bool) {
	if err := checkText(text); err != nil {
		d.fail(Pos{1, 1}, "%s", err)
		return nil, false
	}
	tokens := lexer.Tokenize(text)
	d.locate(tokens)
	if at, err := checkTokens(tokens); err != nil {
		d.fail(d.tokenPos(at), "%s", err)
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // build reports duplicates, all of them
	if err != nil {
		at, why := d.explain(err)
		d.fail(at, "not valid YAML: %s", why)
		return nil, false
	}
	for _, doc := range file.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); doc.Body != nil && !directive {
			return doc.Body, true
		}
	}
	return nil, true
}

// hints say what would be right, by a part of the parser's message.
var hints = []struct{ part, hint string }{
	{"cannot start any token", "indent with spaces, not tabs"},
	{"mapping value is not allowed", `put a text that holds ": " in quotes, or look at the indentation of what follows`},
	{"reserved character", "put a text that begins with it in quotes"},
	{"non-map value is specified", `want "key: value" here`},
	{"map key-value is pre-defined", "the key has a value already: look at the indentation"},
	{"could not find end character", "the closing quote is missing"},
	{"value is not allowed in this context", "look at the indentation: keys of one mapping begin in the same column"},
	{"unexpected key name", `want "key:" here, with a colon`},
	{"must be specified", "a bracket or a quote before it is not closed, or a comma is missing"},
	{"flow map content", "want key: value between { and }, and the closing }"},
	{"end token", "the closing bracket is missing, or a comma too many stands before it"},
}

// explain is where and why the parser gave up. It never repeats the text of the file, which may be a secret's.
func (d *document) explain(err error) (Pos, string) {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &located) {
		return Pos{1, 1}, "it can't be parsed"
	}
	at, message := d.tokenPos(located.GetToken()), located.GetMessage()
	if strings.HasPrefix(message, "invalid header option") {
		return at, "a block text begins with | or > and a line break; put a text that begins with | or > in quotes"
	}
	if blank, found := d.oddBlank(at); found {
		return at, message + fmt.Sprintf(": the line begins with the character U+%04X, which looks like a blank and is none: indent with spaces", blank)
	}
	switch around := d.data[max(0, d.offset(at)-1):]; {
	case bytes.HasPrefix(around, []byte("${")):
		return at, message + ": inside { } and [ ], put a text that holds ${...} in quotes"
	case len(around) > 1 && (around[0] == '*' || strings.IndexByte("*&%!", around[1]) >= 0):
		return at, message + ": put a text that begins with *, &, % or ! in quotes"
	}
	for _, h := range hints {
		if strings.Contains(message, h.part) {
			return at, message + ": " + h.hint
		}
	}
	return at, message
}

// oddBlank is a blank of another kind than YAML knows before the first word of a line, as copies of web pages have it.
func (d *document) oddBlank(at Pos) (rune, bool) {
	line := d.data[d.offset(Pos{at.Line, 1}):]
	for _, r := range string(line[:min(len(line), 200)]) {
		switch {
		case r == ' ', r == '-':
		case r > unicode.MaxASCII && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)):
			return r, true
		default:
			return 0, false
		}
	}
	return 0, false
}

// foreignEncoding is the name of the encoding that a text in none of ASCII's begins to be in.
func foreignEncoding(data []byte) string {
	for _, begin := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(begin)) {
			return "UTF-16"
		}
	}
	return ""
}

// fail reports a problem of the text as such.
func (d *document) fail(at Pos, format string, args ...any) {
	d.file.report(Problem{File: d.name, Pos: at, Message: fmt.Sprintf(format, args...)})
}

// badCharacter is the offset of the first byte that no YAML text may hold, or -1.
func badCharacter(data []byte) int {
	for i := 0; i < len(data); {
		c := data[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
