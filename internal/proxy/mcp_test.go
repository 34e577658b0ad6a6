package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/trace"
)

// bearerTransport sends a key with each request.
type bearerTransport string

func (t bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

func connect(ctx context.Context, t *testing.T, f *fixture, key string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: f.URL + "/mcp", HTTPClient: &http.Client{Transport: bearerTransport(key)}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestToolsOverMCP(t *testing.T) {
	var asked []string
	f := newFixture(t, fixtureConfig{
		tools: lookup + `
send: {description: Send an amount., effect: write, confirm: {by: approval, after: untrusted}, http: {url: TOOLS/send}}
pay: {description: Pay an amount., effect: write, parameters: {amount: number}, http: {url: TOOLS/pay, body: json}, errors: {409: {code: twice, message: paid already}}}`,
		keys: auth.Config{Keys: []auth.KeyConfig{
			{Name: "web", SHA256: sha("key-web"), Tools: &[]string{"lookup"}}, {Name: "app", SHA256: sha("key-app")},
		}},
	}, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		if r.URL.Path == "/pay" {
			w.WriteHeader(http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, `{"name":"Thing"}`)
	})
	ctx := t.Context()
	list := func(s *mcp.ClientSession) string {
		var names []string
		for tool, err := range s.Tools(ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		return strings.Join(names, " ")
	}
	web, app := connect(ctx, t, f, "key-web"), connect(ctx, t, f, "key-app")
	if got := list(web); got != "lookup" {
		t.Errorf("tools of web = %s", got)
	}
	if got := list(app); got != "lookup pay send" {
		t.Errorf("tools of app = %s", got)
	}
	for _, tt := range []struct {
		name, tool string
		args       map[string]any
		failed     bool
		text       string
	}{
		{"a good call", "lookup", map[string]any{"id": "a1"}, false, `{"name":"Thing"}`},
		{"arguments that do not fit", "lookup", map[string]any{}, true, "id: is required"},
		{"a write that is confirmed after untrusted, as nobody knows what the caller has read", "send", nil, true, "confirmation_required"},
		{"a failure in the tool's words", "pay", map[string]any{"amount": 5}, true, "paid already"},
	} {
		got, err := app.CallTool(ctx, &mcp.CallToolParams{Name: tt.tool, Arguments: tt.args})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		text := got.Content[0].(*mcp.TextContent).Text
		if got.IsError != tt.failed || !strings.Contains(text, tt.text) {
			t.Errorf("%s: error %v, %s", tt.name, got.IsError, text)
		}
		if run, err := f.store.Get(t.Context(), got.Meta["toolgate/run"].(string), trace.Access{Caller: "app"}); err != nil || len(run.Calls) != 1 {
			t.Errorf("%s: no trace of it", tt.name)
		}
	}
	if _, err := web.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: map[string]any{"amount": 5}}); err == nil {
		t.Error("a key calls a tool that it may not use")
	}
	if len(asked) != 2 {
		t.Errorf("the service was asked %q", asked)
	}
	if r := f.send(t, http.MethodPost, "/mcp", `{}`); r.StatusCode != 401 {
		t.Errorf("without a key: %d", r.StatusCode)
	}
}
