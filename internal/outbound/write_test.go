package outbound

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestWriteIsLikeNetHTTP holds what is written against (*http.Request).Write: the same lines, and the same body.
func TestWriteIsLikeNetHTTP(t *testing.T) {
	own := 0
	rapid.Check(t, func(t *rapid.T) {
		u := &url.URL{
			Scheme: "http", Host: rapid.SampledFrom([]string{"a.example", "A.example:8080", "127.0.0.1:1", "[::1]:80", "[fe80::1%25eth0]:80", "[fe80::1%eth0]", "a b", "a/b", "x_y", "a\r\nX: y"}).Draw(t, "host"),
			Path: rapid.SampledFrom([]string{"", "/", "/v1/chat/completions", "/a b", "/名", "/a%2Fb", "/a\r\nb", "//x", "*"}).Draw(t, "path"), RawQuery: rapid.SampledFrom([]string{"", "a=b&c", "a=\r\n", "a b", "名"}).Draw(t, "query"),
			Opaque: rapid.SampledFrom([]string{"", "", "", "//x/y", "z"}).Draw(t, "opaque"),
		}
		header := http.Header{}
		for range rapid.IntRange(0, 6).Draw(t, "headers") {
			name := rapid.SampledFrom([]string{"Authorization", "User-Agent", "Content-Length", "Host", "Transfer-Encoding", "Trailer", "Connection", "X-A", "x-a", "Accept"}).Draw(t, "name")
			header[name] = rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", " a ", "\ta\t", "b c", "名", "close"}), 0, 3).Draw(t, "values")
		}
		method := rapid.SampledFrom([]string{"", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}).Draw(t, "method")
		body := rapid.SampledFrom([]string{"", "x", strings.Repeat("long ", 10_000)}).Draw(t, "body")
		size := int64(len(body) + rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "wrong by"))
		none, ofNone := rapid.SampledFrom([]io.ReadCloser{nil, http.NoBody}).Draw(t, "no body"), rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "its length")
		request := func() (*http.Request, *closes) {
			r := &http.Request{Method: method, URL: u, Header: header.Clone(), Host: rapid.SampledFrom([]string{"", u.Host}).Draw(t, "Host")}
			var c *closes
			if body == "" {
				r.Body, r.ContentLength = none, ofNone
			}
			if body != "" && size > 0 {
				c = &closes{Reader: strings.NewReader(body)}
				r.Body, r.ContentLength = c, size
			}
			return r, c
		}
		render := func(write func(w io.Writer, r *http.Request) error) (lines []string, rest string, fails bool) {
			var b bytes.Buffer
			r, c := request()
			if err := write(&b, r); err != nil {
				return nil, "", true
			}
			if c != nil && c.n != 1 {
				t.Errorf("the body was closed %d times", c.n)
			}
			head, rest, _ := strings.Cut(b.String(), "\r\n\r\n")
			lines = strings.Split(head, "\r\n")
			slices.Sort(lines[1:])
			return lines, rest, false
		}
		lines, rest, fails := render(func(w io.Writer, r *http.Request) error {
			out := bufio.NewWriterSize(w, 32<<10)
			if err := write(out, r); err != nil {
				return err
			}
			return out.Flush()
		})
		wantLines, wantRest, wantFails := render(func(w io.Writer, r *http.Request) error { return r.Write(w) })
		if diff := cmp.Diff([]any{wantLines, wantRest, wantFails}, []any{lines, rest, fails}); diff != "" {
			t.Errorf("%s %v %v:\n%s", method, u, slices.Sorted(maps.Keys(header)), diff)
		}
		if !fails && isUsualHost(u.Host) && isVisible(u.RequestURI()) {
			own++
		}
	})
	if own == 0 {
		t.Error("no request was written by write itself")
	}
}

// closes counts how often it is closed.
type closes struct {
	io.Reader
	n int
}

func (c *closes) Close() error {
	c.n++
	return nil
}
