package proxy

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/auth"
)

const (
	theProxy  = "trusted_proxies: [127.0.0.1]\n"
	elsewhere = "trusted_proxies: [10.0.0.0/8]\n"
	theCaller = "trusted_headers: {id: x-user-id, level: x-user-level}\n"
)

// docs is offered to who has an id, papers to who has a level besides.
const docs = `docs: {description: Find documents., effect: read, parameters: {"q": string, user: string}, bind: {user: caller.id}, http: {url: "TOOLS/docs/{user}"}}
papers: {description: Find papers., effect: read, parameters: {user: string, level: integer}, bind: {user: caller.id, level: caller.level}, http: {url: "TOOLS/papers/{user}/{level}"}}
`

const callDocs = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"docs","arguments":"{\"q\":\"leave\",\"user\":\"admin\"}"}}]},"finish_reason":"tool_calls"}]}`

// observed is a gateway whose provider calls docs once where it may, and what the provider and the tools got.
type observed struct {
	*fixture
	mu     sync.Mutex
	asked  []*http.Request
	tools  []string // of the last request that the provider got
	called []string
}

func observe(t *testing.T, c fixtureConfig) *observed {
	t.Helper()
	o := &observed{}
	c.tools = docs
	o.fixture = newFixture(t, c, func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		o.asked = append(o.asked, r)
		o.tools = nil
		for _, name := range gjson.GetBytes(body, "tools.#.function.name").Array() {
			o.tools = append(o.tools, name.String())
		}
		if gjson.GetBytes(body, "messages.#").Int() == 1 && len(o.tools) > 0 {
			_, _ = io.WriteString(w, callDocs)
			return
		}
		_, _ = io.WriteString(w, answer)
	}, func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.called = append(o.called, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"found":true}`)
	})
	return o
}

// seen is what came out of a request: the tools that were offered, and the calls that were made.
func (o *observed) seen(t *testing.T, headers ...string) string {
	t.Helper()
	o.tools, o.called = nil, nil
	r := o.send(t, http.MethodPost, chatPath, hi, headers...)
	if r.StatusCode != http.StatusOK {
		return fmt.Sprint(r.StatusCode, " ", gjson.Get(r.body, "error.message").String())
	}
	return strings.Join(o.tools, " ") + strings.Join(o.called, " ")
}

func TestCallersOfOneKeyAreToldApartByHeaders(t *testing.T) {
	keys := auth.Config{Keys: []auth.KeyConfig{{Name: "web", SHA256: sha("key-web")}}}
	key := []string{"Authorization", "Bearer key-web"}
	for name, c := range map[string]struct {
		config fixtureConfig
		key    []string
	}{
		"no keys":          {fixtureConfig{trust: theProxy + theCaller}, nil},
		"one key for all":  {fixtureConfig{trust: theProxy + theCaller, keys: keys}, key},
		"a key if at hand": {fixtureConfig{trust: theProxy + theCaller, keys: auth.Config{Open: true, Keys: keys.Keys}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(t, c.config)
			for range 2 { // the second time around views may be kept
				for _, tt := range []struct {
					headers []string
					want    string
				}{
					{nil, ""},
					{[]string{"X-User-Id", "ann"}, "docs/docs/ann"},
					{[]string{"X-User-Id", "bob"}, "docs/docs/bob"},
					{[]string{"X-User-Id", "ann", "X-User-Level", "2"}, "docs papers/docs/ann"},
					{[]string{"X-User-Level", "2"}, ""},
					{[]string{"X-User-Id", ""}, ""},
				} {
					if got := o.seen(t, append(tt.headers, c.key...)...); got != tt.want {
						t.Errorf("%v: %q, want %q", tt.headers, got, tt.want)
					}
				}
			}
		})
	}
}

func TestHeadersTakeNoKeysPlace(t *testing.T) {
	keys := auth.Config{Keys: []auth.KeyConfig{{Name: "web", SHA256: sha("key-web")}}}
	o := observe(t, fixtureConfig{trust: theProxy + theCaller, keys: keys})
	if got := o.seen(t, "X-User-Id", "ann"); !strings.HasPrefix(got, "401") {
		t.Errorf("without a key: %s, want 401", got)
	}
	decode(t, "keys: [{name: web, sha256: "+sha("key-web")+", caller: {id: web}}]", &keys)
	o = observe(t, fixtureConfig{trust: theProxy + theCaller, keys: keys})
	if got, want := o.seen(t, "X-User-Id", "admin", "X-User-Level", "9", "Authorization", "Bearer key-web"), "docs papers/docs/web"; got != want {
		t.Errorf("a field that the key sets: %q, want %q", got, want)
	}
}

// A client that is no proxy must neither become somebody, nor have a provider, which may believe us, take it for one.
func TestNobodyElseIsBelieved(t *testing.T) {
	for name, list := range map[string]string{"no proxies": "", "others": elsewhere} {
		t.Run(name, func(t *testing.T) {
			o := observe(t, fixtureConfig{trust: list + theCaller})
			if got := o.seen(t, "X-User-Id", "admin", "X-User-Level", "9", "X_user_id", "admin"); got != "" {
				t.Errorf("the headers of a stranger: %q, want no tool", got)
			}
			r := o.send(t, http.MethodPost, "/v1/embeddings", `{"model":"m","input":"x"}`, "X-User-Id", "admin", "X_USER_ID", "admin", "X-Forwarded-For", "1.2.3.4", "X-Other", "goes along")
			if r.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", r.StatusCode, r.body)
			}
			for _, req := range o.asked {
				for name := range req.Header {
					if n := strings.ToLower(strings.ReplaceAll(name, "_", "-")); strings.HasPrefix(n, "x-user") || n == "x-forwarded-for" {
						t.Errorf("%s reached the provider", name)
					}
				}
			}
			if got := o.asked[len(o.asked)-1].Header.Get("X-Other"); got != "goes along" {
				t.Errorf("X-Other = %q", got)
			}
		})
	}
}

func TestWhoCallsIsNotToldToTheProvider(t *testing.T) {
	o := observe(t, fixtureConfig{trust: theProxy + theCaller})
	o.seen(t, "X-User-Id", "ann")
	o.send(t, http.MethodPost, "/v1/embeddings", `{"model":"m","input":"x"}`, "X-User-Id", "ann")
	for _, req := range o.asked {
		if req.Header.Get("X-User-Id") != "" {
			t.Errorf("%s %s has X-User-Id", req.Method, req.URL.Path)
		}
	}
}

// A tool that some of the client's headers go along to gets them as the gateway believes them.
func TestWhatIsNotBelievedIsTakenOut(t *testing.T) {
	for peer, want := range map[string]string{"127.0.0.1:4711": "ann 198.51.100.1", "[::ffff:127.0.0.1]:4711": "ann 198.51.100.1", "192.0.2.1:4711": " ", "[::1]:4711": " ", "@": " "} {
		f := newFixture(t, fixtureConfig{trust: theProxy + theCaller}, nil, nil)
		got := ""
		h := f.withInfo(f.believe(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("X-User-Id") + " " + r.Header.Get("X-Forwarded-For")
		})))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		r.Header.Set("X-User-Id", "ann")
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got != want {
			t.Errorf("from %s: %q, want %q", peer, got, want)
		}
	}
}

func TestAHeaderThatStandsTwiceIsRefused(t *testing.T) {
	f := newFixture(t, fixtureConfig{trust: theProxy + theCaller}, nil, nil)
	for _, path := range []string{chatPath, "/mcp", "/gateway/tools"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(hi))
		if path == "/gateway/tools" {
			r.Method = http.MethodGet
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.Header["X-User-Id"] = []string{"admin", "ann"}
		w := httptest.NewRecorder()
		f.Handler(true).ServeHTTP(w, r)
		e := gjson.Get(w.Body.String(), "error")
		if w.Code != http.StatusBadRequest || e.Get("param").String() != "X-User-Id" || !strings.Contains(e.Get("message").String(), "more than once") {
			t.Errorf("%s: %d %s, want 400 that names the header", path, w.Code, w.Body)
		}
	}
}

func TestTheLogHasTheClientsAddress(t *testing.T) {
	for _, tt := range []struct{ trust, peer, header, want string }{
		{theProxy, "127.0.0.1:1", "6.6.6.6, 198.51.100.1", "198.51.100.1"},
		{theProxy, "192.0.2.1:1", "198.51.100.1", "192.0.2.1"},
		{"", "127.0.0.1:1", "198.51.100.1", "127.0.0.1"},
		{theProxy, "127.0.0.1:1", "2001:db8::2", "2001:db8::2"},
		{theProxy, "127.0.0.1:1", `x" level=ERROR`, "127.0.0.1"},
		{theProxy, "@", "198.51.100.1", ""},
	} {
		f := newFixture(t, fixtureConfig{trust: tt.trust}, nil, nil)
		var out bytes.Buffer
		f.log = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil)
		r.RemoteAddr = tt.peer
		r.Header.Set("X-Forwarded-For", tt.header)
		f.Handler(true).ServeHTTP(httptest.NewRecorder(), r)
		if got := gjson.GetBytes(out.Bytes(), "client").String(); got != tt.want {
			t.Errorf("%s from %s with %q: client = %q, want %q", tt.trust, tt.peer, tt.header, got, tt.want)
		}
	}
}
