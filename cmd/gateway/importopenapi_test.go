package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/registry"
)

// imports writes a document and imports it; name stands for the file's.
func (o importedDocument) imports(t testing.TB, document string) (yaml, told string, err error) {
	t.Helper()
	o.spec = filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(o.spec, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	err = o.write(&out, &errOut)
	return strings.ReplaceAll(out.String(), o.spec, "shop.yaml"), strings.ReplaceAll(errOut.String(), o.spec, "shop.yaml"), err
}

// shop is a document with more members of the root.
func shop(paths, more string) string {
	return "openapi: 3.0.3\ninfo: {title: The Shop, version: '1'}\nservers: [{url: https://shop.example.com/v1/}]\npaths:\n" + paths + "\n" + more
}

const (
	listItems = "  /items: {get: {operationId: listItems, summary: List what there is to buy., parameters: [{name: q, in: query, schema: {type: string}}]}}\n"
	addItem   = "  /items/{id}: {put: {operationId: setItem, summary: Put an item in its place., parameters: [{name: id, in: path, required: true, schema: {type: string}}], requestBody: {content: {application/json: {schema: {type: object, properties: {price: {type: number}}}}}}}}\n"
)

func TestImportedDocuments(t *testing.T) {
	schemes := func(list string) string {
		return "security: [{a: [], b: []}]\ncomponents: {securitySchemes: " + list + "}"
	}
	for _, tt := range []struct {
		name, document string
		given          importedDocument
		want, told     []string
		not            []string
	}{
		{
			name: "tools with their effects and costs, the server, no credentials", document: shop(listItems+addItem, ""),
			want: []string{
				"openapi:\n  shop:\n    spec: shop.yaml\n    base_url: https://shop.example.com/v1\n    include:\n      - listItems # read, GET /items: List what there is to buy.\n      - setItem # write, PUT /items/{id}: Put an item in its place.\n",
			},
			told: []string{"shop__listItems  http  read    ", "shop__setItem    http  write   ", "in each request", "todo: 1 of the tools write", "confirm: user under openapi.shop.set"},
			not:  []string{"export", "auth:"},
		},
		{
			name: "what is deprecated and what can be no tool is left out with its reason", document: shop(listItems+
				"  /old: {get: {operationId: old, deprecated: true}}\n  /photo: {post: {operationId: upload, requestBody: {required: true, content: {image/png: {}}}}}\n  /far: {get: {operationId: far, parameters: [{$ref: 'other.yaml#/P'}]}}", ""),
			told: []string{"note: left out: GET /old: deprecated: ", "note: left out: POST /photo: ", "note: left out: GET /far: a parameter: it refers to another file"},
			not:  []string{"- old", "- upload", "- far"},
		},
		{
			name: "a deprecated operation that is named", document: shop(listItems+"  /old: {get: {operationId: old, deprecated: true, summary: What it was.}}", ""),
			given: importedDocument{include: []string{"old"}},
			want:  []string{"- old # read"}, not: []string{"listItems"}, told: []string{"not chosen by --include and --exclude: 1 operations"},
		},
		{
			name: "lists, a name and an address of the command line", document: shop(listItems+addItem, ""),
			given: importedDocument{name: "my-shop", baseURL: "http://127.0.0.1:9/v2", include: []string{"GET /*", "nothing"}, exclude: []string{"*Item"}},
			want:  []string{"  my-shop:\n", "base_url: http://127.0.0.1:9/v2\n", "- listItems"}, not: []string{"- setItem"},
			told: []string{"my-shop__listItems", `note: "nothing" is no operation of shop.yaml`},
		},
		{
			name: "orders to a terminal", document: shop("  \"/a\\e[2J\": {get: {summary: \"A\\e[31m\\u009b31m.\"}}\n  \"/b\\e[2J\": {get: {deprecated: true}}", ""),
			want: []string{"# read: A [31m 31m.", `"GET /a\e[2J"`}, told: []string{"left out: GET /b [2J: deprecated"}, not: []string{"\x1b", "\u009b"},
		},
		{
			name: "an operation without words", document: shop("  /items: {get: {}, post: {summary: 'A: \"b\" # ${C} {d}\\n', operationId: 'a b'}}", ""),
			want: []string{"- GET /items # read: TODO: the document does not say what it does; say it under set", "- POST /items # write: A:"}, told: []string{"shop__get_items", "GET /items"},
		},
		{
			name: "one operationId for two", document: shop("  /a: {get: {operationId: x, summary: A.}}\n  /b: {get: {operationId: x, summary: B.}}", ""),
			want: []string{"- GET /a # read: A.", "- GET /b # read: B."}, told: []string{`the operationId "x" is no name for one operation alone`},
		},
		{
			name: "a bearer token", document: shop(listItems, "security: [{a: []}]\ncomponents: {securitySchemes: {a: {type: http, scheme: Bearer}}}"),
			want: []string{"    auth:\n      bearer: ${SHOP_TOKEN}\n"}, told: []string{"export SHOP_TOKEN=...   # the bearer token\n"},
		},
		{
			name: "a user and a key in the query", document: shop(listItems, schemes("{a: {type: http, scheme: basic}, b: {type: apiKey, in: query, name: api key}}")),
			want: []string{"auth:\n      query: {name: api key, value: '${SHOP_API_KEY}'}"}, told: []string{`note: the scheme "a" can't be carried over`},
		},
		{
			name: "a user", document: shop(listItems, "security: [{a: []}]\ncomponents: {securitySchemes: {a: {type: http, scheme: basic}}}"),
			want: []string{"basic: {username: '${SHOP_USER}', password: '${SHOP_PASSWORD}'}"}, told: []string{"export SHOP_USER=", "export SHOP_PASSWORD="},
		},
		{
			name: "a key in a header beside a token and a cookie", document: shop(listItems, "security: [{a: [], b: [], c: []}]\ncomponents: {securitySchemes: {a: {type: apiKey, in: header, name: X-Api-Key}, b: {type: http, scheme: bearer}, c: {type: apiKey, in: cookie, name: sid}}}"),
			want: []string{"header: {name: X-Api-Key, value: '${SHOP_API_KEY}'}", "headers:\n      Authorization: Bearer ${SHOP_TOKEN}\n      Cookie: sid=${SHOP_SID}\n"}, told: []string{"# the cookie sid"},
		},
		{
			name: "tokens of an authorization server", document: shop(listItems, "security: [{a: [read]}]\ncomponents: {securitySchemes: {a: {type: oauth2, flows: {}}}}"),
			want: []string{"bearer: ${SHOP_TOKEN}"}, told: []string{"is oauth2: the gateway asks for no token itself"},
		},
		{
			name: "the alternative that can be sent", document: shop(listItems, "security: [{a: []}, {b: []}]\ncomponents: {securitySchemes: {a: {type: mutualTLS}, b: {type: apiKey, in: header, name: Authorization}}}"),
			want: []string{"header: {name: Authorization, value: '${SHOP_AUTHORIZATION}'}"}, not: []string{"certificate"},
		},
		{
			name: "schemes that no text is, and one that is not there", document: shop(listItems, "security: [{a: [], b: [], c: []}]\ncomponents: {securitySchemes: {a: {type: mutualTLS}, b: {type: http, scheme: digest}}}"),
			told: []string{`the scheme "a" is a certificate of the client`, `the scheme "b" can't be carried over`, `the scheme "c" can't be carried over`}, not: []string{"export", "auth:\n"},
		},
		{
			name: "only what chosen operations ask for", document: shop(listItems+"  /admin: {get: {operationId: admin, security: [{a: []}]}}", "components: {securitySchemes: {a: {type: http, scheme: bearer}}}"),
			given: importedDocument{exclude: []string{"admin"}}, not: []string{"export", "auth:"},
		},
		{
			name: "no server", document: "openapi: 3.1.0\ninfo: {title: Shop}\nservers: [{url: /v1}]\npaths:\n" + listItems,
			want: []string{"base_url: ${SHOP_URL}"}, told: []string{"export SHOP_URL=...   # the address that the paths of the document follow", "names no server that can be called"},
		},
		{
			name: "a server that only the operator may name", document: "openapi: 3.1.0\nservers: [{url: http://169.254.169.254/latest}]\npaths:\n" + listItems,
			want: []string{"base_url: ${SHOP_URL}"}, not: []string{"169.254"},
		},
		{
			name: "a server with variables, and another", document: "openapi: 3.1.0\nservers: [{url: 'https://{at}.example.com', variables: {at: {default: eu}}}, {url: https://b.example.com}]\npaths:\n" + listItems,
			want: []string{"base_url: https://eu.example.com"}, told: []string{"names 2 servers"},
		},
		{
			name: "operations with servers of their own", document: shop(listItems+"  /up: {servers: [{url: https://up.example.com}], post: {operationId: up, summary: Up.}}", ""),
			not: []string{"base_url:", "- up"}, told: []string{"base_url is left out", "left out: POST /up: it has a server of its own"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			yaml, told, err := tt.given.imports(t, tt.document)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(yaml, want) {
					t.Errorf("the YAML lacks %q", want)
				}
			}
			for _, want := range tt.told {
				if !strings.Contains(told, want) {
					t.Errorf("it does not tell %q", want)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(yaml, not) || (strings.HasPrefix(not, "export") || strings.ContainsAny(not, "\x1b\u009b")) && strings.Contains(told, not) {
					t.Errorf("the YAML has %q", not)
				}
			}
			if t.Failed() {
				t.Logf("it is:\n%s\n%s", yaml, told)
			}
		})
	}
}

func TestImportRefusesDocumentsThatAreNone(t *testing.T) {
	many := strings.Builder{}
	for i := range maxImportedTools + 1 {
		fmt.Fprintf(&many, "  /%s/%d: {get: {summary: Get it.}}\n", []string{"a", "b", "b"}[i%3], i)
	}
	for _, tt := range []struct {
		document, want string
		given          importedDocument
	}{
		{document: "openapi: [", want: "shop.yaml: not valid YAML: line "},
		{document: `{"openapi": "3.0.0", "paths": {}`, want: "shop.yaml: "},
		{document: "hello", want: "shop.yaml: this is no OpenAPI document: want a mapping"},
		{document: "swagger: '2.0'", want: "shop.yaml: this is Swagger 2.0: convert it to OpenAPI 3 first"},
		{document: "a: b", want: "it has no key openapi"},
		{document: "openapi: 3.0.0", want: "the document has no operations"},
		{document: shop("  /a: {get: {deprecated: true}}", ""), want: "no operation can be a tool: left out: GET /a: deprecated"},
		{document: shop(listItems, ""), given: importedDocument{include: []string{"lstItems"}}, want: `"lstItems" is no operation of `},
		{document: shop(listItems, ""), given: importedDocument{include: []string{"lstItems"}}, want: "did you mean listItems?"},
		{document: shop(listItems, ""), given: importedDocument{name: "a b"}, want: `--name: "a b" can't stand in the names of tools`},
		{document: shop(listItems, ""), given: importedDocument{baseURL: "shop.example.com"}, want: "--base-url: want an address"},
		{document: shop(listItems, ""), given: importedDocument{include: []string{"FETCH /a"}}, want: `--include: "FETCH" is no method`},
		{document: shop(many.String(), ""), want: "1001 operations can be tools, more than 1000: choose with --include, such as --include 'GET /b*'; most are below /b (667), /a (334)"},
		{document: shop(listItems, "x: '"+strings.Repeat("x", 8<<20)+"'"), want: "it is too large: more than 8MiB: cut it down to the paths that are wanted"},
	} {
		yaml, _, err := tt.given.imports(t, tt.document)
		var usage usageError
		if err == nil || !errors.As(err, &usage) || !strings.Contains(strings.ReplaceAll(err.Error(), "\\", "/"), tt.want) || yaml != "" {
			t.Errorf("import of %.60q = %q, %v, want %q", tt.document, yaml, err, tt.want)
		}
	}
	for spec, want := range map[string]string{"-": "want a file and not -", "none.yaml": "none.yaml can't be read", "https://a.example.com/openapi.yaml": "want a file: download the document first"} {
		var out bytes.Buffer
		if err := (importedDocument{spec: spec}).write(&out, &out); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("import of %s = %v, want %q", spec, err, want)
		}
	}
}

// What is printed makes the requests that the document describes, with the credentials of the environment.
func TestImportedDocumentSendsWhatItSays(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body any
		_ = json.NewDecoder(r.Body).Decode(&body) // none is nil
		got = fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("Authorization"), " ", r.Header.Get("X-Api-Key"), " ", body)
	}))
	defer server.Close()
	dir := t.TempDir()
	t.Chdir(dir)
	document := shop(listItems+addItem, "security: [{a: [], b: []}]\ncomponents: {securitySchemes: {a: {type: apiKey, in: header, name: X-Api-Key}, b: {type: http, scheme: bearer}}}")
	if err := os.WriteFile("openapi.yaml", []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, told bytes.Buffer
	if err := (importedDocument{spec: "openapi.yaml", baseURL: server.URL + "/v1"}).write(&out, &told); err != nil {
		t.Fatal(err)
	}
	c, err := check(config.Parse("gateway.yaml", dir, []byte("upstreams: {up: {base_url: \"https://up.example.com/v1\"}}\n"+out.String()), func(name string) (string, bool) {
		return "of-" + name, strings.Contains(told.String(), "export "+name+"=")
	}))
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(c)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	view := g.tools.View(nil, nil)
	for _, tt := range []struct{ tool, arguments, want string }{
		{"the_shop__listItems", `{"q": "a b"}`, "GET /v1/items?q=a+b Bearer of-THE_SHOP_TOKEN of-THE_SHOP_API_KEY <nil>"},
		{"the_shop__setItem", `{"id": "x/y", "price": 2.5}`, "PUT /v1/items/x%2Fy Bearer of-THE_SHOP_TOKEN of-THE_SHOP_API_KEY map[price:2.5]"},
	} {
		p := view.Prepare(tt.tool, json.RawMessage(chat.Quote(tt.arguments)))
		if p.Refusal != nil {
			t.Fatalf("%s: %s\n%s", tt.tool, p.Refusal.Text, out.String())
		}
		if _, err := view.Run(t.Context(), p, registry.Scope{RunID: "r", Key: "k", Attempt: 1, Confirmed: true}); err != nil {
			t.Error(err)
		}
		if got != tt.want {
			t.Errorf("%s sent %s, want %s", tt.tool, got, tt.want)
		}
	}
}

// FuzzImportOpenAPI holds the law that a document is either refused with a word on the document, or what is printed of it
// is a configuration that is taken: a refusal of the printed YAML itself would be ours to mend.
func FuzzImportOpenAPI(f *testing.F) {
	f.Add(shop(listItems+addItem, "security: [{a: [], b: []}]\ncomponents: {securitySchemes: {a: {type: apiKey, in: header, name: Cookie}, b: {type: apiKey, in: cookie, name: a}}}"))
	f.Add(shop("  /${A}/{{b}}: {get: {operationId: '- x', summary: \"a\\u2028b\\nc # d\"}}", "security: [{'${X}': []}]\ncomponents: {securitySchemes: {'${X}': {type: apiKey, in: query, name: '${Y}'}}}"))
	f.Add("openapi: 3.1.0\nservers: [{url: 'http://a${b}/c'}]\ninfo: {title: '${T}'}\npaths: {/*: {get: {}}, '/ a ': {get: {}}, /b: {servers: [{url: /x}], get: {}}}\n")
	f.Add(shop(listItems, "security: [{a: [], b: [], c: []}]\ncomponents: {securitySchemes: {a: {type: http, scheme: basic}, b: {type: openIdConnect}, c: {type: apiKey, in: header, name: Content-Length}}}"))
	f.Fuzz(func(t *testing.T, document string) {
		if len(document) > 1<<16 {
			return
		}
		if _, _, err := (importedDocument{}).imports(t, document); err != nil && strings.Contains(err.Error(), "(imported)") {
			t.Errorf("what is printed is refused: %v", err)
		}
	})
}
