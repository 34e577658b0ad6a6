package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Effective is what is in force as YAML: a struct that was decoded from the whole file, with its defaults and without
// its secrets. Empty texts, lists and mappings that the file does not have are left out.
//
// rest is, by the path of a mapping whose values are decoded elsewhere ("tools"), a new struct that knows some of the
// keys of such a value; the others stand as they are in the file.
//
// Masked are Secrets, what came from outside of the file but plain http URLs, passwords in URLs, headers and items of
// queries whose name tells of a credential, everything under an `env`, and what m masks. What is no text, such as a
// number, is never masked. It can be read again, as far as a mask fits where it stands.
func (f *File) Effective(v any, rest map[string]func() any, m Masker) []byte {
	p := &printer{masker: m, rest: rest}
	var b strings.Builder
	p.structure(reflect.ValueOf(v).Elem(), f.root, nil).write(&b, 0, false)
	return []byte(b.String())
}

// Masker takes secrets out of texts: Known those of the file, Text what looks like one too.
type Masker interface {
	Known(s string) string
	Text(s string) string
}

type printer struct {
	masker Masker
	rest   map[string]func() any
}

// printed is a value as it is written. Exactly one of its fields is set; the zero value is left out.
type printed struct {
	scalar  string // as YAML writes it
	list    []printed
	entries []entry
	empty   string // [] or {}
}

type entry struct {
	key   string
	value printed
}

func (v printed) none() bool {
	return v.scalar == "" && v.empty == "" && len(v.list) == 0 && len(v.entries) == 0
}

// write writes the value at a depth; inline says that something stands before it on its line.
func (v printed) write(b *strings.Builder, depth int, inline bool) {
	indent := strings.Repeat("  ", depth)
	switch {
	case v.scalar != "" || v.empty != "":
		b.WriteString(" " + v.scalar + v.empty + "\n")
	case v.list != nil:
		if inline {
			b.WriteByte('\n')
		}
		for _, item := range v.list {
			b.WriteString(indent + "-")
			item.write(b, depth+1, true)
		}
	default:
		if inline {
			b.WriteByte('\n')
		}
		for _, e := range v.entries {
			b.WriteString(indent + quote(e.key) + ":")
			e.value.write(b, depth+1, true)
		}
	}
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./+@-]*( [A-Za-z0-9_./+@-]+)*$`)
	plainURL  = regexp.MustCompile(`^https?://[A-Za-z0-9_./:-]*[A-Za-z0-9_./-]$`)
)

// quote is a text as a scalar that is read as that text.
func quote(s string) string {
	if (plainText.MatchString(s) || plainURL.MatchString(s)) && plainKind(s) == String {
		return s
	}
	var b strings.Builder
	for _, r := range string(encode(strings.ReplaceAll(s, "${", "$${"))) {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff { // YAML 1.2.2, 5.1: not as they are
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (p *printer) structure(v reflect.Value, n *Node, path []string) printed {
	var out printed
	for _, f := range fieldsOf(v.Type()) {
		if f.later == "*" {
			continue
		}
		at := append(slices.Clip(path), f.name)
		if value := p.value(v.FieldByIndex(f.index), n.Get(f.name), f, at); !value.none() {
			out.entries = append(out.entries, entry{f.name, value})
		}
	}
	if out.entries == nil {
		out.empty = "{}"
	}
	return out
}

// value prints a decoded value, whose place in the file is n, nil where the file says nothing.
func (p *printer) value(v reflect.Value, n *Node, f field, path []string) printed {
	switch {
	case v.Type() == typeNode, v.Type() == typeRaw:
		return p.node(n, path)
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			return printed{}
		}
		return p.value(v.Elem(), n, f, path)
	case v.Type() == typeSecret:
		return p.node(n, path)
	}
	if m, ok := reflect.TypeAssert[interface {
		print(p *printer, n *Node, path []string) printed
	}](v); ok {
		return m.print(p, n, path)
	}
	if _, own := reflect.TypeAssert[interface{ DecodeNode(*Node) }](v.Addr()); own && n.Kind() != Null {
		return p.node(n, path) // a short form that only it can read
	}
	if m, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok && v.Kind() != reflect.Struct {
		if text, err := m.MarshalText(); err == nil && !(v.IsZero() && n.Kind() == Null && f.min != "") {
			return printed{scalar: string(text)}
		}
		return printed{}
	}
	switch v.Kind() {
	case reflect.Struct:
		if len(fieldsOf(v.Type())) == 0 || n.Kind() == Null && v.IsZero() {
			return printed{}
		}
		return p.structure(v, n, path)
	case reflect.Slice:
		return p.slice(v, n, f, path)
	case reflect.String:
		if n.Kind() != Null {
			return p.node(n, path)
		}
		if v.String() == "" {
			return printed{}
		}
		return printed{scalar: quote(v.String())}
	default:
		return plainValue(v, n, f)
	}
}

// plainValue prints a number or a boolean.
func plainValue(v reflect.Value, n *Node, f field) printed {
	if n.Kind() == Null && f.min != "" && below(v, f.min) {
		return printed{} // not set, which the file could not say
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return printed{}
	}
	return printed{scalar: string(text)}
}

func (p *printer) slice(v reflect.Value, n *Node, f field, path []string) printed {
	if v.Len() == 0 {
		if n.Kind() == List {
			return printed{empty: "[]"}
		}
		return printed{}
	}
	items := n.Items()
	var out printed
	for i := range v.Len() {
		var item *Node
		if i < len(items) {
			item = items[i]
		}
		out.list = append(out.list, p.value(v.Index(i), item, f, append(slices.Clip(path), strconv.Itoa(i))))
	}
	return out
}

// print is for the printer.
func (m Map[T]) print(p *printer, n *Node, path []string) printed {
	if m.Len() == 0 {
		if n.Kind() == Mapping {
			return printed{empty: "{}"}
		}
		return printed{}
	}
	var out printed
	for key, value := range m.All() {
		v := reflect.New(reflect.TypeFor[T]()).Elem()
		v.Set(reflect.ValueOf(&value).Elem())
		shown := p.value(v, m.Node(key), field{}, append(slices.Clip(path), key))
		if shown.none() {
			shown.scalar = "null"
		}
		out.entries = append(out.entries, entry{key, shown})
	}
	return out
}

// node prints a part of the file as it is there.
func (p *printer) node(n *Node, path []string) printed {
	var out printed
	switch n.Kind() {
	case Null:
		if n != nil {
			out.scalar = "null"
		}
	case List:
		for i, item := range n.Items() {
			out.list = append(out.list, p.node(item, append(slices.Clip(path), strconv.Itoa(i))))
		}
		if out.list == nil {
			out.empty = "[]"
		}
	case Mapping:
		known := p.rest[strings.Join(path, ".")]
		for _, key := range n.Keys() {
			at := append(slices.Clip(path), key)
			value := p.node(n.Get(key), at)
			if known != nil && n.Get(key).Kind() == Mapping {
				value = p.known(known(), n.Get(key), at)
			}
			out.entries = append(out.entries, entry{key, value})
		}
		if out.entries == nil {
			out.empty = "{}"
		}
	case Bool, Number:
		out.scalar = n.text
		if n.masked || credential(path) {
			out.scalar = quote(mask)
		}
	case String:
		out.scalar = quote(p.hide(n, path))
	}
	return out
}

// known prints a mapping of which v knows some keys.
func (p *printer) known(v any, n *Node, path []string) printed {
	n.DecodeKnown(v, n.Keys()...) // it has been decoded before: what is wrong with it is known
	out := p.structure(reflect.ValueOf(v).Elem(), n, path)
	for _, key := range n.Keys() {
		if !slices.ContainsFunc(out.entries, func(e entry) bool { return e.key == key }) {
			out.entries = append(out.entries, entry{key, p.node(n.Get(key), append(slices.Clip(path), key))})
		}
	}
	return out
}

// hide is the text of a scalar without what is secret in it.
func (p *printer) hide(n *Node, path []string) string {
	if n.text != "" && (n.masked || credential(path)) {
		return mask
	}
	text := n.text
	for _, o := range n.outside {
		if !o.plain && o.value != "" {
			text = strings.ReplaceAll(text, o.value, mask)
		}
	}
	if len(path) > 0 && prose[path[len(path)-1]] {
		return p.masker.Known(text)
	}
	return p.masker.Text(text)
}

// prose are keys of texts for people and models, in which "basic information" is no credential.
var prose = map[string]bool{"description": true, "instructions": true, "message": true}
