package httptool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestFaultsOfTheFile(t *testing.T) {
	const u = `url: "http://h/x"`
	tests := []struct {
		name, yaml string
		want       []string // each a part of one problem, in order
	}{
		{"no url", `{method: GET}`, []string{"1:1: url: is required"}},
		{"a placeholder in the host", `{url: "http://{id}/x"}`, []string{"1:7: url: a placeholder can't stand in the scheme, user info, host or port"}},
		{"a placeholder in the port", `{url: "http://h:{id}/x"}`, []string{"host or port"}},
		{"a placeholder in the scheme", `{url: "{id}://h/x"}`, []string{"host or port"}},
		{"a placeholder in the user info", `{url: "http://{id}@h/x"}`, []string{"host or port"}},
		{"a field of the caller in the host", `{url: "http://{caller.host}/x"}`, []string{"host or port"}},
		{"a placeholder for all of it", `{url: "{id}/x"}`, []string{"host or port"}},
		{"a placeholder in the Host header", "{" + u + `, headers: {host: "{id}"}}`, []string{"headers.host: a placeholder can't stand in the host"}},
		{"a relative url", `{url: "/x/{id}"}`, []string{"want an address that begins with http:// or https://"}},
		{"another scheme", `{url: "ftp://h/x"}`, []string{"want an address that begins with http:// or https://"}},
		{"no host", `{url: "http:///x"}`, []string{"the host or port is not valid"}},
		{"a bad port", `{url: "http://h:99999/x"}`, []string{"the host or port is not valid"}},
		{"an empty port", `{url: "http://h:/x"}`, []string{"the host or port is not valid"}},
		{"a password that cuts the url is not repeated", `{url: "http://svc:pa/ss@h/x"}`, []string{"url: the host or port is not valid"}},
		{"a fragment", `{url: "http://h/x#top"}`, []string{"write %23 for the character"}},
		{"a dot segment", `{url: "http://h/a/%2e./b"}`, []string{`the path has a segment "%2e."`}},
		{"an unknown name in the url", `{url: "http://h/{idd}"}`, []string{"1:7: url: {idd} names no parameter: did you mean {id}?"}},
		{"an unknown name in the query", "{" + u + `, query: {a: [x, "{idd}"]}}`, []string{"1:36: query.a.1: {idd} names no parameter: did you mean {id}?"}},
		{"an unknown name in a header", "{" + u + `, headers: {X-A: "{idd}"}}`, []string{"1:36: headers.X-A: {idd} names no parameter: did you mean {id}?"}},
		{"an unknown name in a tree", "{" + u + `, body: {a: [1, {b: "{idd}"}]}}`, []string{"1:39: body.a.1.b: {idd} names no parameter: did you mean {id}?"}},
		{"an unknown name in a text", "{" + u + `, body: "x {idd}"}`, []string{"body: {idd} names no parameter: did you mean {id}?"}},
		{"a caller without a field", `{url: "http://h/{caller}"}`, []string{"want {caller.FIELD}"}},
		{"a mapping in the query", "{" + u + `, query: {a: {b: 1}, c: [[1]]}}`, []string{"query.a: want a text, or a list of texts, got a mapping", "query.c.0: want a text, or a list of texts, got a list"}},
		{"headers that are none", "{" + u + `, headers: {"a b": x, Content-Length: "1", X-A: "a\nb"}}`, []string{"this is no name of a header", "the connection's own", "control character"}},
		{"a header twice", "{" + u + `, headers: {X-A: x, x-a: y}}`, []string{"set twice"}},
		{"a JSON text that is none", "{" + u + `, body: '{"a": {id}'}`, []string{"body: this is not valid JSON once its placeholders are filled in"}},
		{"a type without a body", "{" + u + `, content_type: text/plain}`, []string{"content_type: there is no body that it could be of"}},
		{"a type that is none", "{" + u + `, body: json, content_type: "a b c"}`, []string{"content_type: this is no media type"}},
		{"jq that does not parse", "{" + u + `, result: ".a |"}`, []string{"1:29: result: jq: the program ends too early"}},
		{"jq that names nothing", "{" + u + `, fail_when: foo(1)}`, []string{"fail_when: jq: function not defined: foo/1"}},
		{"jq and the environment", "{" + u + `, result: env.PATH, fail_when: "$ENV.PATH"}`, []string{"result: jq: env and $ENV are not available", "fail_when: jq: env and $ENV are not available"}},
		{"jq and input", "{" + u + `, result: input}`, []string{"input(s)/0 is not allowed"}},
		{"jq and its place", "{" + u + `, result: $__loc__}`, []string{"variable not defined: $__loc__"}},
		{"jq and modules", "{" + u + `, result: 'import "a" as a; .'}`, []string{"result: jq:"}},
		{"no way of auth", "{" + u + `, auth: {}}`, []string{"auth: want exactly one of bearer, basic, header, query"}},
		{"two ways of auth", "{" + u + `, auth: {bearer: x, query: {name: a, value: b}}}`, []string{"auth: want exactly one of bearer, basic, header, query"}},
		{"half a way of auth", "{" + u + `, auth: {header: {value: b}}}`, []string{"auth.header.name: is required"}},
		{"auth and user info", `{url: "http://u:p@h/x", auth: {bearer: x}}`, []string{"auth: the url has credentials already"}},
		{"auth and a header", "{" + u + `, headers: {authorization: x}, auth: {bearer: x}}`, []string{"auth: headers has Authorization as well"}},
		{"auth with a line break", "{" + u + `, auth: {bearer: "a\nb"}}`, []string{"control character"}},
		{"another way of redirects", "{" + u + `, redirects: all}`, []string{"redirects: "}},
		{"another method", "{" + u + `, method: FETCH}`, []string{"method: "}},
		{"an unknown key", "{" + u + `, querry: {}}`, []string{`did you mean "query"?`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, f := load(tt.yaml, spec(tool.Read, "id", "title"), nil)
			got := f.Problems()
			if len(got) != len(tt.want) {
				t.Fatalf("problems\n%v\nwant %d", got, len(tt.want))
			}
			for i, p := range got {
				if !strings.Contains(p.String(), tt.want[i]) {
					t.Errorf("problem %q, want it to say %q", p, tt.want[i])
				}
				if strings.Contains(p.String(), "pa/ss") {
					t.Errorf("problem %q repeats a password", p)
				}
			}
		})
	}
}

func TestUnusedParametersAreWarnedOf(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"GET", `{url: "http://h/{id}"}`, `parameter "title" is not used`},
		{"DELETE", `{url: "http://h/{id}", method: DELETE}`, `parameter "title" is not used`},
		{"a tree", `{url: "http://h/{id}", body: {a: 1}}`, `parameter "title" is not used`},
		{"all in the query", `{url: "http://h/{id}", query: {t: "{title}"}}`, ""},
		{"the rest in the body", `{url: "http://h/{id}", body: json}`, ""},
		{"a PUT", `{url: "http://h", method: PUT}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, f := load(tt.yaml, spec(tool.Read, "id", "title"), nil)
			if p := f.Problems(); p != nil {
				t.Fatal(p)
			}
			got := f.Warnings().Error()
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatOthersAskOfAConfig(t *testing.T) {
	tests := []struct {
		name, yaml string
		effect     tool.Effect
		hosts      []string
		caller     []string
	}{
		{"GET by default", `{url: "https://U:P@Example.com:8443/x?h=1"}`, tool.Read, []string{"Example.com"}, nil},
		{"HEAD reads", `{url: "http://h", method: HEAD}`, tool.Read, []string{"h"}, nil},
		{"POST writes", `{url: "http://h", body: json}`, tool.Write, []string{"h"}, nil},
		{"DELETE writes", `{url: "http://[::1]:80", method: DELETE}`, tool.Write, []string{"::1"}, nil},
		{
			"fields of the caller, from everywhere", `{url: "http://h/{caller.z}?a={caller.b}", query: {q: "{caller.c}"}, headers: {X-A: "{caller.z}"}, body: {a: ["{caller.a}"]}}`,
			tool.Write,
			[]string{"h"},
			[]string{"a", "b", "c", "z"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, f := load(tt.yaml, spec(tool.Read), nil)
			if p := f.Problems(); p != nil {
				t.Fatal(p)
			}
			if got := c.DefaultEffect(); got != tt.effect {
				t.Errorf("DefaultEffect() = %s, want %s", got, tt.effect)
			}
			if diff := cmp.Diff(tt.hosts, c.Hosts()); diff != "" {
				t.Errorf("Hosts() (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.caller, c.CallerFields()); diff != "" {
				t.Errorf("CallerFields() (-want +got)\n%s", diff)
			}
		})
	}
}

func TestBuildNeedsItsParts(t *testing.T) {
	if _, err := (&Config{}).Build(spec(tool.Read), tool.Env{Transport: newTransport(t)}); err == nil {
		t.Error("Build() before Check is no error")
	}
	c, _ := load(`{url: "http://h"}`, spec(tool.Read), nil)
	if _, err := c.Build(spec(tool.Read), tool.Env{}); err == nil {
		t.Error("Build() without a transport is no error")
	}
}
