package httptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestStatus(t *testing.T) {
	tests := []struct {
		status     int
		retryAfter string
		want       tool.Error
	}{
		{300, "", tool.Error{Class: tool.Failed}},
		{304, "", tool.Error{Class: tool.Failed}},
		{307, "5", tool.Error{Class: tool.Failed}},
		{400, "", tool.Error{Class: tool.Failed}},
		{404, "5", tool.Error{Class: tool.Failed}},
		{408, "", tool.Error{Class: tool.Unavailable}},
		{418, "", tool.Error{Class: tool.Failed}},
		{429, "7", tool.Error{Class: tool.Unavailable, RetryAfter: 7 * time.Second}},
		{500, "", tool.Error{Class: tool.Unavailable}},
		{502, "nonsense", tool.Error{Class: tool.Unavailable}},
		{503, "120", tool.Error{Class: tool.Unavailable, RetryAfter: 2 * time.Minute}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
				if tt.status != 304 {
					_, _ = io.WriteString(w, "stack trace at app.py:77 \xff"+strings.Repeat("y", 5000))
				}
			})
			made := newTool(t, "{url: "+base+"}", spec(tool.Read))
			_, err := made.Call(t.Context(), tool.Call{})
			tt.want.Type, tt.want.Status = tool.TypeHTTPStatus, tt.status
			e := wantError(t, err, tt.want, "app.py")
			if tt.status == 304 {
				return
			}
			if log := e.Error(); !strings.Contains(log, "app.py:77 \uFFFDyyy") || len(log) > maxExcerpt+200 {
				t.Errorf("log says %d bytes %.200q, want the beginning of the body", len(log), log)
			}
		})
	}
}

func TestStatusOfAPackedError(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(500)
		_, _ = w.Write(packed(t, []byte("what went wrong")))
	})
	_, err := newTool(t, "{url: "+base+"}", spec(tool.Read)).Call(t.Context(), tool.Call{})
	e := wantError(t, err, tool.Error{Class: tool.Unavailable, Type: tool.TypeHTTPStatus, Status: 500})
	if !strings.Contains(e.Error(), "what went wrong") {
		t.Errorf("log says %q, want the unpacked body", e)
	}
}

// hijack serves each connection by hand.
func hijack(t *testing.T, f func(net.Conn)) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		f(conn)
	})
}

func reset(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Error(err)
	}
}

func TestConnectionFailures(t *testing.T) {
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}()
	tests := []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"nobody listens", func(*testing.T) string { return closed + "/gone-host-path" }},
		{"closed without a word", func(t *testing.T) string { return hijack(t, func(net.Conn) {}) }},
		{"reset", func(t *testing.T) string { return hijack(t, func(c net.Conn) { reset(t, c) }) }},
		{"no HTTP", func(t *testing.T) string {
			return hijack(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail.internal ready\r\n\r\n") })
		}},
		{"cut in the headers", func(t *testing.T) string {
			return hijack(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le") })
		}},
		{"cut in the body", func(t *testing.T) string {
			return hijack(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") })
		}},
		{"cut in a chunk", func(t *testing.T) string {
			return hijack(t, func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
			})
		}},
		{"cut in a packed body", func(t *testing.T) string {
			return hijack(t, func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\n"+string(packed(t, []byte("hello"))))
				_ = c.(*net.TCPConn).CloseWrite()
			})
		}},
		{"a certificate that nobody knows", func(t *testing.T) string {
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = quiet()
			s.StartTLS()
			t.Cleanup(s.Close)
			return s.URL
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made := newTool(t, "{url: "+tt.url(t)+"}", spec(tool.Read))
			_, err := made.Call(t.Context(), tool.Call{})
			wantError(t, err, tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect}, "gone-host-path", "mail.internal")
		})
	}
}

func TestDeadline(t *testing.T) {
	tests := []struct {
		name  string
		begin string // what comes before the silence
	}{
		{"before the reply", ""},
		{"in the body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
		{"in a packed body", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hang := make(chan struct{})
			base := hijack(t, func(c net.Conn) {
				_, _ = io.WriteString(c, tt.begin)
				<-hang
			})
			t.Cleanup(func() { close(hang) })
			made := newTool(t, "{url: "+base+"}", spec(tool.Read))
			errTime := errors.New("tool time")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errTime)
			defer cancel()
			_, err := made.Call(ctx, tool.Call{})
			e := wantError(t, err, tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout})
			if !errors.Is(e, errTime) {
				t.Errorf("Call() = %v, want it to wrap the cause", e)
			}

			errGone := errors.New("client gone")
			ctx2, cancel2 := context.WithCancelCause(t.Context())
			time.AfterFunc(20*time.Millisecond, func() { cancel2(errGone) })
			_, err = made.Call(ctx2, tool.Call{})
			e = wantError(t, err, tool.Error{Class: tool.Failed, Type: tool.TypeInternal})
			if !errors.Is(e, errGone) {
				t.Errorf("Call() = %v, want it to wrap the cause", e)
			}
		})
	}
}

// A reply that switches to another protocol has the connection for a body, which outlasted the call's deadline.
func TestASwitchToAnotherProtocolIsAFailure(t *testing.T) {
	base := hijack(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // until the other side closes it
	})
	made := newTool(t, "{url: "+base+"}", spec(tool.Read))
	_, err := made.Call(t.Context(), tool.Call{})
	wantError(t, err, tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: http.StatusSwitchingProtocols})
}

// A transport that gives up by itself, before the attempt's time is over, is no timeout of the attempt.
func TestTimeoutsOfTheTransportAreConnectErrors(t *testing.T) {
	hang := make(chan struct{})
	base := hijack(t, func(net.Conn) { <-hang })
	t.Cleanup(func() { close(hang) })
	c, f := load("{url: "+base+"}", spec(tool.Read), nil)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	tr := newTransport(t)
	tr.ResponseHeaderTimeout = 20 * time.Millisecond
	made, err := c.Build(spec(tool.Read), tool.Env{Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = made.Call(ctx, tool.Call{})
	wantError(t, err, tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect})
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	const key = "s3cr3t-Key-77"
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://other.example/?"+r.URL.RawQuery)
		w.WriteHeader(map[string]int{"/a": 500, "/b": 404, "/c": 302, "/d": 200}[r.URL.Path])
		_, _ = fmt.Fprintf(w, "bad key %s %s", r.URL.RawQuery, r.Header.Get("Authorization"))
	})
	addr := strings.TrimPrefix(echo, "http://")
	for _, yaml := range []string{
		`{url: "BASE/a?api_key=${KEY}", headers: {authorization: "Bearer ${KEY}"}}`,
		`{url: "BASE/b", auth: {query: {name: token, value: "${KEY}"}}}`,
		`{url: "BASE/c?api_key=${KEY}", redirects: same_host}`,
		`{url: "BASE/d?api_key=${KEY}", result: .x}`,
		`{url: "http://svc:${KEY}@ADDR/a"}`,
		`{url: "http://svc:${KEY}@127.0.0.1:1/stock?token=${KEY}"}`,
	} {
		yaml = strings.NewReplacer("BASE", echo, "ADDR", addr).Replace(yaml)
		c, f := load(yaml, spec(tool.Read), map[string]string{"KEY": key})
		if p := f.Problems(); p != nil {
			t.Fatal(p)
		}
		made, err := c.Build(spec(tool.Read), tool.Env{Transport: newTransport(t)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = made.Call(t.Context(), tool.Call{})
		e := tool.AsError(err)
		if e == nil {
			t.Fatalf("%s: no error", yaml)
		}
		wantNoSecret(t, e, key, addr, "svc", "stock")
	}
}
