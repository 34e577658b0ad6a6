package schema

import (
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// isWhole says whether a mapping is a JSON Schema, and not the short form, whose keys are the names of properties. A
// property may be called type or properties, but its schema is no word for an object and no list.
func isWhole(v *jsontree.Value) bool {
	for _, m := range v.Members {
		switch m.Key {
		case "type":
			word := m.Value
			if word.Is(jsontree.String) && strings.EqualFold(word.Text, "object") || word.Is(jsontree.List) {
				return true
			}
		case "$ref", "$file":
			if m.Value.Is(jsontree.String) {
				return true
			}
		case "oneOf", "anyOf", "allOf":
			if m.Value.Is(jsontree.List) {
				return true
			}
		}
	}
	return forgotType(v)
}

// forgotType recognizes a whole schema without `type: object`: it has properties and otherwise nothing but keywords
// that stand beside them. As the short form it would have one strange parameter called properties.
func forgotType(v *jsontree.Value) bool {
	properties := v.Get("properties")
	if !properties.Is(jsontree.Object) || properties.Get("type").Is(jsontree.String) {
		return false
	}
	for _, m := range v.Members {
		switch m.Key {
		case "properties", "$schema", "$id", "$defs", "definitions":
		case "required":
			if !m.Value.Is(jsontree.List) {
				return false
			}
		case "additionalProperties":
			if !m.Value.Is(jsontree.Bool) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// whole is the JSON Schema that the short form v stands for.
func (b *builder) whole(v *jsontree.Value, at place) *jsontree.Value {
	properties := b.made(jsontree.Object, at)
	required := b.made(jsontree.List, at)
	for _, m := range v.Members {
		below := b.at(m.Value, at, m.Key)
		property, optional := b.property(m.Value, below)
		properties.Members = append(properties.Members, jsontree.Member{Key: m.Key, Value: property})
		if !optional {
			required.Items = append(required.Items, jsontree.Text(m.Key))
		}
	}
	out := b.made(jsontree.Object, at)
	out.Set("type", jsontree.Text("object"))
	out.Set("properties", properties)
	if len(required.Items) > 0 {
		out.Set("required", required)
	}
	return out
}

// property is the schema of one entry of the short form, and whether it may be absent.
func (b *builder) property(v *jsontree.Value, at place) (_ *jsontree.Value, optional bool) {
	out := b.made(jsontree.Object, at)
	switch {
	case v.Is(jsontree.String):
		t, optional := b.typeOrNull(v, at)
		out.Set("type", t)
		return out, optional
	case v.Is(jsontree.Bool):
		return v, false
	case !v.Is(jsontree.Object):
		b.fail(at, "want a type such as string, or a schema such as {type: string}, got %v", v.Kind)
		return out, false
	}
	for _, m := range v.Members {
		below := b.at(m.Value, at, m.Key)
		switch {
		case m.Key == "optional" && m.Value.Is(jsontree.Bool):
			optional = optional || m.Value.Text == "true"
			continue
		case m.Key == "optional":
			b.fail(below, "want true or false, got %v", m.Value.Kind)
			continue
		case m.Key == "default":
			optional = true
		case m.Key == "type" && m.Value.Is(jsontree.String):
			t, may := b.typeOrNull(m.Value, below)
			m.Value, optional = t, optional || may
		}
		out.Members = append(out.Members, m)
	}
	return out, optional
}

// typeOrNull reads "string" and "string?", which may be absent and may be null.
func (b *builder) typeOrNull(v *jsontree.Value, at place) (_ *jsontree.Value, optional bool) {
	word, optional := strings.CutSuffix(v.Text, "?")
	if !optional {
		return v, false
	}
	t := jsontree.Texts(word, "null")
	for _, made := range append(t.Items, t) {
		b.places[made] = at
	}
	return t, true
}

func (b *builder) made(kind jsontree.Kind, at place) *jsontree.Value {
	v := &jsontree.Value{Kind: kind}
	b.places[v] = at
	return v
}
