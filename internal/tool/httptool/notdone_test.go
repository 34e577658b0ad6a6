package httptool

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestWhichFailuresAreSureToHaveDoneNothing(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	status := func(code int) func(*testing.T) string {
		return func(t *testing.T) string {
			return serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		}
	}
	for _, tt := range []struct {
		name string
		url  func(*testing.T) string
		more string // keys of the tool
		want bool
	}{
		{"nobody listens", func(*testing.T) string { return closed.URL }, "", true},
		{"too many requests", status(http.StatusTooManyRequests), "", true},
		{"out of order", status(http.StatusServiceUnavailable), "", false},
		{"a refusal, which is an outcome", status(http.StatusConflict), "", false},
		{"cut before the reply", func(t *testing.T) string { return hijack(t, func(net.Conn) {}) }, "", false},
		{"cut in the reply", func(t *testing.T) string {
			return hijack(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") })
		}, "", false},
		// The service took the POST, and only then went away.
		{"nobody listens any more where the reply points to", func(t *testing.T) string {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { // ends with its one connection
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				l.Close()
				_, _ = fmt.Fprintf(c, "HTTP/1.1 303 See Other\r\nLocation: /done\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}()
			t.Cleanup(func() { l.Close() })
			return "http://" + l.Addr().String()
		}, ", redirects: same_host", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made := newTool(t, "{method: POST, url: "+tt.url(t)+tt.more+"}", spec(tool.Write))
			_, err := made.Call(t.Context(), tool.Call{IdempotencyKey: "k"})
			if err == nil {
				t.Fatal("Call() went well")
			}
			if e := tool.AsError(err); e.NotDone != tt.want {
				t.Errorf("NotDone = %v, want %v: %v", e.NotDone, tt.want, err)
			}
		})
	}
}
