package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/guard"
)

// A model's word on guard stands over the file's. With it every request of a run has the same instruction, behind the
// operator's own; without it nothing is different.
func TestGuardOfFileAndModel(t *testing.T) {
	for _, tt := range []struct {
		file, model string
		want        bool
	}{
		{"", "", false},
		{"guard: off", "", false},
		{"guard: mark", "", true},
		{"guard: mark", ", guard: off", false},
		{"guard: off", ", guard: mark", true},
		{"", ", guard: mark", true},
	} {
		for _, instructions := range []string{"", "Be brief."} {
			t.Run(tt.file+tt.model+instructions, func(t *testing.T) {
				var asked []string
				upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					asked = append(asked, string(body))
					message := `{"role":"assistant","content":"Done."}`
					if len(asked) == 1 {
						message = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}]}`
					}
					_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":%s,"finish_reason":"stop"}]}`, message)
				}))
				defer upstream.Close()
				front := httptest.NewServer(newTestGateway(t, fmt.Sprintf(`
upstreams: {up: {base_url: "${UPSTREAM}/v1"}}
models: {"*": {upstream: up, instructions: %q%s}}
tools: {look: {description: Look., const: "here"}}
%s
`, instructions, tt.model, tt.file), map[string]string{"UPSTREAM": upstream.URL}).server.Handler(true))
				defer front.Close()
				resp, err := front.Client().Post(front.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Go"}]}`))
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if len(asked) != 2 {
					t.Fatalf("%d requests", len(asked))
				}
				system, result := instructions, "here"
				if tt.want {
					system = strings.TrimPrefix(instructions+"\n\n"+guard.Instruction, "\n\n")
				}
				for _, body := range asked {
					first := gjson.Get(body, "messages.0")
					if got := first.Get("content").String(); system != "" && (got != system || first.Get("role").String() != "system") {
						t.Errorf("the system message is %s, want %q", first.Raw, system)
					}
					if n := len(gjson.Get(body, `messages.#(role=="system")#`).Array()); system == "" && n > 0 || n > 1 {
						t.Errorf("%d system messages", n)
					}
				}
				got := gjson.Get(asked[1], "messages.@reverse.0.content").String()
				if (got != result) != tt.want || strings.Contains(got, "⟦") != tt.want {
					t.Errorf("the model reads %q", got)
				}
			})
		}
	}
}

// A client of the tools over MCP gets results as they are: marks are for the gateway's own models.
func TestResultsAtMCPHaveNoMarks(t *testing.T) {
	front := httptest.NewServer(newTestGateway(t, `
upstreams: {up: {base_url: "http://127.0.0.1:1/v1"}}
server: {mcp: true}
guard: mark
tools: {look: {description: Look., const: "⟦here⟧"}}
`, nil).server.Handler(true))
	defer front.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, reply, _ := strings.Cut(string(body), "data: ")
	if got := gjson.Get(reply, "result.content.0.text").String(); got != "⟦here⟧" {
		t.Errorf("the result is %q: %s", got, body)
	}
}
