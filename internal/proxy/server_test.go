package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/httptool"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// fixture is a gateway made by hand, in front of a provider and a tools' server of the test's own.
type fixture struct {
	*Server
	URL   string
	store trace.Store
	reg   *prometheus.Registry
}

type fixtureConfig struct {
	server Config
	keys   auth.Config
	trust  string // YAML of the lists that a Trust is made of
	models string // YAML of models
	tools  string // YAML of tools; TOOLS is the tools' server
	stream StreamingConfig
	limits budget.Limits
	state  state.Store // of replies and writes; nil keeps none
}

const answer = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}`

// newFixture starts a gateway whose provider is up and whose tools are served by tools; either may be nil.
func newFixture(t *testing.T, c fixtureConfig, up, tools http.HandlerFunc) *fixture {
	t.Helper()
	if up == nil {
		up = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }
	}
	provider := httptest.NewServer(up)
	t.Cleanup(provider.Close)
	service := httptest.NewServer(tools)
	t.Cleanup(service.Close)

	reg := prometheus.NewRegistry()
	logger := slog.New(slog.DiscardHandler)
	changed := func(string, breaker.State) {}
	uc := &upstream.Config{}
	decode(t, "base_url: "+provider.URL+"/v1\napi_key: sk-operator\nretry: {attempts: 1}\n", uc)
	client, err := upstream.NewClient("up", uc, upstream.NewMetrics(reg), changed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	f := config.Parse("tools.yaml", ".", []byte(strings.ReplaceAll(c.tools, "TOOLS", service.URL)), noEnv)
	definitions := registry.Read(f.Root(), []tool.Kind{httptool.Kind}, nil)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	transport := outbound.NewPools(outbound.Dialer{})
	t.Cleanup(transport.CloseIdleConnections)
	set, err := registry.NewSet(registry.Options{
		Env: tool.Env{Transport: transport}, Logger: logger, Metrics: registry.NewMetrics(reg), OnBreaker: changed, Definitions: definitions,
		Writes: c.writes(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.server.fillIn()
	endpoints, err := NewEndpoints(c.server.Passthrough)
	if err != nil {
		t.Fatal(err)
	}
	if c.limits == (budget.Limits{}) {
		c.limits = budget.Default()
	}
	if c.stream == (StreamingConfig{}) {
		c.stream.SetDefaults()
	}
	var table config.Map[models.Config]
	if c.models == "" {
		c.models = `"*": {upstream: up}`
	}
	decode(t, c.models, &table)
	var list []*models.Model
	for name, m := range table.All() {
		list = append(list, models.New(name, &m, map[string]*upstream.Client{"up": client}, c.limits))
	}
	store := trace.NewMemory(10, time.Hour)
	s := New(&Site{
		Keys: auth.NewKeys(&c.keys, nil), Trust: newTrust(t, c.trust), Models: models.NewTable(list, upstream.NewRoutes(upstream.NewRoute(client, "", 0))), Tools: set,
		Endpoints: endpoints, Streaming: c.stream, MaxBody: int64(c.server.MaxBody), MaxInflight: c.server.MaxInflight,
		CORSOrigins: c.server.CORSOrigins, MCP: true, Mask: mask.New([]string{"sk-operator"}),
	}, Options{Logger: logger, Metrics: NewMetrics(reg), Gatherer: reg, Store: store, Replies: c.state})
	front := httptest.NewServer(s.Handler(true))
	t.Cleanup(front.Close)
	return &fixture{Server: s, URL: front.URL, store: store, reg: reg}
}

func (c fixtureConfig) writes() *registry.Writes {
	if c.state == nil {
		return nil
	}
	return registry.NewWrites(c.state)
}

// fillIn fills in what a test has left zero.
func (c *Config) fillIn() {
	var d Config
	d.SetDefaults()
	if c.MaxBody == 0 {
		c.MaxBody = d.MaxBody
	}
	if c.MaxInflight == 0 {
		c.MaxInflight = d.MaxInflight
	}
	if c.Passthrough == nil {
		c.Passthrough = d.Passthrough
	}
}

func newTrust(t *testing.T, yaml string) auth.Trust {
	t.Helper()
	var c struct {
		Proxies []auth.Network     `yaml:"trusted_proxies"`
		Headers config.Map[string] `yaml:"trusted_headers"`
	}
	decode(t, yaml, &c)
	return auth.NewTrust(c.Proxies, c.Headers)
}

func noEnv(string) (string, bool) { return "", false }

func decode(t *testing.T, yaml string, v any) {
	t.Helper()
	f := config.Parse("test.yaml", ".", []byte(yaml), noEnv)
	f.Root().Decode(v)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
}

type reply struct {
	*http.Response
	body string
}

func (f *fixture) send(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp, string(b)}
}

const chatPath = "/v1/chat/completions"

const hi = `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`

const lookup = `lookup: {description: Look up., parameters: {id: string}, http: {url: "TOOLS/lookup/{id}"}}`

func sha(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func TestBadRequestsGetAClearErrorAndLoseNothing(t *testing.T) {
	f := newFixture(t, fixtureConfig{server: Config{MaxBody: 200}, models: "known: {upstream: up}", tools: lookup}, nil, nil)
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code, param, text        string
	}{
		{name: "no JSON", body: `{"model":`, status: 400, text: "not valid JSON"},
		{name: "no messages", body: `{"model":"known"}`, status: 400, param: "messages", text: "no messages"},
		{name: "no body", status: 400, text: "not valid JSON"},
		{name: "another content type", body: hi, headers: []string{"Content-Type", "text/plain"}, status: 415, code: "unsupported_media_type", text: "want Content-Type: application/json"},
		{name: "a form", body: "a=b", headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: "unsupported_media_type", text: "application/json"},
		{name: "too large", body: `{"model":"known","messages":["` + strings.Repeat("x", 300) + `"]}`, status: 413, code: "request_too_large", text: "200 bytes"},
		{name: "an unknown model", body: hi, status: 404, code: "model_not_found", param: "model", text: `"m"`},
		{name: "a bad step header", body: `{"model":"known","messages":[1]}`, headers: []string{headerMaxSteps, "many"}, status: 400, param: headerMaxSteps, text: "whole number"},
		{name: "a bad seconds header", body: `{"model":"known","messages":[1]}`, headers: []string{headerMaxSeconds, "NaN"}, status: 400, param: headerMaxSeconds, text: "seconds"},
		{name: "a bad tools header", body: `{"model":"known","messages":[1]}`, headers: []string{headerTools, "[x"}, status: 400, param: headerTools, text: "globs"},
		{name: "an endpoint that is not listed", path: "/v1/vector_stores", body: `{}`, status: 404, code: "unknown_url", text: "server.passthrough"},
		{name: "a path that climbs", path: "/v1/audio/../files", body: `{}`, status: 404, code: "unknown_url", text: "no such endpoint"},
		{name: "an encoded path that climbs", path: "/v1/audio/%2e%2e/files", body: `{}`, status: 404, code: "unknown_url", text: "no such endpoint"},
		{name: "another method", method: http.MethodPut, body: hi, status: 405, code: "method_not_allowed", text: "no such method"},
		{name: "a base URL without /v1", path: "/chat/completions", body: `{}`, status: 404, code: "unknown_url", text: "the base URL of a client ends in /v1, once"},
		{name: "a base URL with the endpoint", path: "/v1/v1/chat/completions", body: `{}`, status: 404, code: "unknown_url", text: "the base URL of a client ends in /v1, once"},
		{name: "another path", path: "/nothing", method: http.MethodGet, status: 404, code: "unknown_url", text: "no such endpoint"},
		{name: "a run that is not there", path: "/gateway/runs/run_x", method: http.MethodGet, status: 404, code: "run_not_found", text: "no such run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.path == "" {
				tt.path = chatPath
			}
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			r := f.send(t, tt.method, tt.path, tt.body, tt.headers...)
			e := gjson.Get(r.body, "error")
			if r.StatusCode != tt.status || e.Get("code").String() != tt.code || e.Get("param").String() != tt.param || !strings.Contains(e.Get("message").String(), tt.text) {
				t.Errorf("got %d %s; want %d, code %q, param %q, text %q", r.StatusCode, r.body, tt.status, tt.code, tt.param, tt.text)
			}
			if tt.path == chatPath && tt.method == http.MethodPost && !strings.Contains(r.Header.Get(trace.Header), "stop=error") {
				t.Errorf("trace = %s", r.Header.Get(trace.Header))
			}
			if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Request-Id") == "" || e.Get("type").String() == "" {
				t.Errorf("headers %v, error %s", r.Header, e)
			}
		})
	}
	if r := f.send(t, http.MethodPost, chatPath, `{"model":"known","messages":[1]}`); r.StatusCode != 200 {
		t.Errorf("a good request afterwards: %d %s", r.StatusCode, r.body)
	}
}

func TestUpstreamFailuresBecomeErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   int
		code   string
		text   string
	}{
		{"the operator's key", 401, `{"error":{"message":"Incorrect API key provided: sk-operator","code":"invalid_api_key"}}`, 502, "upstream_auth", "operator"},
		{"a refusal", 400, `{"error":{"message":"bad sk-operator","code":"bad","type":"t","param":"p"}}`, 400, "bad", "bad ***"},
		{"a refusal without JSON", 422, `nope`, 422, "", "refused the request (HTTP 422)"},
		{"a limit", 429, `{"error":{"message":"slow down","code":"rate_limited"}}`, 429, "rate_limited", "slow down"},
		{"a failure", 503, `{"error":{"message":"overloaded"}}`, 502, "upstream_error", "(HTTP 503): overloaded"},
		{"a refusal in another shape", 422, `{"detail":[{"msg":"field required"}]}`, 422, "", ""},
		{"a redirect", 302, ``, 502, "upstream_error", "(HTTP 302)"},
		{"a page", 502, `<html>`, 502, "upstream_error", "(HTTP 502)"},
		{"a page of status 200", 200, `<html>`, 502, "upstream_error", "the upstream failed"},
		{"an empty answer", 200, strings.Replace(answer, "Hello.", "", 1), 502, "upstream_empty", "empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, fixtureConfig{tools: lookup}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}, nil)
			r := f.send(t, http.MethodPost, chatPath, hi)
			e := gjson.Get(r.body, "error")
			if r.StatusCode != tt.want || e.Get("code").String() != tt.code || !strings.Contains(e.Get("message").String(), tt.text) {
				t.Errorf("got %d %s; want %d, code %q, text %q", r.StatusCode, r.body, tt.want, tt.code, tt.text)
			}
			if strings.Contains(r.body, "sk-operator") {
				t.Errorf("the operator's key shows: %s", r.body)
			}
			if d := r.Header.Get(trace.Header); !strings.Contains(d, "stop=upstream_error") {
				t.Errorf("trace = %s", d)
			}
		})
	}
}

// A client's developer cannot see the upstream: the message is all that tells what is wrong with it.
func TestWhatIsToldOfAnUpstreamThatFails(t *testing.T) {
	for want, e := range map[string]*upstream.Error{
		"the upstream could not be reached":                                   {Kind: upstream.Broken, Err: &net.OpError{Op: "dial", Err: errors.New("secret.internal")}},
		"the upstream failed":                                                 {Kind: upstream.Broken, Err: &net.OpError{Op: "read", Err: errors.New("secret.internal")}},
		"the upstream failed in the middle of its reply":                      {Kind: upstream.Broken, Began: true, Err: io.ErrUnexpectedEOF},
		"the upstream failed in the middle of its reply: the model fell over": {Kind: upstream.Broken, Began: true, Message: "the model fell over"},
	} {
		if got := problem(e); got.Message != want || got.Status != http.StatusBadGateway || got.Code != "upstream_error" {
			t.Errorf("problem(%v) = %d %s %q, want 502 upstream_error %q", e, got.Status, got.Code, got.Message, want)
		}
	}
}

// LangChain.js repeats a 422 too, up to six times, and so would write seven times.
func TestTheStatusAfterAWriteIsOneThatItsClientDoesNotRepeat(t *testing.T) {
	js := http.Header{"X-Stainless-Lang": {"js"}}
	for _, tt := range []struct {
		name   string
		result loop.Result
		header http.Header
		status int
		want   int
	}{
		{"a failure after a write", loop.Result{RanTools: true, RanWrite: true}, nil, 502, 422},
		{"a failure after a write, for JavaScript", loop.Result{RanTools: true, RanWrite: true}, js, 502, 400},
		{"a spent budget after a write", loop.Result{RanTools: true, RanWrite: true}, nil, 422, 422},
		{"a spent budget after a write, for JavaScript", loop.Result{RanTools: true, RanWrite: true}, js, 422, 400},
		{"a refusal after a write, for JavaScript", loop.Result{RanTools: true, RanWrite: true}, js, 404, 404},
		{"a failure after a read, for JavaScript", loop.Result{RanTools: true}, js, 502, 502},
		{"a failure before any tool, for JavaScript", loop.Result{}, js, 502, 502},
		{"a write under a key, for JavaScript", loop.Result{RanTools: true, RanWrite: true}, http.Header{"X-Stainless-Lang": {"js"}, headerIdempotent: {"k"}}, 502, 502},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := (&Error{Status: tt.status}).afterTools(&tt.result, tt.header)
			if got.Status != tt.want || got.NoRetry != tt.result.RanTools {
				t.Errorf("status %d, no retry %t, want %d, %t", got.Status, got.NoRetry, tt.want, tt.result.RanTools)
			}
		})
	}
}

func TestKeysChooseModelsToolsAndRuns(t *testing.T) {
	var sent string
	f := newFixture(t, fixtureConfig{
		models: "a: {upstream: up}\nb: {upstream: up}",
		tools:  lookup + "\npay: {description: Pay., effect: write, http: {url: TOOLS/pay, body: json}}",
		keys: auth.Config{Keys: []auth.KeyConfig{
			{Name: "web", SHA256: sha("key-web"), Models: &[]string{"a"}, Tools: &[]string{"*", "-pay"}},
			{Name: "app", SHA256: sha("key-app")},
		}},
	}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sent = string(b)
		_, _ = io.WriteString(w, answer)
	}, nil)
	web, app := []string{"Authorization", "Bearer key-web"}, []string{"Authorization", "bearer key-app"}
	for _, path := range []string{chatPath, "/v1/models", "/v1/embeddings", "/gateway/tools", "/gateway/runs/x"} {
		if r := f.send(t, http.MethodPost, path, hi); r.StatusCode != 401 || gjson.Get(r.body, "error.code").String() != "invalid_api_key" {
			t.Errorf("%s without a key: %d %s", path, r.StatusCode, r.body)
		}
	}
	if r := f.send(t, http.MethodPost, chatPath, hi); !strings.Contains(r.Header.Get(trace.Header), "stop=error") {
		t.Errorf("trace of a request without a key: %q", r.Header.Get(trace.Header))
	}
	a, b := strings.Replace(hi, `"m"`, `"a"`, 1), strings.Replace(hi, `"m"`, `"b"`, 1)
	r := f.send(t, http.MethodPost, chatPath, a, web...)
	if r.StatusCode != 200 || gjson.Get(sent, "tools.#").Int() != 1 || strings.Contains(sent, "key-web") {
		t.Errorf("%d %s, sent %s; want one tool", r.StatusCode, r.body, sent)
	}
	run := strings.Split(r.Header.Get(trace.Header), `"`)[1]
	if r := f.send(t, http.MethodGet, "/gateway/runs/"+run, "", web...); r.StatusCode != 200 || gjson.Get(r.body, "id").String() != run {
		t.Errorf("own run: %d %s", r.StatusCode, r.body)
	}
	if r := f.send(t, http.MethodGet, "/gateway/runs/"+run, "", app...); r.StatusCode != 404 {
		t.Errorf("another key's run: %d", r.StatusCode)
	}
	if r := f.send(t, http.MethodPost, chatPath, b, web...); r.StatusCode != 404 {
		t.Errorf("a model that the key may not use: %d", r.StatusCode)
	}
	if r := f.send(t, http.MethodPost, "/v1/embeddings", `{"model":"b","input":"x"}`, web...); r.StatusCode != 404 {
		t.Errorf("the same by another endpoint: %d", r.StatusCode)
	}
	if r := f.send(t, http.MethodPost, "/v1/audio/speech", `model=b`, append(web, "Content-Type", "application/x-www-form-urlencoded")...); r.StatusCode != 404 {
		t.Errorf("the same by a form: %d", r.StatusCode)
	}
	if got := gjson.Get(f.send(t, http.MethodGet, "/v1/models", "", web...).body, "data.#.id").String(); got != `["a"]` {
		t.Errorf("models of web = %s", got)
	}
	if got := gjson.Get(f.send(t, http.MethodGet, "/v1/models/a", "", web...).body, "id").String(); got != "a" {
		t.Errorf("model a = %s", got)
	}
	if got := gjson.Get(f.send(t, http.MethodGet, "/gateway/tools", "", app...).body, "data.#.name").String(); got != `["lookup","pay"]` {
		t.Errorf("tools of app = %s", got)
	}
}

// A request that the gateway has no place for is refused at once, and its place is free again afterwards.
func TestInflightIsBounded(t *testing.T) {
	release := make(chan struct{})
	f := newFixture(t, fixtureConfig{server: Config{MaxInflight: 1}}, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, answer)
	}, nil)
	first := make(chan int)
	go func() { first <- f.send(t, http.MethodPost, chatPath, hi).StatusCode }()
	for f.metricsValue(t, "gateway_runs_in_flight") != 1 {
		time.Sleep(time.Millisecond)
	}
	r := f.send(t, http.MethodPost, chatPath, hi)
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || gjson.Get(r.body, "error.code").String() != "overloaded" {
		t.Errorf("got %d %v %s, want 503 with Retry-After", r.StatusCode, r.Header, r.body)
	}
	close(release)
	if got := <-first; got != 200 {
		t.Errorf("the first request: %d", got)
	}
	if r := f.send(t, http.MethodPost, chatPath, hi); r.StatusCode != 200 {
		t.Errorf("the next request: %d", r.StatusCode)
	}
}

func (f *fixture) metricsValue(t *testing.T, name string) float64 {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families {
		if m.GetName() == name {
			return m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestShutdownLetsAStreamEndAndCutsOneThatDoesNot(t *testing.T) {
	for name, tt := range map[string]struct {
		grace time.Duration
		whole bool
	}{"within the grace": {5 * time.Second, true}, "beyond it": {50 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, fixtureConfig{}, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: one\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(300 * time.Millisecond):
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
			}, nil)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- f.Serve(ctx, Listeners{Main: l}, func() time.Duration { return tt.grace }) }()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+chatPath, strings.NewReader(`{"model":"m","stream":true,"messages":[1]}`))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			in := bufio.NewReader(resp.Body)
			if line, _ := in.ReadString('\n'); line != "data: one\n" {
				t.Fatalf("first line %q", line)
			}
			cancel()
			rest, err := io.ReadAll(in)
			if whole := err == nil && strings.Contains(string(rest), "[DONE]"); whole != tt.whole {
				t.Errorf("rest %q, error %v; want it whole: %v", rest, err, tt.whole)
			}
			if err := <-ended; err != nil {
				t.Errorf("Serve() = %v", err)
			}
		})
	}
}

func TestReadyzSaysThatItShutsDown(t *testing.T) {
	f := newFixture(t, fixtureConfig{}, nil, nil)
	if r := f.send(t, http.MethodGet, "/readyz", ""); r.StatusCode != 200 {
		t.Errorf("readyz = %d", r.StatusCode)
	}
	f.down.Store(true)
	if r := f.send(t, http.MethodGet, "/readyz", ""); r.StatusCode != 503 {
		t.Errorf("readyz while shutting down = %d", r.StatusCode)
	}
	if r := f.send(t, http.MethodGet, "/healthz", ""); r.StatusCode != 200 {
		t.Errorf("healthz while shutting down = %d", r.StatusCode)
	}
}

func TestPanicIsAnErrorReply(t *testing.T) {
	f := newFixture(t, fixtureConfig{}, nil, nil)
	front := httptest.NewServer(f.withInfo(f.accessLog(f.recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("secret inside")
	})))))
	defer front.Close()
	resp, err := http.Get(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 500 || strings.Contains(string(body), "secret") || gjson.GetBytes(body, "error.code").String() != "internal_error" {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

func TestRequestIDIsTheClientsWhereItIsFit(t *testing.T) {
	f := newFixture(t, fixtureConfig{}, nil, nil)
	for given, same := range map[string]bool{"req-abc-1": true, "": false, "with blank": false, strings.Repeat("x", 200): false} {
		got := f.send(t, http.MethodGet, "/healthz", "", "X-Request-Id", given).Header.Get("X-Request-Id")
		if (got == given) != same || got == "" {
			t.Errorf("given %q, got %q", given, got)
		}
	}
}

func TestCORSAnswersPreflightsWithoutAKey(t *testing.T) {
	f := newFixture(t, fixtureConfig{server: Config{CORSOrigins: []string{"https://app.example"}}, keys: auth.Config{Keys: []auth.KeyConfig{{Name: "web", SHA256: sha("k")}}}}, nil, nil)
	r := f.send(t, http.MethodOptions, chatPath, "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
	r = f.send(t, http.MethodOptions, chatPath, "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a strange origin is allowed: %v", r.Header)
	}
}

func TestHeadersTowardsTheProvider(t *testing.T) {
	in := http.Header{
		"Authorization": {"Bearer k"}, "Cookie": {"c"}, "Openai-Beta": {"b"}, "X-Gateway-Tools": {"t"}, "Idempotency-Key": {"i"}, "X-Forwarded-For": {"1.2.3.4"},
		"Connection": {"keep-alive, x-hop"}, "X-Hop": {"h"}, "Accept-Encoding": {"gzip"}, "Traceparent": {"tp"}, "Content-Length": {"9"},
		"Origin": {"https://app.example"}, "Referer": {"https://app.example/ticket/7"}, "Sec-Fetch-Mode": {"cors"}, "Te": {"trailers"}, "Proxy-Authorization": {"p"},
	}
	for own, want := range map[bool]string{false: "Accept-Encoding Openai-Beta Traceparent", true: "Content-Type Openai-Beta Traceparent"} {
		out := (&requestInfo{site: &Site{}}).toProvider(in, own)
		var names []string
		for name := range out {
			names = append(names, name)
		}
		if got := sorted(names); got != want {
			t.Errorf("own %v: %s, want %s", own, got, want)
		}
	}
}

func sorted(names []string) string {
	for i := range names {
		for j := i + 1; j < len(names); j++ {
			if names[j] < names[i] {
				names[i], names[j] = names[j], names[i]
			}
		}
	}
	return strings.Join(names, " ")
}

// The name of a model was a way to any endpoint that a GET reads, with the operator's key: /v1/models/../files.
func TestTheNameOfAModelLeadsToNoOtherEndpoint(t *testing.T) {
	var asked []string
	f := newFixture(t, fixtureConfig{
		models: `"*": {upstream: up}`,
		keys:   auth.Config{Keys: []auth.KeyConfig{{Name: "web", SHA256: sha("k"), Models: &[]string{"*", "-secret"}}}},
	}, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		_, _ = io.WriteString(w, `{"id":"x"}`)
	}, nil)
	for _, name := range []string{
		"../files", "..", ".", "x/../../files", "%2e%2e/files", "..%2ffiles", "..%5cfiles", "..;/files", "x//y", "x/", "secret", "%73ecret",
	} {
		if r := f.send(t, http.MethodGet, "/v1/models/"+name, "", "Authorization", "Bearer k"); r.StatusCode != http.StatusNotFound || len(asked) > 0 {
			t.Errorf("%s = %d, and the provider was asked for %q", name, r.StatusCode, asked)
			asked = nil
		}
	}
	for _, name := range []string{"org/name", "org%2Fname:latest"} {
		if r := f.send(t, http.MethodGet, "/v1/models/"+name, "", "Authorization", "Bearer k"); r.StatusCode != http.StatusOK {
			t.Errorf("%s = %d %s", name, r.StatusCode, r.body)
		}
	}
}

func TestEndpoints(t *testing.T) {
	e, err := NewEndpoints([]string{"embeddings", "files/*", "POST responses"})
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]bool{
		"POST embeddings": true, "GET embeddings": true, "GET files/a": true, "GET files/a/content": true, "GET files": false, "GET files/": false,
		"POST responses": true, "GET responses": false, "POST embeddings/x": false, "GET files/../models": false, "GET files/a//b": false, `GET files/..\x`: false,
		"GET files/..;/models": false, "GET files/..;x/models": false, "GET files/a;b": true,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := e.Has(method, path); got != want {
			t.Errorf("Has(%s) = %v", request, got)
		}
	}
	for _, bad := range []string{"", "a*b", "files*", "post x", "*"} {
		if _, err := NewEndpoints([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	f := newFixture(t, fixtureConfig{tools: lookup}, nil, nil)
	f.send(t, http.MethodPost, chatPath, hi)
	problems, err := testutil.GatherAndLint(f.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	body := f.send(t, http.MethodGet, "/metrics", "").body
	for _, want := range []string{
		`gateway_runs_total{model="other",stop="completed"} 1`, `gateway_runs_total{model="other",stop="timeout"} 0`,
		`gateway_requests_total{code="200",model="other",route="chat"} 1`, `gateway_tool_calls_total{outcome="ok",tool="lookup"} 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestLimitsOnlyEverNarrow(t *testing.T) {
	base := budget.Default()
	for _, tt := range []struct {
		headers []string
		steps   int
		time    time.Duration
	}{
		{nil, 12, time.Minute},
		{[]string{headerMaxSteps, "3", headerMaxSeconds, "1.5"}, 3, 1500 * time.Millisecond},
		{[]string{headerMaxSteps, "99", headerMaxSeconds, "99"}, 12, time.Minute},
		{[]string{headerReadTimeout, "600"}, 12, time.Minute},
		{[]string{headerReadTimeout, "20"}, 12, 19 * time.Second},
		{[]string{headerReadTimeout, "none"}, 12, time.Minute},
	} {
		h := http.Header{}
		for i := 0; i < len(tt.headers); i += 2 {
			h.Set(tt.headers[i], tt.headers[i+1])
		}
		got, err := limitsFor(h, base)
		if err != nil || got.Steps != tt.steps || got.Time != tt.time {
			t.Errorf("%v: %d steps, %v, %v; want %d, %v", tt.headers, got.Steps, got.Time, err, tt.steps, tt.time)
		}
	}
}

// A client that leaves cancels what runs for it, in a model call as in a tool.
func TestAClientThatLeavesCancelsItsRun(t *testing.T) {
	for _, where := range []string{"model", "tool"} {
		t.Run(where, func(t *testing.T) {
			canceled := make(chan time.Time, 1)
			began := make(chan struct{}, 1)
			hang := func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				began <- struct{}{}
				<-r.Context().Done()
				canceled <- time.Now()
			}
			up := hang
			if where == "tool" {
				up = func(w http.ResponseWriter, _ *http.Request) {
					_, _ = fmt.Fprint(w, `{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"lookup","arguments":"{\"id\":\"a\"}"}}]}}]}`)
				}
			}
			f := newFixture(t, fixtureConfig{tools: lookup}, up, hang)
			ctx, cancel := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+chatPath, strings.NewReader(hi))
			go func() {
				<-began
				cancel()
			}()
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
				t.Fatal("the request succeeded")
			}
			left := time.Now()
			select {
			case at := <-canceled:
				if d := at.Sub(left); d > 500*time.Millisecond {
					t.Errorf("canceled after %v", d)
				}
			case <-time.After(5 * time.Second):
				t.Error("not canceled")
			}
		})
	}
}
