package openapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkLaws reads a document and checks what holds whatever is in it: what is wrong is told at the entry, once and with
// the name of the document; the tools that there are have no fault, and their arguments have good names; the document
// adds no secret.
func checkLaws(t interface {
	Errorf(string, ...any)
	Helper()
}, dir string,
) {
	t.Helper()
	e := loadFrom(dir, "openapi: {shop: {spec: doc.yaml, base_url: 'https://shop.example'}}", nil)
	for _, p := range append(e.file.Problems(), e.file.Warnings()...) {
		if p.File != "gateway.yaml" || p.Path != "openapi.shop.spec" || !strings.Contains(p.Message, "doc.yaml") {
			t.Errorf("said of the document: %s", p)
		}
	}
	if s := e.file.Secrets(); len(s) > 0 {
		t.Errorf("secrets %q", s)
	}
	for _, name := range e.tools.Keys() {
		for _, arg := range e.tools.Get(name).Get("parameters").Get("properties").Keys() {
			if !wellFormed.MatchString(arg) || len(arg) > maxName || reserved[arg] {
				t.Errorf("%s has an argument %q", name, arg)
			}
		}
	}
}

// FuzzDocument feeds broken documents.
func FuzzDocument(f *testing.F) {
	f.Add(twoOperations)
	f.Add(manyOperations)
	f.Add(oneMore("  /a/{x}: {get: {parameters: [{name: 'f[a]', in: query, style: deepObject, schema: {type: object, properties: {a: {$ref: '#/paths'}}}}]}}", ""))
	f.Add(oneMore("  /a: {post: {requestBody: {content: {x/y+json: {schema: {$ref: '#/components/schemas/A'}}}}}}", "components: {schemas: {A: {allOf: [{$ref: '#/components/schemas/A'}]}}}"))
	f.Add(operationDoc("put", "/a", jsonBody("{type: object, required: [a, b], properties: {a: {readOnly: true}, status: {pattern: '(?=a)'}}}")))
	f.Add(`{"openapi":"3.1.0","paths":{"/a":{"get":{"parameters":[{"in":"header","name":"A","schema":{"type":["array","null"],"items":false}}]}}}}`)
	f.Add("openapi: 3.0\npaths:\n  /0: {post: {requestBody: {content: {(+json}}}}") // was sent as a Content-Type
	f.Add("openapi: 3.0.0\npaths: &a\n  /x: {get: {operationId: !!binary aGk=, parameters: *a}}\n  <<: [*a]\n")
	f.Add("openapi: 3.1.0\npaths: {/a: {get: {summary: ...}}}")
	f.Add("openapi: 3.1.0\npaths: {/a: {get: {description: \"\\x00\"}}}")
	f.Fuzz(func(t *testing.T, doc string) { checkLaws(t, write(t, doc)) })
}

// TestWhateverADocumentHolds makes documents of good parts and odd ones.
func TestWhateverADocumentHolds(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(document31(t))
		if err != nil {
			t.Fatal(err)
		}
		writeTo(t, dir, string(doc))
		checkLaws(t, dir)
	})
}

type object = map[string]any

// odd is what no document should hold in most places.
func odd(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, false, 0, -1.5, "", "x", "{x}", "{caller.level}", "{{run_id}}", "${HOME}", "a\x00\x7f\r\n", "http://u:password@h/", "https://shop.example/x", "名",
		[]any{},
		[]any{nil},
		object{},
		object{"$ref": "#"},
		object{"$ref": "#/components/schemas/A"},
		object{"$ref": "x.yaml"},
		object{"$ref": 1},
		object{"$file": "doc.yaml"},
		object{"type": "object"},
		object{"$ref": "#/components/schemas/B/properties/a"},
		strings.Repeat("long", 300),
	}).Draw(t, "odd")
}

// mostly is what good gives, or something odd one time in ten.
func mostly(t *rapid.T, good func() any) any {
	if rapid.IntRange(0, 9).Draw(t, "isOdd") == 0 {
		return odd(t)
	}
	return good()
}

func one[T any](t *rapid.T, of ...T) func() any {
	return func() any { return rapid.SampledFrom(of).Draw(t, "one") }
}

var wireNames = []string{"id", "status", "a.b", "a_b", "filter[x]", "body", "run_id", "X-Y", "x-y", "$top", "caller", "body_status", "名"}

func document31(t *rapid.T) object {
	schemas := object{}
	for _, name := range []string{"A", "B", "C"} {
		schemas[name] = mostly(t, func() any { return schema31(t, 0) })
	}
	paths := object{}
	for range rapid.IntRange(1, 3).Draw(t, "paths") {
		path := rapid.SampledFrom([]string{"/a", "/a/{id}", "/b/{a.b}/{status}", "/{caller.level}", "/{{id}}", "/c?x={id}", "/a/../b", "/%zz/{id}", "x-a"}).Draw(t, "path")
		item := object{"parameters": mostly(t, func() any { return parameters31(t) })}
		for range rapid.IntRange(1, 2).Draw(t, "methods") {
			item[rapid.SampledFrom([]string{"get", "post", "delete", "patch", "trace"}).Draw(t, "method")] = mostly(t, func() any {
				return object{
					"operationId": mostly(t, one(t, "a", "b c", "d")), "summary": mostly(t, one(t, "Does it.", ".", "\x01")), "description": mostly(t, one(t, "Does it well.")),
					"deprecated": mostly(t, one(t, false)), "parameters": mostly(t, func() any { return parameters31(t) }),
					"requestBody": mostly(t, func() any {
						return object{"required": mostly(t, one(t, true, false)), "content": mostly(t, func() any {
							media := rapid.SampledFrom([]string{"application/json", "x/y+json", typeForm, "text/plain", "a b+json"}).Draw(t, "media")
							return object{media: mostly(t, func() any { return object{"schema": mostly(t, func() any { return schema31(t, 0) })} })}
						})}
					}),
				}
			})
		}
		paths[path] = mostly(t, func() any { return item })
	}
	return object{"openapi": "3.1.0", "paths": paths, "components": object{"schemas": schemas}}
}

func parameters31(t *rapid.T) []any {
	var list []any
	for range rapid.IntRange(0, 4).Draw(t, "parameters") {
		list = append(list, mostly(t, func() any {
			p := object{
				"name": mostly(t, one(t, wireNames...)), "in": mostly(t, one(t, "path", "query", "query", "header", "cookie")),
				"required": mostly(t, one(t, true, false)), "description": mostly(t, one(t, "What it is.")), "schema": mostly(t, func() any { return schema31(t, 1) }),
			}
			if rapid.Bool().Draw(t, "styled") {
				p["style"] = mostly(t, one(t, "form", "simple", "deepObject", "pipeDelimited", "spaceDelimited", "label"))
				p["explode"] = mostly(t, one(t, true, false))
			}
			return p
		}))
	}
	return list
}

func schema31(t *rapid.T, depth int) any {
	s := object{"type": mostly(t, one[any](t, "string", "integer", "object", "array", []any{"array", "null"}, []any{"object", "null"}))}
	if depth < 3 && rapid.Bool().Draw(t, "deep") {
		properties := object{}
		for range rapid.IntRange(0, 3).Draw(t, "properties") {
			properties[rapid.SampledFrom(wireNames).Draw(t, "property")] = mostly(t, func() any { return schema31(t, depth+1) })
		}
		s["properties"] = mostly(t, func() any { return properties })
		s["required"] = mostly(t, one(t, []any{"id"}, []any{"status", "gone"}))
	}
	if depth < 3 && rapid.Bool().Draw(t, "more") {
		key := rapid.SampledFrom([]string{"items", "allOf", "anyOf", "oneOf", "additionalProperties", "not", "prefixItems", "if"}).Draw(t, "key")
		s[key] = mostly(t, func() any {
			switch key {
			case "allOf", "anyOf", "oneOf", "prefixItems":
				return []any{schema31(t, depth+1), mostly(t, func() any { return schema31(t, depth+1) })}
			}
			return schema31(t, depth+1)
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "words") {
		s[rapid.SampledFrom([]string{
			"$ref", "nullable", "readOnly", "enum", "const", "default", "pattern", "minimum", "maxItems", "description", "examples", "format", "title",
			"x-y", "$id", "$anchor", "$dynamicRef", "$file", "$defs", "discriminator", "deprecated",
		}).Draw(t, "word")] = odd(t)
	}
	return s
}

// write is a folder with a document.
func write(t testing.TB, doc string) string {
	t.Helper()
	dir := t.TempDir()
	writeTo(t, dir, doc)
	return dir
}

func writeTo(t interface {
	Fatal(...any)
	Helper()
}, dir, doc string,
) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "doc.yaml"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
}
