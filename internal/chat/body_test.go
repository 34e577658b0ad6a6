package chat

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestBodySplices(t *testing.T) {
	const odd = `{ "messages" : [ {"a": 1.0} , {"b":"\u00e9"} ] ,` + "\n" + ` "model":"m",  "seed": 12345678901234567890, "tools":[ ] }`
	for _, tt := range []struct {
		name, body string
		edits      Edits
		want       string
	}{
		{"nothing to change keeps every byte between the braces", odd, Edits{}, `{` + strings.TrimSpace(odd[1:len(odd)-1]) + `}`},
		{
			"messages go before and behind", odd,
			Edits{Before: []byte(`{"s":0}`), After: []json.RawMessage{[]byte(`{"x":1}`), []byte(`{"y":2}`)}},
			`{"messages" : [{"s":0}, {"a": 1.0} , {"b":"\u00e9"} ,{"x":1},{"y":2}],"model":"m",  "seed": 12345678901234567890, "tools":[ ]}`,
		},
		{
			"messages take the place of the client's", `{"messages": [{"a":1}],"model":"m"}`,
			Edits{Messages: []byte(`[{"b":2},{"c":3}]`), Before: []byte(`{"s":0}`), After: []json.RawMessage{[]byte(`{"x":1}`)}},
			`{"messages": [{"s":0},{"b":2},{"c":3},{"x":1}],"model":"m"}`,
		},
		{
			"tools go behind the client's", `{"model":"m","messages":[1],"tools":[{"t":1}],"x":1}`,
			Edits{Tools: []byte(`{"t":2},{"t":3}`)},
			`{"model":"m","messages":[1],"tools":[{"t":1},{"t":2},{"t":3}],"x":1}`,
		},
		{
			"tools go into an empty list", odd,
			Edits{Tools: []byte(`{"t":2}`)},
			`{"messages" : [ {"a": 1.0} , {"b":"\u00e9"} ] ,` + "\n" + ` "model":"m",  "seed": 12345678901234567890, "tools":[ {"t":2}]}`,
		},
		{"tools take the place of null", `{"model":"m","messages":[1],"tools":null}`, Edits{Tools: []byte(`{"t":2}`)}, `{"model":"m","messages":[1],"tools":[{"t":2}]}`},
		{"tools are added", `{"model":"m","messages":[1]}`, Edits{Tools: []byte(`{"t":2}`)}, `{"model":"m","messages":[1],"tools":[{"t":2}]}`},
		{
			"a value is replaced, another added", `{"model":"m","messages":[1],"tool_choice":"required"}`,
			Edits{Set: []Pair{{"tool_choice", []byte(`"auto"`)}, {"n", []byte(`1`)}}},
			`{"model":"m","messages":[1],"tool_choice":"auto","n":1}`,
		},
		{
			"a default gives way to the client's value", `{"model":"m","messages":[1],"top_p":0.50}`,
			Edits{Default: []Pair{{"top_p", []byte(`1`)}, {"seed", []byte(`7`)}}},
			`{"model":"m","messages":[1],"top_p":0.50,"seed":7}`,
		},
		{
			"members are taken out, first, middle and last", `{"tools":[1],"model":"m","tool_choice":"x","messages":[1],"parallel_tool_calls":true}`,
			Edits{Drop: []string{"tools", "tool_choice", "parallel_tool_calls"}, Tools: []byte("{}")},
			`{"model":"m","messages":[1]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			body := r.Body(tt.edits)
			if diff := cmp.Diff(tt.want, string(body.Bytes())); diff != "" {
				t.Errorf("Body() (-want +got):\n%s", diff)
			}
			if body.Len() != int64(len(body.Bytes())) {
				t.Errorf("Len() = %d, want %d", body.Len(), len(body.Bytes()))
			}
			if !json.Valid(body.Bytes()) {
				t.Error("Body() is not valid JSON")
			}
		})
	}
}

// Whatever the client's members, in whatever order and spacing, edits of some leave the values of all others as they are.
func TestBodyLeavesOtherMembersAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blank := rapid.SampledFrom([]string{"", " ", "\n\t"})
		var text strings.Builder
		text.WriteString("{" + blank.Draw(t, "blank"))
		names := rapid.Permutation([]string{"model", "messages", "tools", "a", "b", "tool_choice"}).Draw(t, "names")
		values := map[string]string{"model": `"m"`, "messages": `[{"x":1.0}]`, "tools": `[{"t":0}]`, "a": `{"k":[1.50]}`, "b": `"}\""`, "tool_choice": `"required"`}
		for i, name := range names {
			if i > 0 {
				text.WriteString(blank.Draw(t, "blank") + "," + blank.Draw(t, "blank"))
			}
			text.WriteString(`"` + name + `"` + blank.Draw(t, "blank") + ":" + blank.Draw(t, "blank") + values[name])
		}
		text.WriteString(blank.Draw(t, "blank") + "}")
		r, err := ParseRequest([]byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		e := Edits{}
		changed := map[string]bool{}
		if rapid.Bool().Draw(t, "drop") {
			e.Drop, changed["a"] = []string{"a"}, true
		}
		if rapid.Bool().Draw(t, "set") {
			e.Set, changed["model"] = []Pair{{"model", []byte(`"other"`)}}, true
		}
		if rapid.Bool().Draw(t, "tools") {
			e.Tools, changed["tools"] = []byte(`{"t":1}`), true
		}
		if rapid.Bool().Draw(t, "after") {
			e.After, changed["messages"] = []json.RawMessage{[]byte(`{}`)}, true
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(r.Body(e).Bytes(), &got); err != nil {
			t.Fatalf("Body() is no JSON: %v: %s", err, r.Body(e).Bytes())
		}
		for name, v := range values {
			if !changed[name] && string(got[name]) != v {
				t.Errorf("%s = %s, want %s", name, got[name], v)
			}
		}
		if _, there := got["a"]; there && changed["a"] {
			t.Error("a is still there")
		}
	})
}

func TestBodyCanBeReadInAnyPiecesAndAgain(t *testing.T) {
	r, err := ParseRequest([]byte(`{"model":"m","messages":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	body := r.Body(Edits{Tools: []byte(`{"t":1}`), After: []json.RawMessage{[]byte(`2`)}})
	for size := 1; size < 12; size++ {
		var got bytes.Buffer
		if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{body.Reader()}, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if got.String() != string(body.Bytes()) {
			t.Errorf("read by %d bytes: got %s, want %s", size, got.String(), body.Bytes())
		}
	}
}

// BenchmarkBody is the cost of a step's request body: it must not grow with the conversation.
func BenchmarkBody(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "200KB": 200 << 10} {
		b.Run(name, func(b *testing.B) {
			r, err := ParseRequest(conversation(size))
			if err != nil {
				b.Fatal(err)
			}
			e := Edits{Tools: []byte(`{"type":"function"}`), After: []json.RawMessage{[]byte(`{}`), []byte(`{}`)}}
			b.ReportAllocs()
			for b.Loop() {
				r.Body(e)
			}
		})
	}
}
