// Package sqltool is the kind of tool that asks a database.
package sqltool

import "strings"

// Statements counts the statements of an SQL text. Semicolons inside literals, quoted names, dollar quotes and comments
// part nothing, and one at the end begins no further statement.
func Statements(query string) int {
	n, some := 0, false
	for i := 0; i < len(query); {
		rest := query[i:]
		if skip := comment(rest); skip > 0 {
			i += skip
			continue
		}
		switch c := rest[0]; {
		case c == ';':
			some = false
			i++
		case strings.IndexByte(" \t\r\n\f\v", c) >= 0:
			i++
		default:
			if !some {
				some = true
				n++
			}
			i += max(quoted(rest), 1)
		}
	}
	return n
}

// comment is the length of the comment that s begins with, 0 without one. PostgreSQL nests block comments.
func comment(s string) int {
	if strings.HasPrefix(s, "--") {
		if end := strings.IndexByte(s, '\n'); end >= 0 {
			return end
		}
		return len(s)
	}
	if !strings.HasPrefix(s, "/*") {
		return 0
	}
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(s)
}

// quoted is the length of the literal or quoted name that s begins with, 0 without one.
func quoted(s string) int {
	switch s[0] {
	case '\'', '"', '`':
		for i := 1; i < len(s); i++ {
			if s[i] == s[0] {
				if i+1 < len(s) && s[i+1] == s[0] { // doubled: one of the characters
					i++
					continue
				}
				return i + 1
			}
		}
		return len(s)
	case '$':
		tag := strings.IndexByte(s[1:], '$')
		if tag < 0 || strings.ContainsAny(s[1:1+tag], " \t\r\n'\";(),") || tag > 0 && s[1] >= '0' && s[1] <= '9' {
			return 0
		}
		delimiter := s[:tag+2]
		end := strings.Index(s[len(delimiter):], delimiter)
		if end < 0 {
			return len(s)
		}
		return end + 2*len(delimiter)
	}
	return 0
}
