package chat

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// assemble puts deltas together as they would come in one stream.
func assemble(t *testing.T, deltas ...string) *Turn {
	t.Helper()
	var a Assembler
	for _, d := range deltas {
		c, err := ReadChunk([]byte(`{"id":"x","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`))
		if err != nil {
			t.Fatal(err)
		}
		a.Add(c)
	}
	return a.Turn()
}

type madeCall struct{ ID, Name, Arguments string }

func TestAssembleTellsCallsApart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		deltas []string
		want   []madeCall
	}{
		{
			"by index, in any order of pieces",
			[]string{
				`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":"{"}},{"index":0,"function":{"arguments":"1}"}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}`,
			},
			[]madeCall{{"a", "f", `{"x":1}`}, {"b", "g", `{}`}},
		},
		{
			"by id where every index is 0",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{\"y\":"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"2}"}}]}`},
			[]madeCall{{"a", "f", `{}`}, {"b", "f", `{"y":2}`}},
		},
		{
			"by id where there is no index",
			[]string{`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}`, `{"tool_calls":[{"id":"a","function":{"arguments":":1}"}}]}`, `{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}}]}`},
			[]madeCall{{"a", "f", `{"x":1}`}, {"b", "g", `{}`}},
		},
		{
			"by a name after whole arguments where there is neither",
			[]string{`{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\":2}"}}]}`},
			[]madeCall{{"", "f", `{"x":1}`}, {"", "f", `{"x":2}`}},
		},
		{
			"a new id in each piece, the name in the first",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"name":null,"arguments":"1}"}}]}`},
			[]madeCall{{"a", "f", `{"x":1}`}},
		},
		{
			"one id and index for two whole calls",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":2}"}}]}`},
			[]madeCall{{"a", "f", `{"x":1}`}, {"a", "f", `{"x":2}`}},
		},
		{
			"whole arguments that come again, and a name behind them",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}`},
			[]madeCall{{"a", "f", `{"x":1}`}},
		},
		{
			"in place of a list of one",
			[]string{`{"tool_calls":{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}}`, `{"tool_calls":{"index":0,"function":{"arguments":":1}"}}}`},
			[]madeCall{{"a", "f", `{"x":1}`}},
		},
		{
			"with name and arguments beside the id",
			[]string{`{"tool_calls":[{"index":0,"id":"a","name":"f","arguments":"{\"x\""}]}`, `{"tool_calls":[{"index":0,"arguments":":1}"}]}`},
			[]madeCall{{"a", "f", `{"x":1}`}},
		},
		{
			"as function_call, the form before tools",
			[]string{`{"function_call":{"name":"f","arguments":""}}`, `{"function_call":{"arguments":"{\"x\":1}"}}`},
			[]madeCall{{"", "f", `{"x":1}`}},
		},
		{
			"one id at two indexes is two calls",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `{"tool_calls":[{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}]}`},
			[]madeCall{{"a", "f", `{}`}, {"a", "g", `{}`}},
		},
		{
			"gaps between indexes make no empty calls",
			[]string{`{"tool_calls":[{"index":3,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `{"tool_calls":[{"index":7,"id":"b","function":{"name":"g","arguments":"{}"}}]}`},
			[]madeCall{{"a", "f", `{}`}, {"b", "g", `{}`}},
		},
		{
			"empty and null fields are no values",
			[]string{`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":null}}]}`, `{"tool_calls":[{"index":0,"id":"","type":null,"function":{"name":"","arguments":"{}"}}]}`, `{"tool_calls":null,"content":null}`},
			[]madeCall{{"a", "f", `{}`}},
		},
		{
			"a name that comes with each delta, or grows, is one name",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get","arguments":""}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_x","arguments":"{"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_x","arguments":"}"}}]}`},
			[]madeCall{{"a", "get_x", `{}`}},
		},
		{
			"a name in pieces before the arguments is joined",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"{}"}}]}`},
			[]madeCall{{"a", "get_x", `{}`}},
		},
		{
			"an object in the place of the arguments' text",
			[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1.0}}}]}`},
			[]madeCall{{"a", "f", `{"x":1.0}`}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []madeCall
			for _, c := range assemble(t, tt.deltas...).Calls {
				text := string(c.Arguments)
				_ = json.Unmarshal(c.Arguments, &text)
				got = append(got, madeCall{c.ID, c.Name, text})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAssembleKeepsFieldsThatItDoesNotKnow(t *testing.T) {
	turn := assemble(t,
		`{"role":"assistant","content":"","reasoning_content":"think "}`,
		`{"role":"assistant","reasoning_content":"more","reasoning_details":[{"a":1}]}`,
		`{"content":"Hello","reasoning_details":[{"b":2.0}],"annotations":null}`,
		`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s=="}}}]}`)
	want := `{"role":"assistant","content":"Hello","reasoning_content":"think more","reasoning_details":[{"a":1},{"b":2.0}],"annotations":null,` +
		`"tool_calls":[{"id":"c","type":"function","extra_content":{"google":{"thought_signature":"s=="}},"function":{"name":"f","arguments":"{}"}}]}`
	if diff := cmp.Diff(want, string(turn.Message)); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if turn.Text != "Hello" || !turn.Reasoning {
		t.Errorf("turn = %+v", turn)
	}
}

func TestReadChunk(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		shows      bool
		text       string
	}{
		{"a text delta", `{"choices":[{"delta":{"content":"a"}}]}`, true, "a"},
		{"a message in place of a delta", `{"choices":[{"message":{"content":"a"}}]}`, true, "a"},
		{"a role alone", `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, false, ""},
		{"no choices", `{"choices":[],"usage":{}}`, false, ""},
		{"a choice without a delta", `{"choices":[{"index":0,"content_filter_offsets":{}}]}`, false, ""},
		{"another choice", `{"choices":[{"index":1,"delta":{"content":"a"}}]}`, false, ""},
		{"a refusal", `{"choices":[{"delta":{"refusal":"no"}}]}`, true, ""},
		{"reasoning", `{"choices":[{"delta":{"reasoning":"hm"}}]}`, true, ""},
		{"null fields", `{"choices":[{"delta":{"content":null,"refusal":null,"tool_calls":null}}]}`, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ReadChunk([]byte(tt.data))
			if err != nil {
				t.Fatal(err)
			}
			if c.Shows() != tt.shows || c.Text != tt.text {
				t.Errorf("Shows() = %v, Text = %q; want %v, %q", c.Shows(), c.Text, tt.shows, tt.text)
			}
		})
	}
	for _, data := range []string{"", "null"} {
		if c, err := ReadChunk([]byte(data)); c != nil || err != nil {
			t.Errorf("ReadChunk(%q) = %v, %v, want nothing", data, c, err)
		}
	}
	for _, data := range []string{"{", "[]", `"x"`, `{"error":"x"}`, `{"error":{"message":"x"}}`} {
		if _, err := ReadChunk([]byte(data)); err == nil {
			t.Errorf("ReadChunk(%q) is taken", data)
		}
	}
}

func TestReadChunkFindsErrorsAndUsageInOddPlaces(t *testing.T) {
	for text, want := range map[string]string{
		`{"error":{"message":"beside"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`: "beside",
		`{"choices":[{"delta":{},"error":{"message":"inside"}}]}`:                                     "inside",
		`{"object":"error","message":"alone"}`:                                                        "alone",
	} {
		var failure *ErrorReply
		if _, err := ReadChunk([]byte(text)); !errors.As(err, &failure) || failure.Message() != want {
			t.Errorf("ReadChunk(%s) error = %v, want an ErrorReply of %q", text, err, want)
		}
	}
	for _, text := range []string{
		`{"choices":[{"delta":{},"finish_reason":"stop","usage":{"total_tokens":3}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"total_tokens":3}}}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"error":null,"usage":{"total_tokens":3}}`,
	} {
		if c, err := ReadChunk([]byte(text)); err != nil || string(c.Usage) != `{"total_tokens":3}` {
			t.Errorf("ReadChunk(%s) = %+v, error %v", text, c, err)
		}
	}
}

func TestChunkInEnvelope(t *testing.T) {
	e := Envelope{ID: "i", Created: "7", Model: "m"}
	const whole = `{"id":"i", "object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null,"logprobs":null}],"x":1.0}`
	for _, tt := range []struct {
		name, data string
		role       bool
		want       string
	}{
		{"a chunk that fits keeps its bytes", whole, false, whole},
		{"the role is put in once", whole, true, strings.Replace(whole, `{"content":"a"}`, `{"content":"a","role":"assistant"}`, 1)},
		{"and taken out later", strings.Replace(whole, `{"content":"a"}`, `{"role":"assistant","content":"a"}`, 1), false, whole},
		{"an id that is a number becomes a string", strings.Replace(whole, `"id":"i"`, `"id":5`, 1), false, whole},
		{
			"calls, finish and usage are taken out, the envelope is put in",
			`{"choices":[{"delta":{"content":"a","tool_calls":[{}],"function_call":{}},"finish_reason":"stop"}],"usage":{"x":1}}`, false,
			`{"choices":[{"delta":{"content":"a"},"finish_reason":null,"index":0}],"id":"i","object":"chat.completion.chunk","created":7,"model":"m"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ReadChunk([]byte(tt.data))
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.In(e, tt.role)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("In() (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzAssemble lets a stranger write the deltas: whatever they are, the turn's message is a JSON object, and its calls
// are those of the turn.
func FuzzAssemble(f *testing.F) {
	f.Add(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`, `{"tool_calls":[{"function":{"arguments":"}"}}],"content":"x"}`)
	f.Add(`{"content":[{"text":"a"}],"audio":{"id":1}}`, `{"content":"b","audio":5,"role":{}}`)
	f.Add(`{"tool_calls":[{"id":5,"type":[],"function":[]}]}`, `{"tool_calls":{"a":1}}`)
	f.Add(`{}`, `{"Tool_Calls":[{"id":"a"}]}`) // another member than tool_calls, though encoding/json's structs take it for that
	f.Fuzz(func(t *testing.T, first, second string) {
		var a Assembler
		for _, d := range []string{first, second} {
			c, err := ReadChunk([]byte(`{"choices":[{"delta":` + d + `}]}`))
			if err != nil || c == nil {
				return
			}
			a.Add(c)
		}
		turn := a.Turn()
		var message map[string]json.RawMessage
		if err := json.Unmarshal(turn.Message, &message); err != nil {
			t.Fatalf("message is no JSON object: %v: %s", err, turn.Message)
		}
		var calls []json.RawMessage
		if raw, ok := message["tool_calls"]; ok {
			if err := json.Unmarshal(raw, &calls); err != nil {
				t.Fatalf("tool_calls is no list: %v: %s", err, raw)
			}
		}
		if len(calls) != len(turn.Calls) {
			t.Fatalf("message has %d calls, turn %d", len(calls), len(turn.Calls))
		}
		for i, c := range turn.Calls {
			if string(calls[i]) != string(c.Raw) {
				t.Errorf("call %d: %s is not %s", i, c.Raw, calls[i])
			}
		}
	})
}

// BenchmarkAssemblerOfLongArguments bounds what a delta of arguments costs however long they have become.
func BenchmarkAssemblerOfLongArguments(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				var a Assembler
				add := func(arguments string) {
					c, err := ReadChunk([]byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":` + string(Quote(arguments)) + `}}]}}]}`))
					if err != nil {
						b.Fatal(err)
					}
					a.Add(c)
				}
				add(`{"x":"`)
				for range n {
					add("abcd")
				}
				add(`"}`)
				if len(a.Turn().Calls) != 1 {
					b.Fatal("not one call")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/delta")
		})
	}
}
