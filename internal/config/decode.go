package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/suggest"
)

// Decode fills v, a pointer, from the value; every fault is reported at its place. It takes strings, booleans,
// numbers, Duration, Size, Secret, structs, slices, Map, *Node and json.RawMessage (as they are), and pointers to
// these, which stay nil where the file has nothing.
//
// A struct takes the keys in the yaml tags of its fields and no other. Further tags: doc (for Schema), enum ("a,b"),
// min ("1", "1ms"), later ("*": the key is refused as not supported yet; "x,y": only these values are). A struct with
// `yaml:",inline"` gives its keys to the one around it. Null is as absent, but as an item of a list or a Map.
//
// Methods of a pointer to a type take part:
//
//   - SetDefaults() before decoding, inner structs first. One inside a struct keeps what was set in it already.
//   - DecodeNode(n *Node) decodes in place of all this; it may call n.Decode on its own receiver for the usual way.
//   - Check(n *Node) after decoding, for what concerns several fields; also where a field had a fault, but what it
//     says of a value that is known to be bad is dropped.
func (n *Node) Decode(v any) {
	p := pointer(v)
	if n != nil && n.doc.file.active[v] {
		n.structure(p.Elem(), nil)
		return
	}
	setDefaults(p.Elem(), true)
	if n.Kind() != Null {
		n.decode(p.Elem(), field{})
	}
}

// DecodeKnown is Decode for a struct that is one reader of a mapping among others: the keys in also are known to the
// caller and left alone.
func (n *Node) DecodeKnown(v any, also ...string) {
	p := pointer(v)
	if n != nil && n.doc.file.active[v] {
		n.structure(p.Elem(), also)
		return
	}
	setDefaults(p.Elem(), true)
	if n.Kind() == Null || !n.want(Mapping) {
		return
	}
	n.structure(p.Elem(), also)
	n.check(p.Elem())
}

func pointer(v any) reflect.Value {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		panic(fmt.Sprintf("config: Decode wants a pointer, got %T", v))
	}
	return p
}

// setDefaults calls SetDefaults of a value and, before it, of the fields of a struct. An inner value that is not zero
// has had it called, or was set by the outer one.
func setDefaults(v reflect.Value, outer bool) {
	if !outer && !v.IsZero() {
		return
	}
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if _, tagged := v.Type().Field(i).Tag.Lookup("yaml"); tagged {
				setDefaults(v.Field(i), false)
			}
		}
	}
	if !v.Addr().CanInterface() {
		return
	}
	if d, ok := reflect.TypeAssert[interface{ SetDefaults() }](v.Addr()); ok {
		d.SetDefaults()
	}
}

var (
	typeNode = reflect.TypeFor[*Node]()
	typeRaw  = reflect.TypeFor[json.RawMessage]()
)

// decode sets v, whose defaults are in place, from a value that is not Null.
func (n *Node) decode(v reflect.Value, f field) {
	switch v.Type() {
	case typeNode:
		v.Set(reflect.ValueOf(n))
		return
	case typeRaw:
		v.Set(reflect.ValueOf(n.JSON()))
		return
	}
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		setDefaults(p.Elem(), true)
		n.decode(p.Elem(), f)
		v.Set(p)
		return
	}
	if d, ok := reflect.TypeAssert[interface{ DecodeNode(*Node) }](v.Addr()); ok {
		active := n.doc.file.active
		active[d] = true
		d.DecodeNode(n)
		delete(active, d)
		n.check(v)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if n.wantKeys(v) {
			n.structure(v, nil)
			n.check(v)
		}
	case reflect.Slice:
		n.slice(v, f)
	default:
		n.scalar(v, f)
	}
}

// check calls Check of v, and before it of the inline structs in it.
func (n *Node) check(v reflect.Value) {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if inline(v.Type().Field(i)) {
				n.check(v.Field(i))
			}
		}
	}
	if !v.Addr().CanInterface() {
		return
	}
	if c, ok := reflect.TypeAssert[interface{ Check(*Node) }](v.Addr()); ok {
		c.Check(n)
	}
}

// structure decodes a mapping into the fields of a struct, and reports keys that neither it nor the caller knows.
func (n *Node) structure(v reflect.Value, also []string) {
	if v.Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: want a struct, got %s", v.Type()))
	}
	if !n.want(Mapping) {
		return
	}
	fields := fieldsOf(v.Type())
	for _, c := range n.children {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == c.key })
		switch {
		case i >= 0:
			c.entry(v.FieldByIndex(fields[i].index), fields[i])
		case !slices.Contains(also, c.key):
			n.unknown(c.key, fields, also)
		}
	}
}

// wantKeys is want(Mapping) for a struct, of which it says what may stand in it.
func (n *Node) wantKeys(v reflect.Value) bool {
	if n.kind == Mapping {
		return true
	}
	var known []string
	for _, f := range fieldsOf(v.Type()) {
		known = append(known, f.name)
	}
	hint := ""
	if len(known) > 0 && len(known) <= 12 {
		hint = ": its keys are " + strings.Join(known, ", ")
	}
	n.failBad("want a mapping, got %s%s", n.show(), hint)
	return false
}

// entry decodes the value of a struct's key.
func (n *Node) entry(v reflect.Value, f field) {
	if n.kind == Null {
		return
	}
	if f.later == "*" {
		n.doc.file.reportBad(n.parent.keyProblem(n.key, "not supported yet"))
		return
	}
	n.decode(v, f)
}

// unknown reports a key that nobody takes.
func (n *Node) unknown(key string, fields []field, also []string) {
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
	}
	if len(also) > 0 {
		known = append(known, also...)
		slices.Sort(known) // so that several readers of a mapping say the same, which is then shown once
	}
	message := fmt.Sprintf("unknown key %q", key)
	if near := suggest.Nearest(key, known, 1); len(near) > 0 {
		message += fmt.Sprintf(": did you mean %q?", near[0])
		n.doc.file.misspelt[place{n.doc.name, join(n.Path(), near[0])}] = true
	} else if before := n.emptyBefore(key); before != "" {
		message += fmt.Sprintf(": %s before it has no value: indent what belongs into it", before)
	} else if len(known) > 0 && len(known) <= 12 {
		message += ": the known keys are " + strings.Join(known, ", ")
	}
	n.doc.file.report(n.keyProblem(key, "%s", message))
}

// emptyBefore is the key right before key if it has no value, as where what belongs into it was not indented.
func (n *Node) emptyBefore(key string) string {
	empty := ""
	for _, c := range n.children {
		switch {
		case c.key == key:
			return empty
		case c.kind == Null && c.text == "" && c.pos.Line >= c.keyPos.Line:
			empty = c.key
		default:
			empty = ""
		}
	}
	return ""
}

// slice replaces what is in v, so that a list in the file never mixes with a default.
func (n *Node) slice(v reflect.Value, f field) {
	if !n.want(List) {
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.children), len(n.children))
	for i, c := range n.children {
		decodeElement(c, list.Index(i), f)
	}
	v.Set(list)
}

// decodeElement sets a new item of a list or value of a Map. Null is an empty mapping where a struct is wanted, so
// that its Check can say what is missing, is kept where anything goes, and is else a fault.
func decodeElement(n *Node, v reflect.Value, f field) {
	setDefaults(v, true)
	if n.kind != Null {
		n.decode(v, f)
		return
	}
	switch {
	case v.Type() == typeNode, v.Type() == typeRaw:
		n.decode(v, f)
	case v.Kind() == reflect.Pointer:
	case v.Kind() == reflect.Struct:
		empty := *n
		empty.kind = Mapping
		empty.decode(v, f)
	case v.Kind() == reflect.Slice:
		n.want(List)
	default:
		n.scalar(v, f)
	}
}
