package tool

import (
	"bytes"
	"encoding/json"
)

// EncodeJSON is v as compact JSON with sorted keys, in which <, > and & stay as they are. v must be made of JSON's
// own types; anything else becomes null.
func EncodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
