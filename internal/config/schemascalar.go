package config

import (
	"encoding/json"
	"reflect"
	"slices"
)

// What a text in the file may be so that a scalar of another kind comes of it.
const (
	substituted     = `\$\{`
	durationPattern = `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$|\$\{`
	sizePattern     = `^[0-9]+(\.[0-9]+)?(B|[KMGT]i?B)?$|\$\{`
)

// scalarSchema adds to s what a scalar of type t may be.
func scalarSchema(s *object, t reflect.Type, f field) *object {
	switch {
	case t == typeDuration:
		return s.set("type", []string{"string", "integer"}).set("pattern", durationPattern).
			set("minimum", 0).set("maximum", 0) // the integer: only 0 needs no unit
	case t == typeSize:
		return s.set("type", []string{"string", "integer"}).set("pattern", sizePattern).set("minimum", 0)
	case t.Kind() == reflect.Bool:
		return s.set("type", []string{"boolean", "string"}).set("pattern", substituted)
	case t.Kind() == reflect.String:
		s.set("type", "string")
		if values := f.supported(); values != nil {
			s.set("anyOf", []*object{
				new(object).set("enum", values),
				new(object).set("pattern", substituted),
			})
		}
		return s
	case t.Kind() == reflect.Float32, t.Kind() == reflect.Float64:
		s.set("type", []string{"number", "string"})
	default:
		s.set("type", []string{"integer", "string"})
	}
	if f.min != "" {
		s.set("minimum", json.Number(f.min))
	} else if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		s.set("minimum", 0)
	}
	return s.set("pattern", substituted)
}

// supported is the enum without the values that are for later.
func (f field) supported() []string {
	if f.enum == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.enum), f.refuses)
}

// setDefault sets the default, if it is one that the type does not have by itself.
func (o *object) setDefault(v reflect.Value) *object {
	switch {
	case v.IsZero(), v.Kind() == reflect.Slice && v.Len() == 0, v.Type() == typeSecret:
		return o
	}
	return o.set("default", v.Interface())
}
