package httptool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/toolgate/toolgate/internal/tool"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// flaky is a service that answers the first request on its first connection and, having read the second one there,
// closes the connection without a word. It answers whatever comes on other connections. It counts what arrives.
type flaky struct {
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
	arrived  []string
}

func newFlaky(t *testing.T, serve func(f *flaky, conn net.Conn, first bool)) *flaky {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{listener: l}
	f.wg.Go(func() { // ends when the listener is closed
		for first := true; ; first = false {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			f.wg.Go(func() { // ends with the connection, at the latest by close
				defer conn.Close()
				serve(f, conn, first)
			})
		}
	})
	return f
}

func (f *flaky) close() {
	f.listener.Close()
	f.mu.Lock()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *flaky) note(request string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrived = append(f.arrived, request)
	return len(f.arrived)
}

func (f *flaky) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.arrived)
}

// inChunks marks a request whose length was not known: some services refuse such.
const inChunks = " in chunks"

func flakyHTTP1(f *flaky, conn net.Conn, first bool) {
	r := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		request := fmt.Sprintf("%s %s", req.Method, body)
		if req.TransferEncoding != nil {
			request += inChunks
		}
		f.note(request)
		if first && n == 2 {
			return
		}
		reply := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
		if req.Method != http.MethodHead {
			reply += "paid"
		}
		_, _ = io.WriteString(conn, reply)
	}
}

var replayTests = []struct {
	name, yaml string // yaml besides the url
	spec       tool.Spec
	key        string
	twice      bool // the transport sends it again, by HTTP/1
	only1      bool // HTTP/1 alone: in HTTP/2 nothing keeps the transport from it, see outgoing.request
}{
	{name: "a POST that writes", yaml: "body: json", spec: spec(tool.Write, "n"), key: "key"},
	{name: "a PUT that writes", yaml: "method: PUT", spec: spec(tool.Write, "n"), key: "key"},
	{name: "a POST that writes, without a key", yaml: "body: json", spec: spec(tool.Write, "n")},
	{name: "a DELETE that writes has no body", yaml: "method: DELETE", spec: spec(tool.Write), key: "key"},
	{name: "a GET that writes", yaml: "method: GET", spec: spec(tool.Write), key: "key"},
	{name: "a HEAD that writes", yaml: "method: HEAD", spec: spec(tool.Write)},
	{name: "a POST that writes, with an empty body", yaml: `body: ""`, spec: spec(tool.Write), key: "key", only1: true},
	{name: "an empty body and a key of the file", yaml: `method: PATCH, body: "", headers: {X-Idempotency-Key: "{run_id}"}`, spec: spec(tool.Write), only1: true},
	{name: "a body and a key of the file", yaml: `body: json, headers: {Idempotency-Key: "{run_id}"}`, spec: spec(tool.Write)},
	{name: "a write of a service that knows its keys", yaml: "body: json", spec: tool.Spec{Effect: tool.Write, Idempotent: true}, key: "key", twice: true},
	{name: "a GET that reads", yaml: "method: GET", spec: spec(tool.Read), twice: true},
	{name: "a POST that reads", yaml: "body: json", spec: spec(tool.Read, "n"), twice: true},
}

// An http.Transport repeats by itself what it takes to be idempotent when a kept connection breaks: with an
// Idempotency-Key header a POST that pays is sent twice.
func TestWritesAreNeverSentTwice(t *testing.T) {
	for _, tt := range replayTests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlaky(t, flakyHTTP1)
			defer f.close()
			tr := newTransport(t)
			defer tr.CloseIdleConnections()
			runReplay(t, f, tr, tt.yaml, tt.spec, tt.key, tt.twice)
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, r := range f.arrived {
				if strings.HasSuffix(r, inChunks) {
					t.Errorf("request %q: want its length", r)
				}
			}
		})
	}
}

// HTTP/2 has reasons of its own to repeat a request: Go up to 1.26 does so after a PROTOCOL_ERROR of the server. What
// may be sent twice, may, here.
func TestWritesAreNeverSentTwiceByHTTP2(t *testing.T) {
	for _, tt := range replayTests {
		if tt.only1 || tt.twice {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			f := newFlaky(t, flakyHTTP2)
			defer f.close()
			tr := newTransport(t)
			tr.Protocols = new(http.Protocols)
			tr.Protocols.SetUnencryptedHTTP2(true)
			defer tr.CloseIdleConnections()
			runReplay(t, f, tr, tt.yaml, tt.spec, tt.key, false)
		})
	}
}

func runReplay(t *testing.T, f *flaky, tr *http.Transport, yaml string, s tool.Spec, key string, twice bool) {
	t.Helper()
	c, file := load("{url: http://"+f.listener.Addr().String()+"/, "+yaml+"}", s, nil)
	if p := file.Problems(); p != nil {
		t.Fatal(p)
	}
	made, err := c.Build(s, tool.Env{Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	call := tool.Call{Args: args(t, `{"n": 1}`), IdempotencyKey: key, RunID: "run"}
	if _, err := made.Call(t.Context(), call); err != nil {
		t.Fatalf("first call: %v", err)
	}
	_, err = made.Call(t.Context(), call)
	if twice {
		if err != nil || f.count() != 3 {
			t.Errorf("Call() = %v after %d requests, want it sent again, 3 in all", err, f.count())
		}
		return
	}
	wantError(t, err, tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect})
	if f.count() != 2 {
		t.Errorf("%d requests arrived, want 2: %q", f.count(), f.arrived)
	}
}

// flakyHTTP2 speaks HTTP/2 by hand, as far as these requests go: the second request is refused with PROTOCOL_ERROR.
func flakyHTTP2(f *flaky, conn net.Conn, _ bool) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	fr := http2.NewFramer(conn, conn)
	if err := fr.WriteSettings(); err != nil {
		return
	}
	for {
		frame, err := fr.ReadFrame()
		if err != nil {
			return
		}
		var ended bool
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = fr.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			ended = frame.StreamEnded()
		}
		if ended {
			id := frame.Header().StreamID
			if f.note(fmt.Sprint("stream ", id)) == 2 {
				err = fr.WriteRSTStream(id, http2.ErrCodeProtocol)
			} else {
				// 0x88 is ":status: 200" in HPACK (RFC 7541, appendix A).
				err = errors.Join(err, fr.WriteHeaders(http2.HeadersFrameParam{
					StreamID: id, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true,
				}))
			}
		}
		if err != nil {
			return
		}
	}
}
