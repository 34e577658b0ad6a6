package httptool

import (
	"encoding/json"
	"net/url"
	"testing"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/tool"
)

// FuzzBody: whatever an argument holds, it stays in its place: a JSON text stays the same JSON with that string in it,
// a form the same form.
func FuzzBody(f *testing.F) {
	for _, s := range []string{"", "a", `"`, `\`, `","admin":true,"x":"`, "</a><b>", "a&b=c", "\n\x00", "é\u2028", "{v}"} {
		f.Add(s)
	}
	bodies := func(yaml string) func(tool.Call) []byte {
		c, file := load(`{url: "http://h", `+yaml+`}`, spec(tool.Write, "v"), nil)
		if p := file.Problems(); p != nil {
			f.Fatal(p)
		}
		return c.plan.body.encode
	}
	text := bodies(`body: '{"a": "{v}", "b": {v}, "c": 1}'`)
	tree := bodies(`body: {a: "{v}", b: "{v}", c: 1}`)
	form := bodies(`body: 'a={v}&c=1', content_type: application/x-www-form-urlencoded`)
	f.Fuzz(func(t *testing.T, value string) {
		c := tool.Call{Args: map[string]any{"v": value}}
		for _, encode := range []func(tool.Call) []byte{text, tree} {
			var got map[string]any
			if err := json.Unmarshal(encode(c), &got); err != nil {
				t.Fatalf("%q: %v in %s", value, err, encode(c))
			}
			if len(got) != 3 || got["c"] != 1.0 || utf8.ValidString(value) && (got["a"] != value || got["b"] != value) {
				t.Fatalf("%q is read back from %s", value, encode(c))
			}
		}
		got, err := url.ParseQuery(string(form(c)))
		if err != nil || len(got) != 2 || got.Get("a") != value || got.Get("c") != "1" {
			t.Fatalf("%q is read back from %s: %v", value, form(c), err)
		}
	})
}
