package handoff

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMessage(t *testing.T) {
	made := tooltest.Make(t, Kind, tool.Env{}, "handoff: {message: 'A person will look at {topic}.'}", "topic?")
	got, err := made.Call(t.Context(), tool.Call{Args: map[string]any{"topic": "it"}})
	if err != nil || got.Text != "A person will look at it." {
		t.Errorf("Call() = %q, %v", got.Text, err)
	}
}

func TestWebhookGetsTheConversation(t *testing.T) {
	var body []byte
	var header http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header = r.Header
	}))
	defer s.Close()
	transport := outbound.NewPools(outbound.Dialer{})
	defer transport.CloseIdleConnections()
	made := tooltest.Make(t, Kind, tool.Env{Transport: transport}, "handoff: {message: bye, webhook: {url: '"+s.URL+"/desk', headers: {x-desk: '1'}}}", "reason")
	_, err := made.Call(t.Context(), tool.Call{
		Args: map[string]any{"reason": "<asked>"}, Caller: map[string]any{"id": "ann"}, RunID: "run_1", IdempotencyKey: "tg_1",
		Conversation: func() json.RawMessage { return json.RawMessage(`[{"role":"user","content":"Hi"}]`) },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"run_id":"run_1","tool":"it","arguments":{"reason":"\u003casked\u003e"},"caller":{"id":"ann"},"messages":[{"role":"user","content":"Hi"}]}`
	if string(body) != want || header.Get("X-Desk") != "1" || header.Get("Idempotency-Key") != "tg_1" {
		t.Errorf("webhook got %s with %v, want %s", body, header, want)
	}
}

func TestWebhookFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		class tool.Class
		kind  string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, tool.Failed, tool.TypeHTTPStatus},
		"down":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, tool.Unavailable, tool.TypeHTTPStatus},
		"cut":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, tool.Unavailable, tool.TypeConnect},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, tool.Timeout, tool.TypeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tt.serve)
			defer s.Close()
			transport := outbound.NewPools(outbound.Dialer{})
			defer transport.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := tooltest.Make(t, Kind, tool.Env{Transport: transport}, "handoff: {message: bye, webhook: '"+s.URL+"'}").Call(ctx, tool.Call{})
			tooltest.WantError(t, err, tt.class, tt.kind)
		})
	}
}

// What the webhook is told, and its headers, are for it alone.
func TestNoRedirectOfAWebhookIsFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was told with %v", r.Header)
	}))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	transport := outbound.NewPools(outbound.Dialer{})
	defer transport.CloseIdleConnections()
	_, err := tooltest.Make(t, Kind, tool.Env{Transport: transport}, "handoff: {message: bye, webhook: {url: '"+s.URL+"', headers: {Authorization: secret}}}").Call(t.Context(), tool.Call{})
	tooltest.WantError(t, err, tool.Failed, tool.TypeHTTPStatus)
}

// A webhook that answers without end is not listened to.
func TestTheReplyOfAWebhookIsNotReadToItsEnd(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	transport := outbound.NewPools(outbound.Dialer{})
	defer transport.CloseIdleConnections()
	if _, err := tooltest.Make(t, Kind, tool.Env{Transport: transport}, "handoff: {message: bye, webhook: '"+s.URL+"'}").Call(t.Context(), tool.Call{}); err != nil {
		t.Error(err)
	}
}

func TestFilesThatCannotWork(t *testing.T) {
	tooltest.CheckRefuses(t, Kind, []tooltest.Refuses{
		{Name: "no message", YAML: "handoff: {}", Want: "message is missing"},
		{Name: "a placeholder that is no parameter", YAML: "handoff: {message: 'to {desk}'}", Want: "desk"},
		{Name: "TLS without any", YAML: "handoff: {message: bye, webhook: {url: 'http://desk.example.com', tls: {}}}", Want: "tls: the address begins with http://"},
		{Name: "a webhook that is no address", YAML: "handoff: {message: bye, webhook: desk}", Want: "want an http or https address"},
	})
	c, _, _ := tooltest.Read(t, Kind, "handoff: {message: bye, webhook: 'http://desk.example.com/x'}")
	if c.DefaultEffect() != tool.Write || strings.Join(c.Hosts(), " ") != "desk.example.com" {
		t.Errorf("effect %s, hosts %v", c.DefaultEffect(), c.Hosts())
	}
}
