package prompted

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const call = `<tool_call>{"name":"cep","arguments":{"n":1}}</tool_call>`
	for _, tt := range []struct{ name, text, calls, before, said string }{
		{"an answer", "It is 21 C, a < b [1] {x}.", "", "It is 21 C, a < b [1] {x}.", "It is 21 C, a < b [1] {x}."},
		{"text around", "I look.\n" + call + "\nOne moment.", `cep {"n":1}`, "I look.\n", "I look.\n" + call},
		{"text between", call + " and " + call, `cep {"n":1}|cep {"n":1}`, "", call + " and " + call},
		{"a result made up", call + "\n<tool_response>x</tool_response>\nIt is x. " + call, `cep {"n":1}`, "", call},
		{"an answer in the tags of a result", "<tool_response>It is x.</tool_response>", "", "It is x.", "<tool_response>It is x.</tool_response>"},
		{"the end of a turn", "It is x.<|im_end|>", "", "It is x.", "It is x.<|im_end|>"},
		{"JSON with text around", `Sure: {"name": "cep", "arguments": {"n": 1}} is it.`, `cep {"n":1}`, "Sure: ", `Sure: {"name": "cep", "arguments": {"n": 1}}`},
		{"JSON of no tool", `I am {"name": "Ana", "arguments": {}}.`, "", `I am {"name": "Ana", "arguments": {}}.`, `I am {"name": "Ana", "arguments": {}}.`},
		{"a fence with text around", "Sure:\n```json\n{\"name\":\"cep\",\"arguments\":{}}\n```\nDone.", `cep {}`, "Sure:\n", "Sure:\n```json\n{\"name\":\"cep\",\"arguments\":{}}\n```"},
		{"a fence with a program", "```python\nprint({\"name\": 1})\n```", "", "```python\nprint({\"name\": 1})\n```", "```python\nprint({\"name\": 1})\n```"},
		{"a fence around tags", "So:\n```xml\n" + call + "\n```", `cep {"n":1}`, "So:\n", "So:\n```xml\n" + call + "\n```"},
		{"a fence of another kind around tags", "So:\n```text\n" + call, `cep {"n":1}`, "So:\n", "So:\n```text\n" + call},
		{"thoughts about a call", "<think>I could write " + call + "</think>Hello.", "", "<think>I could write " + call + "</think>Hello.", "<think>I could write " + call + "</think>Hello."},
		{"thoughts without an end", "<think>I could write " + call, "", "<think>I could write " + call, "<think>I could write " + call},
		{"thoughts whose beginning the template has", "So, a call.\n</think>\n" + call, `cep {"n":1}`, "So, a call.\n</think>\n", "So, a call.\n</think>\n" + call},
		{"the end of thoughts in an argument", `<tool_call>{"name":"cep","arguments":{"n":"</think>"}}</tool_call>`, `cep {"n":"</think>"}`, "", `<tool_call>{"name":"cep","arguments":{"n":"</think>"}}</tool_call>`},
		{"a call in the tags of a result", "<tool_response>\n{\"name\":\"cep\",\"arguments\":{}}\n</tool_response>", `cep {}`, "", "<tool_response>\n{\"name\":\"cep\",\"arguments\":{}}"},
		{"a call after a result made up", "I look. <tool_response>x</tool_response>" + call, `cep {"n":1}`, "I look. ", "I look. <tool_response>x</tool_response>" + call},
		{"such a call with text before", "So: <tool_response>{\"name\":\"cep\",\"arguments\":{}}</tool_response>", `cep {}`, "So: ", "So: <tool_response>{\"name\":\"cep\",\"arguments\":{}}"},
		{"a call and then JSON of no tool", `{"name":"cep","arguments":{}}{"name":"Ana","arguments":{}}`, `cep {}`, "", `{"name":"cep","arguments":{}}`},
		{"braces that stand twice", `{{"name": "cep", "arguments": {"n": 1}}}`, `cep {"n":1}`, "", `{{"name": "cep", "arguments": {"n": 1}}}`},
		{"broken arguments", `<tool_call>{"name": "cep", "arguments": {"n": }}</tool_call> x`, `cep {"n": }}`, "", `<tool_call>{"name": "cep", "arguments": {"n": }}</tool_call>`},
		{"arguments that are cut", `<tool_call>{"name": "cep", "arguments": {"n": "ab`, `cep {"n": "ab`, "", `<tool_call>{"name": "cep", "arguments": {"n": "ab`},
		{"a bracket too many", `<tool_call>{"name": "cep", "arguments": {"n": 1}}}</tool_call>`, `cep {"n":1}`, "", `<tool_call>{"name": "cep", "arguments": {"n": 1}}`},
		{"a bracket too few", `<tool_call>{"name": "cep", "arguments": {"n": 1}</tool_call>`, `cep {"n": 1}`, "", `<tool_call>{"name": "cep", "arguments": {"n": 1}</tool_call>`},
		{"words in the tags", `<tool_call>look it up</tool_call>`, ` {look it up`, "", `<tool_call>look it up</tool_call>`},
		{"a name that is no tool in tags", `<tool_call>{"name":"other"}</tool_call>`, `other {}`, "", `<tool_call>{"name":"other"}</tool_call>`},
	} {
		found := known.Find(tt.text)
		if got := said(t, found.Calls); got != tt.calls || found.Before != tt.before || found.Said != tt.said {
			t.Errorf("%s:\n calls %q, want %q\nbefore %q, want %q\n  said %q, want %q", tt.name, got, tt.calls, found.Before, tt.before, found.Said, tt.said)
		}
	}
}

// Each file is what Qwen2.5-Coder-1.5B wrote where it was asked for calls in tags.
func TestWhatASmallModelReallyWrites(t *testing.T) {
	r := New(slices.Values([]string{"get_weather", "order_status", "add", "final_answer"}))
	want := map[string]string{
		"announced-without-call":          "",
		"answer-in-response-tags":         "",
		"bare-lines":                      `get_weather {"city":"Lisbon"}|get_weather {"city":"Oslo"}`,
		"bare-unknown-tool":               "",
		"bare":                            `order_status {"order_id":"A-1042"}`,
		"call-in-response-tags-one-line":  `add {"a":17,"b":25}`,
		"call-in-response-tags":           `order_status {"order_id":"A-1042"}`,
		"calls-in-response-tags":          `get_weather {"city":"Lisbon"}|get_weather {"city":"Oslo"}`,
		"fence-lines":                     `get_weather {"city":"Lisbon"}|get_weather {"city":"Oslo"}`,
		"fence-two":                       `get_weather {"city":"Lisbon"}|get_weather {"city":"Oslo"}`,
		"fence":                           `get_weather {"city":"Lisbon"}`,
		"lines-with-made-up-final-answer": `order_status {"order_id":"A-1042"}|final_answer {"status":"Delivered","city":"New York"}`,
		"made-up-answer-object":           "",
		"made-up-result":                  "",
		"native-double-braces":            `order_status {"order_id":"A-1042"}`,
		"native-fence":                    `order_status {"order_id":"A-1042"}`,
		"text-then-made-up-result":        "",
	}
	files, err := filepath.Glob("testdata/real/*.txt")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %v, want %d", len(files), err, len(want))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		found := r.Find(string(data))
		if got := said(t, found.Calls); got != want[name] {
			t.Errorf("%s: calls %q, want %q", name, got, want[name])
		}
		if strings.Contains(found.Before, "<tool") {
			t.Errorf("%s: the text shows marks: %q", name, found.Before)
		}
		if strings.HasPrefix(name, "native") && said(t, r.Read(string(data))) != want[name] {
			t.Errorf("%s: the whole text is not read as calls", name)
		}
	}
}

// shown is how much of a text a watch lets through when it comes in pieces of n bytes.
func shown(t *testing.T, w *Watch, text string, n int) int {
	t.Helper()
	was := 0
	for i := 0; i < len(text); i += n {
		end := min(i+n, len(text))
		is := w.Add(text[i:end])
		if is < was || is > end {
			t.Fatalf("%q in pieces of %d: %d bytes may be shown after %d of them, %d before", text, n, is, end, was)
		}
		was = is
	}
	return was
}

func TestWatchShowsWhatIsNoCall(t *testing.T) {
	for _, tt := range []struct{ text, parts, head string }{
		{"It is 21 C, a < b.", "It is 21 C, a < b.", "It is 21 C, a < b."},
		{"See [1](x) and {y}.", "See [1](x) and {y}.", "See [1](x) and {y}."},
		{"I look.\n<tool_call>{", "I look.\n", "I look.\n<tool_call>{"},
		{"<tool_call>{", "", ""},
		{"<think>a < b <tool_call></think>It <b>is</b> so", "<think>a < b <tool_call></think>It <b>is</b> so", "<think>a < b <tool_call></think>It <b>is</b> so"},
		{"<think>a</think>\n<tool_call>x", "<think>a</think>\n", "<think>a</think>"},
		{"Yes:\n```json\n{\"name\": \"ce", "Yes:\n", "Yes:\n```json\n{\"name\": \"ce"},
		{"Yes:\n```json\n{\"nom\": 1", "Yes:\n```json\n{\"nom\": 1", "Yes:\n```json\n{\"nom\": 1"},
		{"It is x.</tool_response>", "It is x.", "It is x.</tool_response>"},
		{"the functor", "the functor", "the functor"},
		{"It is <", "It is ", "It is <"},
	} {
		for n := 1; n <= 9; n++ {
			if got := tt.text[:shown(t, known.WatchFor(), tt.text, n)]; got != tt.parts {
				t.Errorf("%q in pieces of %d: shows %q, want %q", tt.text, n, got, tt.parts)
			}
			if got := tt.text[:shown(t, known.Watch(), tt.text, n)]; got != tt.head {
				t.Errorf("%q in pieces of %d, all or nothing: shows %q, want %q", tt.text, n, got, tt.head)
			}
		}
	}
}

// What has been shown of a text is the beginning of what it turns out to say, however it was cut into pieces.
func FuzzWatch(f *testing.F) {
	for _, tt := range readable {
		f.Add(tt.text, 3)
		f.Add("I look.\n"+tt.text+" So.", 5)
	}
	f.Add("<think>x</think><tool_call>{}</tool_call><tool_response>", 1)
	f.Add("`````` [[{{<<", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 1 || len(text) > 4*looked {
			t.Skip()
		}
		found := known.Find(text)
		parts := shown(t, known.WatchFor(), text, n)
		if whole := shown(t, known.WatchFor(), text, max(len(text), 1)); whole != parts {
			t.Errorf("%q: %d bytes are shown in pieces of %d, %d at once", text, parts, n, whole)
		}
		if seen := text[:parts]; !strings.HasPrefix(found.Before, seen) && !strings.HasPrefix(seen, found.Before) {
			t.Errorf("%q: %q was shown, and it says %q", text, seen, found.Before)
		}
		if !strings.HasPrefix(text, found.Said) {
			t.Errorf("%q: said is %q", text, found.Said)
		}
		for _, c := range found.Calls {
			if !json.Valid(c.Raw) {
				t.Errorf("%q: the call %q is no JSON", text, c.Raw)
			}
		}
		head := shown(t, known.Watch(), text, n)
		if known.Read(AfterThoughts(text)) != nil && head > thoughts(text) {
			t.Errorf("%q: %q was shown of what is a call", text, text[:head])
		}
	})
}

func BenchmarkWatch(b *testing.B) {
	text := strings.Repeat("An answer like any other, [1] a < b. ", 100)
	for name, watch := range map[string]func() *Watch{"parts": known.WatchFor, "head": known.Watch} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := watch()
				for i := 0; i+5 <= len(text); i += 5 {
					w.Add(text[i : i+5])
				}
			}
		})
	}
}
