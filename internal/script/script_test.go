package script

import (
	"io"
	"net/http"
	"net/http/httptest"
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
		`{"model":"m","messages":[{"role":"user","content":"code 42"}]}`:                                                                                    `"{\"code\":\"42\"}"`,
		`{"model":"m","messages":[{"role":"user","content":"code 42"},{"role":"assistant"},{"role":"tool","content":"x"}]}`:                                 `42: x`,
		`{"model":"m","messages":[{"role":"user","content":"code 42"},{"role":"assistant"},{"role":"user","content":"hello"}]}`:                             `What?`,
		`{"model":"m","messages":[{"role":"user","content":"code 42"},{"role":"assistant"},{"role":"assistant"},{"role":"tool","content":"the last one"}]}`: `42: the last one`,
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
