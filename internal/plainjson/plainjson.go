// Package plainjson knows texts that need no work: nearly all keys, names and short values are such, and those who write many
// of them look first.
package plainjson

// Text says whether a text is a JSON string as it stands between quotes: ASCII characters that are not escaped.
func Text[T ~string | ~[]byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
