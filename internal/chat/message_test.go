package chat

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

func TestMessagesAreReadByOnePass(t *testing.T) {
	list := ` [ {"role":"system","content":"Be \"kind\"."} , {"content":null,"role":"assistant","tool_calls":[{"id":"a"}],"x":{"content":"no"}},
		{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"one"},{"type":"text","text":" two"}]}, "odd", {} ]`
	var got []string
	for _, m := range Messages(json.RawMessage(list)) {
		calls := ""
		if m.HasCalls() {
			calls = string(m.Calls)
		}
		got = append(got, strings.Join([]string{m.Role, m.Text(), string(AppendText(nil, m.CallID)), calls}, "|"))
	}
	want := []string{`system|Be "kind".||`, `assistant|||[{"id":"a"}]`, "tool|one two|a|", "|||", "|||"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Messages() (-want +got)\n%s", diff)
	}
	for broken, n := range map[string]int{``: 0, `{}`: 0, `[`: 0, `[]`: 0, `[{"role":"user"}`: 1, `[{"role":"user"},{"role":`: 1, `[{"role" "user"}]`: 0, `[{"role":"user" "x":1}]`: 0, `[{}, nope]`: 1} {
		if got := Messages(json.RawMessage(broken)); len(got) != n {
			t.Errorf("%s has %d messages, want %d", broken, len(got), n)
		}
	}
}

// A message reads as encoding/json and gjson read it.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`[{"role":"user","content":"a\u00e9\ud83d\ude00\n\/"}]`, `[{"role":"assistant","content":["x",{"text":"y"}],"tool_calls":[]}]`,
		`[{"role":"tool","content":"","tool_call_id":"\"c\""}, 1, null, {"a":{"role":"x"}}]`, `[{"content":"\ud83d\ud83d\ude00\ude00"}]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		Messages(json.RawMessage(s)) // whatever it is
		if !json.Valid([]byte(s)) || !utf8.ValidString(s) || strings.Count(s, `"role"`)+strings.Count(s, `"content"`) > 2 || strings.Contains(s, `\u`) && strings.Contains(s, `"\u`) {
			return
		}
		list := gjson.Parse(s)
		if !list.IsArray() {
			return
		}
		got := Messages(json.RawMessage(s))
		if n := len(list.Array()); n != len(got) {
			t.Fatalf("%d messages, want %d", len(got), n)
		}
		for i, m := range list.Array() {
			if string(got[i].Raw) != m.Raw {
				t.Errorf("message %d is %s, want %s", i, got[i].Raw, m.Raw)
			}
			if want := m.Get("content"); m.IsObject() && want.Type == gjson.String {
				var text string
				if err := json.Unmarshal([]byte(want.Raw), &text); err != nil {
					t.Fatal(err)
				}
				if got[i].Text() != text {
					t.Errorf("the text is %q, want %q", got[i].Text(), text)
				}
			}
		}
	})
}

func BenchmarkMessages(b *testing.B) {
	list := []byte(`[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"`+strings.Repeat(`The quick brown fox jumps over the lazy dog; naïve\n`, 95)+`"},{"role":"assistant","content":"Noted."},`, 40), ",") + `]`)
	b.SetBytes(int64(len(list)))
	b.ReportAllocs()
	var text []byte
	for b.Loop() {
		for _, m := range Messages(list) {
			text = m.AppendText(text[:0])
		}
	}
}
