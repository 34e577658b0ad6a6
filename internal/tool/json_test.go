package tool

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// TestPlainObjectsAreEncodedAsAnyOther holds the short way against encoding/json.
func TestPlainObjectsAreEncodedAsAnyOther(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b c", "<&>", "\"", "\\", "\x00", "\x7f", "é", "\u2028", "\xff"}), rapid.StringMatching(`[ -~]{0,8}`))
	number := rapid.SampledFrom([]string{"0", "-0", "7", "-12", "1.0", "1e3", "9223372036854775807", "9223372036854775808", "007"})
	short := 0
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{}
		if rapid.IntRange(0, 9).Draw(t, "none") == 0 {
			object = nil
		}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			var value any
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				value = json.Number(number.Draw(t, "number"))
			case 1:
				value = rapid.Bool().Draw(t, "bool")
			case 2:
				value = rapid.SampledFrom([]any{nil, 1.5, []any{"x"}, map[string]any{"b": json.Number("1"), "a": nil}}).Draw(t, "other")
			default:
				value = text.Draw(t, "text")
			}
			if object != nil {
				object[text.Draw(t, "key")] = value
			}
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if e.Encode(object) != nil {
			want.Reset()
			want.WriteString("null")
		}
		if got := EncodeJSON(object); !bytes.Equal(got, bytes.TrimSuffix(want.Bytes(), []byte("\n"))) {
			t.Errorf("EncodeJSON(%v) = %s, want %s", object, got, want.Bytes())
		}
		if object != nil && encodePlain(object) != nil {
			short++
		}
	})
	if short == 0 {
		t.Error("no object took the short way")
	}
}
