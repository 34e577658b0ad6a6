package sqltool

import (
	"errors"
	"strings"
)

// dialect is whose SQL a text is. The two differ in what is a literal, a comment or a quoted name.
type dialect int

const (
	postgres dialect = iota
	sqlite
)

// kind is what a token is.
type kind int

const (
	word      kind = iota // a keyword or a plain name
	quoted                // a name in quotes, brackets or backticks
	literal               // a text, a dollar quote, a blob or a number
	parameter             // :name or :caller.name
	foreign               // a parameter in the database's own notation: $1, ?, @name
	sign                  // anything else, a character; and ::
)

// token is a piece of a query that is neither blank nor comment.
type token struct {
	kind  kind
	text  string // as written
	start int    // in bytes
}

func (t token) end() int { return t.start + len(t.text) }

// is says whether the token is one of the keywords, which are in capitals, or the sign.
func (t token) is(texts ...string) bool {
	if t.kind != word && t.kind != sign {
		return false
	}
	for _, text := range texts {
		if strings.EqualFold(t.text, text) {
			return true
		}
	}
	return false
}

var (
	errOpenComment = errors.New("a comment has no end")
	errOpenQuote   = errors.New("a quote has no end")
)

// scan parts a query into tokens the way that the database does. Where something has no end, the error comes with all
// tokens, of which the last goes on to the end of the query.
func scan(query string, d dialect) ([]token, error) {
	var tokens []token
	var open error
	for i := 0; i < len(query); {
		rest := query[i:]
		if n, err := comment(rest, d); n > 0 {
			i, open = i+n, err
			continue
		}
		if strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0 {
			i++
			continue
		}
		k, n, err := next(rest, d)
		tokens = append(tokens, token{k, rest[:n], i})
		i, open = i+n, err
	}
	return tokens, open
}

// comment is the length of the comment that s begins with, 0 without one. PostgreSQL nests block comments and ends a
// line at a carriage return as well; SQLite does neither.
func comment(s string, d dialect) (int, error) {
	switch {
	case strings.HasPrefix(s, "--"):
		ends := "\n"
		if d == postgres {
			ends = "\r\n"
		}
		if n := strings.IndexAny(s, ends); n >= 0 {
			return n, nil
		}
		return len(s), nil
	case strings.HasPrefix(s, "/*"):
		return block(s, d)
	}
	return 0, nil
}

func block(s string, d dialect) (int, error) {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch {
		case s[i:i+2] == "/*" && (depth == 0 || d == postgres):
			depth++
			i++
		case s[i:i+2] == "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1, nil
		}
	}
	return len(s), errOpenComment
}

// next is the kind and length of the token that s begins with.
func next(s string, d dialect) (kind, int, error) {
	switch c := s[0]; {
	case c == '\'':
		n, err := quote(s, 0, false)
		return literal, n, err
	case c == '"', c == '`' && d == sqlite:
		n, err := quote(s, 0, false)
		return quoted, n, err
	case c == '[' && d == sqlite:
		if n := strings.IndexByte(s, ']'); n >= 0 {
			return quoted, n + 1, nil
		}
		return quoted, len(s), errOpenQuote
	case startsName(c):
		return name(s, d)
	case isDigit(c):
		return literal, 1 + span(s[1:], func(c byte) bool { return inName(c) && c != '$' || c == '.' }), nil
	case c == ':':
		k, n := colon(s)
		return k, n, nil
	case c == '$':
		return dollar(s, d)
	case c == '?' && d == sqlite:
		return foreign, 1 + span(s[1:], isDigit), nil
	case d == sqlite && (c == '@' || c == '#'):
		return foreign, 1 + span(s[1:], inName), nil
	}
	return sign, 1, nil
}

// quote is the length of what stands in quotes of the kind at s[at]. A doubled quote is one of its characters, and with
// escapes so is one behind a backslash.
func quote(s string, at int, escapes bool) (int, error) {
	for i := at + 1; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\':
			i++
		case s[i] != s[at]:
		case i+1 < len(s) && s[i+1] == s[at]:
			i++
		default:
			return i + 1, nil
		}
	}
	return len(s), errOpenQuote
}

// name is a keyword, a plain name, or a literal or quoted name with a prefix, such as x'00', E'\n' or U&"d\0061t".
func name(s string, d dialect) (kind, int, error) {
	n := span(s, inName)
	at, prefix := n, strings.ToUpper(s[:n])
	if prefix == "U" && d == postgres && strings.HasPrefix(s[n:], "&") {
		at, prefix = n+1, "U&"
	}
	if at == len(s) {
		return word, n, nil
	}
	switch {
	case s[at] == '\'' && (prefix == "X" || d == postgres && (prefix == "E" || prefix == "B" || prefix == "N" || prefix == "U&")):
		n, err := quote(s, at, prefix == "E")
		return literal, n, err
	case s[at] == '"' && prefix == "U&":
		n, err := quote(s, at, false)
		return quoted, n, err
	}
	return word, n, nil
}

// colon is a parameter of ours, or a cast of PostgreSQL, or the colon of a slice (a[1:2]) or of an assignment (f(a := 1)).
func colon(s string) (kind, int) {
	if strings.HasPrefix(s, "::") {
		return sign, 2
	}
	if len(s) == 1 || !startsName(s[1]) {
		return sign, 1
	}
	n := 1 + span(s[1:], inParameter)
	if s[1:n] == "caller" && len(s) > n+1 && s[n] == '.' && startsName(s[n+1]) {
		n += 1 + span(s[n+1:], inParameter)
	}
	return parameter, n
}

// dollar is a parameter ($1, in SQLite also $name) or a dollar quote of PostgreSQL.
func dollar(s string, d dialect) (kind, int, error) {
	if d == sqlite {
		return foreign, 1 + span(s[1:], inName), nil
	}
	if n := span(s[1:], isDigit); n > 0 {
		return foreign, 1 + n, nil
	}
	tag := 1 + span(s[1:], inParameter)
	if tag == len(s) || s[tag] != '$' {
		return sign, 1, nil
	}
	delimiter := s[:tag+1]
	if n := strings.Index(s[tag+1:], delimiter); n >= 0 {
		return literal, n + 2*len(delimiter), nil
	}
	return literal, len(s), errOpenQuote
}

func span(s string, in func(byte) bool) int {
	for i := range len(s) {
		if !in(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// startsName, inName and inParameter take every byte outside of ASCII for a letter, as both databases do.
func startsName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

func inName(c byte) bool { return inParameter(c) || c == '$' }

func inParameter(c byte) bool { return startsName(c) || isDigit(c) }
