package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestScanRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "  ", "empty, want a JSON object at byte 2"},
		{"a list", "[1]", "want a JSON object at byte 0"},
		{"text behind", `{"a":1} x`, "text after the JSON object at byte 8"},
		{"a key without quotes", `{a:1}`, "want a key in double quotes at byte 1"},
		{"a missing colon", `{"a" 1}`, "want a colon at byte 5"},
		{"a missing comma", `{"a":1 "b":2}`, "want a comma or } at byte 7"},
		{"a trailing comma", `{"a":1,}`, "want a key in double quotes at byte 7"},
		{"a string without its end", `{"a":"b\"}`, "string without its end at byte 5"},
		{"a list without its end", `{"a":[1,{"b":2}`, "bracket without its end at byte 5"},
		{"brackets that do not match", `{"a":[1}}`, "bracket does not match at byte 7"},
		{"a bare word", `{"a":yes}`, "want a JSON value at byte 5"},
		{"a cut object", `{"a":1`, "unexpected end, want a comma or } at byte 6"},
		{"a cut member", `{"a":`, "unexpected end, want a value at byte 5"},
		{"a bad escape in a key", `{"\x":1}`, "bad key at byte 1"},
		{"too many members", "{" + strings.Repeat(`"a":1,`, maxMembers) + `"b":1}`, "too many members in one object at byte 6006"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Scan([]byte(tt.text))
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || err.Error() != tt.want {
				t.Errorf("Scan() error = %v, want %s", err, tt.want)
			}
		})
	}
}

// FuzzScan holds Scan against encoding/json: for what that takes as an object, both find the same values under the same
// keys, the last one of each.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { "a" : 1 , "b":[{"c":"]}"}] } `, `{"\u0061":"x\\\"","a":null}`, `{"a":"` + strings.Repeat(`\\`, 9) + `"}`,
		`{"a":1.50,"b":-0,"c":1e3,"d":true}`, `{"a":"é\ud83d\ude00"}`, `{"tools":[],"tools":[1]}`, `{"a":[}`, "{\"a\x00\":1}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members, err := Scan(text)
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil || want == nil {
			return // Scan may take more, as it looks into no nested value
		}
		if err != nil {
			t.Fatalf("Scan() error = %v for valid JSON", err)
		}
		if v := viewOf(text); !slices.Equal(v.members, members) {
			t.Errorf("a view has the members %v, Scan %v", v.members, members)
		}
		got := map[string]string{}
		for _, m := range members {
			got[m.Name] = string(m.Value.of(text))
			if text[m.Key] != '"' {
				t.Errorf("key of %q begins at %q", m.Name, text[m.Key:])
			}
		}
		if len(got) != len(want) {
			t.Errorf("got %d keys, want %d", len(got), len(want))
		}
		for k, v := range want {
			if got[k] != string(v) {
				t.Errorf("%q = %s, want %s", k, got[k], v)
			}
		}
	})
}

// BenchmarkScan is what a request's body costs before it is spliced: the usual 1 KB, and 200 KB of conversation.
func BenchmarkScan(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "200KB": 200 << 10} {
		b.Run(name, func(b *testing.B) {
			body := conversation(size)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Scan(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// conversation is a request of about that size.
func conversation(size int) []byte {
	var buf bytes.Buffer
	buf.WriteString(`{"model":"m","messages":[{"role":"system","content":"x"}`)
	for buf.Len() < size {
		buf.WriteString(`,{"role":"user","content":"` + strings.Repeat("some words of a \\\"question\\\" ", 10) + `"}`)
	}
	buf.WriteString(`],"temperature":0.5,"stream":false}`)
	return buf.Bytes()
}
