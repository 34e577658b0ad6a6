package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// SchemaOptions tunes Schema.
type SchemaOptions struct {
	Title, ID string
	// Override replaces the schema of a value by anything that marshals to a JSON Schema. Its keys are dotted paths, in
	// which * is any key of a Map and any item of a list: "tools", "upstreams.*.kind".
	Override map[string]any
}

// Schema is a JSON Schema (2020-12) of the files that decode into root, a struct or a pointer to one: for editors. It
// is the same each time, keys in the order of the fields. Descriptions are from doc tags, defaults from SetDefaults, a
// type's own schema from its method ConfigSchema() any.
//
// It takes ${...} wherever the reader does. It is stricter in two things, both worth a hint in an editor: null for
// "not set", and numbers and booleans where a text is wanted.
func Schema(root any, opts SchemaOptions) json.RawMessage {
	var head object
	head.set("$schema", "https://json-schema.org/draft/2020-12/schema")
	if opts.ID != "" {
		head.set("$id", opts.ID)
	}
	if opts.Title != "" {
		head.set("title", opts.Title)
	}
	return head.and(schemaOf(root, opts.Override)).json()
}

// SchemaOf is the schema of v's type to be used inside another, such as by a ConfigSchema that describes a shorthand
// beside the whole struct. To keep clear of v's own ConfigSchema, give it a type without methods.
func SchemaOf(v any) json.RawMessage { return schemaOf(v, nil).json() }

func schemaOf(v any, override map[string]any) *object {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	w := schemaWriter{override: override}
	fresh := reflect.New(t).Elem()
	setDefaults(fresh, true)
	return w.value(fresh, "", field{})
}

type schemaWriter struct {
	override map[string]any
	open     []reflect.Type // structs around the present value
}

// value is the schema of v, whose content is the default.
func (w *schemaWriter) value(v reflect.Value, path string, f field) *object {
	s := &object{}
	if f.doc != "" {
		s.set("description", f.doc)
	}
	if own, ok := w.override[path]; ok && path != "" {
		return parseObject(own).and(s)
	}
	if f.later == "*" {
		return s.set("description", trimJoin(f.doc, "Not supported yet.")).set("not", &object{})
	}
	t := v.Type()
	if own, ok := reflect.TypeAssert[interface{ ConfigSchema() any }](v.Addr()); ok {
		return s.and(parseObject(own.ConfigSchema()))
	}
	if m, ok := reflect.TypeAssert[interface{ element() reflect.Type }](v.Addr()); ok {
		return s.set("type", "object").set("additionalProperties", w.fresh(m.element(), join(path, "*"), field{}))
	}
	switch {
	case t == typeNode, t == typeRaw:
		return s
	case t.Kind() == reflect.Pointer:
		return w.fresh(t.Elem(), path, f)
	case decodesItself(v) || slices.Contains(w.open, t):
		return s // anything: what it takes is not to be seen from its fields, or has no end
	case t.Kind() == reflect.Slice:
		return s.set("type", "array").set("items", w.fresh(t.Elem(), join(path, "*"), f.ofItem())).
			setDefault(v)
	case t.Kind() == reflect.Struct:
		return w.structure(s, v, path)
	default:
		return scalarSchema(s, t, f).setDefault(v)
	}
}

// fresh is the schema of an element, which is made when the file has one.
func (w *schemaWriter) fresh(t reflect.Type, path string, f field) *object {
	v := reflect.New(t).Elem()
	setDefaults(v, true)
	return w.value(v, path, f)
}

func (w *schemaWriter) structure(s *object, v reflect.Value, path string) *object {
	w.open = append(w.open, v.Type())
	defer func() { w.open = w.open[:len(w.open)-1] }()
	var properties object
	for _, f := range fieldsOf(v.Type()) {
		properties.set(f.name, w.value(v.FieldByIndex(f.index), join(path, f.name), f))
	}
	return s.set("type", "object").set("properties", &properties).set("additionalProperties", false)
}

// ofItem is the field for the items of its list: its tags, without what is said of the list as a whole.
func (f field) ofItem() field { return field{enum: f.enum, min: f.min, later: f.later} }

func decodesItself(v reflect.Value) bool {
	_, ok := reflect.TypeAssert[interface{ DecodeNode(*Node) }](v.Addr())
	return ok
}

func trimJoin(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// parseObject is a schema from elsewhere. true and false are the schemas that take anything and nothing.
func parseObject(v any) *object {
	raw := encode(v)
	s, err := readObject(raw)
	switch {
	case err == nil:
		return s
	case string(raw) == "true":
		return &object{}
	case string(raw) == "false":
		return new(object).set("not", &object{})
	}
	panic(fmt.Sprintf("config: %s is no JSON Schema", raw))
}
