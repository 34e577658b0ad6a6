package script

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

const twoCalls = `calls: [{name: f, id: A, arguments: {city: Oslo}}, {name: g, id: B}]`

func TestQuirksOfCallsInStreams(t *testing.T) {
	for quirks, want := range map[string]string{
		`{}`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}},{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{index: zero}`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":0,"id":"B","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{index: none}`: `[{"id":"A","type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}}]
[{"id":"B","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{index: gap}`: `[{"index":1,"id":"A","type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":4,"id":"B","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{ids: none}`: `[{"index":0,"type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":1,"type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{ids: empty}`: `[{"index":0,"id":"","type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":1,"id":"","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{ids: same}`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":1,"id":"A","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{ids: repeated}`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":""}}]
[{"index":0,"id":"A","function":{"arguments":"{\"city\":"}}]
[{"index":0,"id":"A","function":{"arguments":"\"Oslo\"}"}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":""}}]
[{"index":1,"id":"B","function":{"arguments":"{}"}}]`,
		`{ids: changing}, argument_pieces: 9`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":""}}]
[{"index":0,"id":"A_1","function":{"arguments":"{\"city\":\""}}]
[{"index":0,"id":"A_2","function":{"arguments":"Oslo\"}"}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":""}}]
[{"index":1,"id":"B_1","function":{"arguments":"{}"}}]`,
		`{ids: empty_later, names: empty_later}, argument_pieces: 99`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":""}}]
[{"index":0,"id":"","function":{"name":"","arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":""}}]
[{"index":1,"id":"","function":{"name":"","arguments":"{}"}}]`,
		`{names: repeated}, argument_pieces: 99`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":""}}]
[{"index":0,"function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":""}}]
[{"index":1,"function":{"name":"g","arguments":"{}"}}]`,
		`{arguments: object}, argument_pieces: 3`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":{"city":"Oslo"}}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":{}}}]`,
		`{arguments: empty}`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":""}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":""}}]`,
		`{arguments: none}`: `[{"index":0,"id":"A","type":"function","function":{"name":"f"}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g"}}]`,
		`{arguments: leading}, argument_pieces: 99`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":"{}"}}]
[{"index":0,"function":{"arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":"{}"}}]
[{"index":1,"function":{"arguments":"{}"}}]`,
		`{interleaved: true}`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":""}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":""}}]
[{"index":0,"function":{"arguments":"{\"city\":"}}]
[{"index":1,"function":{"arguments":"{}"}}]
[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]`,
		`{nulls: true}, argument_pieces: 99`: `[{"index":0,"id":"A","type":"function","function":{"name":"f","arguments":""}}]
[{"index":0,"id":null,"type":null,"function":{"name":null,"arguments":"{\"city\":\"Oslo\"}"}}]
[{"index":1,"id":"B","type":"function","function":{"name":"g","arguments":""}}]
[{"index":1,"id":null,"type":null,"function":{"name":null,"arguments":"{}"}}]`,
	} {
		var got []string
		for _, c := range chunks(t, `{`+twoCalls+`, quirks: `+quirks+`}`, streams) {
			if calls := c.Get("choices.0.delta.tool_calls"); calls.IsArray() {
				got = append(got, calls.Raw)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("quirks: %s (-want +got):\n%s", quirks, diff)
		}
	}
}

func TestQuirksOfCallsInOnePiece(t *testing.T) {
	for quirks, want := range map[string]string{
		`{index: zero, names: repeated, nulls: true}`: `[{"id":"A","type":"function","function":{"name":"f","arguments":"{\"city\":\"Oslo\"}"}},{"id":"B","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`{ids: none, arguments: object}`:              `[{"type":"function","function":{"name":"f","arguments":{"city":"Oslo"}}},{"type":"function","function":{"name":"g","arguments":{}}}]`,
		`{ids: same, arguments: none}`:                `[{"id":"A","type":"function","function":{"name":"f"}},{"id":"A","type":"function","function":{"name":"g"}}]`,
		`{ids: empty, arguments: empty}`:              `[{"id":"","type":"function","function":{"name":"f","arguments":""}},{"id":"","type":"function","function":{"name":"g","arguments":""}}]`,
	} {
		_, _, body := post(t, serve(t, `replies: [{`+twoCalls+`, quirks: `+quirks+`}]`), asks)
		if diff := cmp.Diff(want, gjson.Get(body, "choices.0.message.tool_calls").Raw); diff != "" {
			t.Errorf("quirks: %s (-want +got):\n%s", quirks, diff)
		}
	}
	_, _, body := post(t, serve(t, `replies: [{text: x, quirks: {role: none, no_finish: true, usage: none}}]`), asks)
	m := gjson.Parse(body)
	if m.Get("usage").Exists() || m.Get("choices.0.message.role").Exists() || m.Get("choices.0.finish_reason").Raw != "null" {
		t.Errorf("reply = %s", body)
	}
}

func TestQuirksOfDeltas(t *testing.T) {
	for quirks, want := range map[string]string{
		`{}`:                `{"delta":{"content":"","role":"assistant"},"finish":null}{"delta":{"content":"Hi"},"finish":null}{"delta":{},"finish":"stop"}`,
		`{role: none}`:      `{"delta":{"content":""},"finish":null}{"delta":{"content":"Hi"},"finish":null}{"delta":{},"finish":"stop"}`,
		`{role: repeated}`:  `{"delta":{"content":"","role":"assistant"},"finish":null}{"delta":{"content":"Hi","role":"assistant"},"finish":null}{"delta":{"role":"assistant"},"finish":"stop"}`,
		`{no_finish: true}`: `{"delta":{"content":"","role":"assistant"},"finish":null}{"delta":{"content":"Hi"},"finish":null}{"delta":{},"finish":null}`,
		`{nulls: true}`: `{"delta":{"content":"","function_call":null,"reasoning_content":null,"refusal":null,"role":"assistant","tool_calls":null},"finish":null}` +
			`{"delta":{"content":"Hi","function_call":null,"reasoning_content":null,"refusal":null,"role":null,"tool_calls":null},"finish":null}` +
			`{"delta":{"content":null,"function_call":null,"reasoning_content":null,"refusal":null,"role":null,"tool_calls":null},"finish":"stop"}`,
		`{whole: delta}`:                           `{"delta":{"content":"Hi","role":"assistant"},"finish":"stop"}`,
		`{whole: message}`:                         `{"message":{"content":"Hi","role":"assistant"},"finish":"stop"}`,
		`{}, error: gone, error_shape: inside_200`: `{"delta":{"content":"","role":"assistant"},"finish":null}{"delta":{"content":"Hi"},"finish":null}{"error":"gone"}`,
		`{}, finish_reason: eos_token`:             `{"delta":{"content":"","role":"assistant"},"finish":null}{"delta":{"content":"Hi"},"finish":null}{"delta":{},"finish":"eos_token"}`,
	} {
		got := ""
		for _, c := range chunks(t, `{text: Hi, quirks: `+quirks+`}`, streams) {
			choice := c.Get("choices.0")
			switch {
			case c.Get("error").Exists():
				got += `{"error":` + c.Get("error.message").Raw + `}`
			case choice.Get("message").Exists():
				got += `{"message":` + choice.Get("message").Raw + `,"finish":` + choice.Get("finish_reason").Raw + `}`
			default:
				got += `{"delta":` + choice.Get("delta").Raw + `,"finish":` + choice.Get("finish_reason").Raw + `}`
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("quirks: %s (-want +got):\n%s", quirks, diff)
		}
	}
}

func TestPlacesOfUsage(t *testing.T) {
	const asked = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[1]}`
	for _, c := range []struct{ usage, body, path, want string }{
		{"", streams, "usage", "0 0 0"},
		{"", asked, "usage", "0 0 0 15"},
		{"usage: chunk", streams, "usage", "0 0 0 15"},
		{"usage: last", asked, "usage", "0 0 15"},
		{"usage: every", asked, "usage", "11 13 15"},
		{"usage: choice", asked, "choices.0.usage", "0 0 15"},
		{"usage: x_groq", asked, "x_groq.usage", "0 0 15"},
		{"usage: none", asked, "@this", "0 0 0"},
		{"usage: last, whole: message", asked, "usage", "15"},
	} {
		var got []string
		for _, chunk := range chunks(t, `{text: Hi, quirks: {`+c.usage+`}}`, c.body) {
			got = append(got, chunk.Get(c.path).Get("total_tokens").Raw)
			if got[len(got)-1] == "" {
				got[len(got)-1] = "0"
			}
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.usage, diff)
		}
	}
}

func TestShapesOfErrors(t *testing.T) {
	for shape, want := range map[string]string{
		``: `{"error":{"message":"gone","type":"mock_error","param":null,"code":"c"}}`,
		`, error_type: server_error, error_shape: openai`: `{"error":{"message":"gone","type":"server_error","param":null,"code":"c"}}`,
		`, error_shape: string`:                           `{"error":"gone"}`,
		`, error_shape: detail`:                           `{"detail":"gone"}`,
		`, error_shape: list`:                             `[{"error":{"message":"gone","type":"mock_error","param":null,"code":"c"}}]`,
		`, error_shape: text`:                             `gone`,
	} {
		for _, body := range []string{asks, streams} {
			if status, _, got := post(t, serve(t, `replies: [{status: 502, error: gone, code: c`+shape+`}]`), body); status != 502 || got != want {
				t.Errorf("%s: %d %s, want %s", shape, status, got, want)
			}
		}
	}
	const inside = `replies: [{error: gone, error_shape: inside_200}]`
	const object = `{"error":{"message":"gone","type":"mock_error","param":null,"code":null}}`
	if status, _, got := post(t, serve(t, inside), asks); status != 200 || got != object {
		t.Errorf("inside_200: %d %s", status, got)
	}
	if status, _, got := post(t, serve(t, inside), streams); status != 200 || got != "data: "+object+"\n\ndata: [DONE]\n\n" {
		t.Errorf("inside_200 of a stream: %d %s", status, got)
	}
}
