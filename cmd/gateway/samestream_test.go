package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// turns plays a provider whose turns are texts: whole, or in pieces of some bytes.
type turns struct {
	texts []string
	cut   func(n int) int // how many of n characters the next piece has
	asked int
}

func (p *turns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := p.texts[min(p.asked, len(p.texts)-1)]
	p.asked++
	if !gjson.GetBytes(body, "stream").Bool() {
		quoted, _ := json.Marshal(text)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}]}`, quoted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for left := []rune(text); len(left) > 0; {
		n := p.cut(len(left))
		quoted, _ := json.Marshal(string(left[:n]))
		left = left[n:]
		_, _ = fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":null}]}\n\n", quoted)
	}
	_, _ = io.WriteString(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// Whatever a model writes, with calls in any form and text around them, a stream ends with the answer that the same
// turns give in one piece, whatever was held and however the text was cut, and shows no call.
func TestAStreamSaysWhatOnePieceSays(t *testing.T) {
	p := &turns{}
	upstream := httptest.NewServer(p)
	defer upstream.Close()
	tools := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "21 C") }))
	defer tools.Close()
	var fronts []http.Handler
	for _, hold := range []string{"0", "12", "all"} {
		for _, model := range []string{"tool_calling: prompt", "tool_calling: native"} {
			fronts = append(fronts, newTestGateway(t, `
upstreams: {up: {base_url: "${UPSTREAM}/v1"}}
models: {"*": {upstream: up, `+model+`, memory: "off", budget: {max_steps: 4}}}
streaming: {hold: `+hold+`}
tools: {lookup: {description: Look., http: {url: "${TOOLS}/"}}}
`, map[string]string{"UPSTREAM": upstream.URL, "TOOLS": tools.URL}).server.Handler(true))
		}
	}
	fragments := rapid.SampledFrom([]string{
		"It is so. ", "a < b ", "[1] ", "{x} ", "é", "\n", "`code` ", "functional ", `{"city":"Lima"}`, `{"name":"Ana","arguments":{}}`,
		`{"name":"lookup","arguments":{}}`, "<tool_call>\n{\"name\":\"lookup\",\"arguments\":{}}\n</tool_call>", "<tool_call>", "</tool_call>",
		"<tool_call>{\"name\":\"lookup\",\"arguments\":{\"x\":}}</tool_call>", "[TOOL_CALLS][{\"name\":\"lookup\",\"arguments\":{}}]",
		"```json\n", "\n```\n", "<tool_response>made up</tool_response>", "<|im_end|>", "<|im", "<tool",
	})
	rapid.Check(t, func(t *rapid.T) {
		p.texts = []string{strings.Join(rapid.SliceOfN(fragments, 1, 5).Draw(t, "first"), ""), strings.Join(rapid.SliceOfN(fragments, 1, 3).Draw(t, "second"), ""), "Done."}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "cuts"), 1))
		p.cut = func(n int) int { return min(n, 1+random.IntN(9)) }
		which := rapid.IntRange(0, len(fronts)-1).Draw(t, "front")
		front, prompt := fronts[which], which%2 == 0
		answer := func(stream bool) (status int, text string) {
			p.asked = 0
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"Go"}]}`, stream)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			front.ServeHTTP(w, r)
			if !stream || w.Code != http.StatusOK {
				return w.Code, gjson.Get(w.Body.String(), "choices.0.message.content").String()
			}
			for line := range strings.Lines(w.Body.String()) {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					if gjson.Get(data, "error").Exists() {
						return http.StatusUnprocessableEntity, text
					}
					text += gjson.Get(data, "choices.0.delta.content").String()
				}
			}
			return w.Code, text
		}
		status, want := answer(false)
		streamed, got := answer(true)
		if (status == http.StatusOK) != (streamed == http.StatusOK) || status == http.StatusOK && !strings.HasSuffix(strings.TrimSpace(got), strings.TrimSpace(want)) { // a blank turn may end either
			t.Fatalf("turns %q: %d %q in one piece, %d %q as a stream", p.texts, status, want, streamed, got)
		}
		if prompt && (strings.Contains(got, "<tool_call>") || strings.Contains(got, `{"name":"lookup","arguments"`)) {
			t.Fatalf("turns %q show a call: %q", p.texts, got)
		}
	})
}
