package upstream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/outbound/outboundtest"
	"github.com/toolgate/toolgate/internal/sse"
)

// packed is a text n times, after a beginning and before an end, as gzip.
func packed(t *testing.T, begin, text string, n int, end string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, begin)
	for range n {
		_, _ = io.WriteString(z, text)
	}
	_, _ = io.WriteString(z, end)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A provider, or who stands in its place, may send without end. What is read of it is bounded after it was unpacked.
func TestRepliesAreBounded(t *testing.T) {
	mega := strings.Repeat("x", 1<<20)
	chunk := `data: {"choices":[{"index":0,"delta":{"content":"` + mega + "\"}}]}\n\n"
	for _, tt := range []struct {
		name, body, kind string
		status           int
		reply            []byte
		want             error
	}{
		{"a reply", plain, "application/json", 200, packed(t, `{"choices":[{"message":{"content":"`, mega, 65, `"}}]}`), errTooLarge},
		{"a stream", streamed, "text/event-stream", 200, packed(t, "", chunk, 65, "data: [DONE]\n\n"), errTooLarge},
		{"an event", streamed, "text/event-stream", 200, packed(t, "data: ", mega, 17, "\n\n"), sse.ErrTooLong},
		{"a line without an end", streamed, "text/event-stream", 200, packed(t, ": ", mega, 17, ""), sse.ErrTooLong},
		{"a stream that is a reply", streamed, "text/event-stream", 200, packed(t, `{"choices":[{"message":{"content":"`, mega, 65, `"}}]}`), errTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.Header().Set("Content-Encoding", "gzip")
				w.WriteHeader(tt.status)
				_, _ = w.Write(tt.reply)
			})
			u := client(t, s.URL, "retry: {attempts: 1}\n")
			_, err := NewRoutes(NewRoute(u, "", 0)).Ask(t.Context(), ask(t, tt.body))
			if !errors.Is(err, tt.want) {
				t.Errorf("Ask() = %v, want %v", err, tt.want)
			}
		})
	}
}

// An error that was too long to be read used to count as the client's goodbye.
func TestAnErrorThatIsTooLongIsThatOfItsStatus(t *testing.T) {
	reply := packed(t, `{"error":{"message":"`, strings.Repeat("x", 1<<20), 2, `"}}`)
	for status, want := range map[int]Kind{500: Broken, 401: Auth, 429: Busy, 400: Refused} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			_, _ = w.Write(reply)
		})
		_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), ask(t, plain))
		var e *Error
		if !errors.As(err, &e) || e.Kind != want || e.Status != status || len(e.Body) != 0 {
			t.Errorf("%d: Ask() = %v with %d bytes, want kind %s", status, err, len(e.Body), want)
		}
	}
}

// Names that are put back make the gateway look at each line of a stream that it passes through.
func TestALineOfAPassedStreamIsBounded(t *testing.T) {
	z, err := gzip.NewReader(bytes.NewReader(packed(t, "data: one\n\ndata: ", strings.Repeat("x", 1<<20), 17, "\n\n")))
	if err != nil {
		t.Fatal(err)
	}
	r := &renames{back: map[string]string{"a": "b"}}
	resp := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(z)}
	if err := r.restorePassed(resp); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if string(got) != "data: one\n\n" || !errors.Is(err, errTooLarge) {
		t.Errorf("read %d bytes, %v, want the first event and %v", len(got), err, errTooLarge)
	}
}

func TestTheHeaderOfAReplyIsBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", outbound.MaxHeader+1))
		_, _ = io.WriteString(w, answer)
	})
	_, err := NewRoutes(NewRoute(client(t, s.URL, "retry: {attempts: 1}\n"), "", 0)).Ask(t.Context(), ask(t, plain))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Broken || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("Ask() = %v, want it broken by its header", err)
	}
}

// The key would go along.
func TestNoRedirectOfAProviderIsFollowed(t *testing.T) {
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the other host was asked with %v", r.Header) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		asked := 0
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			http.Redirect(w, r, other.URL+"/v1/chat/completions", status)
		})
		u := client(t, s.URL, "api_key: sk-operator\n"+quick)
		_, err := NewRoutes(NewRoute(u, "", 0)).Ask(t.Context(), ask(t, plain))
		var e *Error
		if !errors.As(err, &e) || e.Kind != Broken || e.Status != status {
			t.Errorf("%d: Ask() = %v", status, err)
		}
		resp, err := NewRoutes(NewRoute(u, "", 0)).Pass(t.Context(), Pass{Method: http.MethodGet, Path: "models"})
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%d: a redirect is passed on", status)
		}
		if asked != 2 {
			t.Errorf("%d: asked %d times, want each request once", status, asked)
		}
	}
}

// A name that leads to a metadata service is no failure that passes.
func TestARefusedAddressIsNotTriedAgain(t *testing.T) {
	names := &outboundtest.Names{}
	names.Set("up.test", "169.254.169.254")
	names.ForAll(t)
	u := configuredAt(t, "http://up.test/v1", quick)
	_, err := NewRoutes(NewRoute(u, "", 0)).Ask(t.Context(), ask(t, plain))
	refused, ok := errors.AsType[*outbound.RefusedError](err)
	if !ok || refused.Host != "up.test" {
		t.Fatalf("Ask() = %v, want it refused", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.passes() || !e.elsewhere() {
		t.Errorf("Ask() = %#v, want what another route may do", e)
	}
}
