package openapi

import (
	"strings"
	"testing"
)

const manyOperations = `
openapi: 3.0.3
servers: [{url: "https://shop.invalid"}]
paths:
  /pets:
    get: {operationId: listPets}
    post: {operationId: addPet}
  /pets/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: getPet}
    put: {operationId: replacePet, deprecated: true}
    delete: {operationId: deletePet}
    trace: {operationId: tracePet}
    x-note: {operationId: none}
  /pets/{id}/photos:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {}
  /orders/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: getOrder}
  x-internal: {get: {operationId: none}}
`

func TestIncludeAndExclude(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want, warning string }{
		{"all that are not deprecated", "", "listPets addPet getPet deletePet get_pets_id_photos getOrder", ""},
		{"a method and a path", "include: [GET /pets]", "listPets", ""},
		{"a method in small letters", "include: [get /pets]", "listPets", ""},
		{"a method and all below a path", "include: ['GET /pets/*']", "getPet get_pets_id_photos", ""},
		{"a path with any method", "include: ['/pets/{id}']", "getPet deletePet", ""},
		{"any method of a path, as a star", "include: ['* /orders/*']", "getOrder", ""},
		{"all of a method", "include: ['DELETE *']", "deletePet", ""},
		{"an operationId", "include: [getPet]", "getPet", ""},
		{"operationIds by a glob", "include: ['get*']", "getPet get_pets_id_photos getOrder", ""},
		{"one without an operationId", "include: [shop__get_pets_id_photos]", "get_pets_id_photos", ""},
		{"a deprecated one that is named", "include: ['*', replacePet]", "listPets addPet getPet replacePet deletePet get_pets_id_photos getOrder", ""},
		{"a deprecated one that is named by its path", "include: ['PUT /pets/{id}']", "replacePet", ""},
		{"excluded ones, however they were included", "include: ['*Pet*', deletePet]\n    exclude: ['* /pets/{id}']", "listPets addPet", ""},
		{"exclude alone", "exclude: ['get*', '*s']", "addPet deletePet", ""},
		{"none", "include: []", "", "no tool is made of doc.yaml"},
		{"a name that is none", "include: [getPet, getPets]", "getPet", `include.1: "getPets" is no operation of doc.yaml: did you mean getPet?`},
		{"a path that is none", "include: [getPet, 'GET /pet/*']", "getPet", `include.1: "GET /pet/*" is no operation of doc.yaml: did you mean GET /pets`},
		{"an exclude that is none", "include: [getPet]\n    exclude: [zzz]", "getPet", `exclude.0: "zzz" is no operation of doc.yaml`},
		{"a set of one that is not chosen", "include: [getPet]\n    set: {addPet: {timeout: 5s}}", "getPet", "set.addPet: POST /pets is not chosen"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := good(t, "openapi:\n  shop:\n    spec: doc.yaml\n    "+tt.yaml+"\n", manyOperations)
			if e.names() != tt.want {
				t.Errorf("tools are %s, want %s", e.names(), tt.want)
			}
			w := texts(e.file.Warnings())
			if tt.warning == "" && w != "" || !strings.Contains(w, tt.warning) {
				t.Errorf("warnings = %s, want %q", w, tt.warning)
			}
		})
	}
}

// TestAnOperationThatIsNamed must become a tool: a warning would be too little.
func TestAnOperationThatIsNamedMustBecomeATool(t *testing.T) {
	doc := oneMore(`
  /photo: {post: {operationId: upload, requestBody: {content: {multipart/form-data: {}}}}}`, "")
	e := load(t, "openapi: {shop: {spec: doc.yaml, include: [good, upload]}}", doc, nil)
	if p := e.file.Problems(); len(p) != 1 || !strings.Contains(p[0].String(), "openapi.shop.include.1: POST /photo of doc.yaml can't be a tool: its body is multipart/form-data") {
		t.Errorf("problems = %v, want one of upload", p)
	}
	if e := good(t, "openapi: {shop: {spec: doc.yaml, include: ['*']}}", doc); e.names() != "good" {
		t.Errorf("tools are %s, want good alone", e.names())
	}
}
