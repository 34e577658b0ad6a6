package httptool

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestRequest(t *testing.T) {
	const all = `{"kind": "a/../b?c", "q": "x&y=z é", "id": "7", "n": 9007199254740993, "price": 1.10, "yes": true, "none": null,
		"tags": ["a b", "c&d"], "empty": [], "obj": {"b": "<1>", "a": 2}, "text": "say \"hi\"\n<&>", "msg": "1"}`
	names := []string{"kind", "q", "id", "n", "price", "yes", "none", "tags", "empty", "obj", "text", "msg", "page"}
	const rest = `{"empty":[],"kind":"a/../b?c","msg":"1","n":9007199254740993,"none":null,"obj":{"a":2,"b":"<1>"},"price":1.10,"q":"x&y=z é","tags":["a b","c&d"],"text":"say \"hi\"\n<&>","yes":true}`
	tests := []struct {
		name, yaml   string
		method, uri  string
		contentType  string
		body         string
		headers      map[string]string
		dropsHeaders []string
	}{
		{
			name:   "a path segment holds any value",
			yaml:   `{url: "BASE/find/{kind}", query: {q: "{q}", page: "{page}", lang: en}}`,
			method: "GET", uri: "/find/a%2F..%2Fb%3Fc?q=x%26y%3Dz+%C3%A9&lang=en",
		},
		{
			name:   "PUT without a body sends what stands nowhere else",
			yaml:   `{url: "BASE/save/{id}", method: PUT}`,
			method: "PUT", uri: "/save/7", contentType: "application/json", body: rest,
		},
		{
			name:   "a body makes a POST",
			yaml:   `{url: "BASE/save?id={id}", body: json}`,
			method: "POST", uri: "/save?id=7", contentType: "application/json", body: rest,
		},
		{
			name:   "arguments in headers are not in the body",
			yaml:   `{url: "BASE", headers: {X-A: "{kind} {q} {n} {none} {obj}"}, query: {x: "{price}", y: ["{yes}", "{tags}"], z: "{text}{empty}"}, body: json}`,
			method: "POST", uri: "/?x=1.10&y=true&y=a+b&y=c%26d&z=say+%22hi%22%0A%3C%26%3E%5B%5D", contentType: "application/json", body: `{"id":"7","msg":"1"}`,
			dropsHeaders: []string{"X-A"},
		},
		{
			name:   "an absent argument drops its item, in the url too",
			yaml:   `{url: "BASE/a?x=1&p={page}&q=p:{page}&{page}&flag", query: {r: ["{page}", "{none}", "{id}"], s: null, e: "{empty}"}}`,
			method: "GET", uri: "/a?x=1&flag&r=7",
		},
		{
			name:   "query values keep the file's order and spelling",
			yaml:   `{url: "BASE", query: {z: 1.10, a: true, "m n": "x=y", list: [1, two]}}`,
			method: "GET", uri: "/?z=1.10&a=true&m+n=x%3Dy&list=1&list=two",
		},
		{
			name:   "literal text of the url is escaped where it must be",
			yaml:   `{url: "BASE/são paulo/a%20b/;x=1/{{id}}/?q=é d&r=%26&s=a/b?c"}`,
			method: "GET", uri: "/s%C3%A3o%20paulo/a%20b/;x=1/%7Bid%7D/?q=%C3%A9%20d&r=%26&s=a/b?c",
		},
		{
			name:   "headers, the caller's fields and the call's own",
			yaml:   `{url: "BASE/{caller.level}", headers: {X-Kind: "{kind}", x-run: "{run_id}", X-Key: "k {idempotency_key}", User-Agent: mine, X-N: 5, Host: other.example}}`,
			method: "GET", uri: "/2",
			headers: map[string]string{"X-Kind": "a/../b?c", "X-Run": "run_1", "X-Key": "k key_1", "User-Agent": "mine", "X-N": "5", "Idempotency-Key": "key_1"},
		},
		{
			name:   "what is sent unasked",
			yaml:   `{url: "BASE", method: DELETE}`,
			method: "DELETE", uri: "/",
			headers:      map[string]string{"User-Agent": "toolgate", "Accept-Encoding": "gzip", "Idempotency-Key": "key_1"},
			dropsHeaders: []string{"Content-Type", "Content-Length", "Transfer-Encoding", "Referer", "Cookie"},
		},
		{
			name:   "a form repeats lists and leaves null out",
			yaml:   `{url: "BASE/{kind}/{text}/{q}", body: form}`,
			method: "POST", uri: "/a%2F..%2Fb%3Fc/say%20%22hi%22%0A%3C&%3E/x&y=z%20%C3%A9", contentType: "application/x-www-form-urlencoded",
			body: "id=7&msg=1&n=9007199254740993&obj=%7B%22a%22%3A2%2C%22b%22%3A%22%3C1%3E%22%7D&price=1.10&tags=a+b&tags=c%26d&yes=true",
		},
		{
			name: "a tree keeps types, order and numbers, and drops what is absent",
			yaml: `
url: BASE
body:
  z: "{n}"
  text: "n={n} page={page} {{id}}"
  list: ["{page}", "{yes}", "{tags}", 1.10, null, x]
  gone: "{page}"
  "null": "{none}"
  deep: {o: "{obj}", c: "{caller.level}", gone: "{page}", "a<b": {}}
  fixed: {n: 9007199254740993, s: "{{x}} <&>"}`,
			method: "POST", uri: "/", contentType: "application/json",
			body: `{"z":9007199254740993,"text":"n=9007199254740993 page= {id}","list":[true,["a b","c&d"],1.10,null,"x"],"deep":{"o":{"a":2,"b":"<1>"},"c":2,"a<b":{}},"fixed":{"n":9007199254740993,"s":"{x} <&>"}}`,
		},
		{
			name:   "a list is a body too",
			yaml:   `{url: BASE, body: ["{id}", {x: "{n}"}]}`,
			method: "POST", uri: "/", contentType: "application/json", body: `["7",{"x":9007199254740993}]`,
		},
		{
			name:   "a JSON text escapes for inside and outside of quotes",
			yaml:   `{url: BASE, body: '{"a": "x {text} {page}", "b": {obj}, "n": {n}, "s": {text}, "no": {page}, "e\"": "{id}"}'}`,
			method: "POST", uri: "/", contentType: "application/json",
			body: `{"a": "x say \"hi\"\n<&> ", "b": {"a":2,"b":"<1>"}, "n": 9007199254740993, "s": "say \"hi\"\n<&>", "no": null, "e\"": "7"}`,
		},
		{
			name:   "one placeholder alone is the whole JSON body",
			yaml:   `{url: BASE, body: "{obj}"}`,
			method: "POST", uri: "/", contentType: "application/json", body: `{"a":2,"b":"<1>"}`,
		},
		{
			name:   "one absent placeholder alone is no body",
			yaml:   `{url: BASE, body: "{page}"}`,
			method: "POST", uri: "/", dropsHeaders: []string{"Content-Type"},
		},
		{
			name:   "other text is plain",
			yaml:   `{url: BASE, method: PATCH, body: "{text}: {n}"}`,
			method: "PATCH", uri: "/", contentType: "text/plain; charset=utf-8", body: "say \"hi\"\n<&>: 9007199254740993",
		},
		{
			name:   "XML escapes",
			yaml:   `{url: BASE, content_type: application/soap+xml, body: '<a>{text}</a>'}`,
			method: "POST", uri: "/", contentType: "application/soap+xml", body: "<a>say &#34;hi&#34;&#xA;&lt;&amp;&gt;</a>",
		},
		{
			name:   "a form template escapes",
			yaml:   `{url: BASE, content_type: application/x-www-form-urlencoded, body: 'a={q}&b={id}'}`,
			method: "POST", uri: "/", contentType: "application/x-www-form-urlencoded", body: "a=x%26y%3Dz+%C3%A9&b=7",
		},
		{
			name:   "a header names the type of the body",
			yaml:   `{url: BASE, headers: {content-type: application/vnd.x+json}, body: '"{text}"'}`,
			method: "POST", uri: "/", contentType: "application/vnd.x+json", body: `"say \"hi\"\n<&>"`,
		},
		{
			name:   "one placeholder alone in a plain body is its text",
			yaml:   `{url: BASE, content_type: text/plain, body: "{text}"}`,
			method: "POST", uri: "/", contentType: "text/plain", body: "say \"hi\"\n<&>",
		},
		{
			name:   "a GET may have a body",
			yaml:   `{url: BASE, method: GET, body: {q: "{id}"}}`,
			method: "GET", uri: "/", contentType: "application/json", body: `{"q":"7"}`,
		},
		{
			name:   "bearer",
			yaml:   `{url: BASE, auth: {bearer: s3cret}}`,
			method: "GET", uri: "/", headers: map[string]string{"Authorization": "Bearer s3cret"},
		},
		{
			name:   "basic",
			yaml:   `{url: BASE, auth: {basic: {username: u, password: "p:{id}"}}}`,
			method: "GET", uri: "/", headers: map[string]string{"Authorization": "Basic dTpwOntpZH0="},
		},
		{
			name:   "user info of the url is basic",
			yaml:   `{url: "http://u:p%40@ADDR/x"}`,
			method: "GET", uri: "/x", headers: map[string]string{"Authorization": "Basic dTpwQA=="},
		},
		{
			name:   "a secret header",
			yaml:   `{url: BASE, auth: {header: {name: x-api-key, value: "{id}"}}}`,
			method: "GET", uri: "/", headers: map[string]string{"X-Api-Key": "{id}"},
		},
		{
			name:   "a secret query item",
			yaml:   `{url: "BASE?a=1", auth: {query: {name: key, value: "a&b"}}}`,
			method: "GET", uri: "/?a=1&key=a%26b",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []seen
			base := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = append(got, look(t, r)) })
			yaml := strings.NewReplacer("BASE", base, "ADDR", strings.TrimPrefix(base, "http://")).Replace(tt.yaml)
			for _, effect := range []tool.Effect{tool.Read, tool.Write} {
				got = nil
				made := newTool(t, yaml, spec(effect, names...))
				c := tool.Call{Args: args(t, all), Caller: map[string]any{"level": 2}, RunID: "run_1", IdempotencyKey: "key_1"}
				if _, err := made.Call(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if len(got) != 1 {
					t.Fatalf("%d requests arrived, want 1", len(got))
				}
				r := got[0]
				if r.method != tt.method || r.uri != tt.uri {
					t.Errorf("%s: %s %s, want %s %s", effect, r.method, r.uri, tt.method, tt.uri)
				}
				if diff := cmp.Diff(tt.body, r.body); diff != "" {
					t.Errorf("%s: body (-want +got)\n%s", effect, diff)
				}
				if ct := r.header.Get("Content-Type"); ct != tt.contentType {
					t.Errorf("%s: content type %q, want %q", effect, ct, tt.contentType)
				}
				for name, want := range tt.headers {
					if v := strings.Join(r.header[name], ","); v != want {
						t.Errorf("%s: header %s is %q, want %q", effect, name, v, want)
					}
				}
				for _, name := range tt.dropsHeaders {
					if v, ok := r.header[name]; ok {
						t.Errorf("%s: header %s is %q, want none", effect, name, v)
					}
				}
				if strings.Contains(tt.yaml, "Host:") && r.host != "other.example" {
					t.Errorf("%s: host %q, want that of the headers", effect, r.host)
				}
			}
		})
	}
}

func TestArgumentsThatWouldChangeTheRequestAreRefused(t *testing.T) {
	tests := []struct{ name, yaml, args, want string }{
		{"a dot", `{url: "BASE/a/{v}"}`, `{"v": "."}`, "argument v: must not be empty, \".\" or \"..\""},
		{"two dots", `{url: "BASE/a/{v}/b"}`, `{"v": ".."}`, "argument v: must not be empty, \".\" or \"..\""},
		{"two dots in two parts", `{url: "BASE/a/{v}{w}/b"}`, `{"v": ".", "w": "."}`, "argument v, w: must not be empty, \".\" or \"..\""},
		{"two dots with the url's own", `{url: "BASE/a/%2e{v}/b"}`, `{"v": "."}`, "argument v: must not be empty, \".\" or \"..\""},
		{"an empty segment", `{url: "BASE/items/{v}", method: DELETE}`, `{"v": ""}`, "argument v: must not be empty, \".\" or \"..\""},
		{"an absent segment", `{url: "BASE/items/{v}", method: DELETE}`, `{}`, "argument v: the path needs a value"},
		{"a null segment", `{url: "BASE/items/{v}"}`, `{"v": null}`, "argument v: the path needs a value"},
		{"a line break in a header", `{url: BASE, headers: {X-A: "a {v}"}}`, `{"v": "a\r\nX-Evil: 1"}`, "argument v: must not hold a line break or another control character"},
		{"a NUL in a header", `{url: BASE, headers: {X-A: "{v}"}}`, `{"v": "\u0000"}`, "argument v: must not hold a line break or another control character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s arrived", r.Method, r.RequestURI) })
			made := newTool(t, strings.ReplaceAll(tt.yaml, "BASE", base), spec(tool.Read, "v", "w"))
			_, err := made.Call(t.Context(), tool.Call{Args: args(t, tt.args)})
			wantError(t, err, tool.Error{Class: tool.Business, Message: tt.want})
		})
	}
}

// What the model has not written it can't mend either.
func TestBoundArgumentsThatWouldChangeTheRequestAreNotNamed(t *testing.T) {
	s := spec(tool.Read, "v")
	s.Params["v"] = tool.Param{Bound: true}
	made := newTool(t, `{url: "http://127.0.0.1:1/a/{v}"}`, s)
	_, err := made.Call(t.Context(), tool.Call{Args: args(t, `{"v": ".."}`)})
	wantError(t, err, tool.Error{Class: tool.Failed, Type: tool.TypeInternal})
}

func TestNoArgumentsAreAnEmptyObject(t *testing.T) {
	var got seen
	base := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = look(t, r) })
	made := newTool(t, "{url: "+base+", body: json}", spec(tool.Write))
	if _, err := made.Call(t.Context(), tool.Call{}); err != nil {
		t.Fatal(err)
	}
	if got.body != "{}" {
		t.Errorf("body %q, want {}", got.body)
	}
}

// An environment that names a proxy is for others: the service is asked itself.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	made := newTool(t, "{url: "+base+"}", spec(tool.Read))
	if res, err := made.Call(t.Context(), tool.Call{}); err != nil || res.Text != "ok" {
		t.Errorf("Call() = %q, %v, want ok", res.Text, err)
	}
}
