package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/toolgate/toolgate/internal/auth"
)

// HEAD was 405 on the gateway's own endpoints, and 404 on the models. It is GET without the body, the need of a key and
// errors included.
func TestHeadIsGetWithoutTheBody(t *testing.T) {
	f := newFixture(t, fixtureConfig{
		models: "m: {upstream: up}", tools: lookup,
		keys: auth.Config{Keys: []auth.KeyConfig{{Name: "web", SHA256: sha("k")}}},
	}, nil, nil)
	admin := httptest.NewServer(f.AdminHandler())
	t.Cleanup(admin.Close)
	paths := []string{"/v1/models", "/v1/models/m", "/v1/models/none", "/nothing"}
	for _, h := range []http.Handler{f.Handler(true), f.AdminHandler()} {
		err := chi.Walk(h.(chi.Routes), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			if method == http.MethodGet && !strings.Contains(path, "*") {
				paths = append(paths, strings.NewReplacer("{id}", "none", "{file}", "app.js").Replace(path))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(paths) < 15 {
		t.Fatalf("only %q", paths)
	}
	for _, path := range paths {
		if strings.HasPrefix(path, "/debug/pprof/") { // Go's own; a profile takes its time
			continue
		}
		for _, key := range []string{"Bearer k", "Bearer wrong"} {
			head, get := f.send(t, http.MethodHead, path, "", "Authorization", key), f.send(t, http.MethodGet, path, "", "Authorization", key)
			if head.StatusCode != get.StatusCode || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") || head.body != "" {
				t.Errorf("HEAD %s with %s = %d %s %q, want %d %s without a body", path, key, head.StatusCode, head.Header.Get("Content-Type"), head.body, get.StatusCode, get.Header.Get("Content-Type"))
			}
		}
	}
	for path, want := range map[string]int{chatPath: 405, "/mcp": 405, "/healthz": 200, "/readyz": 200} {
		if got := f.send(t, http.MethodHead, path, "", "Authorization", "Bearer k").StatusCode; got != want {
			t.Errorf("HEAD %s = %d, want %d", path, got, want)
		}
	}
	resp, err := http.Head(admin.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD /readyz of the admin listener = %d, want 200", resp.StatusCode)
	}
}
