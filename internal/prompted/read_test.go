package prompted

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/chat"
)

var known = New(slices.Values([]string{"get_weather", "get_time", "cep"}))

// said is calls as "name arguments", parted by a bar.
func said(t *testing.T, calls []chat.Call) string {
	t.Helper()
	var all []string
	for _, c := range calls {
		var raw struct {
			Type     string
			Function struct{ Name, Arguments string }
		}
		var arguments string
		if err := json.Unmarshal(c.Arguments, &arguments); err != nil {
			t.Fatalf("the arguments are no string: %s", c.Arguments)
		}
		if err := json.Unmarshal(c.Raw, &raw); err != nil || raw.Type != "function" || raw.Function.Name != c.Name || raw.Function.Arguments != arguments {
			t.Fatalf("the call %s is another one than %s %s (%v)", c.Raw, c.Name, arguments, err)
		}
		all = append(all, c.Name+" "+arguments)
	}
	return strings.Join(all, "|")
}

var readable = []struct{ name, text, want string }{
	{"hermes", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Lima\"}}\n</tool_call>", `get_weather {"city":"Lima"}`},
	{"two of hermes", "<tool_call>{\"name\":\"cep\",\"arguments\":{\"n\":1.50}}</tool_call>\n<tool_call>{\"name\":\"get_time\",\"arguments\":{}}</tool_call>", `cep {"n":1.50}|get_time {}`},
	{"hermes without an end", "<tool_call>\n{\"name\": \"cep\", \"arguments\": {}}\n", `cep {}`},
	{"hermes with arguments as text", `<tool_call>{"name":"cep","arguments":"{\"n\": 1}"}</tool_call>`, `cep {"n": 1}`},
	{"hermes without arguments", `<tool_call>{"name":"cep"}</tool_call>`, `cep {}`},
	{"hermes with more fields", `<tool_call>{"name":"cep","arguments":{},"reason":"x"}</tool_call>`, `cep {}`},
	{"hermes with the end of a turn", "<tool_call>{\"name\":\"cep\",\"arguments\":{}}</tool_call><|im_end|>", `cep {}`},
	{"mistral", `[TOOL_CALLS] [{"name": "cep", "arguments": {"n": 1}}, {"name": "get_time", "arguments": {}}]</s>`, `cep {"n":1}|get_time {}`},
	{"mistral, newer", `[TOOL_CALLS]cep[ARGS]{"n": 1}[TOOL_CALLS]get_time{}`, `cep {"n": 1}|get_time {}`},
	{"mistral with an id", `[TOOL_CALLS]cep[CALL_ID]abc123456[ARGS]{"n": 1}`, `cep {"n": 1}`},
	{"llama", `<|python_tag|>{"name": "cep", "parameters": {"n": 1}}; {"name": "get_time", "parameters": {}}<|eom_id|>`, `cep {"n":1}|get_time {}`},
	{"bare", ` {"name": "get_weather", "arguments": {"city": "S\u00e3o"}} `, `get_weather {"city":"S\u00e3o"}`},
	{"bare with parameters", `{"name":"cep","parameters":{}}`, `cep {}`},
	{"arguments first", `{"arguments":{"n":1},"name":"cep"}`, `cep {"n":1}`},
	{"of OpenAI's form", `{"type":"function","function":{"name":"cep","arguments":"{}"}}`, `cep {}`},
	{"function as the name", `{"function":"cep","arguments":{}}`, `cep {}`},
	{"lines", "{\"name\":\"cep\",\"arguments\":{}}\n{\"name\":\"get_time\",\"arguments\":{}}", `cep {}|get_time {}`},
	{"list", `[{"name":"cep","arguments":{}},{"name":"get_time","arguments":{}}]`, `cep {}|get_time {}`},
	{"fence", "```json\n{\"name\":\"cep\",\"arguments\":{\"n\":1}}\n```", `cep {"n":1}`},
	{"fence without a name", "```\r\n[{\"name\":\"cep\",\"arguments\":{}}]\r\n```\r\n", `cep {}`},
}

func TestRead(t *testing.T) {
	for _, tt := range readable {
		if got := said(t, known.Read(tt.text)); got != tt.want {
			t.Errorf("%s: %q reads as %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
}

func TestReadTakesNoAnswerForACall(t *testing.T) {
	for _, text := range []string{
		"", " ", "It is 21 C.", "{}", "[]", "null", "```json\n```", "```", "<tool_call>", "<tool_call></tool_call>", "[TOOL_CALLS]", "[TOOL_CALLS] []", "<|python_tag|>",
		`{"name":"Ana","arguments":{}}`,                                          // no tool
		`{"name":"cep"}`,                                                         // an object like any other
		`{"name":"cep","arguments":{},"answer":"x"}`,                             // says more than a call
		`{"name":"cep","arguments":[1]}`,                                         // arguments are an object
		`{"type":"cep","name":"cep","arguments":{}}`,                             // no function
		`Here it is: {"name":"cep","arguments":{}}`,                              // prose before
		`{"name":"cep","arguments":{}} as you asked`,                             // prose behind
		`<tool_call>{"name":"cep","arguments":{}}</tool_call> done`,              // likewise
		`<tool_call>{"name":"other","arguments":{}}</tool_call>`,                 // no tool
		`[{"name":"cep","arguments":{}},{"name":"other","arguments":{}}]`,        // not all are tools
		`[{"name":"cep","arguments":{}}, 1]`,                                     // not all are calls
		`{"name":"cep","arguments":{}`,                                           // cut
		"```python\n{\"name\":\"cep\",\"arguments\":{}}\n```",                    // a program
		"```json\n{\"name\":\"cep\",\"arguments\":{}}\n``` That is how it works", // prose behind
		"```json\n{\"name\":\"cep\",\"arguments\":{}}\n",                         // cut
		`<|python_tag|>print("x")`,                                               // a program
		`[TOOL_CALLS]cep`,                                                        // no arguments
		`{"name":"cep","arguments":{"x":"` + strings.Repeat("a", longest) + `"}}`,
	} {
		if got := known.Read(text); got != nil {
			t.Errorf("%.80q reads as %d calls, the first of %s", text, len(got), got[0].Name)
		}
	}
}

func TestMayBeLetsAnswersGo(t *testing.T) {
	for _, text := range []string{
		"I", "  It", "<b", "<tool_x", "[TOOLS", "[1", `{"b`, `{"names"`, `{"name":"A`, `{"name":1`, `{"name" "cep"`, `{"type":"invoice`, "{1", `{}`, "```p", "```json\nx", "```json\n{\"x\"", "``x", `[["`,
		`{"name":"get_weather_of"`, `{"function":1`, `{'name`, "# Title", "\ufeff{",
	} {
		if known.MayBe(text) {
			t.Errorf("%q is held back", text)
		}
	}
}

// Whatever Read reads has been held back at each of its beginnings.
func FuzzMayBe(f *testing.F) {
	for _, tt := range readable {
		f.Add(tt.text)
	}
	f.Add("```json\n{\"name\" : \"cep\" , \"arguments\" : {} }\n```")
	f.Add(`{"name":"c\u0065p","arguments":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		calls := known.Read(text)
		was := true
		for i := range min(len(text), 2*looked) + 1 {
			is := known.MayBe(text[:i])
			if is && !was {
				t.Fatalf("%q may be a call again, which it could not be before", text[:i])
			}
			if !is && calls != nil {
				t.Fatalf("%q is let go and reads as a call", text[:i])
			}
			was = is
		}
		for _, c := range calls {
			if !json.Valid(c.Raw) {
				t.Fatalf("the call %q is no JSON", c.Raw)
			}
		}
	})
}

func BenchmarkMayBe(b *testing.B) {
	for _, text := range []string{strings.Repeat("An answer like any other. ", 8), `{"answer": "` + strings.Repeat("x", 200)} {
		b.Run(text[:10], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if known.MayBe(text) {
					b.Fatal("held back")
				}
			}
		})
	}
}
