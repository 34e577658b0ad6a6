package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

// idp is an identity provider with one key, whose set is at its address.
type idp struct {
	t   *testing.T
	key ed25519.PrivateKey
	*httptest.Server

	mu    sync.Mutex
	reads int
	down  bool
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &idp{t: t, key: key}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reads++; p.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, p.set())
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *idp) set() string {
	public := base64.RawURLEncoding.EncodeToString(p.key.Public().(ed25519.PublicKey))
	return `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","use":"sig","alg":"EdDSA","x":"` + public + `"}]}`
}

func (p *idp) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// token is one of a subject, with more claims.
func (p *idp) token(subject string, more map[string]any) string {
	p.t.Helper()
	c := jwt.MapClaims{"iss": "https://login.example.com", "aud": "toolgate", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, more)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	token.Header["kid"] = "k"
	text, err := token.SignedString(p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// obedient is a model that calls what the last message of its user says, "call NAME", and then repeats what it read.
type obedient struct {
	mu      sync.Mutex
	offered []string // in the last request
	turns   int      // messages of the last request
}

func (o *obedient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	o.offered = nil
	for _, name := range gjson.GetBytes(body, "tools.#.function.name").Array() {
		o.offered = append(o.offered, name.Str)
	}
	messages := gjson.GetBytes(body, "messages").Array()
	o.turns = len(messages)
	last := messages[len(messages)-1]
	message := map[string]any{"role": "assistant", "content": "saw " + last.Get("content").String()}
	finish := "stop"
	again := strings.Contains(string(body), "again and again") && gjson.GetBytes(body, "tool_choice").Str != "none"
	if name, ok := strings.CutPrefix(last.Get("content").String(), "call "); ok && last.Get("role").Str == "user" || again {
		if again {
			name = "lookup"
		}
		message["content"], finish = nil, "tool_calls"
		message["tool_calls"] = []any{map[string]any{
			"id": fmt.Sprint("c", o.turns), "type": "function",
			"function": map[string]any{"name": name, "arguments": fmt.Sprintf(`{"n":%d}`, o.turns)},
		}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "x", "object": "chat.completion", "created": 1, "model": "m",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
	})
}

// house is a gateway for keys and tokens, with a model that does as it is told and a service for its tools.
type house struct {
	*reloading
	*idp
	model *obedient

	mu    sync.Mutex
	calls map[string]int // of the service, by path
}

// newHouse is a house whose section auth.jwt has more to say.
func newHouse(t *testing.T, more string) *house {
	t.Helper()
	h := &house{idp: newIDP(t), model: &obedient{}, calls: map[string]int{}}
	model := httptest.NewServer(h.model)
	t.Cleanup(model.Close)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.calls[r.URL.Path]++
		h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"done":"`+r.URL.Path+`"}`)
	}))
	t.Cleanup(service.Close)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, strings.NewReplacer("MODEL", model.URL, "SERVICE", service.URL, "JWKS", h.idp.URL, "MORE", more).Replace(`
upstreams: {up: {base_url: MODEL/v1}}
models: {a: {upstream: up}, b: {upstream: up}}
tools:
  lookup: {description: Look it up., effect: read, cache: 1m, parameters: {n: "integer?"}, http: {url: SERVICE/lookup}}
  pay: {description: Pay it., effect: write, parameters: {n: "integer?"}, http: {url: SERVICE/pay, method: POST}}
  refund: {description: Refund it., effect: write, parameters: {n: "integer?"}, http: {url: SERVICE/refund, method: POST}}
  ask: {description: Order it., effect: write, confirm: user, parameters: {}, http: {url: SERVICE/ask, method: POST}}
  wire: {description: Wire it., effect: write, confirm: approval, parameters: {}, http: {url: SERVICE/wire, method: POST}}
  level: {description: What the level has., effect: read, parameters: {l: integer}, bind: {l: caller.level}, http: {url: "SERVICE/level/{l}"}}
auth:
  keys:
    - {name: narrow, sha256: `+keySum("key-narrow")+`, models: [a], tools: ["*", "-refund"], budget: {max_steps: 3}}
    - {name: chief, sha256: `+keySum("key-chief")+`}
  jwt: {issuer: "https://login.example.com", audience: toolgate, jwks_url: JWKS, models: [a], tools: ["*", "-refund"], budget: {max_steps: 3} MORE}
`))
	h.reloading = serveFile(t, file, quick)
	return h
}

func keySum(key string) string {
	_, sum, _ := strings.Cut(keyLines(strings.TrimPrefix(key, "key-")), "sha256: ")
	return strings.TrimSuffix(sum, "}\n")
}

func (h *house) called(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[path]
}

func (h *house) lastOffer() string {
	h.model.mu.Lock()
	defer h.model.mu.Unlock()
	return strings.Join(h.model.offered, " ")
}

// received is what came of a request.
type received struct {
	*http.Response
	body string
}

func (h *house) request(token, method, path, body string, headers ...string) received {
	h.idp.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.idp.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.idp.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.idp.t.Fatal(err)
	}
	return received{resp, string(b)}
}

// say sends what the user says, with what came before, and gives the answer's text.
func (h *house) say(token, text string, before ...string) string {
	h.idp.t.Helper()
	r := h.request(token, http.MethodPost, "/v1/chat/completions", conversation("a", text, before...))
	if r.StatusCode != http.StatusOK {
		return fmt.Sprint(r.StatusCode, " ", gjson.Get(r.body, "error.code").Str)
	}
	return gjson.Get(r.body, "choices.0.message.content").Str
}

// conversation is a request whose messages are of the user and of the assistant in turn.
func conversation(model, text string, before ...string) string {
	var messages []any
	for i, content := range append(before, text) {
		messages = append(messages, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": content})
	}
	b, _ := json.Marshal(map[string]any{"model": model, "messages": messages}) // texts always encode
	return string(b)
}

// rpc makes a call of MCP's, and gives its message.
func (h *house) rpc(token, method, params string) string {
	h.idp.t.Helper()
	r := h.request(token, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, "Mcp-Protocol-Version", "2025-06-18")
	_, data, _ := strings.Cut(r.body, "data: ")
	if data == "" {
		return r.body
	}
	return data
}

func TestWhatIsNotAllowedIsAsIfItWereNotThere(t *testing.T) {
	h := newHouse(t, ", caller: {level: access.level}")
	for name, token := range map[string]string{"key": "key-narrow", "token": h.token("ann", nil)} {
		t.Run(name, func(t *testing.T) {
			const seen = "lookup pay ask wire"
			if got := h.say(token, "Hi"); got != "saw Hi" || h.lastOffer() != seen {
				t.Errorf("%s, offered %s, want %s", got, h.lastOffer(), seen)
			}
			none, refund := h.say(token, "call refunx"), h.say(token, "call refund")
			if strings.ReplaceAll(none, "refunx", "refund") != refund || !strings.Contains(refund, "unknown_tool") {
				t.Errorf("a tool that is not there: %s\none that is not allowed: %s", none, refund)
			}
			r := h.request(token, http.MethodPost, "/v1/chat/completions", conversation("a", "call refund"), "X-Gateway-Tools", "refund,*")
			if got := h.lastOffer(); strings.Contains(got, "refund") || strings.Contains(r.body, "done") {
				t.Errorf("with a header that asks for it: offered %s, %s", got, r.body)
			}
			if got := joined(gjson.Get(h.request(token, http.MethodGet, "/gateway/tools", "").body, "data.#.name")); got != seen {
				t.Errorf("/gateway/tools: %s, want %s", got, seen)
			}
			if got := joined(gjson.Get(h.rpc(token, "tools/list", "{}"), "result.tools.#.name")); len(strings.Fields(got)) != 4 || strings.Contains(got, "refund") || strings.Contains(got, "level") {
				t.Errorf("tools/list: %s, want %s", got, seen)
			}
			if got, none := h.rpc(token, "tools/call", `{"name":"refund","arguments":{}}`), h.rpc(token, "tools/call", `{"name":"refunx","arguments":{}}`); strings.ReplaceAll(none, "refunx", "refund") != got || !strings.Contains(got, `"error"`) {
				t.Errorf("tools/call: %s, of one that is not there: %s", got, none)
			}
			if got := joined(gjson.Get(h.request(token, http.MethodGet, "/v1/models", "").body, "data.#.id")); got != "a" {
				t.Errorf("models %s, want a", got)
			}
			for _, model := range []string{"b", "none"} {
				r := h.request(token, http.MethodPost, "/v1/chat/completions", conversation(model, "Hi"))
				if r.StatusCode != http.StatusNotFound || gjson.Get(r.body, "error.code").Str != "model_not_found" {
					t.Errorf("the model %s: %d %s", model, r.StatusCode, r.body)
				}
				if r := h.request(token, http.MethodGet, "/gateway/tools?model="+model, ""); r.StatusCode != http.StatusNotFound {
					t.Errorf("the tools of the model %s: %d", model, r.StatusCode)
				}
				if r := h.request(token, http.MethodPost, "/mcp?model="+model, `{}`); r.StatusCode != http.StatusNotFound {
					t.Errorf("MCP of the model %s: %d", model, r.StatusCode)
				}
			}
			for header, want := range map[string]string{"100": "steps=3", "2": "steps=2"} {
				r := h.request(token, http.MethodPost, "/v1/chat/completions", conversation("a", "again and again"), "X-Gateway-Max-Steps", header)
				if got := r.Header.Get("X-Gateway-Trace"); !strings.Contains(got, want) {
					t.Errorf("X-Gateway-Max-Steps: %s: %s, want %s", header, got, want)
				}
			}
		})
	}
	if h.called("/refund") != 0 {
		t.Error("it was called")
	}
	if got := h.say(h.token("ann", map[string]any{"access": map[string]any{"level": 2}}), "call level"); !strings.Contains(got, `/level/2`) {
		t.Errorf("with the claim that a tool binds: %s", got)
	}
	if got := h.say(h.token("ann", map[string]any{"access": map[string]any{"level": []int{2}}}), "call level"); !strings.Contains(got, "unknown_tool") {
		t.Errorf("with a claim that is no field: %s", got)
	}
}

// Nothing that is kept or counted for one subject is another's, though no claim be a field of the caller.
func TestSubjectsShareNothing(t *testing.T) {
	h := newHouse(t, ", limits: {requests_per_minute: 12}")
	ann, bob := h.token("ann", nil), h.token("bob", nil)

	r := h.request(ann, http.MethodPost, "/v1/chat/completions", conversation("a", "call lookup"))
	run := strings.Split(r.Header.Get("X-Gateway-Trace"), `"`)[1]
	for token, want := range map[string]int{ann: 200, bob: 404, "key-narrow": 404} {
		if got := h.request(token, http.MethodGet, "/gateway/runs/"+run, "").StatusCode; got != want {
			t.Errorf("ann's run: %d, want %d", got, want)
		}
	}
	if h.say(ann, "call lookup"); h.called("/lookup") != 1 {
		t.Errorf("%d calls, want ann's second from the cache", h.called("/lookup"))
	}
	if h.say(bob, "call lookup"); h.called("/lookup") != 2 {
		t.Errorf("%d calls, want one for bob", h.called("/lookup"))
	}

	for i, token := range []string{ann, bob, ann} {
		r := h.request(token, http.MethodPost, "/v1/chat/completions", conversation("a", "call pay"), "Idempotency-Key", "k")
		if replayed := r.Header.Get("Idempotent-Replayed") == "true"; replayed != (i == 2) {
			t.Errorf("request %d replayed: %v", i, replayed)
		}
	}
	if got := h.called("/pay"); got != 2 {
		t.Errorf("paid %d times, want once each", got)
	}

	first := h.say(ann, "call ask")
	if !strings.Contains(first, "confirmation_required") {
		t.Fatal(first)
	}
	if got := h.say(bob, "call ask", "call ask", first); !strings.Contains(got, "confirmation_required") || h.called("/ask") != 0 {
		t.Errorf("what ann was asked, bob confirms: %s", got)
	}
	if got := h.say(ann, "call ask", "call ask", first); !strings.Contains(got, "done") || h.called("/ask") != 1 {
		t.Errorf("what ann was asked, ann confirms: %s", got)
	}

	h.say(ann, "call wire")
	list := func(token string) string {
		return joined(gjson.Get(h.request(token, http.MethodGet, "/gateway/approvals", "").body, "data.#.caller"))
	}
	if a, b, all := list(ann), list(bob), list("key-chief"); a != "jwt:https://login.example.com ann" || b != "" || all != a {
		t.Errorf("what waits: %q for ann, %q for bob, %q for who may decide", a, b, all)
	}
	id := gjson.Get(h.request(ann, http.MethodGet, "/gateway/approvals", "").body, "data.0.id").Str
	if r := h.request(ann, http.MethodPost, "/gateway/approvals/"+id, `{"approve":true}`); r.StatusCode != http.StatusForbidden {
		t.Errorf("who came with a token decides: %d", r.StatusCode)
	}

	// What the client did not see of a run is put back in its next request.
	turns := func(token string) int {
		h.say(token, "And now?", "call lookup", "saw "+`{"done":"/lookup"}`)
		h.model.mu.Lock()
		defer h.model.mu.Unlock()
		return h.model.turns
	}
	carl := h.token("carl", nil)
	if a, c := turns(ann), turns(carl); a <= 3 || c != 3 {
		t.Errorf("messages of ann's next request %d, of another's with the same %d", a, c)
	}

	dora, eve := h.token("dora", nil), h.token("eve", nil)
	for range 12 {
		h.say(dora, "Hi")
	}
	if got := h.say(dora, "Hi"); got != "429 rate_limit_exceeded" {
		t.Errorf("over the limit: %s", got)
	}
	if got := h.say(eve, "Hi"); got != "saw Hi" {
		t.Errorf("another subject: %s", got)
	}
	if got := h.say(h.token("dora", map[string]any{"jti": "another"}), "Hi"); got != "429 rate_limit_exceeded" {
		t.Errorf("another token of the same subject: %s", got)
	}

	metrics := h.request("", http.MethodGet, "/metrics", "").body
	if !strings.Contains(metrics, `gateway_limit_rejections_total{key="jwt",limit="requests_per_minute"} 2`) {
		t.Error("the metric does not count what was refused under jwt")
	}
	for _, name := range []string{"ann", "bob", "dora"} {
		if strings.Contains(metrics, `"`+name) || strings.Contains(metrics, " "+name+`"`) {
			t.Errorf("the metrics have the subject %s", name)
		}
	}
	if log := h.log.String(); !strings.Contains(log, `"key":"jwt"`) || !strings.Contains(log, `"subject":"ann"`) || strings.Contains(log, ann) {
		t.Error("the log lacks the subject, or has the token")
	}
}

func TestRefusedTokens(t *testing.T) {
	h := newHouse(t, "")
	h.g.level.Set(-4)
	for _, tt := range []struct {
		name, token, message string
	}{
		{"expired", h.token("ann", map[string]any{"exp": 1}), "has expired"},
		{"not yet", h.token("ann", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "not valid yet"},
		{"another audience", h.token("ann", map[string]any{"aud": "shop"}), "another audience"},
		{"another issuer", h.token("ann", map[string]any{"iss": "https://evil.example.com"}), "another issuer"},
		{"another's key", newIDP(t).token("ann", nil), "signature is wrong"},
		{"garbage", "a.b.c", "no signed JWT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, path := range []string{"/v1/chat/completions", "/mcp", "/gateway/tools"} {
				r := h.request(tt.token, http.MethodPost, path, conversation("a", "Hi"))
				e := gjson.Get(r.body, "error")
				if r.StatusCode != http.StatusUnauthorized || e.Get("code").Str != "invalid_api_key" || e.Get("type").Str != "invalid_request_error" ||
					!strings.Contains(e.Get("message").Str, tt.message) || r.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
					t.Errorf("%s: %d %s %s", path, r.StatusCode, r.body, r.Header.Get("WWW-Authenticate"))
				}
				if len(tt.token) > 10 && strings.Contains(r.body, tt.token[:10]) {
					t.Errorf("the reply repeats the token: %s", r.body)
				}
			}
			if log := h.log.String(); !strings.Contains(log, tt.message) || len(tt.token) > 10 && strings.Contains(log, strings.Split(tt.token, ".")[2]) {
				t.Errorf("the log has no reason, or the token: %s", log)
			}
		})
	}
	if got := h.with("neither"); got != unknownKey {
		t.Errorf("what is no token: %s", got)
	}
}

func TestTokensWhileTheKeySetCannotBeRead(t *testing.T) {
	p := newIDP(t)
	p.down = true
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, oneModel("a")+"auth: {keys: [{name: web, sha256: "+keySum("key-web")+"}], jwt: {issuer: 'https://login.example.com', audience: toolgate, jwks_url: '"+p.URL+"'}}\n")
	s := serveFile(t, file, quick)
	resp := s.authorized(http.MethodGet, "/v1/models", "", p.token("ann", nil))
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || gjson.GetBytes(body, "error.code").Str != "auth_unavailable" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s, %v", resp.StatusCode, body, resp.Header)
	}
	if got := s.with("key-web"); got != "200" {
		t.Errorf("a key meanwhile: %s", got)
	}
	if !strings.Contains(s.log.String(), "tokens are refused until they can") {
		t.Errorf("the log does not say it: %s", s.log)
	}
	p.mu.Lock()
	p.down = false
	p.mu.Unlock()
	await(t, "tokens are taken once the keys are there", func() bool { return s.with(p.token("ann", nil)) == "200" })
}

// Across reloads the key set stays while its address does, and nothing of it is left at the end.
func TestKeySetAcrossReloads(t *testing.T) {
	http.DefaultClient.CloseIdleConnections()
	before := goleak.IgnoreCurrent()
	p, other := newIDP(t), newIDP(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	yaml := func(model, more string) string {
		return oneModel(model) + "auth: {jwt: {issuer: 'https://login.example.com', audience: toolgate" + more + "}}\n"
	}
	write(t, file, yaml("a", ", jwks_url: '"+p.URL+"'"))
	never := pace{calm: time.Hour, look: time.Hour, settle: quick.settle, cut: quick.cut}
	s := serveFile(t, file, never)
	ann := p.token("ann", nil)
	if got := s.with(ann); got != "200" {
		t.Fatal(got)
	}
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	for i, model := range []string{"b", "c", "d"} {
		write(t, file, yaml(model, fmt.Sprintf(", leeway: %ds, jwks_url: '%s'", i, p.URL)))
		s.hup()
		if got := s.with(ann); got != "200" {
			t.Errorf("after reload %d: %s", i, got)
		}
	}
	if got := p.count(); got != 1 {
		t.Errorf("%d readings, want the first alone", got)
	}
	write(t, file, yaml("e", ", jwks_url: '"+other.URL+"'"))
	s.hup()
	if a, b := s.with(ann), s.with(other.token("ann", nil)); a != unknownKey || b != "200" {
		t.Errorf("with another set: %s for the old key, %s for the new", a, b)
	}
	write(t, filepath.Join(filepath.Dir(file), "keys.json"), p.set())
	write(t, file, yaml("f", ", jwks_file: keys.json"))
	s.hup()
	if a, b := s.with(ann), s.with(other.token("ann", nil)); a != "200" || b != unknownKey {
		t.Errorf("with a set in a file: %s for its key, %s for the other", a, b)
	}
	write(t, file, oneModel("g")+"auth: {keys_file: keys.yaml}\n")
	write(t, filepath.Join(filepath.Dir(file), "keys.yaml"), "[]")
	s.hup()
	if got := s.with(ann); got != unknownKey {
		t.Errorf("without auth.jwt: %s", got)
	}
	s.stop()
	p.Close()
	other.Close()
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

func TestKeySetInAFileIsReadAgain(t *testing.T) {
	p, other := newIDP(t), newIDP(t)
	dir := t.TempDir()
	file, keys := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "keys.json")
	write(t, keys, p.set())
	write(t, file, oneModel("a")+"auth: {jwt: {issuer: 'https://login.example.com', audience: toolgate, jwks_file: keys.json}}\n")
	s := serveFile(t, file, onlyEvents)
	if got := s.with(p.token("ann", nil)); got != "200" {
		t.Fatal(got)
	}
	rename(t, keys, other.set())
	await(t, "the new key is taken", func() bool { return s.with(other.token("ann", nil)) == "200" })
	if got := s.with(p.token("ann", nil)); got != unknownKey {
		t.Errorf("the old one: %s", got)
	}
}
