package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/script"
	"github.com/toolgate/toolgate/internal/sse"
)

// mocked is a gateway in front of a provider that follows a script.
type mocked struct {
	*httptest.Server
	asked [][]byte // bodies that the provider got
}

func newMocked(t *testing.T, text string) *mocked {
	t.Helper()
	s, err := script.Parse("script.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m := &mocked{}
	provider := script.NewServer(s)
	provider.Seen = func(e script.Exchange) { m.asked = append(m.asked, e.Body) } // one request after the other
	up := httptest.NewServer(provider)
	t.Cleanup(up.Close)
	g := newTestGateway(t, `
upstreams: {up: {base_url: "${UPSTREAM}/v1", api_key: test, idle_timeout: 500ms, retry: {attempts: 3, base: 1ms, max: 1ms}}}
models: {"*": {upstream: up}}
tools:
  add: {description: Add two numbers., parameters: {a: integer, b: integer}, compute: a + b}
  hello: {description: The word at meeting., const: "3"}
  bye: {description: The word at parting., const: "7"}
`, map[string]string{"UPSTREAM": up.URL})
	m.Server = httptest.NewServer(g.server.Handler(true))
	t.Cleanup(m.Close)
	return m
}

// answered is what a client of a mocked provider gets: text, finish reason and tokens, or an error.
type answered struct {
	Text, Finish string
	Tokens       int64
	Error        string
}

func (m *mocked) ask(t *testing.T, stream bool) (a answered) {
	t.Helper()
	body := `{"model":"m","messages":[{"role":"user","content":"Go"}]}`
	if stream {
		body = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Go"}]}`
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	take := func(data []byte) {
		v := gjson.ParseBytes(data)
		for _, part := range []string{"message", "delta"} {
			a.Text += v.Get("choices.0." + part + ".content").String()
		}
		a.Finish += v.Get("choices.0.finish_reason").String()
		a.Tokens += v.Get("usage.total_tokens").Int()
		a.Error += v.Get("error.code").String()
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		take(b)
		return a
	}
	events := sse.NewReader(bytes.NewReader(b), 0)
	for {
		data, err := events.Next()
		if err != nil || string(data) == sse.Done {
			return a
		}
		take(data)
	}
}

// observed are the results that the provider read in its last request, in order.
func (m *mocked) observed() (list []string) {
	for _, msg := range gjson.GetBytes(m.asked[len(m.asked)-1], `messages.#(role=="tool")#.content`).Array() {
		list = append(list, msg.Str)
	}
	return list
}

// quirks are all that the quirks of a script can be, one at a time.
func quirks(t *testing.T) (list []string) {
	t.Helper()
	gjson.ParseBytes(config.SchemaOf(script.Quirks{})).Get("properties").ForEach(func(key, schema gjson.Result) bool {
		values := schema.Get("anyOf.0.enum").Array()
		for _, v := range values {
			list = append(list, key.Str+": "+v.Str)
		}
		if len(values) == 0 {
			list = append(list, key.Str+": true")
		}
		return true
	})
	if len(list) < 20 {
		t.Fatalf("quirks = %q", list)
	}
	return list
}

func TestTheGatewayReadsEveryQuirk(t *testing.T) {
	for _, quirk := range append(quirks(t), "", "index: none, ids: changing", "index: zero, names: repeated", "whole: message, index: none, ids: none") {
		calls := `[{name: add, arguments: {a: 1, b: 2}}, {name: add, arguments: {a: 3, b: 4}}]`
		if quirk == "arguments: empty" || quirk == "arguments: none" {
			calls = `[{name: hello}, {name: bye}]`
		}
		want := answered{Text: "It is 7.", Finish: "stop", Tokens: 30}
		if quirk == "usage: none" {
			want.Tokens = 0
		}
		for _, stream := range []bool{false, true} {
			m := newMocked(t, `
replies:
  - {calls: `+calls+`, quirks: {`+quirk+`}}
  - {text: "It is {tool}.", quirks: {`+quirk+`}}`)
			got := m.ask(t, stream)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, stream %v (-want +got):\n%s", quirk, stream, diff)
			}
			if diff := cmp.Diff([]string{"3", "7"}, m.observed()); diff != "" {
				t.Errorf("%s, stream %v: results that the model reads (-want +got):\n%s", quirk, stream, diff)
			}
		}
	}
}

func TestTheGatewayReadsEveryShape(t *testing.T) {
	for _, shape := range []string{
		"done: false", "line_end: crlf", "line_end: cr", "line_end: cr, chunk_bytes: 1", "chunk_bytes: 3", "encoding: gzip",
		"encoding: gzip, chunk_bytes: 1", "comments: [OPENROUTER PROCESSING]", "pieces: 1, argument_pieces: 1", "pieces: whole",
		"stall: {after: 50, for: 10ms}", "finish_reason: eos_token", "first_byte_delay: 10ms",
	} {
		for _, stream := range []bool{false, true} {
			m := newMocked(t, `
replies:
  - {calls: [{name: add, arguments: {a: 3, b: 4}}], `+shape+`}
  - {text: "É {tool}.", `+shape+`}`)
			if diff := cmp.Diff(answered{Text: "É 7.", Finish: "stop", Tokens: 30}, m.ask(t, stream)); diff != "" {
				t.Errorf("%s, stream %v (-want +got):\n%s", shape, stream, diff)
			}
		}
	}
}

func TestFaultsThatTheGatewayOvercomes(t *testing.T) {
	for _, fault := range []string{
		`{status: 429, error: slow down, headers: {Retry-After: "0"}, times: 2}`,
		`{status: 502, raw: "<html>", content_type: text/html}`,
		`{text: lost, cut_after: 0, times: 2}`,
	} {
		for _, stream := range []bool{false, true} {
			m := newMocked(t, `replies: [`+fault+`, {text: fine}]`)
			if diff := cmp.Diff(answered{Text: "fine", Finish: "stop", Tokens: 15}, m.ask(t, stream)); diff != "" {
				t.Errorf("%s, stream %v (-want +got):\n%s", fault, stream, diff)
			}
		}
	}
}

func TestFaultsThatTheGatewayTells(t *testing.T) {
	for yaml, want := range map[string]answered{
		`{replies: [{error: gone, error_shape: inside_200}], repeat: true}`:      {Error: "upstream_error"},
		`{replies: [{text: x}], refuse: [{context_over: 10}]}`:                   {Error: "context_length_exceeded"},
		`{replies: [{text: lost, cut_after: 10}], repeat: true}`:                 {Error: "upstream_error"},
		`{replies: [{json: {id: 1}}], repeat: true}`:                             {Error: "upstream_error"},
		`{replies: [{events: [], comments: [x]}], repeat: true}`:                 {Error: "upstream_empty"},
		`{replies: [{text: some, stall: {after: 20, for: 1h}}], repeat: true}`:   {Error: "upstream_timeout"},
		`{replies: [{status: 500, error: no, error_shape: list}], repeat: true}`: {Error: "upstream_error"},
	} {
		for _, stream := range []bool{false, true} {
			if strings.Contains(yaml, "events") && !stream {
				continue
			}
			if diff := cmp.Diff(want, newMocked(t, yaml).ask(t, stream)); diff != "" {
				t.Errorf("%s, stream %v (-want +got):\n%s", yaml, stream, diff)
			}
		}
	}
}

func TestBodiesAreWrittenAsLines(t *testing.T) {
	large := `{"messages":"` + strings.Repeat("é", maxLogged) + `"}`
	for body, want := range map[string]string{
		"{\"b\": 1.0,\n \"a\": \"x  y\"}": `{"b":1.0,"a":"x  y"}`,
		`{`:                               `{"not_whole":"{","bytes":1}`,
		large:                             `{"not_whole":"{\"messages\":\"` + strings.Repeat("é", 493) + `","bytes":2097167}`,
	} {
		got := bodyLine([]byte(body))
		if string(got) != want+"\n" || !json.Valid(got) {
			t.Errorf("%.40s: got %.200s, want %.200s", body, got, want)
		}
	}
}

func TestScriptsInHelpAreTaken(t *testing.T) {
	found := 0
	for block := range strings.SplitSeq(mockCommand().Long, "\n\n") {
		if strings.HasPrefix(block, "  ") {
			found++
			if _, err := script.Parse("help", []byte(block)); err != nil {
				t.Error(err)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d scripts, want 2", found)
	}
}

func TestTheMockTellsWhatItIsAsked(t *testing.T) {
	dir := t.TempDir()
	path, bodies := filepath.Join(dir, "script.yaml"), filepath.Join(dir, "asked.jsonl")
	if err := os.WriteFile(path, []byte(`{refuse: [{member: seed}], replies: [{text: x}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	cmd := root()
	cmd.SetArgs([]string{"mock", path, "--listen", "127.0.0.1:0", "--requests", bodies})
	cmd.SetErr(in)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }() // ends with cancel
	told := bufio.NewReader(out)
	first, err := told.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base, found := strings.CutPrefix(strings.TrimSpace(first), "mock upstream at ")
	if !found {
		t.Fatal("no address")
	}
	lines := make(chan string, 2)
	go func() { // the mock waits for its reader; ends with the pipe
		for range cap(lines) {
			text, _ := told.ReadString('\n')
			lines <- strings.TrimSpace(text)
		}
	}()
	for _, body := range []string{`{"model":"m", "messages":[1]}`, `{"model":"m","stream":true,"messages":[1],"seed":1}`} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	got := []string{<-lines, <-lines}
	want := []string{`request 1: model "m", messages 1, tools 0 -> 200, replies.0`, `request 2: model "m", stream, messages 1, tools 0 -> 400, refuse.0`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	data, err := os.ReadFile(bodies)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"model":"m","messages":[1]}` + "\n" + `{"model":"m","stream":true,"messages":[1],"seed":1}` + "\n"; string(data) != want {
		t.Errorf("bodies = %s, want %s", data, want)
	}
}
