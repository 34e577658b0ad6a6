// Package plainjson knows texts that need no work, or little: nearly all keys, names and values are such, and those who write
// many of them look first.
package plainjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text says whether a text is a JSON string as it stands between quotes: ASCII characters that are not escaped.
func Text[T ~string | ~[]byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// short are the characters that JSON escapes by a letter, and that texts have most often.
var short = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't'}

// AppendQuoted appends s to b as a JSON string, as encoding/json writes it without HTML's escapes.
func AppendQuoted(b []byte, s string) []byte {
	if b, ok := appendUsual(b, s); ok {
		return b
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// appendUsual is AppendQuoted of most texts, for a fraction of the time. ok is false, and b as it was, where s has what needs
// a closer look: other control characters, separators of lines and bytes that are no UTF-8.
func appendUsual(b []byte, s string) (_ []byte, ok bool) {
	if strings.Contains(s, "\u2028") || strings.Contains(s, "\u2029") || !utf8.ValidString(s) {
		return b, false
	}
	start := len(b)
	b = append(slices.Grow(b, len(s)+2), '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf || c >= ' ' && short[c] == 0 {
			continue
		}
		if short[c] == 0 {
			return b[:start], false
		}
		b = append(append(b, s[done:i]...), '\\', short[c])
		done = i + 1
	}
	return append(append(b, s[done:]...), '"'), true
}
