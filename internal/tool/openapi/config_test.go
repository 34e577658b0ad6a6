package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/registry"
)

const twoOperations = `
openapi: 3.0.3
info: {title: T, version: "1"}
servers: [{url: "https://shop.invalid/v1"}]
paths:
  /pets:
    get: {operationId: listPets, summary: Lists pets.}
    post: {operationId: addPet, summary: Adds a pet., requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {name: {type: string}, owner: {type: integer}}}}}}}
`

// TestEntriesThatAreRefused has faults of the file, each told at its place and once.
func TestEntriesThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"nothing", "", "openapi.shop.spec: is required"},
		{"a text", "doc.yaml", `openapi.shop: want a mapping`},
		{"no spec", "{prefix: p_}", "openapi.shop.spec: is required"},
		{"a spec that is an address", "{spec: 'https://shop.invalid/openapi.json'}", "openapi.shop.spec: want a file: download the document first"},
		{"a spec that is not there", "{spec: gone.yaml}", "openapi.shop.spec: gone.yaml can't be read: no such file"},
		{"a folder", "{spec: .}", "openapi.shop.spec: . can't be read"},
		{"a misspelt key", "{spec: doc.yaml, inlcude: []}", `did you mean "include"?`},
		{"no address", "{spec: doc.yaml, base_url: shop.invalid}", "openapi.shop.base_url: want an address such as"},
		{"an argument in the address", "{spec: doc.yaml, base_url: 'https://a.invalid/{tenant}'}", "{tenant} is no argument of every operation"},
		{"an argument in the host", "{spec: doc.yaml, base_url: 'https://{caller.x}.invalid'}", "base_url: want an address"},
		{"an address with a query", "{spec: doc.yaml, base_url: 'https://a.invalid/?key=1'}", "without ? and #"},
		{"a prefix that no name may have", "{spec: doc.yaml, prefix: 'a.'}", "openapi.shop.prefix: want up to 40 of"},
		{"a header that is none", "{spec: doc.yaml, headers: {X Y: a}}", "openapi.shop.headers.X Y: this is no name of a header"},
		{"an argument in a header", "{spec: doc.yaml, headers: {X-Y: '{tenant}'}}", "openapi.shop.headers.X-Y: {tenant} names no parameter"},
		{"two ways of credentials", "{spec: doc.yaml, auth: {bearer: abc, query: {name: k, value: v}}}", "openapi.shop.auth: want exactly one of"},
		{"a pattern of a method that is none", "{spec: doc.yaml, include: [listPets, 'FETCH /pets']}", `openapi.shop.include.1: "FETCH" is no method`},
		{"a pattern without a path", "{spec: doc.yaml, exclude: ['GET pets']}", `openapi.shop.exclude.0: "GET pets" is no method and path`},
		{"a set that is no mapping", "{spec: doc.yaml, set: {addPet: 5s}}", "openapi.shop.set.addPet: want a mapping"},
		{"a set of what the document decides", "{spec: doc.yaml, set: {addPet: {parameters: {}}}}", "openapi.shop.set.addPet.parameters: comes from the document"},
		{"a set of no operation", "{spec: doc.yaml, set: {addPets: {confirm: none}}}", `openapi.shop.set.addPets: "addPets" is no operation of doc.yaml: did you mean addPet?`},
		{"a set twice", "{spec: doc.yaml, set: {addPet: {timeout: 5s}, shop__addPet: {timeout: 6s}}}", "POST /pets is set already under its other name"},
		{"a set key that is none", "{spec: doc.yaml, set: {addPet: {timout: 5s}}}", `doc.yaml (openapi.shop):3:`},
		{"a set value that is wrong", "{spec: doc.yaml, set: {addPet: {retry: 3}}}", `shop__addPet.retry: a write tool is only tried again with`},
		{"a set that binds no argument", "{spec: doc.yaml, set: {addPet: {bind: {ownr: caller.level}}}}", `shop__addPet.bind.ownr: "ownr" is no parameter of the tool: did you mean "owner"?`},
		{"a jq of set that is none", "{spec: doc.yaml, set: {listPets: {result: '.['}}}", `shop__listPets.http.result:`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := load(t, "openapi:\n  shop: "+tt.yaml+"\n", twoOperations, nil)
			p := e.file.Problems()
			if len(p) != 1 || !strings.Contains(p[0].String(), tt.want) {
				t.Errorf("problems = %v, want one with %q", p, tt.want)
			}
		})
	}
}

func TestTheNameOfAnEntryMustFitUnlessThereIsAPrefix(t *testing.T) {
	e := load(t, entryYAML, twoOperations, nil)
	n := e.file.Root().Get("openapi").Get("shop")
	if Tools("my shop", n) != nil || !strings.Contains(e.file.Problems().Error(), `"my shop" can't stand in the names of tools`) {
		t.Errorf("problems = %v, want one of the name", e.file.Problems())
	}
}

// TestSecrets stay secrets of the file: in no message, and masked wherever the gateway masks.
func TestSecretsStaySecrets(t *testing.T) {
	env := map[string]string{"KEY": "k-0123456789", "TENANT": "t-987654321"}
	for _, tt := range []struct{ name, set string }{
		{"a good entry", "{}"},
		{"a fault of a tool", "{listPets: {retyr: 1, http: {}}}"},
		{"a fault that is found late", "{listPets: {bind: {a: caller.b}, errors: {404: 'no {b}'}}}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := load(t, `openapi: {shop: {spec: doc.yaml, base_url: "https://u:hunter2x@shop.invalid", headers: {X-Tenant: "{caller.level} ${TENANT}", X-Key: "${KEY}"}, set: `+tt.set+"}}", twoOperations, env)
			for _, secret := range []string{"k-0123456789", "t-987654321", "hunter2x"} {
				if strings.Contains(e.file.Problems().Error()+texts(e.file.Warnings()), secret) {
					t.Errorf("a message shows %s: %v", secret, e.file.Problems())
				}
				if !strings.Contains(strings.Join(e.file.Secrets(), " "), secret) {
					t.Errorf("%s is no secret of the file: %v", secret, e.file.Secrets())
				}
			}
		})
	}
}

func TestSecretsOfAuthReachTheService(t *testing.T) {
	base, got, transport := service(t)
	e := load(t, "openapi: {shop: {spec: doc.yaml, base_url: "+base+`, headers: {X-Tenant: "${TENANT}-{caller.level}"}, auth: {bearer: "${KEY}"}}}`, twoOperations,
		map[string]string{"KEY": "k-{0123456789}-${x}", "TENANT": "t1"})
	if p := e.file.Problems(); p != nil {
		t.Fatal(p)
	}
	v := e.view(t, transport)
	if _, err := v.Run(t.Context(), v.Prepare("shop__listPets", nil), registry.Scope{}); err != nil {
		t.Fatal(err)
	}
	if h := (*got)[0].header; h.Get("Authorization") != "Bearer k-{0123456789}-${x}" || h.Get("X-Tenant") != "t1-2" {
		t.Errorf("headers %v, want the key as it is and the tenant with its level", h)
	}
}

func TestSet(t *testing.T) {
	base, got, transport := service(t)
	e := good(t, "openapi: {shop: {spec: doc.yaml, base_url: "+base+`, prefix: "", set: {
		listPets: {description: All of them., result: '{n: length}', cache: 1m},
		addPet: {effect: read, bind: {owner: caller.level}}}}}`, twoOperations)
	v := e.view(t, transport)
	var seen []string
	for _, tl := range v.Tools() {
		seen = append(seen, tl.Name+" "+string(tl.Effect)+": "+tl.Description()+" "+string(tl.Declaration()))
	}
	wantAll(t, "tools", strings.Join(seen, "\n"), "listPets read: All of them.", "addPet read: Adds a pet.", `"properties":{"name":{"type":"string"}}`)
	if _, err := v.Run(t.Context(), v.Prepare("addPet", json.RawMessage(`{"name":"Rex","owner":7}`)), registry.Scope{}); err != nil {
		t.Fatal(err)
	}
	if body := (*got)[0].body; body != `{"name":"Rex","owner":2}` {
		t.Errorf("body %s, want the owner that is bound", body)
	}
	if r := e.tools.Get("listPets").Get("http").Get("result").Text(); r != "{n: length}" {
		t.Errorf("result is %q, want that of set", r)
	}
}

func TestEffectIsThatOfTheMethod(t *testing.T) {
	e := good(t, entryYAML, twoOperations)
	for _, tl := range e.view(t, nilTransport{}).Tools() {
		if want := map[string]string{"shop__listPets": "read", "shop__addPet": "write"}[tl.Name]; string(tl.Effect) != want {
			t.Errorf("%s is a %s, want %s", tl.Name, tl.Effect, want)
		}
	}
}

// TestTextsOfADocument can't change what the gateway takes for a secret, nor name the service's host to a model.
func TestTextsOfADocumentAreNoSecretsAndNameNoHost(t *testing.T) {
	e := good(t, entryYAML, `
openapi: 3.0.3
servers: [{url: "https://API.shop.example/v1"}]
paths:
  /a:
    get:
      operationId: a
      summary: "The api.shop.example list; mail help@api.shop.example, see [docs](https://api.shop.example:8443/docs/a?b=c#d) or https://docs.example/."
      description: "Use postgres://user:password@db/x\u0007 and\u007f http://a:b@c:correct-horse@d/."
      parameters: [{name: url, in: query, description: "Like https://api.shop.example/x", schema: {type: string, default: "https://api.shop.example/y", example: x}}]
`)
	if s := e.file.Secrets(); len(s) != 0 {
		t.Errorf("secrets are %v, want none", s)
	}
	const want = `{"description":"The the service list; mail the service, see [docs](the service) or https://docs.example/.\nUse postgres://db/x  and  http://d/.",` +
		`"parameters":{"type":"object","properties":{"url":{"type":"string","description":"Like the service"}}},`
	if seen := string(e.tools.Get("shop__a").JSON()); !strings.HasPrefix(seen, want) {
		t.Errorf("the tool is\n%s, want\n%s", seen, want)
	}
}

func TestDescriptions(t *testing.T) {
	for _, tt := range []struct{ name, op, want string }{
		{"both", "summary: Lists.\ndescription: In pages.", "Lists.\nIn pages."},
		{"a description that begins with its summary", "summary: Lists pets.\ndescription: Lists pets, in pages.", "Lists pets, in pages."},
		{"neither", "deprecated: false", "GET /op"},
		{"a long one", "description: " + strings.Repeat("word ", 300), strings.TrimSpace(strings.Repeat("word ", 199)) + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := good(t, entryYAML, oneMore("  /op:\n    get:\n      operationId: op\n"+indent(tt.op), ""))
			if d := e.tools.Get("shop__op").Get("description").Text(); d != tt.want {
				t.Errorf("description %q, want %q", d, tt.want)
			}
		})
	}
}

func TestCredentialsThatAreMissingAreTold(t *testing.T) {
	const doc = `
openapi: 3.0.3
servers: [{url: "https://shop.invalid"}]
security: [{bearer: []}]
paths:
  /open: {get: {operationId: open, security: []}}
  /maybe: {get: {operationId: maybe, security: [{}, {bearer: []}]}}
  /closed: {get: {operationId: closed}}
`
	for yaml, want := range map[string]string{
		"{spec: doc.yaml}":                           "GET /closed asks for credentials (bearer)",
		"{spec: doc.yaml, include: [open, maybe]}":   "",
		"{spec: doc.yaml, auth: {bearer: abcdefgh}}": "",
	} {
		if w := texts(good(t, "openapi: {shop: "+yaml+"}", doc).file.Warnings()); want == "" && w != "" || !strings.Contains(w, want) {
			t.Errorf("%s: warnings = %q, want %q", yaml, w, want)
		}
	}
}

func TestServers(t *testing.T) {
	const doc = `
openapi: 3.0.3
servers: [{url: /rel}, {url: "ftp://x.invalid"}, {url: "https://user:pw@shop.invalid/{v}/", variables: {v: {default: "{caller.level}"}}}]
paths:
  /a: {get: {operationId: a}}
  /b: {servers: [{url: /v2}], get: {operationId: b}, post: {operationId: c, servers: [{url: "https://shop.invalid/v3/"}]}}
`
	for base, want := range map[string]string{
		"": "https://shop.invalid/%7Bcaller.level%7D/a https://shop.invalid/v2/b https://shop.invalid/v3/b",
		"base_url: 'http://x.invalid/{caller.x}'": "http://x.invalid/{caller.x}/a http://x.invalid/{caller.x}/b http://x.invalid/{caller.x}/b",
	} {
		e := good(t, "openapi: {shop: {spec: doc.yaml, "+base+"}}", doc)
		var urls []string
		for _, name := range e.tools.Keys() {
			urls = append(urls, e.tools.Get(name).Get("http").Get("url").Text())
		}
		if got := strings.Join(urls, " "); got != want {
			t.Errorf("%q: urls are %s, want %s", base, got, want)
		}
	}
}
