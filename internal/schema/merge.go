package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// targetOf is what v refers to. What can't be found is a fault; ok is false then, and where v refers to nothing.
func (b *builder) targetOf(v *jsontree.Value, c context) (t target, ok bool) {
	if file := b.fileOf(v); file != nil {
		at := b.at(file, c.place, "$file")
		d, err := b.fileDocument(file.Text, at)
		if err != nil {
			b.fail(at, "%v", err)
		}
		if err != nil || d == nil {
			return t, false
		}
		return d.target(), true
	}
	ref := reference(v)
	if ref == nil {
		return t, false
	}
	at := b.at(ref, c.place, "$ref")
	t, err := b.resolve(ref.Text, c.doc)
	if err != nil {
		b.fail(at, "%v", err)
		return t, false
	}
	if t.place.node == nil {
		t.place.node = at.node // a named schema is reported where it is used
	}
	return t, true
}

// body is what stands in the place of a reference to t.
func (b *builder) body(t target, c context) *jsontree.Value {
	g := b.groupOf(t)
	if g == c.group && g.recursive {
		out := &jsontree.Value{Kind: jsontree.Object}
		out.Set("$ref", jsontree.Text("#/$defs/"+escape(b.definition(t))))
		b.places[out] = c.place
		b.bytes += 20
		return out
	}
	if !g.recursive {
		g = c.group
	}
	return b.expand(t.schema, context{doc: t.doc, place: t.place, group: g, depth: c.depth})
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// definition is the name under $defs of the recursive schema t.
func (b *builder) definition(t target) string {
	if name, ok := b.defs[t.schema]; ok {
		return name
	}
	base := strings.Trim(unfit.ReplaceAllString(t.name, "_"), "_")
	if base == "" {
		base = "schema"
	}
	name := base
	for i := 2; b.taken(name); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	b.defs[t.schema] = name
	b.pending = append(b.pending, t)
	return name
}

func (b *builder) taken(name string) bool {
	for _, n := range b.defs {
		if n == name {
			return true
		}
	}
	return false
}

// definitions are the recursive schemas that were referred to, nil when there are none. Making one may refer to more.
func (b *builder) definitions() *jsontree.Value {
	defs := &jsontree.Value{Kind: jsontree.Object}
	for len(b.pending) > 0 {
		t := b.pending[0]
		b.pending = b.pending[1:]
		body := b.expand(t.schema, context{doc: t.doc, place: t.place, group: b.groupOf(t), depth: 1})
		defs.Set(b.defs[t.schema], body)
	}
	if len(defs.Members) == 0 {
		return nil
	}
	return defs
}

// merge is one schema for a reference's target and what stands beside the reference. A title or description beside it
// wins. Checks beside it count since draft 2019-09; before, they were ignored.
func (b *builder) merge(body, beside *jsontree.Value, c context) *jsontree.Value {
	if len(beside.Members) == 0 {
		return body
	}
	if body.Is(jsontree.Bool) || !b.mergeable(body, beside, c.doc.draft) {
		all := &jsontree.Value{Kind: jsontree.List, Items: []*jsontree.Value{body}}
		if more := beside.Get("allOf"); more.Is(jsontree.List) {
			all.Items = append(all.Items, more.Items...)
		}
		beside.Set("allOf", all)
		return beside
	}
	out := &jsontree.Value{Kind: jsontree.Object, Members: slices.Clone(body.Members)}
	b.places[out] = b.places[body]
	for _, m := range beside.Members {
		if annotations[m.Key] || c.doc.draft >= 2019 {
			out.Set(m.Key, m.Value)
		}
	}
	return out
}

// mergeable says whether the members of beside mean the same among those of body.
func (b *builder) mergeable(body, beside *jsontree.Value, draft int) bool {
	if draft < 2019 || body.Get("$ref") != nil {
		return true
	}
	for _, m := range beside.Members {
		if annotations[m.Key] {
			continue
		}
		if !alone[m.Key] || body.Get(m.Key) != nil {
			return false
		}
	}
	return true
}

// nullable is v with null among its values: the `nullable: true` of OpenAPI 3.0.
func (b *builder) nullable(v *jsontree.Value) *jsontree.Value {
	combined := false
	for _, k := range []string{"anyOf", "oneOf", "allOf", "not", "if", "const", "$ref"} {
		combined = combined || v.Get(k) != nil
	}
	if combined {
		return b.orNull(v)
	}
	if t := v.Get("type"); t != nil && !hasText(t, "null") {
		list := &jsontree.Value{Kind: jsontree.List, Items: t.Items}
		if t.Is(jsontree.String) {
			list.Items = []*jsontree.Value{t}
		}
		list.Items = append(slices.Clip(list.Items), jsontree.Text("null"))
		b.places[list] = b.places[t]
		v.Set("type", list)
	}
	if e := v.Get("enum"); e.Is(jsontree.List) && !slices.ContainsFunc(e.Items, func(i *jsontree.Value) bool { return i.Is(jsontree.Null) }) {
		list := &jsontree.Value{Kind: jsontree.List, Items: append(slices.Clip(e.Items), &jsontree.Value{})}
		b.places[list] = b.places[e]
		v.Set("enum", list)
	}
	return v
}

// orNull is v or null, with what describes it outside.
func (b *builder) orNull(v *jsontree.Value) *jsontree.Value {
	out := &jsontree.Value{Kind: jsontree.Object}
	inner := &jsontree.Value{Kind: jsontree.Object}
	null := &jsontree.Value{Kind: jsontree.Object}
	null.Set("type", jsontree.Text("null"))
	for _, m := range v.Members {
		if annotations[m.Key] {
			out.Members = append(out.Members, m)
		} else {
			inner.Members = append(inner.Members, m)
		}
	}
	out.Set("anyOf", &jsontree.Value{Kind: jsontree.List, Items: []*jsontree.Value{inner, null}})
	for _, made := range []*jsontree.Value{out, inner, null} {
		b.places[made] = b.places[v]
	}
	return out
}

// hasText says whether v is the string s, or a list with it.
func hasText(v *jsontree.Value, s string) bool {
	return v.IsText(s) || v.Is(jsontree.List) && slices.ContainsFunc(v.Items, func(i *jsontree.Value) bool { return i.IsText(s) })
}
