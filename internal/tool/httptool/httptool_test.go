package httptool

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spec is that of a tool with these parameters, none of them optional.
func spec(effect tool.Effect, params ...string) tool.Spec {
	s := tool.Spec{Name: "t", Effect: effect, Params: map[string]tool.Param{}}
	for _, name := range params {
		s.Params[name] = tool.Param{}
	}
	return s
}

// load decodes and checks the YAML of an http part.
func load(yaml string, s tool.Spec, env map[string]string) (*Config, *config.File) {
	f := config.Parse("f.yaml", "", []byte(yaml), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	c := &Config{}
	f.Decode(c)
	c.Check(f.Root(), s)
	return c, f
}

// newTool makes a tool of YAML without faults.
func newTool(t testing.TB, yaml string, s tool.Spec) tool.Tool {
	t.Helper()
	c, f := load(yaml, s, nil)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	made, err := c.Build(s, tool.Env{Transport: newTransport(t)})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func newTransport(t testing.TB) *http.Transport {
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// serve runs a service on the loopback for the time of the test.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// args reads arguments the way that the gateway does, numbers kept.
func args(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// seen is what arrived at a service.
type seen struct {
	method, uri, host, body string
	header                  http.Header
}

func look(t testing.TB, r *http.Request) seen {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("read the request: %v", err)
	}
	return seen{r.Method, r.RequestURI, r.Host, string(body), r.Header}
}

// wantError checks what a model and the metrics learn of a failure, and that it has no secret in what they do.
func wantError(t *testing.T, err error, want tool.Error, secrets ...string) *tool.Error {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) {
		t.Fatalf("Call() = %v, want a *tool.Error", err)
	}
	if e.Class != want.Class || e.Type != want.Type || e.Status != want.Status || e.Message != want.Message || e.RetryAfter != want.RetryAfter {
		t.Errorf("Call() = %#v (%v), want %#v", e, e, want)
	}
	wantNoSecret(t, e, secrets...)
	return e
}

// wantNoSecret is the assertion that nothing of an error that may reach the model has one of the secrets.
func wantNoSecret(t *testing.T, e *tool.Error, secrets ...string) {
	t.Helper()
	for _, s := range append(secrets, "127.0.0.1", "http://", "goroutine") {
		for _, text := range []string{string(e.Class), e.Type, e.Message} {
			if strings.Contains(text, s) {
				t.Errorf("the model can read %q in %q", s, text)
			}
		}
	}
}
