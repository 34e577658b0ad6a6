package openapi

import (
	"strings"
	"testing"
)

func TestToolNames(t *testing.T) {
	long := strings.Repeat("veryLong", 10)
	for _, tt := range []struct{ name, paths, want, warning string }{
		{"operationIds", "/a: {get: {operationId: listA}, put: {operationId: put-A}}", "listA put-A", ""},
		{"what names can't hold", `/a: {get: {operationId: "pets.list all/2"}, put: {operationId: "[x]"}}`, "pets_list_all_2 x", ""},
		{"method and path without an operationId", `/: {get: {}}, "/a/{b-c}/d.e": {parameters: [{name: b-c, in: path, schema: {}}], delete: {}, patch: {operationId: "名前"}}`, "get delete_a_b-c_d_e patch_a_b-c_d_e", ""},
		{"one operationId twice", "/a: {get: {operationId: x}}, /b: {get: {operationId: x}}, /c: {get: {operationId: y}}", "get_a get_b y", `GET /a, GET /b: the operationId "x" is no name for one operation alone`},
		{"two that read the same", `/a: {get: {operationId: a.b}}, /b: {get: {operationId: a b}}`, "get_a get_b", `the operationId "a.b" is no name`},
		{"paths that read the same", `/a.b: {get: {}}, /a+b: {get: {}}`, "get_a_b_ed734d13 get_a_b_383a3397", ""},
		{"longer than any provider takes", "/a: {get: {operationId: " + long + "A}, put: {operationId: " + long + "B}}", "veryLongveryLongveryLongveryLongveryLongveryLongv_9831af47 veryLongveryLongveryLongveryLongveryLongveryLongv_79005b2d", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := good(t, entryYAML, "openapi: 3.0.0\nservers: [{url: 'https://shop.invalid'}]\npaths: {"+tt.paths+"}")
			if e.names() != tt.want {
				t.Errorf("tools are %s, want %s", e.names(), tt.want)
			}
			for _, name := range e.tools.Keys() {
				if len(name) > maxName {
					t.Errorf("%s has %d characters, want up to %d", name, len(name), maxName)
				}
			}
			w := texts(e.file.Warnings())
			if tt.warning == "" && w != "" || !strings.Contains(w, tt.warning) {
				t.Errorf("warnings = %s, want %q", w, tt.warning)
			}
		})
	}
}

// TestNamesDoNotDependOnInclude lets a file choose more operations without renaming those that it has.
func TestNamesDoNotDependOnInclude(t *testing.T) {
	const doc = "openapi: 3.0.0\nservers: [{url: 'https://shop.invalid'}]\npaths: {/a: {get: {operationId: x}}, /b: {get: {operationId: x}}}"
	e := good(t, "openapi: {shop: {spec: doc.yaml, include: [GET /a]}}", doc)
	if e.names() != "get_a" {
		t.Errorf("tools are %s, want get_a", e.names())
	}
	if p := load(t, "openapi: {shop: {spec: doc.yaml, set: {x: {timeout: 5s}}}}", doc, nil).file.Problems(); len(p) != 1 ||
		!strings.Contains(p[0].Message, "is the operationId of 2 operations: want the name of a tool, shop__get_a or shop__get_b") {
		t.Errorf("problems = %v, want one of the name x", p)
	}
}

func TestArgumentNames(t *testing.T) {
	for wire, want := range map[string]string{
		"limit": "limit", "X-Tenant-ID": "X-Tenant-ID", "filter[name]": "filter_name", "ids[]": "ids", "$top": "top", "@type": "type",
		"a.b c": "a_b_c", "2nd": "_2nd", "-x": "_-x", "_": "_", "__x__": "__x__", "[_]": "arg_fb9e3949", "名前": "arg_7ec26292", "naïve": "na_ve",
		strings.Repeat("x", 64): strings.Repeat("x", 64),
	} {
		if got := argumentName(wire); got != want {
			t.Errorf("argumentName(%q) = %q, want %q", wire, got, want)
		}
	}
}

// FuzzArgumentName checks the laws of names: well-formed, short, the same each time, good ones unchanged.
func FuzzArgumentName(f *testing.F) {
	for _, s := range []string{"limit", "filter[name]", "", "$", "-", "_", "名前", "2nd", strings.Repeat("ab.", 40), "\x00\xff", "status"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, wire string) {
		name := argumentName(wire)
		if !wellFormed.MatchString(name) || len(name) > maxName {
			t.Errorf("argumentName(%q) = %q, want a name", wire, name)
		}
		if again := argumentName(name); again != name {
			t.Errorf("argumentName(%q) = %q, and of that it is %q", wire, name, again)
		}
		if len(wire) <= maxName && wellFormed.MatchString(wire) && name != wire {
			t.Errorf("argumentName(%q) = %q, want it unchanged", wire, name)
		}
	})
}

// FuzzNameArguments checks that names in one tool are apart, not reserved, and each argument's own wherever it can be.
func FuzzNameArguments(f *testing.F) {
	f.Add("id", "id", "status", "a.b")
	f.Add("a_b", "a.b", "query_a_b", "body_a_b")
	f.Add("caller", "run_id", "query_caller", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		params := []*argument{{wire: a, in: inPath}, {wire: b, in: inQuery}, {wire: c, in: inQuery}}
		body := &body{sent: sentForm, args: []*argument{{wire: d, in: inBody}, {wire: a + d, in: inBody}}}
		nameAll(params, body)
		seen := map[string]bool{}
		for _, x := range append(params, body.args...) {
			if !wellFormed.MatchString(x.name) || len(x.name) > maxName || reserved[x.name] || seen[x.name] {
				t.Errorf("%q in %s is called %q beside %v", x.wire, x.in, x.name, seen)
			}
			seen[x.name] = true
		}
		for _, x := range params {
			for _, y := range body.args {
				if x.name == y.wire {
					t.Errorf("%q in %s is called as %q is in the body", x.wire, x.in, y.wire)
				}
			}
		}
		if d != "" && wellFormed.MatchString(d) && len(d) <= maxName && !reserved[d] && body.args[0].name != d {
			t.Errorf("%q in the body is called %q", d, body.args[0].name)
		}
	})
}
