package schema

import (
	"strconv"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// holds is what stands under a keyword of JSON Schema.
type holds uint8

const (
	data      holds = iota // a plain value: never looked into, however much it looks like a schema
	aSchema                // one schema
	listOf                 // a list of schemas
	mapOf                  // an object whose values are schemas
	oneOrList              // a schema, in drafts before 2020-12 also a list of them
)

// keywords are those of all drafts that a parameter schema may use, in the words of 2020-12 and before.
var keywords = map[string]holds{
	"properties": mapOf, "patternProperties": mapOf, "dependentSchemas": mapOf, "dependencies": mapOf,
	"$defs": mapOf, "definitions": mapOf,
	"additionalProperties": aSchema, "unevaluatedProperties": aSchema, "propertyNames": aSchema,
	"additionalItems": aSchema, "unevaluatedItems": aSchema, "contains": aSchema, "contentSchema": aSchema,
	"not": aSchema, "if": aSchema, "then": aSchema, "else": aSchema,
	"allOf": listOf, "anyOf": listOf, "oneOf": listOf, "prefixItems": listOf,
	"items": oneOrList,

	"type": data, "enum": data, "const": data, "default": data, "examples": data, "format": data,
	"title": data, "description": data, "deprecated": data, "readOnly": data, "writeOnly": data,
	"minimum": data, "maximum": data, "exclusiveMinimum": data, "exclusiveMaximum": data, "multipleOf": data,
	"minLength": data, "maxLength": data, "pattern": data, "contentEncoding": data, "contentMediaType": data,
	"minItems": data, "maxItems": data, "uniqueItems": data, "minContains": data, "maxContains": data,
	"minProperties": data, "maxProperties": data, "required": data, "dependentRequired": data,
	"$ref": data, "$recursiveRef": data, "$dynamicRef": data, "$schema": data, "$id": data, "id": data, "$anchor": data,
	"$dynamicAnchor": data, "$recursiveAnchor": data, "$vocabulary": data, "$comment": data,
	"nullable": data, "example": data, "discriminator": data, "xml": data, "externalDocs": data,
}

// dropped are the keywords that no model needs once references are in place: addresses of parts of the schema, notes
// of its author, and what only OpenAPI knows.
var dropped = map[string]bool{
	"$schema": true, "$id": true, "$anchor": true, "$dynamicAnchor": true, "$recursiveAnchor": true, "$vocabulary": true,
	"$comment": true, "$defs": true, "definitions": true,
	"nullable": true, "example": true, "discriminator": true, "xml": true, "externalDocs": true,
}

// annotations say something about a value and check nothing.
var annotations = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "deprecated": true, "readOnly": true, "writeOnly": true,
}

// alone are the checks that mean the same wherever they stand: none of them looks at another keyword beside it.
var alone = map[string]bool{
	"type": true, "enum": true, "const": true, "format": true, "pattern": true, "required": true, "minimum": true,
	"maximum": true, "multipleOf": true, "minLength": true, "maxLength": true, "minItems": true, "maxItems": true,
	"uniqueItems": true, "minProperties": true, "maxProperties": true,
}

// types are the words that may stand under `type`.
var types = []string{"string", "number", "integer", "boolean", "array", "object", "null"}

// formats are those that are checked. Others are words for the model.
var formats = map[string]bool{
	"date": true, "date-time": true, "time": true, "email": true, "uuid": true, "uri": true, "ipv4": true, "ipv6": true,
}

// subschema is a schema that stands in another, with the way to it.
type subschema struct {
	path   []string
	schema *jsontree.Value
}

// subschemas are the schemas that stand directly in v, in order.
func subschemas(v *jsontree.Value) []subschema {
	var found []subschema
	if !v.Is(jsontree.Object) {
		return nil
	}
	for _, m := range v.Members {
		switch k := keywords[m.Key]; {
		case k == data:
		case k == mapOf && m.Value.Is(jsontree.Object):
			for _, p := range m.Value.Members {
				if isSchema(p.Value) { // dependencies may be lists of names
					found = append(found, subschema{[]string{m.Key, p.Key}, p.Value})
				}
			}
		case (k == listOf || k == oneOrList) && m.Value.Is(jsontree.List):
			for i, item := range m.Value.Items {
				found = append(found, subschema{[]string{m.Key, strconv.Itoa(i)}, item})
			}
		case k != mapOf && k != listOf && isSchema(m.Value):
			found = append(found, subschema{[]string{m.Key}, m.Value})
		}
	}
	return found
}

func isSchema(v *jsontree.Value) bool { return v.Is(jsontree.Object) || v.Is(jsontree.Bool) }
