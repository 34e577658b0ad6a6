package plainjson

import (
	"encoding/json"
	"testing"
)

func TestText(t *testing.T) {
	for c := range 256 {
		text := "a" + string([]byte{byte(c)})
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if Text(text) && string(encoded) != `"`+text+`"` && c != '<' && c != '>' && c != '&' { // which HTML alone wants escaped
			t.Errorf("%q is taken as it stands, and is %s", text, encoded)
		}
		if !Text(text) && c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			t.Errorf("%q is not taken as it stands", text)
		}
	}
	if !Text([]byte("x y")) || !Text("") {
		t.Error("what is plain is not taken")
	}
}
