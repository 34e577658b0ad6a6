package script

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	asks    = `{"model":"m","messages":[{"role":"user","content":"Go"}]}`
	streams = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Go"}]}`
)

// overWire is all that a provider sends to one request, up to the end of the connection: header and chunks as they are.
func overWire(t *testing.T, yaml, body string) string {
	t.Helper()
	s := serve(t, yaml)
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nConnection: close\r\nContent-Length: "+
		strconv.Itoa(len(body))+"\r\n\r\n"+body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestBodiesInPieces(t *testing.T) {
	got := overWire(t, `replies: [{raw: "añb", chunk_bytes: 2}]`, asks)
	if _, chunks, _ := strings.Cut(got, "\r\n\r\n"); chunks != "2\r\na\xc3\r\n2\r\n\xb1b\r\n0\r\n\r\n" {
		t.Errorf("body = %q, want chunks of 2 bytes, one of them with half a character", chunks)
	}
}

func TestCuts(t *testing.T) {
	for yaml, want := range map[string]string{
		`replies: [{raw: "abcdef", cut_after: 0}]`:                        "",
		`replies: [{raw: "abcdef", cut_after: 4}]`:                        "4\r\nabcd\r\n",
		`replies: [{raw: "abcdef", cut_after: 4, chunk_bytes: 3}]`:        "3\r\nabc\r\n1\r\nd\r\n",
		`replies: [{raw: "abcdef", cut_after: 6}]`:                        "6\r\nabcdef\r\n", // without the end of the chunks
		`replies: [{raw: "abcdef", cut_after: 1KiB, chunk_bytes: 6}]`:     "6\r\nabcdef\r\n0\r\n\r\n",
		`replies: [{status: 503, raw: "abcdef", cut_after: 1}]`:           "1\r\na\r\n",
		`replies: [{events: [a, b], done: false, cut_after: 12}]`:         "9\r\ndata: a\n\n\r\n3\r\ndat\r\n",
		`replies: [{raw: "abcdef", headers: {Content-Length: "99"}}]`:     "abcdef", // fewer than were announced
		`replies: [{raw: "abcdef", stall: {after: 2, for: 1ms}}]`:         "2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n",
		`replies: [{raw: "abcdef", first_byte_delay: 1ms, cut_after: 3}]`: "3\r\nabc\r\n",
	} {
		if _, got, _ := strings.Cut(overWire(t, yaml, asks), "\r\n\r\n"); got != want {
			t.Errorf("%s\n got %q\nwant %q", yaml, got, want)
		}
	}
	if got := overWire(t, `replies: [{text: x, cut_after: 0}]`, asks); got != "" {
		t.Errorf("cut before the status line: got %q", got)
	}
}

func TestACutIsAnErrorOfTheConnection(t *testing.T) {
	s := serve(t, `replies: [{text: Some words to cut., cut_after: 30}, {text: x, cut_after: 0}]`)
	resp, err := s.Client().Post(s.URL+"/v1/chat/completions", typeJSON, strings.NewReader(streams))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if len(b) != 30 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %d bytes and %v, want 30 and %v", len(b), err, io.ErrUnexpectedEOF)
	}
	if resp, err = s.Client().Post(s.URL+"/v1/chat/completions", typeJSON, strings.NewReader(asks)); err == nil {
		resp.Body.Close()
		t.Errorf("got status %d, want no reply", resp.StatusCode)
	}
}

func TestGzip(t *testing.T) {
	for _, body := range []string{asks, streams} {
		got := overWire(t, `replies: [{text: "It is so.", encoding: gzip}]`, body)
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		resp.Body.Close()
		if err != nil || resp.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(string(text), `so.`) {
			t.Errorf("%v, %v, %s", err, resp.Header, text)
		}
	}
}

// clocked notes when what was written.
type clocked struct {
	*httptest.ResponseRecorder
	begin time.Time
	log   []string
}

func (c *clocked) WriteHeader(status int) {
	c.log = append(c.log, time.Since(c.begin).String()+" header")
	c.ResponseRecorder.WriteHeader(status)
}

func (c *clocked) Write(b []byte) (int, error) {
	c.log = append(c.log, time.Since(c.begin).String()+" "+strings.TrimSpace(string(b)))
	return c.ResponseRecorder.Write(b)
}

func TestWaits(t *testing.T) {
	for yaml, want := range map[string][]string{
		`replies: [{raw: abcdef, delay: 2s, first_byte_delay: 3s}]`:     {"2s header", "5s abcdef"},
		`replies: [{raw: abcdef, stall: {after: 4, for: 10s}}]`:         {"0s header", "0s abcd", "10s ef"},
		`replies: [{raw: abcdef, stall: {for: 10s}}]`:                   {"0s header", "10s abcdef"},
		`replies: [{events: [a, b], between: 1s}]`:                      {"0s header", "0s data: a", "1s data: b", "2s data: [DONE]"},
		`replies: [{events: [a], comments: [wait, more], between: 1s}]`: {"0s header", "0s : wait", "1s data: a", "2s : more", "3s data: [DONE]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, err := Parse("script.yaml", []byte(yaml))
			if err != nil {
				t.Fatal(err)
			}
			w := &clocked{ResponseRecorder: httptest.NewRecorder(), begin: time.Now()}
			NewServer(s).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(asks)))
			if diff := cmp.Diff(want, w.log); diff != "" {
				t.Errorf("%s (-want +got):\n%s", yaml, diff)
			}
		})
	}
}

func TestAWaitEndsWhenTheClientLeaves(t *testing.T) {
	for _, yaml := range []string{
		`replies: [{raw: abcdef, delay: 10h}]`, `replies: [{raw: abcdef, first_byte_delay: 10h}]`,
		`replies: [{raw: abcdef, stall: {after: 4, for: 10h}}]`, `replies: [{events: [a, b], between: 10h}]`,
		`replies: [{events: [a, b], between: 10h, encoding: gzip}]`,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, err := Parse("script.yaml", []byte(yaml))
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			NewServer(s).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(asks)))
			if d := time.Since(begin); d != time.Second {
				t.Errorf("%s: ended after %s", yaml, d)
			}
		})
	}
}
