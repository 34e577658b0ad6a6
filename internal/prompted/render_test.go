package prompted

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func TestSystemGolden(t *testing.T) {
	tools := []byte(`{"type":"function","function":{"name":"get_weather","description":"Weather.\nNow.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}, {"type": "function", "function": {"name": "mine"}}`)
	got := System(tools, Choice{Name: "mine"}) + "\n"
	const file = "testdata/system.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := System(nil, Choice{Must: true}); got != "" {
		t.Errorf("without tools there is %q", got)
	}
}

func TestMessages(t *testing.T) {
	for _, tt := range []struct{ name, messages, before, behind, want string }{
		{
			"messages without calls keep their bytes", `[ {"role":"user", "content":"\u00e9"} , {"content":[1.0],"role":"assistant"}]`, "", "",
			`[{"role":"user", "content":"\u00e9"},{"content":[1.0],"role":"assistant"}]`,
		},
		{"a system message is made", `[{"role":"user","content":"x"}]`, "A", "B", `[{"role":"system","content":"A\n\nB"},{"role":"user","content":"x"}]`},
		{"or joined with the client's", `[{"role":"developer","content":"M","name":"n"}]`, "A", "B", `[{"role":"developer","content":"A\n\nM\n\nB","name":"n"}]`},
		{
			"whose parts stay", `[{"role":"system","content":[{"type":"text","text":"M","x":1}]}]`, "A", "B",
			`[{"role":"system","content":[{"type":"text","text":"A"},{"type":"text","text":"M","x":1},{"type":"text","text":"B"}]}]`,
		},
		{
			"calls and results become text, results of one turn in one message",
			`[{"role":"assistant","content":"I look.","r":1,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"b","function":{"name":"g","arguments":"no"}}]},{"role":"tool","tool_call_id":"a","content":"A"},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"B"}]},{"role":"user","content":"x"}]`,
			"", "",
			`[{"role":"assistant","content":"I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>","r":1},{"role":"user","content":"<tool_response>\nA\n</tool_response>\n<tool_response>\nB\n</tool_response>\nAnswer my question with these results, or call another tool."},{"role":"user","content":"x"}]`,
		},
		{
			"the form before tools too", `[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"A"}]`, "", "",
			`[{"role":"assistant","content":"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"},{"role":"user","content":"<tool_response>\nA\n</tool_response>\nAnswer my question with this result, or call another tool."}]`,
		},
	} {
		got, err := Messages(json.RawMessage(tt.messages), tt.before, tt.behind)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A call that is written as text and read again is the same call.
func TestACallAsTextReadsAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arguments, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.OneOf(rapid.String().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.SliceOf(rapid.Bool()).AsAny())).Draw(t, "arguments"))
		if err != nil {
			t.Fatal(err)
		}
		calls := known.Find(rapid.SampledFrom([]string{"", "I look.\n"}).Draw(t, "before") + CallText("cep", string(arguments))).Calls
		if len(calls) != 1 || calls[0].Name != "cep" || gjson.ParseBytes(calls[0].Arguments).Str != oneLine(string(arguments)) {
			t.Errorf("%s reads as %v", arguments, calls)
		}
	})
}
