package chat

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

func reply(message string) []byte {
	return []byte(`{"id":"x","choices":[{"index":0,"message":` + message + `,"finish_reason":"stop"}]}`)
}

func TestReadReply(t *testing.T) {
	turn, err := ReadReply([]byte(`{"model":"m-1","choices":[{"message":{"role":"assistant","content":[{"type":"text","text":"a"},{"text":"b"}],
		"reasoning":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"a":1}}},null,{"type":"custom","custom":{"name":"g","input":"i"}}]},
		"finish_reason":"eos_token"}],"usage":{"total_tokens":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	if turn.Text != "ab" || !turn.Reasoning || turn.Finish != FinishStop || turn.Model != "m-1" || string(turn.Usage) != `{"total_tokens":3}` {
		t.Errorf("ReadReply() = %+v", turn)
	}
	if len(turn.Calls) != 2 || turn.Calls[0].Name != "f" || string(turn.Calls[0].Arguments) != `{"a":1}` || !turn.Calls[1].Custom || turn.Calls[1].Name != "g" {
		t.Errorf("calls = %+v", turn.Calls)
	}
}

func TestReadReplyTakesTheFormBeforeTools(t *testing.T) {
	turn, err := ReadReply(append([]byte("\xef\xbb\xbf"), reply(`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`)...))
	if err != nil {
		t.Fatal(err)
	}
	echo, err := turn.Echo([]Mend{{ID: "abc", Name: "f", Arguments: "{}"}})
	want := `{"role":"assistant","content":null,"tool_calls":[{"id":"abc","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	if diff := cmp.Diff(want, string(echo)); err != nil || diff != "" {
		t.Errorf("Echo() error %v, (-want +got):\n%s", err, diff)
	}
}

func TestReadReplyTakesCallsInOtherShapes(t *testing.T) {
	for _, calls := range []string{
		`{"id":"abc","type":"function","function":{"name":"f","arguments":"{}"}}`,
		`[{"id":"abc","type":"function","name":"f","arguments":"{}"}]`,
	} {
		turn, err := ReadReply(reply(`{"role":"assistant","content":null,"tool_calls":` + calls + `}`))
		if err != nil || len(turn.Calls) != 1 || turn.Calls[0].Name != "f" {
			t.Errorf("%s: %v, %+v", calls, err, turn)
			continue
		}
		echo, err := turn.Echo([]Mend{{ID: "abc", Name: "f", Arguments: "{}"}})
		want := `{"role":"assistant","content":null,"tool_calls":[{"id":"abc","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		if diff := cmp.Diff(want, string(echo)); err != nil || diff != "" {
			t.Errorf("%s: Echo() error %v, (-want +got):\n%s", calls, err, diff)
		}
	}
}

func TestContentInPartsIsTextForTheClient(t *testing.T) {
	turn, err := ReadReply(reply(`{"role":"assistant","content":[{"type":"thinking","thinking":[]},{"type":"text","text":"a"},{"type":"text","text":"b"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := turn.ReplyFor(ReplyEdits{Finish: FinishStop, Fallback: Envelope{ID: "i", Created: "1", Model: "m"}})
	if text := gjson.GetBytes(got, "choices.0.message.content"); err != nil || text.Raw != `"ab"` {
		t.Errorf("content = %s, error %v", text.Raw, err)
	}
	streamed := assemble(t, `{"content":""}`, `{"content":[{"type":"thinking","thinking":[]}]}`, `{"content":"a"}`, `{"content":"b"}`)
	if want := `{"role":"assistant","content":[{"type":"thinking","thinking":[]},{"type":"text","text":"ab"}]}`; streamed.Text != "ab" || string(streamed.Message) != want {
		t.Errorf("text %q, message %s", streamed.Text, streamed.Message)
	}
}

func TestReadReplyRefusesWhatIsNoCompletion(t *testing.T) {
	for _, text := range []string{``, `<html>`, `{}`, `{"choices":[]}`, `{"choices":null}`, `{"choices":[{"message":null}]}`, `{"choices":[`, `[]`} {
		var fault *Fault
		if _, err := ReadReply([]byte(text)); !errors.As(err, &fault) {
			t.Errorf("ReadReply(%s) error = %v, want a Fault", text, err)
		}
	}
	for text, want := range map[string]string{
		`{"error":{"message":"no quota"}}`:              "no quota",
		`{"error":"plain text"}`:                        "plain text",
		`{"error":{"detail":"by detail"},"choices":[]}`: "by detail",
		`{"object":"error","message":"by message"}`:     "by message",
		`{"detail":"alone"}`:                            "alone",
		`{"error":{"message":"beside"},"choices":[{"message":{"content":""},"finish_reason":"error"}]}`: "beside",
		`{"choices":[{"message":{"content":""},"error":{"message":"inside"}}]}`:                         "inside",
	} {
		var failure *ErrorReply
		if _, err := ReadReply([]byte(text)); !errors.As(err, &failure) || failure.Message() != want {
			t.Errorf("ReadReply(%s) error = %v, want an ErrorReply of %q", text, err, want)
		}
	}
}

func TestFinishReasonIsOfOpenAIsList(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "stop": "stop", "STOP": "stop", "eos_token": "stop", "length": "length", "MAX_TOKENS": "length", "tool_use": "tool_calls",
		"function_call": "tool_calls", "SAFETY": "content_filter", "weird": "stop",
	} {
		if got := finishReason(given); got != want {
			t.Errorf("finishReason(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestEchoKeepsWhatCameAndMendsTheRest(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		mends         []Mend
		want          string
	}{
		{
			"a good turn keeps its bytes, unknown fields and blanks too",
			`{"role": "assistant","content":null, "reasoning_content":"r","tool_calls":[{"id":"c1", "type":"function","function":{"name":"f","arguments":"{ }"},"extra_content":{"s":1.0}}]}`,
			[]Mend{{"c1", "f", "{ }"}},
			`{"role": "assistant","content":null, "reasoning_content":"r","tool_calls":[{"id":"c1", "type":"function","function":{"name":"f","arguments":"{ }"},"extra_content":{"s":1.0}}]}`,
		},
		{
			"an object becomes a text, a missing id and type are put in",
			`{"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}},"x":1}]}`,
			[]Mend{{"abc", "f", `{"a":1}`}},
			`{"content":"","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"},"x":1,"id":"abc","type":"function"}],"role":"assistant"}`,
		},
		{
			"a name and a double id are mended, the legacy twin goes",
			`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c","type":"function","function":{"name":" functions.g","arguments":"{}"}}],"function_call":{"name":"f"}}`,
			[]Mend{{"c", "f", "{}"}, {"d", "g", "{}"}},
			`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			turn, err := ReadReply(reply(tt.message))
			if err != nil {
				t.Fatal(err)
			}
			got, err := turn.Echo(tt.mends)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Echo() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplyForEditsOnlyWhatItMust(t *testing.T) {
	text := "It is done."
	fallback := Envelope{ID: "chatcmpl-own", Created: "7", Model: "m"}
	for _, tt := range []struct {
		name, reply string
		edits       ReplyEdits
		want        string
	}{
		{
			"a whole reply keeps its bytes",
			`{ "id":"a","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}], "y": 1.0}`,
			ReplyEdits{Finish: "stop"},
			`{ "id":"a","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}], "y": 1.0}`,
		},
		{
			"what strict SDKs need is filled in",
			`{"choices":[{"message":{"content":"hi"},"finish_reason":"eos"},{"message":{"content":"other"}}]}`,
			ReplyEdits{Finish: "stop"},
			`{"choices":[{"message":{"content":"hi","role":"assistant"},"finish_reason":"stop","index":0}],"id":"chatcmpl-own","object":"chat.completion","created":7,"model":"m"}`,
		},
		{
			"calls go, content, usage and trace come",
			`{"id":"a","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c"}],"function_call":{}},"finish_reason":"tool_calls"}],"usage":{"total_tokens":1}}`,
			ReplyEdits{Finish: "stop", Content: &text, Usage: []byte(`{"total_tokens":3}`), Gateway: []byte(`{"id":"run"}`)},
			`{"id":"a","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"It is done."},"finish_reason":"stop"}],"usage":{"total_tokens":3},"gateway":{"id":"run"}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			turn, err := ReadReply([]byte(tt.reply))
			if err != nil {
				t.Fatal(err)
			}
			tt.edits.Fallback = fallback
			got, err := turn.ReplyFor(tt.edits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("ReplyFor() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplyForATurnThatCameAsAStream(t *testing.T) {
	var a Assembler
	c, err := ReadChunk([]byte(`{"model":"x","choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	a.Add(c)
	got, err := a.Turn().ReplyFor(ReplyEdits{Finish: "stop", Fallback: Envelope{ID: "i", Created: "7", Model: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"i","object":"chat.completion","created":7,"model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":1}}`
	if string(got) != want {
		t.Errorf("ReplyFor() = %s, want %s", got, want)
	}
}

func TestAddUsage(t *testing.T) {
	for _, tt := range []struct{ name, a, b, want string }{
		{"nothing and something", ``, `{"a":1}`, `{"a":1}`},
		{"every numeric leaf", `{"a":1,"d":{"x":2}}`, `{"a":2,"d":{"x":3,"y":1},"new":4}`, `{"a":3,"d":{"x":5,"y":1},"new":4}`},
		{"null says nothing", `{"a":1,"d":null}`, `{"a":null,"d":{"x":1}}`, `{"a":1,"d":{"x":1}}`},
		{"large numbers and decimals exactly", `{"a":9007199254740993,"c":0.1}`, `{"a":1,"c":0.2}`, `{"a":9007199254740994,"c":0.3}`},
		{"decimals of many places", `{"a":1e-20,"b":-1e-20}`, `{"a":1e-20,"b":1e-20}`, `{"a":0.00000000000000000002,"b":0}`},
		{"keys with dots", `{"a.b":1}`, `{"a.b":2}`, `{"a.b":3}`},
		{"keys that are written in two ways", `{"a\u0062":1}`, `{"ab":2}`, `{"a\u0062":3}`},
		{"blanks", "{ \"a\" : 1 ,\n\"b\":2 } ", `{"b" : 3, "c" : 4}`, "{ \"a\" : 1 ,\n\"b\":5 ,\"c\" : 4}"},
		{"nothing to something", `{}`, `{"a":1,"b":{}}`, `{"a":1,"b":{}}`},
		{"something to nothing", `{"a":1}`, `{}`, `{"a":1}`},
		{"another type", `{"a":1,"b":[1],"c":{"x":1}}`, `{"a":"x","b":[2],"c":null}`, `{"a":"x","b":[2],"c":{"x":1}}`},
		{"what is no object", `{"a":1}`, `[1]`, `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AddUsage(json.RawMessage(tt.a), json.RawMessage(tt.b))); got != tt.want {
				t.Errorf("AddUsage() = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestReadTokens(t *testing.T) {
	got := ReadTokens([]byte(`{"prompt_tokens":5,"completion_tokens":-3,"prompt_tokens_details":{"cached_tokens":2}}`))
	if want := (Tokens{Prompt: 5, Cached: 2, Total: 5}); got != want {
		t.Errorf("ReadTokens() = %+v, want %+v", got, want)
	}
}
