package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/script"
)

// Many choices side by side, each a run with a call of its own, in one piece and as a stream.
func TestChoicesSideBySide(t *testing.T) {
	s, err := script.Parse("script.yaml", []byte(`
conversations:
  - turns:
      - {text: "I look.", calls: [{name: lookup, arguments: {}}]}
      - {text: "It is {tool}, as far as I can see."}
`))
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(script.NewServer(s))
	defer upstream.Close()
	tools := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "21 C") }))
	defer tools.Close()
	front := httptest.NewServer(newTestGateway(t, `
upstreams: {up: {base_url: "${UPSTREAM}/v1"}}
models: {"*": {upstream: up}}
tools: {lookup: {description: Look., http: {url: "${TOOLS}/"}}}
`, map[string]string{"UPSTREAM": upstream.URL, "TOOLS": tools.URL}).server.Handler(true))
	defer front.Close()
	const n, want = 6, "It is 21 C, as far as I can see."
	for _, stream := range []bool{false, true} {
		body := fmt.Sprintf(`{"model":"m","n":%d,"stream":%v,"messages":[{"role":"user","content":"Go"}]}`, n, stream)
		resp, err := front.Client().Post(front.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		texts, finished := make([]string, n), make([]string, n)
		take := func(choice gjson.Result, part string) {
			i := choice.Get("index").Int()
			texts[i] += choice.Get(part + ".content").String()
			finished[i] += choice.Get("finish_reason").String()
		}
		if !stream {
			for _, c := range gjson.GetBytes(reply, "choices").Array() {
				take(c, "message")
			}
		}
		for line := range strings.Lines(string(reply)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				take(gjson.Get(data, "choices.0"), "delta")
			}
		}
		for i := range n {
			if texts[i] != want || finished[i] != "stop" {
				t.Errorf("stream %v: choice %d is %q %q, want %q", stream, i, texts[i], finished[i], want)
			}
		}
		if got := resp.Trailer.Get("X-Gateway-Trace") + resp.Header.Get("X-Gateway-Trace"); !strings.Contains(got, fmt.Sprintf("steps=%d, calls=%d", 2*n, n)) {
			t.Errorf("stream %v: the trace is %s", stream, got)
		}
	}
}

// The first choice that fails ends the others: the trace has its stop, not theirs.
func TestTheStopOfChoicesIsOfTheFirstThatFails(t *testing.T) {
	for range 8 { // either choice may be the one that waits
		stopOfChoices(t)
	}
}

func stopOfChoices(t *testing.T) {
	t.Helper()
	var asked atomic.Int32
	waiting := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 1 { // the other one fails meanwhile
			close(waiting)
			<-r.Context().Done()
			return
		}
		<-waiting
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"invalid_request_error"}}`)
	}))
	defer upstream.Close()
	front := httptest.NewServer(newTestGateway(t, `
upstreams: {up: {base_url: "${UPSTREAM}/v1"}}
models: {"*": {upstream: up}}
tools: {look: {description: Look., const: here}}
`, map[string]string{"UPSTREAM": upstream.URL}).server.Handler(true))
	defer front.Close()
	resp, err := front.Client().Post(front.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","n":2,"messages":[{"role":"user","content":"Go"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get("X-Gateway-Trace"); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "stop=upstream_error") {
		t.Fatalf("status %d, trace %s", resp.StatusCode, got)
	}
}
