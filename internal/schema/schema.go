// Package schema is the JSON Schema of a tool's parameters: it reads the forms that a file or a foreign server gives
// one in, makes the self-contained schema that a model sees, and holds the arguments of calls against it, first
// leniently (Coerce, FillDefaults), then strictly (Validate).
//
// The way of a schema: a builder reads it into a jsontree.Value, expands that (references in place, habits of OpenAPI
// and of older drafts gone), checks and compiles the result with github.com/santhosh-tekuri/jsonschema, and makes the
// form that coercion and defaults walk along.
package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// Schema is a compiled parameter schema. It is immutable and for use by many goroutines.
type Schema struct {
	root     *jsontree.Value // self-contained; references only to '#/$defs/NAME', and only recursive ones
	hidden   []string
	shown    json.RawMessage // root without what is hidden
	form     *form
	compiled *jsonschema.Schema
	cost     *cost
	warnings []string
}

// FromNode reads the parameters of a tool from the file, in any form that it may have there: nothing or {} (no
// parameters), `text` (one string of that name), the short form (a mapping of properties), a whole JSON Schema,
// {$ref: '#/schemas/NAME'} and {$file: PATH}, relative to the file's folder. named are the schemas that $ref may name.
//
// What is wrong is reported to n or, where that is known, to the node that is wrong; FromNode then returns nil. A
// pattern that Go's regexp can't check and a default that its own schema refuses are wrong, too.
func FromNode(n *config.Node, named map[string]json.RawMessage) *Schema {
	if n.Kind() == config.Null {
		return empty()
	}
	b := newBuilder(n, named)
	root := b.read(n)
	at := place{node: n}
	switch {
	case root.IsText("text"):
		text := b.made(jsontree.Object, at)
		text.Set("text", jsontree.Text("string"))
		b.places[text.Get("text")] = at
		root = b.whole(text, at)
	case !root.Is(jsontree.Object):
		b.fail(at, "want a mapping of parameters, a JSON Schema or the word text, got %v", root.Kind)
		return nil
	case !isWhole(root):
		root = b.whole(root, at)
	}
	return b.finish(root, at)
}

// Parse reads a schema that came from elsewhere: an MCP server, an OpenAPI document, a client. It must describe an
// object. References are followed within raw only. What the author alone could mend is left out where the schema works
// without, and Warnings says so: patterns that Go's regexp can't check, defaults that their own schema refuses. The
// error names all other faults.
func Parse(raw json.RawMessage) (*Schema, error) {
	const most = 1 << 20
	if len(raw) > most {
		return nil, errors.New("the schema is larger than 1 MiB")
	}
	root, err := jsontree.Parse(raw)
	if err != nil {
		return nil, err
	}
	switch {
	case root.Is(jsontree.Null) || root.Is(jsontree.Bool) && root.Text == "true":
		return empty(), nil
	case !root.Is(jsontree.Object):
		return nil, errors.New("a schema is an object, got " + root.Kind.String())
	}
	b := newBuilder(nil, nil)
	s := b.finish(root, place{})
	if s == nil {
		return nil, errors.New(strings.Join(b.faults, "; "))
	}
	return s, nil
}

// Named reads the mapping of named schemas, each a whole JSON Schema of any type, and reports what is wrong with them
// to their nodes. What it returns is what FromNode takes; faulty ones are in it, so that who refers to one is not told
// that it does not exist.
func Named(n *config.Node) map[string]json.RawMessage {
	named := map[string]json.RawMessage{}
	for _, name := range n.Keys() {
		named[name] = n.Get(name).JSON()
	}
	for _, name := range n.Keys() {
		b := newBuilder(n, named)
		at := place{node: n.Get(name)}
		root := b.read(at.node)
		if !isSchema(root) {
			b.fail(at, "want a JSON Schema, got %v", root.Kind)
			continue
		}
		b.check(b.build(root, at), at)
	}
	return named
}

// empty is the schema of a tool without parameters.
func empty() *Schema {
	root := &jsontree.Value{Kind: jsontree.Object}
	root.Set("type", jsontree.Text("object"))
	root.Set("properties", &jsontree.Value{Kind: jsontree.Object})
	return newBuilder(nil, nil).finish(root, place{})
}

// finish makes the Schema of parameters, nil after a fault.
func (b *builder) finish(root *jsontree.Value, at place) *Schema {
	out := b.object(b.build(root, at), at)
	compiled := b.check(out, at)
	if b.faulty {
		return nil
	}
	s := &Schema{root: out, shown: out.JSON(), compiled: compiled, warnings: b.warnings}
	s.form, s.cost = newForm(out)
	if s.cost == nil {
		b.fail(at, "the schema refers to itself in too many ways to be checked")
		return nil
	}
	return s
}

// build is root with everything it needs in it.
func (b *builder) build(root *jsontree.Value, at place) *jsontree.Value {
	d := b.newDocument("root", root, at)
	t := d.target()
	c := context{doc: d, place: at}
	if g := b.groupOf(t); g.recursive {
		c.group = g
	}
	out := b.expand(root, c)
	if defs := b.definitions(); defs != nil {
		out.Set("$defs", defs)
	}
	return out
}

// object is the top of a parameter schema as all providers take it: `type: object` and `properties`, and no allOf
// where the parts can be put together.
func (b *builder) object(v *jsontree.Value, at place) *jsontree.Value {
	if v.Is(jsontree.Bool) {
		b.fail(at, "parameters must be an object")
		return v
	}
	if t := v.Get("type"); t == nil {
		v.Members = slices.Insert(v.Members, 0, jsontree.Member{Key: "type", Value: jsontree.Text("object")})
	} else if hasText(t, "object") {
		v.Set("type", jsontree.Text("object"))
	} else {
		b.fail(b.at(t, at, "type"), "parameters must be an object: want the type object")
		return v
	}
	flatten(v)
	if v.Get("properties") == nil {
		i := slices.IndexFunc(v.Members, func(m jsontree.Member) bool { return m.Key == "type" })
		v.Members = slices.Insert(v.Members, i+1, jsontree.Member{Key: "properties", Value: &jsontree.Value{Kind: jsontree.Object}})
	}
	return v
}

// flatten puts the parts of an allOf into v, where that means the same: they are objects with properties of their own
// and nothing else that is checked.
func flatten(v *jsontree.Value) {
	parts := v.Get("allOf")
	if !parts.Is(jsontree.List) || v.Get("additionalProperties") != nil {
		return
	}
	properties := &jsontree.Value{Kind: jsontree.Object}
	required := &jsontree.Value{Kind: jsontree.List}
	for _, part := range append([]*jsontree.Value{v}, parts.Items...) {
		if part != v && !plainObject(part) {
			return
		}
		for _, m := range members(part.Get("properties")) {
			if properties.Get(m.Key) != nil {
				return
			}
			properties.Set(m.Key, m.Value)
		}
		for _, name := range items(part.Get("required")) {
			if !hasText(required, name.Text) {
				required.Items = append(required.Items, name)
			}
		}
	}
	if v.Get("properties") == nil {
		i := slices.IndexFunc(v.Members, func(m jsontree.Member) bool { return m.Key == "allOf" })
		v.Members[i].Key = "properties"
	}
	v.Delete("allOf")
	v.Set("properties", properties)
	if len(required.Items) > 0 {
		v.Set("required", required)
	}
}

// plainObject says whether v checks nothing but the properties of an object.
func plainObject(v *jsontree.Value) bool {
	for _, m := range members(v) {
		switch m.Key {
		case "title", "description", "properties", "required":
		case "type":
			if !m.Value.IsText("object") {
				return false
			}
		default:
			return false
		}
	}
	return v.Is(jsontree.Object)
}

func members(v *jsontree.Value) []jsontree.Member {
	if v == nil {
		return nil
	}
	return v.Members
}

func items(v *jsontree.Value) []*jsontree.Value {
	if v == nil {
		return nil
	}
	return v.Items
}

// JSON is what the model sees: self-contained, always with `type: object` and `properties`, in the order of the file,
// <, > and & as they are. The slice is the Schema's own.
func (s *Schema) JSON() json.RawMessage { return s.shown }

// Warnings is what Parse left out of a foreign schema, a line each.
func (s *Schema) Warnings() []string { return s.warnings }

// Properties are the names of the parameters in the order of the file, hidden ones and those that only a branch of an
// anyOf has among them.
func (s *Schema) Properties() []string {
	var names []string
	for _, f := range everywhere([]*form{s.form}) {
		for _, p := range f.properties {
			if !slices.Contains(names, p.name) {
				names = append(names, p.name)
			}
		}
	}
	return names
}

// Optional says whether a call may lack the parameter. A name that is no parameter is optional.
func (s *Schema) Optional(name string) bool {
	for _, f := range always([]*form{s.form}) {
		if f.required[name] {
			return false
		}
	}
	return true
}

// Property is the schema of one parameter, nil when there is none of that name. It may refer to the $defs of JSON where
// it is recursive. Where several parts of the schema know the parameter, it is the first one's word.
func (s *Schema) Property(name string) json.RawMessage {
	for _, f := range everywhere([]*form{s.form}) {
		if p := f.property(name); p != nil {
			return p.schema.JSON()
		}
	}
	return nil
}
