package upstream

import (
	"io"
	"net/http"
	"testing"

	"github.com/toolgate/toolgate/internal/chat"
)

// seen is what a provider got.
type seen struct {
	uri, body string
	header    http.Header
}

// listens is a provider that keeps what it gets and answers well.
func listens(t *testing.T) (base string, got *[]seen) {
	t.Helper()
	got = &[]seen{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*got = append(*got, seen{r.URL.RequestURI(), string(body), r.Header})
		_, _ = io.WriteString(w, answer)
	})
	return s.URL, got
}

func TestAzureAddresses(t *testing.T) {
	for _, tt := range []struct {
		name, path, more, model string
		pass                    Pass
		want                    string
	}{
		{"a deployment of the route", "", "", "gpt 5/a", Pass{}, "/openai/deployments/gpt%205%2Fa/chat/completions?api-version=2024-10-21"},
		{"a deployment that the client names", "", "", "", Pass{}, "/openai/deployments/m/chat/completions?api-version=2024-10-21"},
		{"a name that leads out of the deployments", "", "", "..", Pass{}, "/openai/chat/completions?api-version=2024-10-21"},
		{"another version", "", "api_version: 2025-04-01-preview\n", "", Pass{}, "/openai/deployments/m/chat/completions?api-version=2025-04-01-preview"},
		{"a base with openai", "/openai/", "", "", Pass{}, "/openai/deployments/m/chat/completions?api-version=2024-10-21"},
		{"a base behind a proxy", "/azure", "", "", Pass{}, "/azure/openai/deployments/m/chat/completions?api-version=2024-10-21"},
		{"another endpoint of a deployment", "", "", "d", Pass{Path: "embeddings", Query: "x=a%20b"}, "/openai/deployments/d/embeddings?x=a%20b&api-version=2024-10-21"},
		{"an endpoint with the model in its body", "", "", "d", Pass{Path: "responses"}, "/openai/responses?api-version=2024-10-21"},
		{"an endpoint with something in its path", "", "", "", Pass{Path: "files/a%2Fb"}, "/openai/files/a%2Fb?api-version=2024-10-21"},
		{"a version of the client's own", "", "", "", Pass{Path: "files", Query: "api-version=1&x"}, "/openai/files?api-version=1&x"},
		{"the v1 API", "/openai/v1", "", "d", Pass{}, "/openai/v1/chat/completions"},
		{"the v1 API, another endpoint", "/openai/v1/", "", "d", Pass{Path: "embeddings", Query: "x"}, "/openai/v1/embeddings?x"},
		{"the v1 API with a version", "/openai/v1", "api_version: preview\n", "d", Pass{}, "/openai/v1/chat/completions?api-version=preview"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, got := listens(t)
			u := configuredAt(t, base+tt.path, "kind: azure\n"+tt.more)
			req, err := chat.ParseRequest([]byte(plain))
			if err != nil {
				t.Fatal(err)
			}
			tt.pass.Method, tt.pass.Request = http.MethodPost, req
			resp, err := NewRoutes(NewRoute(u, tt.model, 0)).Pass(t.Context(), tt.pass)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if (*got)[0].uri != tt.want {
				t.Errorf("asked %s, want %s", (*got)[0].uri, tt.want)
			}
		})
	}
}

func TestAzureAnswersARun(t *testing.T) {
	base, got := listens(t)
	u := configuredAt(t, base, "kind: azure\napi_key: secret\n")
	reply, err := NewRoutes(NewRoute(u, "gpt-5", 0)).Ask(t.Context(), ask(t, plain))
	if err != nil || reply.Turn.Text != "Hello." {
		t.Fatalf("Ask() = %v, %v", reply, err)
	}
	if want := "/openai/deployments/gpt-5/chat/completions?api-version=2024-10-21"; (*got)[0].uri != want {
		t.Errorf("asked %s, want %s", (*got)[0].uri, want)
	}
	if want := `{"model":"gpt-5","messages":[1]}`; (*got)[0].body != want {
		t.Errorf("body %s, want %s", (*got)[0].body, want)
	}
}

func TestAzureTakesKeysInAHeaderOfItsOwn(t *testing.T) {
	for _, tt := range []struct{ name, more, key string }{
		{"the operator's", "api_key: ours\n", "ours"},
		{"the client's", "forward_client_key: true\n", "theirs"},
		{"nobody's", "", ""},
		{"one under headers", "headers: {api-key: own}\n", "own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, got := listens(t)
			a := ask(t, plain)
			a.ClientKey = "theirs"
			if _, err := NewRoutes(NewRoute(configuredAt(t, base, "kind: azure\n"+tt.more), "", 0)).Ask(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			h := (*got)[0].header
			if h.Get("Api-Key") != tt.key || h.Get("Authorization") != "" {
				t.Errorf("api-key %q and Authorization %q, want %q alone", h.Get("Api-Key"), h.Get("Authorization"), tt.key)
			}
		})
	}
}

func TestForwardClientKey(t *testing.T) {
	for _, tt := range []struct{ name, more, key, want string }{
		{"not asked for", "", "theirs", ""},
		{"asked for", "forward_client_key: true\n", "theirs", "Bearer theirs"},
		{"asked for, and the client has none", "forward_client_key: true\n", "", ""},
		{"the operator has one", "api_key: ours\n", "theirs", "Bearer ours"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, got := listens(t)
			u := configuredAt(t, base+"/v1", tt.more)
			resp, err := NewRoutes(NewRoute(u, "", 0)).Pass(t.Context(), Pass{Method: http.MethodGet, Path: "models", ClientKey: tt.key})
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := (*got)[0].header.Get("Authorization"); got != tt.want {
				t.Errorf("Authorization %q, want %q", got, tt.want)
			}
		})
	}
}
