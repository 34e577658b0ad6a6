package proxy

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/limit"
)

var webKey = []string{"Authorization", "Bearer key-web"}

// limited is a gateway whose key web has limits, by a clock that stands still but for what is added to it.
func limited(t *testing.T, c limit.Config, up http.HandlerFunc) (*fixture, *atomic.Int64) {
	t.Helper()
	f := newFixture(t, fixtureConfig{keys: auth.Config{Keys: []auth.KeyConfig{
		{Name: "web", SHA256: sha("key-web"), Limits: c}, {Name: "app", SHA256: sha("key-app")},
	}}, tools: lookup, models: `"*": {upstream: up}` + "\nplain: {upstream: up, tools: []}"}, up, nil)
	since := &atomic.Int64{}
	begin := time.Now()
	f.opts.Limits = limit.New(limit.NewMemory(func() time.Time { return begin.Add(time.Duration(since.Load())) }))
	return f, since
}

// left is what the headers say of a limit: max/remaining/reset.
func left(h http.Header, of string) string {
	return h.Get("x-ratelimit-limit-"+of) + "/" + h.Get("x-ratelimit-remaining-"+of) + "/" + h.Get("x-ratelimit-reset-"+of)
}

func TestAKeyOverItsRateIsRefused(t *testing.T) {
	var asked atomic.Int64
	f, clock := limited(t, limit.Config{RequestsPerMinute: 2}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("X-Ratelimit-Limit-Requests", "10000") // a provider's own
		w.Header().Set("X-Ratelimit-Limit-Tokens", "50000")
		_, _ = io.WriteString(w, answer)
	})
	for i, want := range []string{"2/1/30s", "2/0/1m0s"} {
		r := f.send(t, http.MethodPost, chatPath, hi, webKey...)
		if got := left(r.Header, "requests"); r.StatusCode != 200 || got != want || r.Header.Get("X-Ratelimit-Limit-Tokens") != "50000" {
			t.Errorf("request %d: %d, %s, %v; want %s beside the provider's tokens", i, r.StatusCode, got, r.Header, want)
		}
	}
	for _, path := range []string{chatPath, "/v1/embeddings", "/v1/nothing", "/mcp"} {
		r := f.send(t, http.MethodPost, path, hi, webKey...)
		e := gjson.Get(r.body, "error")
		if r.StatusCode != 429 || e.Get("code").String() != "rate_limit_exceeded" || e.Get("type").String() != "rate_limit_error" ||
			!strings.Contains(e.Get("message").String(), "requests_per_minute (2): try again in 30s") || r.Header.Get("Retry-After") != "30" || left(r.Header, "requests") != "2/0/1m0s" {
			t.Errorf("%s: %d %s %v", path, r.StatusCode, r.body, r.Header)
		}
	}
	if r := f.send(t, http.MethodGet, "/gateway/tools", "", webKey...); r.StatusCode != 200 {
		t.Errorf("what the operator looks at: %d", r.StatusCode)
	}
	r := f.send(t, http.MethodPost, chatPath, hi, "Authorization", "Bearer key-app")
	if r.StatusCode != 200 || left(r.Header, "requests") != "10000//" {
		t.Errorf("a key without limits: %d %v, want the provider's headers", r.StatusCode, r.Header)
	}
	if got := asked.Load(); got != 3 {
		t.Errorf("the provider was asked %d times, want 3", got)
	}
	clock.Store(int64(30 * time.Second))
	if r := f.send(t, http.MethodPost, chatPath, hi, webKey...); r.StatusCode != 200 {
		t.Errorf("after Retry-After: %d", r.StatusCode)
	}
	body := f.send(t, http.MethodGet, "/metrics", "").body
	for _, want := range []string{
		`gateway_limit_rejections_total{key="web",limit="requests_per_minute"} 4`, `gateway_limit_rejections_total{key="web",limit="concurrent"} 0`,
		`gateway_limit_rejections_total{key="app",limit="tokens_per_minute"} 0`, `gateway_limit_rejections_total{key="app",limit="max_inflight"} 0`,
		`gateway_limit_rejections_total{key="",limit="max_inflight"} 0`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

const (
	withUsage = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"\"usage\":{\"total_tokens\":1}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":10,"total_tokens":40}}`
	twoEvents = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}],"usage":null}` + "\n\n" +
		`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}` + "\n\n"
	usageEvent = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":10,"total_tokens":40}}` + "\n\n"
	lastEvent  = "data: [DONE]\n\n"
)

func TestTokensArePaidOnceTheyAreUsed(t *testing.T) {
	chat := func(model, more string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"` + strings.Repeat("a", 370) + `"}]` + more + `}` // messages of 400 bytes
	}
	for _, tt := range []struct {
		name, path, body string
		reply, kind      string
		status           int
		want             int64
	}{
		{name: "a run", body: chat("m", ""), reply: withUsage, want: 40},
		{name: "a run as a stream", body: chat("m", `,"stream":true`), reply: twoEvents + usageEvent + lastEvent, kind: "text/event-stream", want: 40},
		{name: "passed through", body: chat("plain", ""), reply: withUsage, want: 40},
		{name: "passed through, a long reply", body: chat("plain", ""), reply: strings.Replace(withUsage, "usage", strings.Repeat("long ", 20_000), 1), want: 40},
		{name: "a stream with usage", body: chat("plain", `,"stream":true`), reply: twoEvents + usageEvent + lastEvent, kind: "text/event-stream", want: 40},
		{name: "a stream that does not say", body: chat("plain", `,"stream":true`), reply: twoEvents + lastEvent, kind: "text/event-stream", want: 100 + 3},
		{name: "a reply that does not say", body: chat("plain", ""), reply: answer, want: 100 + int64(len(answer))/4},
		{name: "one that says 0", body: chat("plain", ""), reply: strings.NewReplacer("30", "0", "40", "0", "10", "0").Replace(withUsage), want: 100 + int64(len(withUsage)-3)/4},
		{name: "another endpoint with usage", path: "/v1/embeddings", body: `{"model":"m","input":"x"}`, reply: `{"data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}`, want: 8},
		{name: "another endpoint that does not say", path: "/v1/images/generations", body: `{"model":"m","prompt":"x"}`, reply: `{"data":[{"b64_json":"` + strings.Repeat("A", 4000) + `"}]}`, want: 0},
		{name: "a refusal", body: chat("plain", ""), reply: `{"error":{"message":"no"}}`, status: 400, want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var encoding string
			f, _ := limited(t, limit.Config{TokensPerMinute: 10_000}, func(w http.ResponseWriter, r *http.Request) {
				encoding = r.Header.Get("Accept-Encoding")
				if tt.kind == "" {
					tt.kind = "application/json"
				}
				w.Header().Set("Content-Type", tt.kind)
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				_, _ = io.WriteString(w, tt.reply)
			})
			if tt.path == "" {
				tt.path = chatPath
			}
			r := f.send(t, http.MethodPost, tt.path, tt.body, append(webKey, "Accept-Encoding", "zstd")...)
			if tt.status == 0 && r.StatusCode != 200 {
				t.Fatalf("%d %s", r.StatusCode, r.body)
			}
			if encoding == "zstd" {
				t.Error("the provider was asked for an encoding that nobody here reads")
			}
			// What has been paid shows in the next reply's header; models cost nothing.
			next := f.send(t, http.MethodGet, "/v1/models/plain", "", webKey...)
			if got := next.Header.Get("X-Ratelimit-Remaining-Tokens"); got != strconv.FormatInt(10_000-tt.want, 10) {
				t.Errorf("%s of 10000 are left, want %d paid", got, tt.want)
			}
		})
	}
}

func TestAKeyWithoutTokensIsRefusedUntilSomeAreBack(t *testing.T) {
	f, clock := limited(t, limit.Config{TokensPerMinute: 30}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, withUsage) })
	r := f.send(t, http.MethodPost, chatPath, hi, webKey...)
	if got := left(r.Header, "tokens"); r.StatusCode != 200 || got != "30/0/1m20s" {
		t.Errorf("the first: %d, %s; want what it paid in its own header", r.StatusCode, got)
	}
	r = f.send(t, http.MethodPost, chatPath, hi, webKey...)
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "22" || !strings.Contains(r.body, "tokens_per_minute (30): try again in 22s") {
		t.Errorf("the next: %d %v %s", r.StatusCode, r.Header, r.body)
	}
	if r := f.send(t, http.MethodGet, "/v1/models", "", webKey...); r.StatusCode != 200 {
		t.Errorf("what costs no tokens: %d", r.StatusCode)
	}
	clock.Store(int64(22 * time.Second))
	if r := f.send(t, http.MethodPost, chatPath, hi, webKey...); r.StatusCode != 200 {
		t.Errorf("after Retry-After: %d", r.StatusCode)
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	release := make(chan struct{})
	began := make(chan struct{}, 1)
	var hold atomic.Bool
	f, _ := limited(t, limit.Config{Concurrent: 1}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if hold.Load() {
			began <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, answer)
	})
	hold.Store(true)
	first := make(chan int)
	go func() { first <- f.send(t, http.MethodPost, chatPath, hi, webKey...).StatusCode }()
	<-began
	r := f.send(t, http.MethodPost, chatPath, hi, webKey...)
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" || !strings.Contains(r.body, "concurrent allows (1)") {
		t.Errorf("a second at once: %d %v %s", r.StatusCode, r.Header, r.body)
	}
	hold.Store(false)
	close(release)
	if got := <-first; got != 200 {
		t.Errorf("the first: %d", got)
	}
	for _, body := range []string{hi, `{`, strings.Replace(hi, `"m"`, `"plain"`, 1), strings.Replace(hi, `}]`, `}],"stream":true`, 1)} {
		if r := f.send(t, http.MethodPost, chatPath, body, webKey...); r.StatusCode == 429 {
			t.Errorf("afterwards: %d for %s", r.StatusCode, body)
		}
	}
}

func TestExactlyAsManyGetInAsTheLimitSays(t *testing.T) {
	var asked atomic.Int64
	f, _ := limited(t, limit.Config{RequestsPerMinute: 1}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, answer)
	})
	var good, refused atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch f.send(t, http.MethodPost, chatPath, hi, webKey...).StatusCode {
			case 200:
				good.Add(1)
			case 429:
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if good.Load() != 1 || refused.Load() != 49 || asked.Load() != 1 {
		t.Errorf("%d good, %d refused, %d at the provider; want 1, 49, 1", good.Load(), refused.Load(), asked.Load())
	}
}

// A stream is flushed as it comes also to a key with limits, and has their headers.
func TestLimitedStreamsAreFlushed(t *testing.T) {
	next := make(chan struct{})
	f, _ := limited(t, limit.Config{RequestsPerMinute: 9, TokensPerMinute: 900}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, twoEvents)
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, usageEvent+lastEvent)
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+chatPath, strings.NewReader(`{"model":"plain","stream":true,"messages":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(webKey[0], webKey[1])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if left(resp.Header, "requests") != "9/8/6.667s" || left(resp.Header, "tokens") != "900/900/0s" {
		t.Errorf("headers %v", resp.Header)
	}
	got := make([]byte, len(twoEvents))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != twoEvents {
		t.Errorf("%q, %v", got, err)
	}
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != usageEvent+lastEvent {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestTheSizeOfARequestIsThatOfItsText(t *testing.T) {
	for body, want := range map[string]int64{
		"": 0, "abcd": 4,
		`{"url":"data:image/png;base64,AAAA"}`:                                         32,
		`[{"url":"data:image/png;base64,AAAA"},{"url":"data:image/png;base64,BBBBB"}]`: int64(len(`[{"url":"data:image/png;base64,"},{"url":"data:image/png;base64,"}]`)),
		`{"url":"data:image/png;base64,AAAA`:                                           int64(len(`{"url":"data:image/png;base64,AAAA`)),
	} {
		if got := textSize([]byte(body)); got != want {
			t.Errorf("textSize(%s) = %d, want %d", body, got, want)
		}
	}
}
