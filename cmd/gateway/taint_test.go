package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// Each of several choices is tainted by its own calls, and so is the conversation that goes on with one of them.
func TestEachChoiceIsTaintedByItself(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for choice, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("stream %v, choice %d", stream, choice), func(t *testing.T) { goOnWith(t, stream, choice, waits) })
		}
	}
}

// goOnWith asks for two choices, of which the first reads a page, and goes on with one.
func goOnWith(t *testing.T, stream bool, choice int, waits bool) {
	t.Helper()
	turns := []string{
		`{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"page","arguments":"{}"}}]}`,
		`{"content":"It is about tea."}`,
		`{"content":"I do not know."}`,
		`{"content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"send","arguments":"{}"}}]}`,
		`{"content":"Sent."}`,
	}
	asked := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		turn := turns[asked] // max_parallel is 1
		asked++
		if !gjson.GetBytes(body, "stream").Bool() {
			_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",%s,"finish_reason":"stop"}]}`, turn[1:])
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",%s}]}\n\n", strings.ReplaceAll(turn[1:], `"id":"a"`, `"index":0,"id":"a"`))
		_, _ = io.WriteString(w, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer upstream.Close()
	sent := 0
	tools := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			sent++
		}
	}))
	defer tools.Close()
	front := httptest.NewServer(newTestGateway(t, `
upstreams: {up: {base_url: "${UPSTREAM}/v1"}}
models: {"*": {upstream: up}}
budget: {max_parallel: 1}
tools:
  page: {description: Reads a page., untrusted: true, http: {url: "${TOOLS}/"}}
  send: {description: Sends money., confirm: {by: approval, after: untrusted}, http: {url: "${TOOLS}/", method: POST}}
`, map[string]string{"UPSTREAM": upstream.URL, "TOOLS": tools.URL}).server.Handler(true))
	defer front.Close()
	ask := func(body string) (string, http.Header) {
		resp, err := front.Client().Post(front.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		reply, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v: %s", resp.StatusCode, err, reply)
		}
		return string(reply), resp.Header
	}
	const question = `{"role":"user","content":"What is it about?"}`
	ask(fmt.Sprintf(`{"model":"m","n":2,"stream":%v,"messages":[%s]}`, stream, question))
	said := gjson.Get(turns[choice+1], "content").String()
	reply, header := ask(fmt.Sprintf(`{"model":"m","messages":[%s,{"role":"assistant","content":%q},{"role":"user","content":"Send it"}]}`, question, said))
	if got := header.Get("X-Gateway-Approval") != ""; got != waits || (sent == 0) != waits {
		t.Errorf("waits %v, sent %d times, want waits %v: %s", got, sent, waits, reply)
	}
}
