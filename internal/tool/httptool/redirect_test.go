package httptool

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestRedirects(t *testing.T) {
	failed := func(status int) *tool.Error {
		return &tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: status}
	}
	tests := []struct {
		name, yaml string // yaml besides the url
		status     int
		location   string
		want       []string // requests, in order
		err        *tool.Error
	}{
		{name: "none by default", status: 307, location: "/inner", want: []string{"GET /start "}, err: failed(307)},
		{name: "none by name", yaml: "redirects: none", status: 302, location: "/inner", want: []string{"GET /start "}, err: failed(302)},
		{name: "same_host follows", yaml: "redirects: same_host", status: 302, location: "/inner?x=1", want: []string{"GET /start ", "GET /inner?x=1 "}},
		{name: "a whole address of the same host", yaml: "redirects: same_host", status: 301, location: "BASE/inner", want: []string{"GET /start ", "GET /inner "}},
		{name: "user info and fragment are left out", yaml: "redirects: same_host", status: 301, location: "http://u:p@ADDR/inner#x", want: []string{"GET /start ", "GET /inner "}},
		{name: "307 keeps method and body", yaml: "{redirects: same_host, body: json}", status: 307, location: "inner", want: []string{`POST /start {"a":1}`, `POST /inner {"a":1}`}},
		{name: "308 keeps method and body", yaml: "{redirects: same_host, method: PUT}", status: 308, location: "/inner", want: []string{`PUT /start {"a":1}`, `PUT /inner {"a":1}`}},
		{name: "303 makes a GET", yaml: "{redirects: same_host, body: json}", status: 303, location: "/inner", want: []string{`POST /start {"a":1}`, "GET /inner "}},
		{name: "302 makes a GET", yaml: "{redirects: same_host, method: DELETE}", status: 302, location: "/inner", want: []string{`DELETE /start `, "GET /inner "}},
		{name: "another host is not followed", yaml: "redirects: same_host", status: 307, location: "http://localhost:PORT/inner", want: []string{"GET /start "}, err: failed(307)},
		{name: "another port is not followed", yaml: "redirects: same_host", status: 307, location: "OTHER/inner", want: []string{"GET /start "}, err: failed(307)},
		{name: "another scheme is not followed", yaml: "redirects: same_host", status: 307, location: "https://ADDR/inner", want: []string{"GET /start "}, err: failed(307)},
		{name: "another host without a scheme is not followed", yaml: "redirects: same_host", status: 307, location: "//169.254.169.254/x", want: []string{"GET /start "}, err: failed(307)},
		{name: "nowhere", yaml: "redirects: same_host", status: 307, want: []string{"GET /start "}, err: failed(307)},
		{name: "an address that is none", yaml: "redirects: same_host", status: 307, location: "http://[/", want: []string{"GET /start "}, err: failed(307)},
		{name: "304 is no redirect", yaml: "redirects: same_host", status: 304, location: "/inner", want: []string{"GET /start "}, err: failed(304)},
		{
			name: "five at most", yaml: "redirects: same_host", status: 307, location: "/start",
			want: []string{"GET /start ", "GET /start ", "GET /start ", "GET /start ", "GET /start ", "GET /start "},
			err:  &tool.Error{Class: tool.Failed, Type: tool.TypeRedirect, Status: 307},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request reached another port") })
			var got []string
			var location string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				in := look(t, r)
				got = append(got, in.method+" "+in.uri+" "+in.body)
				if in.header.Get("X-Key") != "k" {
					t.Errorf("%s: X-Key is %q, want it on each request", in.uri, in.header.Get("X-Key"))
				}
				if in.body == "" && in.header.Get("Content-Type") != "" {
					t.Errorf("%s: a Content-Type without a body", in.uri)
				}
				if r.URL.Path == "/start" {
					if location != "" {
						w.Header().Set("Location", location)
					}
					w.WriteHeader(tt.status)
					return
				}
				_, _ = w.Write([]byte("inner-result"))
			}))
			defer s.Close()
			addr := strings.TrimPrefix(s.URL, "http://")
			_, port, _ := strings.Cut(addr, ":")
			location = strings.NewReplacer("BASE", s.URL, "ADDR", addr, "PORT", port, "OTHER", other).Replace(tt.location)
			extra := strings.Trim(tt.yaml, "{}")
			if extra != "" {
				extra = ", " + extra
			}
			made := newTool(t, "{url: "+s.URL+"/start, headers: {X-Key: k}"+extra+"}", spec(tool.Write, "a"))
			res, err := made.Call(t.Context(), tool.Call{Args: args(t, `{"a": 1}`)})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			if tt.err != nil {
				wantError(t, err, *tt.err, "inner", "169.254")
				return
			}
			if err != nil || res.Text != "inner-result" {
				t.Errorf("Call() = %q, %v, want inner-result", res.Text, err)
			}
		})
	}
}

func TestSameHost(t *testing.T) {
	tests := []struct {
		from, to string
		want     bool
	}{
		{"http://h", "http://H:80", true},
		{"https://h:443", "https://h", true},
		{"http://h:81", "http://h", false},
		{"http://h", "https://h", false},
		{"http://h", "http://h.evil", false},
	}
	for _, tt := range tests {
		a, err := splitAddress(tt.from)
		if err != nil {
			t.Fatal(err)
		}
		b, err := splitAddress(tt.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := tool.SameHost(a.base, b.base); got != tt.want {
			t.Errorf("SameHost(%s, %s) = %t, want %t", tt.from, tt.to, got, tt.want)
		}
	}
}
