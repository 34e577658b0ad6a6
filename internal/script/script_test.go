package script

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

func serve(t *testing.T, yaml string) *httptest.Server {
	t.Helper()
	s, err := Parse("script.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(NewServer(s))
	t.Cleanup(server.Close)
	return server
}

func post(t *testing.T, s *httptest.Server, body string) (int, http.Header, string) {
	t.Helper()
	resp, err := s.Client().Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

func TestRepliesInOrder(t *testing.T) {
	s := serve(t, `
replies:
  - calls: [{name: f, arguments: {a: 1.0, who: "{user}"}}, {name: g, id: own, arguments: "not json"}]
  - {text: "It is {tool}.", reasoning: hm, usage: {prompt_tokens: 7}}
  - {status: 429, error: slow down, code: rate_limited, headers: {retry-after: "1"}}
`)
	_, _, body := post(t, s, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Go"}]}]}`)
	want := `[{"id":"call_1_1","type":"function","function":{"name":"f","arguments":"{\"a\":1.0,\"who\":\"Go\"}"}},{"id":"own","type":"function","function":{"name":"g","arguments":"not json"}}]`
	if diff := cmp.Diff(want, gjson.Get(body, "choices.0.message.tool_calls").Raw); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := gjson.Get(body, "choices.0.finish_reason").String(); got != "tool_calls" {
		t.Errorf("finish_reason = %s", got)
	}
	_, _, body = post(t, s, `{"model":"m","messages":[{"role":"tool","content":"21 C"}]}`)
	if m := gjson.Get(body, "choices.0.message"); m.Get("content").String() != "It is 21 C." || m.Get("reasoning_content").String() != "hm" || gjson.Get(body, "usage.total_tokens").Int() != 12 {
		t.Errorf("second reply = %s", body)
	}
	status, header, body := post(t, s, `{"model":"m","messages":[1]}`)
	if status != 429 || header.Get("Retry-After") != "1" || gjson.Get(body, "error.code").String() != "rate_limited" {
		t.Errorf("third reply = %d %v %s", status, header, body)
	}
	if status, _, body := post(t, s, `{"model":"m","messages":[1]}`); status != 500 || gjson.Get(body, "error.code").String() != "unscripted" {
		t.Errorf("beyond the script: %d %s", status, body)
	}
	if status, _, _ := post(t, s, `{`); status != 400 {
		t.Errorf("no JSON: %d", status)
	}
}

func TestConversationsByWhatTheUserAsks(t *testing.T) {
	s := serve(t, `
conversations:
  - when: 'code (?P<code>\d+)'
    turns: [{calls: [{name: f, arguments: {code: "{code}"}}]}, {text: "{code}: {tool}"}]
  - turns: [{text: "What?"}]
`)
	for body, want := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":"code 42"}]}`:                                                                                       `"{\"code\":\"42\"}"`,
		`{"model":"m","messages":[{"role":"user","content":"code 42"},{"role":"assistant"},{"role":"tool","content":"x"}]}`:                                    `42: x`,
		`{"model":"m","messages":[{"role":"user","content":"code 42"},{"role":"assistant"},{"role":"user","content":"<tool_response>\nx\n</tool_response>"}]}`: `42: x`,
		`{"model":"m","messages":[{"role":"user","content":"code 42"},{"role":"assistant"},{"role":"user","content":"hello"}]}`:                                `What?`,
		`{"model":"m","messages":[{"role":"user","content":"code 42"},{"role":"assistant"},{"role":"assistant"},{"role":"tool","content":"the last one"}]}`:    `42: the last one`,
	} {
		if _, _, got := post(t, s, body); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestStreams(t *testing.T) {
	s := serve(t, `{replies: [{text: "It is so.", calls: [{name: f}]}], repeat: true}`)
	_, header, body := post(t, s, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[1]}`)
	if !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("content type %s", header.Get("Content-Type"))
	}
	var text string
	var last []string
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			text += gjson.Get(data, "choices.0.delta.content").String()
			last = append(last, data)
		}
	}
	n := len(last)
	if text != "It is so." || last[n-1] != "[DONE]" || gjson.Get(last[n-2], "usage.total_tokens").Int() != 15 || gjson.Get(last[n-3], "choices.0.finish_reason").String() != "tool_calls" {
		t.Errorf("stream = %s", body)
	}
	if got := gjson.Get(last[n-4], "choices.0.delta.tool_calls.0.function.name").String(); got != "f" {
		t.Errorf("call in %s", last[n-4])
	}
}

func TestModels(t *testing.T) {
	s := serve(t, `{model: own, replies: [{text: x}]}`)
	resp, err := s.Client().Get(s.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if gjson.GetBytes(b, "data.0.id").String() != "own" {
		t.Errorf("models = %s", b)
	}
}

// said posts a request with so many turns of the model and gives what comes: a status from 400, or the text.
func said(t *testing.T, s *httptest.Server, model, user string, turns int) string {
	t.Helper()
	body := `{"model":"` + model + `","messages":[{"role":"user","content":"` + user + `"}` + strings.Repeat(`,{"role":"assistant"}`, turns) + `]}`
	status, _, reply := post(t, s, body)
	if status >= 400 {
		return strconv.Itoa(status)
	}
	return gjson.Get(reply, "choices.0.message.content").String()
}

func TestRepliesThatAreGivenSeveralTimes(t *testing.T) {
	s := serve(t, `{replies: [{status: 429, error: x, times: 2}, {text: a}, {text: b, times: 2}], repeat: true}`)
	var got []string
	for range 7 {
		got = append(got, said(t, s, "m", "x", 0))
	}
	if diff := cmp.Diff([]string{"429", "429", "a", "b", "b", "429", "429"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTurnsThatAreGivenSeveralTimesAreNotCounted(t *testing.T) {
	s := serve(t, `
conversations:
  - when: fail
    turns: [{status: 429, error: x, times: 1}, {text: first}, {status: 503, error: x, times: 2}, {text: second}]
  - when: once
    turns: [{text: seldom, times: 1}]
  - turns: [{text: else}]
`)
	for i, c := range []struct {
		user  string
		turns int
		want  string
	}{
		{"fail", 0, "429"},
		{"fail", 0, "first"},
		{"fail", 1, "503"},
		{"fail", 1, "503"},
		{"fail", 1, "second"},
		{"fail", 2, "second"},
		{"fail", 0, "first"},
		{"once", 0, "seldom"},
		{"once", 0, "else"},
	} {
		if got := said(t, s, "m", c.user, c.turns); got != c.want {
			t.Errorf("request %d: got %s, want %s", i+1, got, c.want)
		}
	}
}

func TestConversationsByModel(t *testing.T) {
	s := serve(t, `{conversations: [{model: ^slow-, turns: [{text: slow}]}, {when: hi, model: mini$, turns: [{text: mini}]}, {turns: [{text: any}]}]}`)
	for _, c := range [][3]string{{"slow-1", "x", "slow"}, {"gpt-mini", "hi", "mini"}, {"gpt-mini", "x", "any"}, {"gpt", "hi", "any"}} {
		if got := said(t, s, c[0], c[1], 0); got != c[2] {
			t.Errorf("%s, %s: got %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestRequestsAreTold(t *testing.T) {
	script, err := Parse("script.yaml", []byte(`{refuse: [{member: seed}], replies: [{text: x}, {status: 503, error: y}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []Exchange
	provider := NewServer(script)
	provider.Seen = func(e Exchange) { got = append(got, e) }
	s := httptest.NewServer(provider)
	defer s.Close()
	bodies := []string{asks, `{"model":"m","messages":[1],"seed":1}`, streams, asks, `{`}
	for _, body := range bodies {
		post(t, s, body)
	}
	want := []Exchange{{Place: "replies.0", Status: 200}, {Place: "refuse.0", Status: 400}, {Place: "replies.1", Status: 503}, {Status: 500}, {Status: 400}}
	for i := range want {
		want[i].Body = []byte(bodies[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARequestThatIsTooLargeIsRefused(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", io.LimitReader(endless{}, maxRequest+1))
	w := httptest.NewRecorder()
	NewServer(&Script{}).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status = %d, want 413", w.Code)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestFaultsOfScripts(t *testing.T) {
	for yaml, want := range map[string]string{
		`replies: [{json: {}, raw: x}]`:                                  "raw: stands beside json: want one of json, events, raw and raw_base64",
		`replies: [{json: {}, text: x}]`:                                 "text: has no effect beside json",
		`replies: [{events: [], quirks: {}}]`:                            "quirks: has no effect beside events",
		`replies: [{raw: x, comments: [x]}]`:                             "comments: has no effect beside raw",
		`replies: [{raw_base64: "*"}]`:                                   "raw_base64: is no base64",
		`replies: [{text: x, status: 600}]`:                              "status: want a status up to 599",
		`replies: [{error: x}]`:                                          "error: goes with a status from 400, or with error_shape: inside_200",
		`replies: [{error: x, status: 500, error_shape: inside_200}]`:    "error_shape: inside_200 goes with a status below 400",
		`replies: [{text: x, error_shape: list}]`:                        "error_shape: goes with error",
		`replies: [{status: 500, text: x}]`:                              "a status from 400 goes with error, not with text or calls",
		`replies: [{text: x, headers: {"a b": x}}]`:                      "a b: is no header of HTTP",
		`replies: [{text: x, headers: {a: "x\ny"}}]`:                     "a: is no header of HTTP",
		`replies: [{text: x, content_type: "x\ny"}]`:                     "content_type: is no value of a header",
		`replies: [{text: x, pieces: letters}]`:                          "pieces: want words, whole or a number of characters from 1",
		`replies: [{text: x, pieces: 0}]`:                                "pieces: want words, whole or a number of characters from 1",
		`replies: [{text: x, comments: ["a\nb"]}]`:                       "comments.0: want one line",
		`replies: [{text: x, line_end: lfcr}]`:                           "line_end: want one of lf, crlf, cr",
		`replies: [{text: x, stall: {after: 1}}]`:                        "stall: for is missing",
		`replies: [{text: x, times: 0}]`:                                 "times: want 1 or more",
		`replies: [{text: x, quirks: {index: one}}]`:                     "index: want one of zero, none, gap",
		`replies: [{text: x, quirks: {index: zero, interleaved: true}}]`: "interleaved: goes with an index that tells the calls apart",
		`{replies: [{text: x}], refuse: [{}]}`:                           "want one of member, together, tool_names_not",
		`{replies: [{text: x}], refuse: [{member: a, context_over: 1}]}`: "want one of member, together, tool_names_not",
		`{replies: [{text: x}], refuse: [{together: [a]}]}`:              "together: want two members or more",
		`{replies: [{text: x}], refuse: [{tool_names_not: "("}]}`:        "tool_names_not: is no regular expression",
		`{replies: [{text: x}], refuse: [{member: a, status: 200}]}`:     "status: want 400 or more",
		`conversations: [{model: "(", turns: [{text: x}]}]`:              "model: is no regular expression",
	} {
		_, err := Parse("script.yaml", []byte(yaml))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "script.yaml:1:") {
			t.Errorf("%s\n got %v\nwant %s", yaml, err, want)
		}
	}
}
