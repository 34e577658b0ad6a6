package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// holds is what stands under a keyword of a schema.
type holds uint8

const (
	data      holds = iota + 1 // a plain value
	prose                      // a text for people
	sample                     // a plain value that the schema works without
	aSchema                    // one schema
	listOf                     // a list of schemas
	mapOf                      // an object whose values are schemas
	oneOrList                  // a schema or a list of them
)

// keywords are those that are kept of a schema: what JSON Schema checks or models read. The others are notes, vendor
// extensions and what this gateway has a meaning of its own for ($file, which would have it read a file).
var keywords = map[string]holds{
	"type": data, "enum": data, "const": data, "format": data, "nullable": data, "readOnly": data, "deprecated": data,
	"minimum": data, "maximum": data, "exclusiveMinimum": data, "exclusiveMaximum": data, "multipleOf": data,
	"minLength": data, "maxLength": data, "pattern": data, "contentEncoding": data, "contentMediaType": data,
	"minItems": data, "maxItems": data, "uniqueItems": data, "minContains": data, "maxContains": data,
	"minProperties": data, "maxProperties": data, "required": data, "dependentRequired": data,
	"title": prose, "description": prose,
	"default": sample, "examples": sample,
	"additionalProperties": aSchema, "unevaluatedProperties": aSchema, "propertyNames": aSchema,
	"unevaluatedItems": aSchema, "contains": aSchema, "not": aSchema, "if": aSchema, "then": aSchema, "else": aSchema,
	"allOf": listOf, "anyOf": listOf, "oneOf": listOf, "prefixItems": listOf,
	"properties": mapOf, "patternProperties": mapOf, "dependentSchemas": mapOf,
	"items": oneOrList,
}

// cleaner makes schemas of a document ready to stand alone. A reference becomes one to $defs; what they refer to is
// kept by name, and with picks out of it what a schema needs.
type cleaner struct {
	doc   *document
	scrub scrubber

	named map[*jsontree.Value]string // the names of what was referred to
	defs  map[string]*definition
}

// definition is a schema that was referred to.
type definition struct {
	schema *jsontree.Value
	uses   []string // the definitions that it refers to itself
	size   int      // as JSON
	err    error
}

// maxClosure is how large a schema may be with all that it refers to, as JSON, before references are put in place.
const maxClosure = 1 << 20

// schema is v made clean. It shares nothing with v that anyone changes.
func (c *cleaner) schema(v *jsontree.Value) (*jsontree.Value, error) {
	b := &cleaning{cleaner: c, home: v}
	out := b.clean(v)
	return out, b.err
}

// cleaning is the making of one schema.
type cleaning struct {
	*cleaner
	home *jsontree.Value
	uses []string
	err  error // the first
}

func (b *cleaning) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

func (b *cleaning) clean(v *jsontree.Value) *jsontree.Value {
	out := newObject()
	switch {
	case v == nil || v.Is(jsontree.Null): // `schema:` and nothing behind it
		return out
	case v.Is(jsontree.Bool):
		return v
	case !v.Is(jsontree.Object):
		b.fail("a schema is an object, got %v", v.Kind)
		return out
	}
	if ref := v.Get("$ref"); ref.Is(jsontree.String) {
		if name := b.reference(ref.Text); name != "" {
			out.Set("$ref", jsontree.Text("#/$defs/"+name))
		}
	}
	for _, m := range v.Members {
		if value := b.keyword(m.Key, m.Value); value != nil {
			out.Members = append(out.Members, jsontree.Member{Key: m.Key, Value: value})
		}
	}
	return out
}

// keyword is what stands under a keyword made clean, nil where it is left out.
func (b *cleaning) keyword(key string, v *jsontree.Value) *jsontree.Value {
	switch keywords[key] {
	case prose:
		if !v.Is(jsontree.String) {
			return nil
		}
		return jsontree.Text(b.scrub.words(v.Text))
	case sample:
		if key == "examples" && !v.Is(jsontree.List) || b.scrub.tells(v) {
			return nil
		}
		return v
	case data:
		if key == "required" && !v.Is(jsontree.List) {
			return nil // as Swagger and old drafts have it
		}
		return v
	case aSchema:
		return b.clean(v)
	case oneOrList:
		if v.Is(jsontree.List) {
			return b.list(v)
		}
		return b.clean(v)
	case listOf:
		return b.list(v)
	case mapOf:
		out := newObject()
		for _, m := range members(v) {
			out.Members = append(out.Members, jsontree.Member{Key: m.Key, Value: b.clean(m.Value)})
		}
		return out
	default:
		return nil
	}
}

func (b *cleaning) list(v *jsontree.Value) *jsontree.Value {
	out := &jsontree.Value{Kind: jsontree.List}
	for _, item := range items(v) {
		out.Items = append(out.Items, b.clean(item))
	}
	return out
}

// reference is the name of the definition that ref means. It is made where it is met for the first time.
func (b *cleaning) reference(ref string) string {
	target, err := b.doc.find(ref, b.home)
	if err != nil {
		b.fail("%w", err)
		return ""
	}
	name, known := b.named[target]
	if !known {
		name = b.newName(ref)
		b.named[target] = name
		d := &definition{}
		b.defs[name] = d // before it is made, as it may refer to itself
		inner := &cleaning{cleaner: b.cleaner, home: target}
		d.schema = inner.clean(target)
		d.uses, d.err = inner.uses, inner.err
		d.size = len(d.schema.JSON())
	}
	if !slices.Contains(b.uses, name) {
		b.uses = append(b.uses, name)
	}
	return name
}

// newName is the last part of a reference, which people know the schema by.
func (c *cleaner) newName(ref string) string {
	base := toolName(ref[strings.LastIndexAny(ref, "/#")+1:])
	name := base
	for i := 2; c.defs[name] != nil || name == ""; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	return name
}

// described is a schema with the description of the parameter that it is of, which says more than its own.
func (c *cleaner) described(v, parameter *jsontree.Value) *jsontree.Value {
	out := newObject()
	if v.Is(jsontree.Object) {
		out.Members = slices.Clone(v.Members)
	}
	if d := parameter.Get("description"); d.Is(jsontree.String) && d.Text != "" {
		out.Set("description", jsontree.Text(c.scrub.words(d.Text)))
	}
	if isTrue(parameter.Get("deprecated")) {
		out.Set("deprecated", jsontree.Boolean(true))
	}
	return out
}

// with adds to root, a schema, the definitions that it needs. Those that it has under $defs stay.
func (c *cleaner) with(root *jsontree.Value) error {
	defs := root.Get("$defs")
	if defs == nil {
		defs = newObject()
	}
	size := 0
	open := references(root)
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		d := c.defs[name]
		if d == nil || defs.Get(name) != nil {
			continue
		}
		if d.err != nil {
			return fmt.Errorf("schema %s: %w", name, d.err)
		}
		if size += d.size; size > maxClosure {
			return errors.New("the schema is larger than 1 MiB with all that it refers to")
		}
		defs.Set(name, d.schema)
		open = append(open, d.uses...)
	}
	if len(defs.Members) > 0 {
		root.Set("$defs", defs)
	}
	return nil
}

// references are the names of the definitions that a clean schema refers to outside of its $defs.
func references(v *jsontree.Value) []string {
	var names []string
	if ref := v.Get("$ref"); ref.Is(jsontree.String) {
		names = append(names, strings.TrimPrefix(ref.Text, "#/$defs/"))
	}
	for _, s := range subschemas(v) {
		names = append(names, references(s)...)
	}
	return names
}

// subschemas are the schemas directly in v.
func subschemas(v *jsontree.Value) []*jsontree.Value {
	var found []*jsontree.Value
	for _, m := range members(v) {
		switch keywords[m.Key] {
		case aSchema, oneOrList, listOf:
			if m.Value.Is(jsontree.List) {
				found = append(found, m.Value.Items...)
			} else {
				found = append(found, m.Value)
			}
		case mapOf:
			for _, p := range members(m.Value) {
				found = append(found, p.Value)
			}
		default:
		}
	}
	return found
}

// parse reads a clean schema of an object, whose definitions are added, and collects what had to be dropped of it.
func (m *maker) parse(o *operation, root *jsontree.Value) (*jsontree.Value, error) {
	if err := m.clean.with(root); err != nil {
		return nil, err
	}
	s, err := schema.Parse(root.JSON())
	if err != nil {
		return nil, errors.New(cut(err.Error(), 300))
	}
	for _, w := range s.Warnings() {
		m.warnings.add(o, "%s", cut(strings.TrimPrefix(w, "$defs."), 300))
	}
	return jsontree.Parse(s.JSON())
}

// kinds is a set of kinds of values, as far as they matter to how a parameter is written.
type kinds uint8

const (
	isLone kinds = 1 << iota
	isList
	isObject
)

// kindsOf are the kinds of values that a schema of the document takes, null aside. What says nothing is lone.
func (m *maker) kindsOf(v *jsontree.Value, depth int) kinds {
	if ref := v.Get("$ref"); ref.Is(jsontree.String) {
		next := m.clean.lookUp(ref.Text)
		if next == nil || depth > maxHops {
			return isLone
		}
		return m.kindsOf(next, depth+1)
	}
	found := kinds(0)
	types := append(slices.Clip(items(v.Get("type"))), v.Get("type"))
	for _, t := range types {
		switch strings.ToLower(text(t)) {
		case "", "null":
		case "array":
			found |= isList
		case "object":
			found |= isObject
		default:
			found |= isLone
		}
	}
	if found == 0 && depth < maxHops {
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			for _, branch := range items(v.Get(key)) {
				if !branch.Get("type").IsText("null") {
					found |= m.kindsOf(branch, depth+1)
				}
			}
		}
	}
	switch {
	case found != 0:
	case v.Get("properties") != nil || v.Get("additionalProperties").Is(jsontree.Object):
		return isObject
	case v.Get("items") != nil || v.Get("prefixItems") != nil:
		return isList
	default:
		return isLone
	}
	return found
}

// lookUp is what a reference means, be it of the document or to a definition; nil where it means nothing.
func (c *cleaner) lookUp(ref string) *jsontree.Value {
	if d := c.defs[strings.TrimPrefix(ref, "#/$defs/")]; d != nil {
		return d.schema
	}
	v, err := c.doc.find(ref, nil)
	if err != nil {
		return nil
	}
	return v
}
