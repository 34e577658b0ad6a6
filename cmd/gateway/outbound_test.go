package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound/outboundtest"
	"github.com/toolgate/toolgate/internal/registry"
)

// loggingGateway is the gateway of a file in a folder, with what it logs from debug up, masked as it is on stderr.
func loggingGateway(t *testing.T, dir, yaml string, env map[string]string) (*gateway, *lines) {
	t.Helper()
	c, err := check(config.Parse("gateway.yaml", dir, []byte(yaml), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}))
	if err != nil {
		t.Fatal(err)
	}
	logs := &lines{}
	c.Log.Level = "debug"
	g, err := newGatewayWith(c, wiring{log: logs})
	if err != nil {
		t.Fatal(err)
	}
	g.after = c.close
	t.Cleanup(g.close)
	return g, logs
}

// callTool is what a model reads of a call.
func callTool(t *testing.T, g *gateway, name string) string {
	t.Helper()
	v := g.tools.View(nil, nil)
	p := v.Prepare(name, json.RawMessage(`"{}"`))
	if p.Refusal != nil {
		t.Fatal(p.Refusal.Text)
	}
	seen, err := v.Run(t.Context(), p, registry.Scope{RunID: "run_X", Key: t.Name() + name, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	return seen.Text
}

const shopDocument = `openapi: 3.1.0
info: {title: Shop, version: "1"}
servers: [{url: "http://document.test/v1"}]
paths: {/pets: {get: {operationId: pets, summary: Lists pets., responses: {"200": {description: Pets.}}}}}
`

// Whatever the gateway dials over HTTP, a name that leads to a metadata service is not dialled, once and not again, and
// nobody outside of the log reads where it led.
func TestNobodyIsLedToAMetadataService(t *testing.T) {
	names := &outboundtest.Names{}
	for _, name := range []string{"up.test", "service.test", "document.test", "mcp.test", "desk.test"} {
		names.Set(name, "169.254.169.254")
	}
	names.ForAll(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(shopDocument), 0o600); err != nil {
		t.Fatal(err)
	}
	g, logs := loggingGateway(t, dir, `
upstreams: {up: {base_url: http://up.test/v1, retry: {attempts: 3, base: 1ms}}}
openapi: {shop: {spec: shop.yaml, set: {pets: {retry: 2}}}}
mcp_servers: {far: {url: http://mcp.test/mcp}}
tools:
  look: {description: Looks., parameters: {}, retry: 2, http: {url: http://service.test/latest/meta-data}}
  desk: {description: Hands over., parameters: {}, handoff: {message: bye, webhook: http://desk.test/}}
`, nil)
	for tool, host := range map[string]string{"look": "service.test", "shop__pets": "document.test", "desk": "desk.test"} {
		text := callTool(t, g, tool)
		if !strings.Contains(text, "ConnectError") || strings.Contains(text, "169.254") || strings.Contains(text, host) {
			t.Errorf("%s: the model reads %s", tool, text)
		}
		if n := strings.Count(logs.String(), host+" leads to 169.254.169.254"); n != 1 {
			t.Errorf("%s: the log tells of %d refusals, want 1:\n%s", tool, n, logs)
		}
	}
	front := httptest.NewServer(g.server.Handler(true))
	defer front.Close()
	status, reply := post(t, front, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, nil)
	if status != http.StatusBadGateway || strings.Contains(reply, "169.254") || strings.Contains(reply, "up.test") {
		t.Errorf("the client reads %d %s", status, reply)
	}
	if n := strings.Count(logs.String(), "up.test leads to 169.254.169.254"); n != 1 {
		t.Errorf("the log tells of %d refusals of the upstream, want 1:\n%s", n, logs)
	}
	if n := upstreamAttempts(t, g); n != 1 {
		t.Errorf("the upstream was tried %v times, want once", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := g.mcp.list[0].Connect(ctx); err == nil || !strings.Contains(err.Error(), "mcp.test leads to 169.254.169.254") {
		t.Errorf("the MCP server: %v, want it refused", err)
	}
}

// upstreamAttempts are the requests to upstreams that were tried.
func upstreamAttempts(t *testing.T, g *gateway) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, f := range families {
		if f.GetName() == "gateway_upstream_requests_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// post asks a gateway for a chat completion.
func post(t *testing.T, front *httptest.Server, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, header)
	resp, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(reply)
}

// A document is somebody else's: it can't allow an address that the file does not.
func TestADocumentCannotNameAMetadataService(t *testing.T) {
	for _, server := range []string{"http://169.254.169.254/latest", "http://metadata.google.internal", "http://[fd00:ec2::254]/", "http://ｍetadata.google.internal"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(strings.Replace(shopDocument, "http://document.test/v1", server, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		const yaml = "upstreams: {up: {base_url: http://up.test/v1}}\nopenapi: {shop: {spec: shop.yaml"
		_, err := check(config.Parse("gateway.yaml", dir, []byte(yaml+"}}"), nil))
		if err == nil || !strings.Contains(err.Error(), "openapi.shop.base_url: is required: the server that shop.yaml names is link-local") {
			t.Errorf("%s: %v, want a fault", server, err)
		}
		if c, err := check(config.Parse("gateway.yaml", dir, []byte(yaml+", base_url: '"+server+"'}}"), nil)); err != nil {
			t.Errorf("%s in the file: %v", server, err)
		} else if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}

// Everything that is dialled takes the same settings of TLS, and shows a certificate to who asks for one.
func TestWhateverIsDialledSpeaksTLSAsTheFileSays(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(time.Hour))
	remote := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	mcp.AddTool(remote, &mcp.Tool{Name: "ping", Description: "Pings."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "pong"}}}, nil, nil
	})
	speak := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return remote }, nil)
	s := a.Server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.PeerCertificates[0].Subject.CommonName != "client" {
			t.Errorf("%s came with a certificate of %s", r.URL, r.TLS.PeerCertificates[0].Subject)
		}
		switch r.URL.Path {
		case "/mcp":
			speak.ServeHTTP(w, r)
		case "/v1/chat/completions":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`)
		default:
			_, _ = io.WriteString(w, `"`+r.URL.Path+`"`)
		}
	}))
	if err := os.WriteFile(filepath.Join(a.Dir, "shop.yaml"), []byte(shopDocument), 0o600); err != nil {
		t.Fatal(err)
	}
	g, logs := loggingGateway(t, a.Dir, `
upstreams: {up: {base_url: "${URL}/v1", tls: &tls {ca_file: ca.pem, cert_file: client.pem, key_file: client.key, server_name: server}}}
openapi: {shop: {spec: shop.yaml, base_url: "${URL}/shop", tls: *tls}}
mcp_servers: {far: {url: "${URL}/mcp", tls: *tls}}
tools:
  look: {description: Looks., parameters: {}, http: {url: "${URL}/look", tls: *tls}}
  bare: {description: Looks., parameters: {}, http: {url: "${URL}/bare"}}
  desk: {description: Hands over., parameters: {}, handoff: {message: bye, webhook: {url: "${URL}/desk", tls: *tls}}}
`, map[string]string{"URL": s.URL})
	for tool, want := range map[string]string{"look": "/look", "shop__pets": "/shop/pets", "desk": "bye", "bare": "ConnectError"} {
		if text := callTool(t, g, tool); !strings.Contains(text, want) {
			t.Errorf("%s: the model reads %s, want %s\n%s", tool, text, want, logs)
		}
	}
	front := httptest.NewServer(g.server.Handler(true))
	defer front.Close()
	if status, reply := post(t, front, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, nil); gjson.Get(reply, "choices.0.message.content").Str != "hello" {
		t.Errorf("the client reads %d %s\n%s", status, reply, logs)
	}
	if tools, err := g.mcp.list[0].Connect(t.Context()); err != nil || len(tools) != 1 {
		t.Errorf("the MCP server has %v, %v", tools, err)
	}
}

// The files of certificates are watched with the file that names them.
func TestARenewedCertificateIsReadAgain(t *testing.T) {
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "client", time.Now().Add(time.Hour))
	file := filepath.Join(a.Dir, "gateway.yaml")
	const yaml = "upstreams: {up: {base_url: https://up.test/v1, tls: {cert_file: client.pem, key_file: client.key}}}\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	f := config.Load(file, os.LookupEnv)
	if _, err := check(f); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"client.pem", "client.key"} {
		if _, ok := f.Uses()[filepath.Join(a.Dir, name)]; !ok {
			t.Errorf("%s is not watched: %v", name, f.Uses())
		}
	}
}

// What a client shows who it is by is for the gateway: neither provider nor tool get it.
func TestNothingOfTheClientReachesATool(t *testing.T) {
	var mu sync.Mutex
	got := map[string]http.Header{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[r.URL.Path] = r.Header
		mu.Unlock()
		message := `{"role":"assistant","content":"done"}`
		if !strings.Contains(string(body), `"role":"tool"`) {
			message = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":`+message+`,"finish_reason":"stop"}]}`)
	}))
	defer s.Close()
	g, logs := loggingGateway(t, t.TempDir(), `
upstreams: {up: {base_url: "${URL}/v1", api_key: sk-of-the-operator}}
tools: {look: {description: Looks., parameters: {}, http: {url: "${URL}/look"}}}
`, map[string]string{"URL": s.URL})
	front := httptest.NewServer(g.server.Handler(true))
	defer front.Close()
	client := http.Header{}
	for _, name := range []string{"Authorization", "Cookie", "Api-Key", "X-Api-Key", "X-Gateway-Other", "Origin", "Referer", "X-Forwarded-For", "Idempotency-Key", "Proxy-Authorization", "X-Own"} {
		client.Set(name, "of-the-client")
	}
	client.Set("X-Gateway-Progress", "off")
	if status, reply := post(t, front, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, client); status != http.StatusOK {
		t.Fatalf("the client reads %d %s\n%s", status, reply, logs)
	}
	for path, header := range got {
		for name, values := range header {
			if strings.Contains(strings.Join(values, " "), "of-the-client") && (path == "/look" || name != "X-Own") {
				t.Errorf("%s got %s: %v", path, name, values)
			}
		}
	}
	if got["/look"] == nil || got["/v1/chat/completions"].Get("Authorization") != "Bearer sk-of-the-operator" {
		t.Errorf("the tool got %v, the provider %v", got["/look"], got["/v1/chat/completions"])
	}
}
