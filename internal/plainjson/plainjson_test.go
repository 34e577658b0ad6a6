package plainjson

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
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

func TestAppendQuotedIsWhatEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.String(),
			rapid.StringOf(rapid.SampledFrom([]rune("ab <>&\"\\\n\r\t\b\f\x00\x1f\x7fé⟦\u2027\u2028\u2029\ufffd😀"))),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		).Draw(t, "text")
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := AppendQuoted([]byte("head"), text); string(got) != "head"+string(bytes.TrimSuffix(want.Bytes(), []byte("\n"))) {
			t.Errorf("%q is written %s, want %s", text, got, want.Bytes())
		}
		got, ok := appendUsual([]byte("head"), text)
		if ok && string(got) != "head"+string(bytes.TrimSuffix(want.Bytes(), []byte("\n"))) {
			t.Errorf("%q is written %s, want %s", text, got, want.Bytes())
		}
		if !ok && string(got) != "head" {
			t.Errorf("%q left %q", text, got)
		}
	})
	if _, ok := appendUsual(nil, "⟦data⟧\n{\"a\": \"\\\\\"}\t\r\n"); !ok {
		t.Error("what texts have most often needs a closer look")
	}
}
