package proxy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate"
	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/jwks"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/proxy"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/script"
	"github.com/toolgate/toolgate/internal/sse"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/httptool"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

// describedSite has a model for each way in which a run may end.
const describedSite = `
upstreams:
  up: {base_url: "${UPSTREAM}/v1", api_key: operator, retry: {attempts: 1}, breaker: {failures: 1000}}
  idle: {base_url: "${UPSTREAM}/v1", api_key: operator, retry: {attempts: 1}, breaker: {failures: 1, open_for: 1h}}
models:
  m: {upstream: up, price: {prompt: 1, completion: 2}}
  poor: {upstream: up, budget: {max_steps: 1, on_exhausted: error}}
  hasty: {upstream: up, budget: {max_seconds: 0.05}}
  broken: {upstream: idle}
  plain: {upstream: up, tools: []}
tools:
  lookup:
    description: Look something up.
    parameters: {id: string}
    http: {url: "${SERVICE}/{id}", result: .name}
    errors: {404: {code: not_found, message: "there is no {id}"}}
  pay:
    description: Pay.
    parameters: {amount: number}
    http: {url: "${SERVICE}/pay", body: json}
  wire:
    description: Wire.
    parameters: {amount: number}
    http: {url: "${SERVICE}/wire", body: json}
    confirm: approval
auth:
  keys:
    - {name: web, sha256: "${SUM}"}
    - {name: many, sha256: "${MANY}", limits: {requests_per_minute: 100, tokens_per_minute: 1000000, concurrent: 1}}
    - {name: boss, sha256: "${BOSS}", runs: all}
    - {name: few, sha256: "${FEW}", approve: false, limits: {requests_per_minute: 1}}
`

// describedScript is what the model says to each of the cases' questions.
const describedScript = `
conversations:
  - when: look
    turns:
      - calls: [{name: lookup, arguments: {id: a}}, {name: lookup, arguments: {id: none}}, {name: nosuch}]
      - text: "It is {tool}."
  - when: refuse
    turns: [{status: 400, error: no such thing, code: no_such_thing}]
  - when: busy
    turns: [{status: 429, error: slow down, headers: {Retry-After: "7"}}]
  - when: fail
    turns: [{status: 500, error: out of order}]
  - when: buy
    turns:
      - calls: [{name: pay, arguments: {amount: 5}}]
      - {status: 500, error: out of order}
  - when: wire
    turns: [{calls: [{name: wire, arguments: {amount: 5}}]}, {text: sent}]
  - when: dawdle
    turns: [{text: late, delay: 5s}]
  - when: declared
    turns: [{calls: [{name: of_the_client, arguments: {}}]}]
  - turns: [{text: hello}]
`

const (
	describedKey = "tg-key-of-the-tests"
	manyKey      = "tg-key-with-limits" // which the tests do not reach
	bossKey      = "tg-key-that-sees-all-runs"
	fewKey       = "tg-key-over-its-limits"
)

func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

// describedServer is a gateway at work behind HTTP, with a scripted provider and a service for its tools.
func describedServer(t *testing.T) *httptest.Server {
	t.Helper()
	return describedServerOn(t, trace.NewMemory(100, time.Hour))
}

// describedServerOn is a describedServer that keeps its runs there.
func describedServerOn(t *testing.T, runs trace.Store) *httptest.Server {
	t.Helper()
	s, err := script.Parse("script.yaml", []byte(describedScript))
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(script.NewServer(s))
	t.Cleanup(up.Close)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"name":"a thing"}`)
	}))
	t.Cleanup(service.Close)
	front := httptest.NewServer(describedProxy(t, map[string]string{
		"UPSTREAM": up.URL, "SERVICE": service.URL, "SUM": sum(describedKey), "MANY": sum(manyKey), "FEW": sum(fewKey), "BOSS": sum(bossKey),
	}, runs).Handler(true))
	t.Cleanup(front.Close)
	return front
}

// describedProxy is wired as the command wires it.
func describedProxy(t *testing.T, env map[string]string, runs trace.Store) *proxy.Server {
	t.Helper()
	var file struct {
		Upstreams config.Map[upstream.Config] `yaml:"upstreams"`
		Models    config.Map[models.Config]   `yaml:"models"`
		Tools     *config.Node                `yaml:"tools"`
		Auth      auth.Config                 `yaml:"auth"`
		Streaming proxy.StreamingConfig       `yaml:"streaming"`
	}
	f := config.Parse("gateway.yaml", ".", []byte(describedSite), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	f.Decode(&file)
	tools := registry.Read(file.Tools, []tool.Kind{httptool.Kind}, nil)
	if p := f.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	reg := prometheus.NewRegistry()
	breakers := breaker.NewMetrics(reg)
	upstreamMetrics := upstream.NewMetrics(reg)
	clients := map[string]*upstream.Client{}
	for name, c := range file.Upstreams.All() {
		client, err := upstream.NewClient(name, &c, upstreamMetrics, breakers.Changed)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		clients[name] = client
	}
	transport := outbound.NewPools(outbound.Dialer{})
	t.Cleanup(transport.CloseIdleConnections)
	masker := mask.New(f.Secrets())
	kept := state.NewMemory(state.Limits{})
	t.Cleanup(kept.Close)
	confirmations := registry.NewConfirmations(kept)
	set, err := registry.NewSet(registry.Options{
		Env: tool.Env{Transport: transport}, Mask: masker, Logger: slog.New(slog.DiscardHandler),
		Metrics: registry.NewMetrics(reg), OnBreaker: breakers.Changed, Definitions: tools,
		Confirmations: confirmations,
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoints, err := proxy.NewEndpoints([]string{"embeddings"})
	if err != nil {
		t.Fatal(err)
	}
	var list []*models.Model
	for name, m := range file.Models.All() {
		list = append(list, models.New(name, &m, clients, budget.Default()))
	}
	return proxy.New(&proxy.Site{
		Keys: auth.NewKeys(&file.Auth, unchecked()), Models: models.NewTable(list, list[0].Routes), Tools: set, Endpoints: endpoints,
		Streaming: file.Streaming, MaxBody: 4096, MaxInflight: 8, Mask: masker,
	}, proxy.Options{
		Logger: slog.New(slog.DiscardHandler), Metrics: proxy.NewMetrics(reg), Gatherer: reg,
		Store: runs, OpenAPI: toolgate.OpenAPI, Replies: kept, Confirmations: confirmations,
	})
}

// unchecked are tokens that can't be looked at, but for what is no token: the key set is never read.
func unchecked() *auth.Tokens {
	set := jwks.New(func(context.Context) ([]byte, error) { return nil, errors.New("down") }, jwks.Options{Refresh: time.Hour})
	return auth.NewTokens(&auth.JWTConfig{}, set, time.Now)
}

// description is the document that the gateway serves.
func description(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(toolgate.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// wildcards are the paths of routes that OpenAPI has no word for, as what follows may hold slashes, and of one that leads
// to another.
var wildcards = map[string]string{"/v1/models/*": "/v1/models/{id}", "/v1/*": "/v1/{endpoint}", "/gateway/ui/": "/gateway/ui"}

func TestDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	doc := description(t)
	described := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	served := map[string]bool{}
	routes, ok := describedProxy(t, map[string]string{"UPSTREAM": "http://up.test", "SERVICE": "http://service.test", "SUM": sum("a"), "MANY": sum("b"), "FEW": sum("c"), "BOSS": sum("d")}, trace.NewMemory(1, time.Hour)).Handler(true).(chi.Routes)
	if !ok {
		t.Fatal("the handler is no chi router")
	}
	err := chi.Walk(routes, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if p := wildcards[path]; p != "" {
			path = p
		}
		if method == http.MethodHead && described[http.MethodGet+" "+path] { // the text says it of all
			return nil
		}
		// What is passed through is served with any method; two of them are described.
		if path != wildcards["/v1/*"] || described[method+" "+path] {
			served[method+" "+path] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(served)), slices.Sorted(maps.Keys(described))); diff != "" {
		t.Errorf("routes and description differ (-served +described):\n%s", diff)
	}
}

func TestDescriptionHasEveryStopReason(t *testing.T) {
	var want []any
	for _, s := range loop.Stops() {
		want = append(want, string(s))
	}
	if diff := cmp.Diff(want, description(t).Components.Schemas["Stop"].Value.Enum); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ask is the body of a completion.
func ask(model, text, more string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, text, more)
}

const chatPath = "/v1/chat/completions"

func TestRepliesConformToTheDescription(t *testing.T) {
	full := map[string]string{trace.Header: "full"}
	many := map[string]string{"Authorization": "Bearer " + manyKey}
	few := map[string]string{"Authorization": "Bearer " + fewKey}
	cases := []struct {
		name   string
		at     string // path of the description; "" is that of chat completions
		path   string // of the request; "" is at
		body   string // "" is a GET
		header map[string]string
		status int
		code   string // of the gateway's own error
	}{
		{name: "an answer after calls", body: ask("m", "look", ""), status: 200},
		{name: "an answer with its trace", body: ask("m", "look", ""), header: full, status: 200},
		{name: "a call of the client's tool", body: ask("m", "declared", `,"tools":[{"type":"function","function":{"name":"of_the_client"}}]`), status: 200},
		{name: "a request that is passed through", body: ask("plain", "hi", ""), status: 200},
		{name: "a field that is wrong", body: ask("m", "hi", `,"n":0`), status: 400},
		{name: "no JSON", body: `{`, status: 400},
		{name: "several choices", body: ask("m", "hi", `,"n":2`), status: 200},
		{name: "a header that is wrong", body: ask("m", "hi", ""), header: map[string]string{"X-Gateway-Max-Steps": "none"}, status: 400},
		{name: "a request that the provider refuses", body: ask("m", "refuse", ""), status: 400, code: "no_such_thing"},
		{name: "a strange key", body: ask("m", "hi", ""), header: map[string]string{"Authorization": "Bearer strange"}, status: 401, code: "invalid_api_key"},
		{name: "a token that is not taken", body: ask("m", "hi", ""), header: map[string]string{"Authorization": "Bearer a.b.c="}, status: 401, code: "invalid_api_key"},
		{name: "a token that can't be checked", body: ask("m", "hi", ""), header: map[string]string{"Authorization": "Bearer a.b.c"}, status: 503, code: "auth_unavailable"},
		{name: "the same for tools", at: "/gateway/tools", header: map[string]string{"Authorization": "Bearer a.b.c"}, status: 503, code: "auth_unavailable"},
		{name: "an unknown model", body: ask("nope", "hi", ""), status: 404, code: "model_not_found"},
		{name: "a large body", body: ask("m", strings.Repeat("x", 5000), ""), status: 413, code: "request_too_large"},
		{name: "another content type", body: ask("m", "hi", ""), header: map[string]string{"Content-Type": "text/plain"}, status: 415, code: "unsupported_media_type"},
		{name: "a spent budget", body: ask("poor", "look", ""), status: 422, code: "budget_exhausted"},
		{name: "a failure after a write", body: ask("m", "buy", ""), status: 422, code: "upstream_error"},
		{name: "a failure after a guarded write", body: ask("m", "buy", ""), header: map[string]string{"Idempotency-Key": "k"}, status: 502, code: "upstream_error"},
		{name: "an answer under a key", body: ask("m", "look", ""), header: map[string]string{"Idempotency-Key": "used"}, status: 200},
		{name: "the same answer again", body: ask("m", "look", ""), header: map[string]string{"Idempotency-Key": "used"}, status: 200},
		{name: "another request under its key", body: ask("m", "fail", ""), header: map[string]string{"Idempotency-Key": "used"}, status: 409, code: "idempotency_key_reused"},
		{name: "a key that is too long", body: ask("m", "look", ""), header: map[string]string{"Idempotency-Key": strings.Repeat("k", 256)}, status: 400},
		{name: "a busy provider", body: ask("m", "busy", ""), status: 429},
		{name: "a provider out of order", body: ask("m", "fail", ""), status: 502, code: "upstream_error"},
		{name: "an open breaker", body: ask("broken", "fail", ""), status: 503, code: "upstream_unavailable"},
		{name: "no time left", body: ask("hasty", "dawdle", ""), status: 504, code: "timeout"},
		{name: "an answer to a key with limits", body: ask("m", "look", ""), header: many, status: 200},
		{name: "a key over its limits", body: ask("m", "look", ""), header: few, status: 429, code: "rate_limit_exceeded"},
		{name: "its models", at: "/v1/models", header: few, status: 429, code: "rate_limit_exceeded"},
		{name: "one of its models", at: "/v1/models/{id}", path: "/v1/models/m", header: few, status: 429, code: "rate_limit_exceeded"},
		{name: "an endpoint for it", at: "/v1/{endpoint}", path: "/v1/embeddings", body: `{"model":"m","input":"x"}`, header: few, status: 429, code: "rate_limit_exceeded"},
		{name: "models", at: "/v1/models", status: 200},
		{name: "models without a key", at: "/v1/models", header: map[string]string{"Authorization": ""}, status: 401, code: "invalid_api_key"},
		{name: "a model", at: "/v1/models/{id}", path: "/v1/models/m", status: 200},
		{name: "no such model", at: "/v1/models/{id}", path: "/v1/models/of/nobody", status: 404, code: "model_not_found"},
		{name: "an endpoint that is passed through", at: "/v1/{endpoint}", path: "/v1/embeddings", body: `{"model":"m","input":"x"}`, status: 404},
		{name: "an endpoint that is not", at: "/v1/{endpoint}", path: "/v1/files", status: 404, code: "unknown_url"},
		{name: "life", at: "/healthz", status: 200},
		{name: "readiness", at: "/readyz", status: 200},
		{name: "metrics", at: "/metrics", status: 200},
		{name: "the description", at: "/openapi.yaml", status: 200},
		{name: "tools", at: "/gateway/tools", status: 200},
		{name: "tools of no model", at: "/gateway/tools", path: "/gateway/tools?model=nope", status: 404, code: "model_not_found"},
		{name: "a call that waits", body: ask("m", "wire", ""), status: 200},
		{name: "what waits", at: "/gateway/approvals", status: 200},
		{name: "no such approval", at: "/gateway/approvals/{id}", path: "/gateway/approvals/apr_1", body: `{"approve":true}`, status: 404, code: "approval_not_found"},
		{name: "no decision", at: "/gateway/approvals/{id}", path: "/gateway/approvals/apr_1", body: `{"approve":"yes"}`, status: 400},
		{name: "a decision that is no JSON", at: "/gateway/approvals/{id}", path: "/gateway/approvals/apr_1", body: `{"approve":true}`, header: map[string]string{"Content-Type": "text/plain"}, status: 415, code: "unsupported_media_type"},
		{name: "a decision of a key that may not", at: "/gateway/approvals/{id}", path: "/gateway/approvals/apr_1", body: `{"approve":true}`, header: few, status: 403, code: "not_allowed"},
		{name: "a large decision", at: "/gateway/approvals/{id}", path: "/gateway/approvals/apr_1", body: strings.Repeat("x", 5000), status: 413, code: "request_too_large"},
		{name: "runs", at: "/gateway/runs", status: 200},
		{name: "the page", at: "/gateway/ui", header: map[string]string{"Authorization": ""}, status: 200},
		{name: "its script", at: "/gateway/ui/{file}", path: "/gateway/ui/app.js", header: map[string]string{"Authorization": ""}, status: 200},
		{name: "no file of it", at: "/gateway/ui/{file}", path: "/gateway/ui/none.js", status: 404, code: "unknown_url"},
		{name: "no other way to it", at: "/gateway/ui/{file}", path: "/gateway/ui/index.html", status: 404, code: "unknown_url"},
		{name: "runs without a key", at: "/gateway/runs", header: map[string]string{"Authorization": ""}, status: 401, code: "invalid_api_key"},
		{name: "runs of no kind", at: "/gateway/runs", path: "/gateway/runs?stop=done", status: 400},
		{name: "no such run", at: "/gateway/runs/{id}", path: "/gateway/runs/run_1", status: 404, code: "run_not_found"},
	}
	doc := description(t)
	front := describedServer(t)
	_, _ = fetch(t, front, chatPath, ask("broken", "fail", ""), nil) // opens the breaker of its upstream
	_, _ = fetch(t, front, "/v1/models", "", few)                    // all that it may
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if tc.at == "" {
				tc.at = chatPath
			}
			if tc.path == "" {
				tc.path = tc.at
			}
			resp, body := fetch(t, front, tc.path, tc.body, tc.header)
			if resp.StatusCode != tc.status {
				t.Errorf("status is %d, want %d: %s", resp.StatusCode, tc.status, body)
			}
			conforms(t, doc, tc.at, resp, body)
			if tc.code == "" {
				return
			}
			if got := gjson.GetBytes(body, "error.code").String(); got != tc.code {
				t.Errorf("code is %q, want %q: %s", got, tc.code, body)
			}
			if gjson.GetBytes(body, "error.type").String() != "mock_error" { // the provider's own
				fits(t, doc, "Error", body)
			}
		})
	}
}

func TestRunConformsToTheDescription(t *testing.T) {
	doc := description(t)
	front := describedServer(t)
	for _, question := range []string{"look", "buy", "fail"} {
		resp, _ := fetch(t, front, chatPath, ask("m", question, ""), nil)
		id, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get(trace.Header), `id="`), `"`)
		resp, body := fetch(t, front, "/gateway/runs/"+id, "", nil)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d: %s", question, resp.StatusCode, body)
		}
		conforms(t, doc, "/gateway/runs/{id}", resp, body)
	}
}

func TestApprovalsConformToTheDescription(t *testing.T) {
	doc := description(t)
	front := describedServer(t)
	resp, body := fetch(t, front, chatPath, ask("m", "wire", ""), nil)
	conforms(t, doc, chatPath, resp, body)
	id := resp.Header.Get("X-Gateway-Approval")
	if id == "" || !strings.Contains(resp.Header.Get(trace.Header), `stop=confirmation`) || !strings.Contains(resp.Header.Get(trace.Header), `approval="`+id+`"`) {
		t.Fatalf("nothing waits: %v", resp.Header)
	}
	for _, list := range []struct {
		key  string
		want string
	}{{describedKey, id}, {fewKey, ""}} {
		resp, body = fetch(t, front, "/gateway/approvals", "", map[string]string{"Authorization": "Bearer " + list.key})
		conforms(t, doc, "/gateway/approvals", resp, body)
		if got := gjson.GetBytes(body, "data.0.id").String(); got != list.want {
			t.Errorf("%q waits, want %q: %s", got, list.want, body)
		}
	}
	for _, decision := range []struct {
		body   string
		status int
		code   string
	}{{`{"approve":true}`, 200, ""}, {`{"approve":true}`, 200, ""}, {`{"approve":false}`, 409, "approval_decided"}} {
		resp, body = fetch(t, front, "/gateway/approvals/"+id, decision.body, nil)
		conforms(t, doc, "/gateway/approvals/{id}", resp, body)
		if resp.StatusCode != decision.status || gjson.GetBytes(body, "error.code").String() != decision.code {
			t.Errorf("%s: %d: %s", decision.body, resp.StatusCode, body)
		}
	}
	if _, body = fetch(t, front, "/gateway/approvals", "", nil); gjson.GetBytes(body, "data.#").Int() != 0 {
		t.Errorf("what was decided is listed: %s", body)
	}
}

func TestStreamConformsToTheDescription(t *testing.T) {
	doc := description(t)
	front := describedServer(t)
	for _, question := range []string{"look", "declared"} {
		resp, body := fetch(t, front, chatPath, ask("m", question, `,"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"of_the_client"}}]`), map[string]string{trace.Header: "full"})
		if got := resp.Header.Get("Content-Type"); doc.Paths.Find(chatPath).Post.Responses.Status(resp.StatusCode).Value.Content.Get(got) == nil {
			t.Errorf("%s: the content type %q is not described", question, got)
		}
		events := 0
		for reader := sse.NewReader(bytes.NewReader(body), 0); ; events++ {
			data, err := reader.Next()
			if err != nil || string(data) == sse.Done {
				break
			}
			fits(t, doc, "ChatChunk", data)
		}
		if events < 3 {
			t.Errorf("%s: %d events, want the delta, the finish_reason and the usage at least:\n%s", question, events, body)
		}
	}
}

// fetch makes a request, a GET without a body, and gives its reply read to the end.
func fetch(t *testing.T, front *httptest.Server, path, body string, header map[string]string) (*http.Response, []byte) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, front.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+describedKey)
	req.Header.Set("Content-Type", "application/json")
	for name, v := range header {
		req.Header.Set(name, v)
	}
	resp, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, got
}

// The description allows no member that it does not know, and most runs have few of them.
func TestTheDescriptionKnowsAllThatARunSays(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(toolgate.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	run := trace.NewRun(time.Now())
	run.RequestID, run.Caller, run.Model, run.Stop, run.Error = "req", "web", "m", "completed", "timeout"
	run.Shortened, run.Lost, run.Approval, run.Tainted, run.Cost, run.Notes = 1, 1, "apr_1", trace.Unknown, 0.5, []string{"a note"}
	run.Usage = json.RawMessage(`{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}`)
	run.Steps = []trace.Step{{Upstream: "up", Finish: "stop", Prompt: 1, Output: 1, Error: "busy"}}
	run.Calls = []trace.Call{{Step: 1, Name: "look", Outcome: trace.OK, Arguments: "{}", Result: "here"}}
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	fits(t, doc, "Run", text)
	if text, err = json.Marshal(run.Summary()); err != nil {
		t.Fatal(err)
	}
	fits(t, doc, "RunSummary", text)
}

// conforms holds a reply against the response that the description has for its path, method and status.
func conforms(t *testing.T, doc *openapi3.T, path string, resp *http.Response, body []byte) {
	t.Helper()
	item := doc.Paths.Value(path)
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: resp.Request,
			Route: &routers.Route{
				Spec: doc, Path: path, PathItem: item, Method: resp.Request.Method, Operation: item.GetOperation(resp.Request.Method),
			},
		},
		Status:  resp.StatusCode,
		Header:  resp.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	// What is for browsers can't be read there; only whether its type is described.
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if input.Options.ExcludeResponseBody = kind == "text/html" || kind == "text/javascript"; input.Options.ExcludeResponseBody {
		if r := item.GetOperation(resp.Request.Method).Responses.Status(resp.StatusCode); r == nil || r.Value.Content.Get(kind) == nil {
			t.Errorf("%s %d: the content type %q is not described", path, resp.StatusCode, kind)
		}
	}
	input.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("the reply is not as described: %v\n%d\n%s", err, resp.StatusCode, body)
	}
}

// fits holds a JSON text against a schema of the description.
func fits(t *testing.T, doc *openapi3.T, name string, text []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Errorf("%v: %s", err, text)
		return
	}
	if err := doc.Components.Schemas[name].Value.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors()); err != nil {
		t.Errorf("this is no %s: %v\n%s", name, err, text)
	}
}
