package upstream

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
)

func TestAContextThatIsTooLongIsToldByTheProvidersWords(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   bool
	}{
		{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, true},
		{"a code alone", 400, `{"error":{"message":"bad request","code":"context_length_exceeded"}}`, true},
		{"Gemini, in a list", 400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, true},
		{"Mistral", 400, `{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}`, true},
		{"Groq", 413, `{"error":{"message":"Request too large for model","type":"tokens","code":"rate_limit_exceeded"}}`, true},
		{"vLLM", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","code":400}`, true},
		{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}`, true},
		{"llama-cpp-python", 400, `{"error":{"message":"This model's maximum context length is 512 tokens, however you requested 600 tokens"}}`, true},
		{"llama-cpp-python, as a failure of its own", 500, `{"error":{"message":"Requested tokens (9000) exceed context window of 8192"}}`, true},
		{"Anthropic's compatible endpoint", 400, `{"error":{"code":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, true},
		{"LiteLLM, whatever the provider's words", 400, `{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: no\n\nLiteLLM: model group 'm' failed with the error above. No fallback was attempted.","type":null,"param":null,"code":"400"}}`, true},
		{"under status 200", 200, `{"error":{"message":"Context length exceeded"}}`, true},
		{"another fault of the request", 400, `{"error":{"message":"max_tokens must be at least 1","param":"max_tokens"}}`, false},
		{"a rate limit", 429, `{"error":{"message":"Too many tokens per minute"}}`, false},
		{"an outage", 503, `{"error":{"message":"overloaded"}}`, false},
		{"a long description of something else", 400, `{"error":{"message":"the function's description is too long"}}`, false},
	} {
		s, _ := script(t, status(tt.status, tt.body))
		_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}"), "", 0)).Ask(t.Context(), ask(t, `{"model":"m","messages":[1]}`))
		e, ok := err.(*Error) //nolint:errorlint // that is what Ask gives
		if !ok {
			t.Fatalf("%s: Ask() = %v", tt.name, err)
		}
		if got := e.ContextTooLong(); got != tt.want {
			t.Errorf("%s: ContextTooLong() = %v, want %v (%v)", tt.name, got, tt.want, e)
		}
	}
}

func TestARouteThatRefusesASchemaBesideToolsIsRemembered(t *testing.T) {
	for name, refusal := range map[string]struct {
		status int
		body   string
	}{
		"Gemini":         {400, `[{"error":{"code":400,"message":"Function calling with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}]`},
		"Groq":           {400, `{"error":{"message":"json mode cannot be combined with tool/function calling","type":"invalid_request_error"}}`},
		"DeepSeek":       {422, `{"error":{"message":"This response_format type is unavailable now","type":"invalid_request_error"}}`},
		"vLLM, older":    {400, `{"object":"error","message":"You can only use one kind of guided decoding ('guided_json', 'guided_regex' or 'guided_choice')."}`},
		"llama.cpp":      {400, `{"error":{"code":400,"message":"Cannot use custom grammar constraints with tools.","type":"invalid_request_error"}}`},
		"failing at it":  {500, `{"error":{"message":"response_format: json_schema is not implemented"}}`},
		"FastAPI's form": {422, `{"detail":[{"loc":["body","response_format","type"],"msg":"unexpected value"}]}`},
	} {
		asked := 0
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			body, _ := io.ReadAll(r.Body)
			if gjson.GetBytes(body, "response_format").Exists() {
				status(refusal.status, refusal.body)(w, r)
				return
			}
			_, _ = io.WriteString(w, answer)
		})
		routes := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}"), "", 0))
		a := ask(t, `{"model":"m","messages":[1],"response_format":{"type":"json_schema"}}`)
		a.ByTool = &chat.Edits{Drop: []string{"response_format"}}
		for i, want := range []int{2, 3} {
			got, err := routes.Ask(t.Context(), a)
			if err != nil || !got.ByTool || asked != want {
				t.Errorf("%s: Ask() = %+v, %v after %d requests, want the tool's way after %d", name, got, err, asked, want)
			}
			if i == 0 {
				other, err := routes.Ask(t.Context(), Ask{Request: a.Request, Edits: *a.ByTool})
				if err != nil || other.ByTool {
					t.Errorf("%s: a request without another way is %+v, %v", name, other, err)
				}
				asked--
			}
		}
	}
}

func TestOtherRefusalsStayTheClients(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"Invalid value for temperature"}}`,
		`{"error":{"message":"This model's maximum context length is 8192 tokens; response_format counts too"}}`,
	} {
		s, asked := script(t, status(http.StatusBadRequest, body), status(http.StatusOK, answer))
		a := ask(t, `{"model":"m","messages":[1],"response_format":{"type":"json_schema"}}`)
		a.ByTool = &chat.Edits{Drop: []string{"response_format"}}
		_, err := NewRoutes(NewRoute(client(t, s.URL, ""), "", 0)).Ask(t.Context(), a)
		if err == nil || asked.Load() != 1 || !strings.Contains(err.Error(), "HTTP 400") {
			t.Errorf("%s: Ask() = %v after %d requests", body, err, asked.Load())
		}
	}
}

func TestAProfileThatHoldsToTheSchemaGetsTheTool(t *testing.T) {
	for profile, want := range map[string]bool{"llamacpp": true, "ollama": true, "vllm": true, "lmstudio": true, "openai": false} {
		s, asked := script(t, status(http.StatusOK, answer))
		a := ask(t, `{"model":"m","messages":[1],"response_format":{"type":"json_schema"}}`)
		a.ByTool = &chat.Edits{Drop: []string{"response_format"}}
		got, err := NewRoutes(NewRoute(client(t, s.URL, "profile: "+profile), "", 0)).Ask(t.Context(), a)
		if err != nil || got.ByTool != want || asked.Load() != 1 {
			t.Errorf("%s: Ask() = %+v, %v after %d requests, want the tool's way %v", profile, got, err, asked.Load(), want)
		}
	}
}
