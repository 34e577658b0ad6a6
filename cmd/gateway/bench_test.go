package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/config"
)

// These bound what the gateway costs beside the model: a request through its whole chain, over loopback, to a provider
// that answers at once. Without trace.otlp_endpoint, spans must cost nothing.

func benchGateway(b *testing.B, yaml string) http.Handler {
	b.Helper()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		message := `{"role":"assistant","content":"It is 42."}`
		if strings.Contains(string(body), `"tools"`) && !strings.Contains(string(body), `"role":"tool"`) {
			message = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"double","arguments":"{\"n\":21}"}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":`+message+`,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`)
	}))
	b.Cleanup(provider.Close)
	c, err := check(config.Parse("gateway.yaml", b.TempDir(), []byte(`
upstreams: {up: {base_url: "`+provider.URL+`/v1", api_key: sk-operator}}
log: {level: error}
`+yaml), func(string) (string, bool) { return "", false }))
	if err != nil {
		b.Fatal(err)
	}
	g, err := newGateway(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(g.close)
	return g.server.Handler(true)
}

func benchRequests(b *testing.B, h http.Handler) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Double 21"}]}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

func BenchmarkPassThrough(b *testing.B) { benchRequests(b, benchGateway(b, "")) }

func BenchmarkRunOfTwoSteps(b *testing.B) {
	benchRequests(b, benchGateway(b, "tools: {double: {description: Doubles., parameters: {n: integer}, compute: n * 2}}"))
}
