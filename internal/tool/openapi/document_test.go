package openapi

import (
	"strings"
	"testing"
)

const entryYAML = "openapi: {shop: {spec: doc.yaml}}"

// TestDocumentsThatAreRefused has faults of a whole document. Each is one problem, at the entry.
func TestDocumentsThatAreRefused(t *testing.T) {
	server := `servers: [{url: "https://shop.invalid"}]`
	for _, tt := range []struct{ name, doc, want string }{
		{"broken YAML", "openapi: 3.0.0\npaths:\n  /a: {get: [\n", "openapi.shop.spec: doc.yaml: not valid YAML: line"},
		{"broken JSON", `{"openapi": "3.0.0", "paths": {"/a": {}`, "doc.yaml: not valid YAML: line"},
		{"no text at all", "\n", "the file is empty"},
		{"bytes that are no text", "\xff\xfe{}", "want UTF-8"},
		{"something else", "- a\n- b", "this is no OpenAPI document: want a mapping"},
		{"another document", "asyncapi: 3.0.0\nchannels: {}", "it has no key openapi"},
		{"Swagger 2.0", "swagger: '2.0'\npaths: {}", "this is Swagger 2.0: convert it to OpenAPI 3 first"},
		{"a version to come", "openapi: 4.0.0\npaths: {}", "OpenAPI 4.0.0 is not known: want 3.0 or 3.1"},
		{"paths that are a list", "openapi: 3.0.0\n" + server + "\npaths: [a]", "paths must be a mapping"},
		{"a key twice in YAML", "openapi: 3.0.0\npaths:\n  /a: {}\n  /b: {}\n  /a: {}", `line 5: the key "/a" stands twice, first in line 3`},
		{"a key twice in JSON", "{\"openapi\": \"3.0.0\",\n\"paths\": {\"/a\": {},\n\"/a\": {}}}", `line 3: the key "paths./a" stands twice`},
		{"an alias of itself", "openapi: 3.0.0\npaths: &p {a: *p}", "nested deeper than"},
		{"aliases of aliases", "openapi: 3.0.0\na: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n" +
			"d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e]", "more than 2000000 values"},
		{"more than 8 MiB", "openapi: 3.0.0\n# " + strings.Repeat("x", maxDocument), "it is too large: more than 8MiB"},
		{"no server with a host", "openapi: 3.0.0\nservers: [{url: /v1}]\npaths: {}", "base_url: is required: doc.yaml names no server with a host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := load(t, entryYAML, tt.doc, nil)
			p := e.file.Problems()
			if len(p) != 1 || !strings.Contains(p[0].String(), tt.want) || p[0].File != "gateway.yaml" {
				t.Errorf("problems = %v, want one with %q", p, tt.want)
			}
			if e.tools != nil {
				t.Errorf("there are tools %s", e.names())
			}
		})
	}
}

// oneMore is a document with a good operation and what paths and rest add.
func oneMore(paths, rest string) string {
	return `
openapi: 3.1.0
info: {title: T, version: "1"}
servers: [{url: "https://shop.invalid/v1"}]
paths:
  /good: {get: {operationId: good, summary: Is good.}}
` + strings.TrimPrefix(paths, "\n") + "\n" + rest
}

// TestOperationsThatAreLeftOut has faults of one operation: the others stay, and a warning tells.
func TestOperationsThatAreLeftOut(t *testing.T) {
	for _, tt := range []struct{ name, paths, rest, want string }{
		{
			"a reference to another file", `
  /bad: {get: {operationId: bad, parameters: [{$ref: "common.yaml#/Limit"}]}}`, "",
			"doc.yaml: GET /bad: left out: a parameter: it refers to another file (common.yaml#/Limit), which is not followed: bundle",
		}, {
			"a reference to an address", `
  /bad: {post: {operationId: bad, requestBody: {content: {application/json: {schema: {$ref: "https://evil.example/x.json"}}}}}}`, "",
			"POST /bad: left out: its body: it refers to another address (https://evil.example/x.json)",
		}, {
			"a reference to a file deep in a schema", `
  /bad: {get: {operationId: bad, parameters: [{name: a, in: query, required: true, schema: {$ref: "#/components/schemas/A"}}]}}`,
			`components: {schemas: {A: {type: array, items: {$ref: "#/components/schemas/B"}}, B: {$ref: "file:///etc/passwd"}}}`,
			"left out: schema B: it refers to another address (file:///etc/passwd)",
		}, {
			"a path that is elsewhere", `
  /bad: {$ref: "paths/bad.yaml"}`, "", "path /bad: left out: it refers to another file",
		}, {
			"a reference to nothing", `
  /bad: {get: {operationId: bad, parameters: [{name: a, in: query, required: true, schema: {$ref: "#/components/schemas/Gone"}}]}}`, "",
			`left out: query parameter "a" has a schema that can't be used: the reference #/components/schemas/Gone points to nothing`,
		}, {
			"references in a circle", `
  /bad: {get: {operationId: bad, parameters: [{$ref: "#/components/parameters/A"}]}}`,
			`components: {parameters: {A: {$ref: "#/components/parameters/B"}, B: {$ref: "#/components/parameters/A"}}}`, "go round in a circle",
		}, {
			"a schema that is only itself", `
  /bad: {post: {operationId: bad, requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/A"}}}}}}`,
			`components: {schemas: {A: {allOf: [{$ref: "#/components/schemas/A"}]}}}`, "refers to itself without end",
		}, {
			"a required cookie", `
  /bad: {get: {operationId: bad, parameters: [{name: sid, in: cookie, required: true, schema: {type: string}}]}}`, "",
			`left out: cookie parameter "sid" is nothing that a tool can send`,
		}, {
			"files to upload", `
  /bad: {post: {operationId: bad, requestBody: {content: {multipart/form-data: {schema: {type: object}}}}}}`, "",
			"its body is multipart/form-data, and only JSON and forms can be sent",
		}, {
			"bytes", `
  /bad: {put: {operationId: bad, requestBody: {required: true, content: {application/octet-stream: {}}}}}`, "", "its body is application/octet-stream",
		}, {
			"a required deepObject of objects", `
  /bad: {get: {operationId: bad, parameters: [{name: f, in: query, required: true, style: deepObject, schema: {type: object, required: [a], properties: {a: {type: object}}}}]}}`, "",
			`left out: query parameter "f" has a property "a" that has no form in a query`,
		}, {
			"a style of paths that is rare", `
  /bad/{id}: {get: {operationId: bad, parameters: [{name: id, in: path, required: true, style: matrix, schema: {type: string}}]}}`, "",
			`left out: path parameter "id" has the style "matrix", which is not supported`,
		}, {
			"an object in a path", `
  /bad/{id}: {get: {operationId: bad, parameters: [{name: id, in: path, required: true, schema: {type: object}}]}}`, "",
			"is an object, which has no form in a path",
		}, {
			"a path with a fragment", `
  "/bad#{id}": {get: {operationId: bad}}`, "", "left out: its path is not valid",
		}, {
			"a path that goes up", `
  "/bad/../admin": {get: {operationId: bad}}`, "", "left out: its path is not valid",
		}, {
			"a form that is a list", `
  /bad: {post: {operationId: bad, requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: array}}}}}}`, "",
			"its body is a form that is no plain object",
		}, {
			"a schema that is none", `
  /bad: {post: {operationId: bad, requestBody: {content: {application/json: {schema: [a]}}}}}`, "", "its body: a schema is an object, got a list",
		}, {
			"a type that is none", `
  /bad: {post: {operationId: bad, requestBody: {content: {application/json: {schema: {type: object, properties: {a: {type: sting}}}}}}}}`, "",
			`unknown type "sting"`,
		}, {
			"the service's own host as a value", `
  /bad: {get: {operationId: bad, parameters: [{name: a, in: query, schema: {type: string, enum: ["https://SHOP.invalid/a"]}}]}}`, "",
			"its schema has a value with credentials or with the service's own host",
		}, {
			"a password as a value", `
  /bad: {get: {operationId: bad, parameters: [{name: a, in: query, schema: {const: "https://u:correct-horse@x.invalid/a"}}]}}`, "",
			"its schema has a value with credentials",
		}, {
			"a media type that is none", `
  /bad: {post: {operationId: bad, requestBody: {content: {"(+json": {}}}}}`, "", "its body is (+json",
		}, {
			"a server of its own on another host", `
  /bad: {get: {operationId: bad, servers: [{url: "https://upload.invalid"}]}}`, "",
			"left out: it has a server of its own, and that is not shop.invalid",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := good(t, entryYAML, oneMore(tt.paths, tt.rest))
			if e.names() != "good" {
				t.Errorf("tools are %s, want good alone", e.names())
			}
			if w := e.file.Warnings(); len(w) != 1 || !strings.Contains(w[0].String(), tt.want) || w[0].Path != "openapi.shop.spec" {
				t.Errorf("warnings = %v, want one with %q", w, tt.want)
			}
		})
	}
}

func TestWhatIsLeftOutOfAnOperation(t *testing.T) {
	for _, tt := range []struct{ name, op, rest, seen, want string }{
		{
			"an optional cookie", params("{name: sid, in: cookie, schema: {type: string}}"), "", `{"type":"object","properties":{}}`,
			`GET /op: optional cookie parameter "sid" is nothing that a tool can send and is left out`,
		}, {
			"an optional deepObject that is free", params("{name: f, in: query, style: deepObject, schema: {type: object, additionalProperties: {type: string}}}"), "",
			`{"type":"object","properties":{}}`, `optional query parameter "f" is an object without known properties and is left out`,
		}, {
			"an optional object that does not explode", params("{name: f, in: query, explode: false, schema: {type: object, properties: {a: {type: string}}}}"), "",
			`{"type":"object","properties":{}}`, `is an object, which has no form in a query in this style`,
		}, {
			"a header that is none", params("{name: X Y, in: header, schema: {type: string}}"), "", `{"type":"object","properties":{}}`, `optional header parameter "X Y" is no name of a header`,
		}, {
			"a path parameter without a place", params("{name: id, in: path, required: true, schema: {type: string}}"), "", `{"type":"object","properties":{}}`,
			`path parameter "id" stands nowhere in the path`,
		}, {
			"a pattern that RE2 lacks", params(`{name: a, in: query, schema: {$ref: "#/components/schemas/Code"}}`),
			`components: {schemas: {Code: {type: string, pattern: "^(?!0)\\d+$", minLength: 2}}}`,
			`{"type":"object","properties":{"a":{"type":"string","minLength":2}}}`, "Code.pattern: dropped: the pattern is no RE2 expression",
		}, {
			"a default that its schema refuses", params("{name: a, in: query, schema: {type: integer, default: none}}"), "",
			`{"type":"object","properties":{"a":{"type":"integer"}}}`, "properties.a.default: dropped",
		}, {
			"notes, extensions and what means something to the gateway alone",
			params(`{name: a, in: query, schema: {type: string, x-internal: true, example: e, xml: {name: b}, $file: /etc/passwd, $id: "https://x.example/", optional: true, externalDocs: {url: "https://x.example"}}}`), "",
			`{"type":"object","properties":{"a":{"type":"string"}}}`, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := good(t, entryYAML, oneMore("  /op:\n    get:\n      operationId: op\n"+indent(tt.op), tt.rest))
			if seen := string(e.tools.Get("shop__op").Get("parameters").JSON()); seen != tt.seen {
				t.Errorf("the model sees %s, want %s", seen, tt.seen)
			}
			w := texts(e.file.Warnings())
			if tt.want == "" && w != "" || !strings.Contains(w, tt.want) {
				t.Errorf("warnings = %s, want one with %q", w, tt.want)
			}
		})
	}
}

// TestOneFaultOfManyOperations is told once.
func TestOneFaultOfManyOperationsIsToldOnce(t *testing.T) {
	var paths strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		paths.WriteString("  /" + name + ": {get: {operationId: " + name + `, parameters: [{$ref: "#/components/parameters/Code"}]}}` + "\n")
	}
	e := good(t, entryYAML, oneMore(paths.String(), `components: {parameters: {Code: {name: code, in: query, schema: {type: string, pattern: "(?=a)"}}}}`))
	if w := texts(e.file.Warnings()); strings.Count(w, "RE2") != 1 || !strings.Contains(w, "GET /a, GET /b, GET /c, 2 more: ") {
		t.Errorf("warnings = %s, want one for five operations", w)
	}
}

func TestRecursiveSchemasSurvive(t *testing.T) {
	e := good(t, entryYAML, oneMore(`
  /tree: {post: {operationId: tree, summary: Grows a tree., requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Node"}}}}}}`, `
components: {schemas: {Node: {type: object, required: [id, label], properties: {id: {type: integer, readOnly: true}, label: {type: string}, children: {type: array, items: {$ref: "#/components/schemas/Node"}}}}}}`))
	const want = `{"type":"object","properties":{"label":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}},"required":["label"],` +
		`"$defs":{"Node":{"type":"object","required":["label"],"properties":{"label":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}`
	if seen := string(e.tools.Get("shop__tree").Get("parameters").JSON()); seen != want {
		t.Errorf("the model sees\n%s, want\n%s", seen, want)
	}
	if w := e.file.Warnings(); w != nil {
		t.Errorf("warnings = %v, want none", w)
	}
}

// TestWordsOf31 has what OpenAPI 3.1 has of JSON Schema and 3.0 has not.
func TestWordsOf31(t *testing.T) {
	e := good(t, entryYAML, oneMore(`
  /op:
    parameters: [{$ref: "#/components/parameters/Version"}]
    post:
      operationId: op
      summary: Does it.
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              $defs: {Point: {type: array, prefixItems: [{type: number}, {type: number}], items: false}}
              required: [kind, at]
              properties:
                kind: {const: move}
                at: {$ref: "#/$defs/Point", description: Where to.}
                note: {type: [string, "null"], examples: [fast]}
                step: {type: integer, exclusiveMinimum: 0}
                any: true
                big: {type: integer, maximum: 9007199254740993}
                size: {anyOf: [{$ref: "#/components/schemas/Size"}, {type: "null"}]}`, `
components:
  parameters: {Version: {name: v, in: query, schema: {type: ["null", array], items: {type: string}}, explode: false}}
  schemas: {Size: {enum: [s, 1.10, null]}}`))
	const want = `{"type":"object","properties":{"v":{"type":["null","array"],"items":{"type":"string"}},"kind":{"const":"move"},` +
		`"at":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}],"items":false,"description":"Where to."},` +
		`"note":{"type":["string","null"],"examples":["fast"]},"step":{"type":"integer","exclusiveMinimum":0},"any":true,"big":{"type":"integer","maximum":9007199254740993},` +
		`"size":{"anyOf":[{"enum":["s",1.10,null]},{"type":"null"}]}},"required":["kind","at"]}`
	if seen := string(e.tools.Get("shop__op").Get("parameters").JSON()); seen != want {
		t.Errorf("the model sees\n%s, want\n%s", seen, want)
	}
	if how := e.tools.Get("shop__op").Get("http").Get("encode").Get("v").Text(); how != commas {
		t.Errorf("the list v is sent as %q, want %q", how, commas)
	}
	if w := e.file.Warnings(); w != nil {
		t.Errorf("warnings = %v, want none", w)
	}
}

// TestYAMLOfAllKinds gives the same tools as the same document in JSON.
func TestYAMLReadsAsJSONDoes(t *testing.T) {
	yaml := good(t, entryYAML, `
openapi: 3.0.3
servers: [{url: "https://{region}.shop.invalid/{v}/", variables: {region: {default: eu}, v: {default: v2}}}]
x-limit: &limit {name: limit, in: query}
paths:
  /a:
    get:
      operationId: a
      description: >-
        Folded
        text.
      parameters:
        - {<<: *limit, schema: {type: integer, minimum: 0x10, maximum: 1_000, default: +20}}
        - {name: on, in: query, schema: {type: string, enum: [yes, 2020-01-01, ~, "1"], nullable: true}}
        - {name: f, in: query, schema: {type: number, minimum: -1.50, maximum: 1e3, multipleOf: .5}}
`)
	json := good(t, entryYAML, `{"openapi": "3.0.3", "servers": [{"url": "/x"}, {"url": "https://eu.shop.invalid/v2"}], "paths": {"/a": {"get": {
	"operationId": "a", "description": "Folded text.", "parameters": [
		{"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 16, "maximum": 1000, "default": 20}},
		{"name": "on", "in": "query", "schema": {"type": "string", "enum": ["yes", "2020-01-01", null, "1"], "nullable": true}},
		{"name": "f", "in": "query", "schema": {"type": "number", "minimum": -1.50, "maximum": 1e3, "multipleOf": 0.5}}]}}}}`)
	if y, j := string(yaml.tools.JSON()), string(json.tools.JSON()); y != j {
		t.Errorf("YAML gives\n%s, JSON\n%s, warnings %v", y, j, yaml.file.Warnings())
	}
}
