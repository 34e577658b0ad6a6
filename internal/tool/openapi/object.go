package openapi

import (
	"slices"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// objectSchema is a schema of an object by its properties, references in place.
type objectSchema struct {
	properties []jsontree.Member
	required   map[string]bool // those of the properties that are
	defs       *jsontree.Value // what recursive ones refer to, nil without any
	more       bool            // it checks more than its properties
}

// beside are the keywords that say no more of an object than its properties do. How many properties there are is left
// to the service: arguments that go elsewhere would count too.
var beside = []string{
	"type", "title", "description", "properties", "required", "$defs", "default", "examples", "deprecated", "readOnly",
	"minProperties", "maxProperties",
}

// asObject is a clean schema of an object, parts of an allOf put together where that means the same.
func (m *maker) asObject(o *operation, v *jsontree.Value) (*objectSchema, error) {
	root, err := m.parse(o, &jsontree.Value{Kind: jsontree.Object, Members: slices.Clone(v.Members)})
	if err != nil {
		return nil, err
	}
	s := &objectSchema{properties: members(root.Get("properties")), defs: root.Get("$defs"), required: map[string]bool{}}
	for _, name := range items(root.Get("required")) {
		if root.Get("properties").Get(name.Text) != nil {
			s.required[name.Text] = true
		}
	}
	for _, m := range root.Members {
		closed := (m.Key == "additionalProperties" || m.Key == "unevaluatedProperties") && m.Value.Is(jsontree.Bool) && m.Value.Text == "false"
		s.more = s.more || !closed && !slices.Contains(beside, m.Key)
	}
	return s, nil
}

// takesObjects says whether a schema, references in place, takes objects and nothing else.
func takesObjects(v *jsontree.Value) bool {
	if t := v.Get("type"); t != nil {
		return t.IsText("object")
	}
	if v.Get("properties") != nil {
		return true
	}
	return slices.ContainsFunc(items(v.Get("allOf")), takesObjects)
}

// dropReadOnly takes the properties that only the service sets out of a schema, references in place, and of what it has
// under $defs.
func dropReadOnly(v, defs *jsontree.Value) {
	if names := readOnly(v, defs); len(names) > 0 {
		dropProperties(v, names)
	}
	for _, s := range subschemas(v) {
		dropReadOnly(s, defs)
	}
}

// branches are the schemas that hold for the same value as v.
func branches(v *jsontree.Value) []*jsontree.Value {
	return slices.Concat(items(v.Get("allOf")), items(v.Get("anyOf")), items(v.Get("oneOf")))
}

func readOnly(v, defs *jsontree.Value) []string {
	var names []string
	for _, p := range members(v.Get("properties")) {
		target := p.Value
		if ref := text(p.Value.Get("$ref")); ref != "" {
			target = defs.Get(ref[len("#/$defs/"):])
		}
		if isTrue(p.Value.Get("readOnly")) || isTrue(target.Get("readOnly")) {
			names = append(names, p.Key)
		}
	}
	for _, b := range branches(v) {
		names = append(names, readOnly(b, defs)...)
	}
	return names
}

func dropProperties(v *jsontree.Value, names []string) {
	for _, name := range names {
		if p := v.Get("properties"); p != nil {
			p.Delete(name)
		}
	}
	if required := v.Get("required"); required != nil {
		required.Items = slices.DeleteFunc(required.Items, func(i *jsontree.Value) bool { return slices.Contains(names, i.Text) })
		if len(required.Items) == 0 {
			v.Delete("required")
		}
	}
	for _, b := range branches(v) {
		dropProperties(b, names)
	}
}

// fold puts a reference in the place of each schema below v that is the definition it would refer to, written out: each
// time that a recursive schema is read, it is unrolled by a level.
func fold(v, defs *jsontree.Value) {
	known := map[string]string{}
	for _, d := range members(defs) {
		known[string(d.Value.JSON())] = d.Key
	}
	if len(known) == 0 {
		return
	}
	var below func(v *jsontree.Value)
	below = func(v *jsontree.Value) {
		for _, s := range subschemas(v) {
			below(s) // first, as it may make s equal
			if name, ok := known[string(s.JSON())]; ok {
				*s = *newObject()
				s.Set("$ref", jsontree.Text("#/$defs/"+name))
			}
		}
	}
	below(v)
	for _, d := range members(defs) {
		below(d.Value)
	}
}
