package schema

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// target is what a reference points to: a schema in a document.
type target struct {
	schema *jsontree.Value
	doc    *document
	place  place
	name   string // what a definition of it may be called
}

// target is the root of d.
func (d *document) target() target {
	return target{schema: d.root, doc: d, place: d.place, name: d.name}
}

// reference is the text of the reference that a schema is, or is in part.
func reference(v *jsontree.Value) (ref *jsontree.Value) {
	for _, k := range []string{"$ref", "$recursiveRef", "$dynamicRef"} {
		if r := v.Get(k); r.Is(jsontree.String) {
			return r
		}
	}
	return nil
}

// resolve finds what ref means in d. It reads no network and no file: whatever is not in the document or among the
// named schemas is a fault, so that a schema of a stranger can't make the gateway fetch or open anything.
func (b *builder) resolve(ref string, d *document) (target, error) {
	base, fragment, _ := strings.Cut(ref, "#")
	root := d.root
	if base != "" {
		root = d.names().ids[base]
		if root == nil || root != d.root && (fragment != "" || hasOwnReferences(root)) {
			return target{}, fmt.Errorf("the reference %q leaves the schema: only references that start with # are followed", cut(ref, 100))
		}
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		return target{}, fmt.Errorf("the reference %q is not spelled right", cut(ref, 100))
	}
	at, name := d.place, d.name
	if base != "" {
		name = base
	}
	if rest, ok := strings.CutPrefix(pointer, "/schemas/"); ok {
		first, rest, deeper := strings.Cut(rest, "/")
		if raw, ok := b.named[unescape(first)]; ok {
			name = unescape(first)
			if d, err = b.namedDocument(name, raw); err != nil {
				return target{}, err
			}
			root, at, pointer = d.root, d.place, ""
			if deeper {
				pointer = "/" + rest
			}
		}
	}
	t := target{root, d, at, name}
	switch {
	case pointer == "":
	case !strings.HasPrefix(pointer, "/"):
		t.schema, t.name = d.names().anchors[pointer], pointer
	default:
		for token := range strings.SplitSeq(pointer[1:], "/") {
			token = unescape(token)
			t.schema = step(t.schema, token)
			t.place, t.name = t.place.below(token), token
		}
	}
	if t.schema == nil {
		return t, fmt.Errorf("the reference %q points to nothing%s", cut(ref, 100), b.suggestName(pointer))
	}
	if !isSchema(t.schema) {
		return t, fmt.Errorf("the reference %q points to %v, which is no schema", cut(ref, 100), t.schema.Kind)
	}
	if p, ok := b.places[t.schema]; ok {
		t.place = p
	}
	return t, nil
}

// hasOwnReferences says whether v, a schema with an id within another, has references that start with #. They would
// mean v and not the whole document, which is not supported.
func hasOwnReferences(v *jsontree.Value) bool {
	if ref := reference(v); ref != nil && strings.HasPrefix(ref.Text, "#") {
		return true
	}
	return slices.ContainsFunc(subschemas(v), func(s subschema) bool { return hasOwnReferences(s.schema) })
}

// suggestName helps with a mistyped '#/schemas/NAME'.
func (b *builder) suggestName(pointer string) string {
	name, ok := strings.CutPrefix(pointer, "/schemas/")
	if !ok || b.foreign {
		return ""
	}
	return didYouMean(name, sortedNames(b.named))
}

func step(v *jsontree.Value, token string) *jsontree.Value {
	if !v.Is(jsontree.List) {
		return v.Get(token)
	}
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || i >= len(v.Items) {
		return nil
	}
	return v.Items[i]
}

// unescape is a token of a JSON pointer, RFC 6901 section 4.
func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// escape is the reverse of unescape.
func escape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

func trimFragment(s string) string {
	s, _, _ = strings.Cut(s, "#")
	return s
}

// namedDocument is the document of a named schema. It has no place of its own but that of who refers to it.
func (b *builder) namedDocument(name string, raw []byte) (*document, error) {
	key := "#/schemas/" + name
	if d := b.docs[key]; d != nil {
		return d, nil
	}
	root, err := jsontree.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("schemas.%s: %w", name, err)
	}
	d := b.newDocument(name, root, place{label: key})
	b.docs[key] = d
	return d, nil
}

// fileDocument is the document in a file, YAML or JSON, which stands relative to the folder of the file that names it.
func (b *builder) fileDocument(name string, at place) (*document, error) {
	from := at.node
	if from == nil {
		from = b.home
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(from.Dir(), path)
	}
	if d, ok := b.docs[path]; ok {
		return d, nil
	}
	data, err := readFile(path)
	from.Uses(path, data)
	if err != nil {
		return nil, fmt.Errorf("can't read %s: %w", name, err)
	}
	if strings.EqualFold(filepath.Ext(name), ".json") {
		// A tab in JSON is a blank, as strings can't hold one; in YAML it may not indent.
		data = []byte(strings.ReplaceAll(string(data), "\t", " "))
	}
	n := from.Fragment(name, data)
	if n == nil {
		b.faulty = true // the faults are reported by now
		b.docs[path] = nil
		return nil, nil
	}
	base, _, _ := strings.Cut(filepath.Base(name), ".")
	d := b.newDocument(base, b.read(n), place{node: n})
	b.docs[path] = d
	return d, nil
}

// readFile is the content of a file that is no larger than a schema has reason to be.
func readFile(path string) ([]byte, error) {
	const most = 1 << 20
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, plainError(err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is no regular file")
	case info.Size() > most:
		return nil, fmt.Errorf("it is larger than %d MiB", most>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, plainError(err)
	}
	return data, nil
}

// plainError is an error of the file system without the path, which the message has already.
func plainError(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// fileOf is the name of the file that stands for the schema v. Only who writes the configuration may name one.
func (b *builder) fileOf(v *jsontree.Value) *jsontree.Value {
	if f := v.Get("$file"); !b.foreign && f.Is(jsontree.String) {
		return f
	}
	return nil
}

// names are what schemas in a document are called by other than their place.
type names struct{ anchors, ids map[string]*jsontree.Value }

// names are those in d, collected on first use.
func (d *document) names() *names {
	if d.called == nil {
		d.called = &names{map[string]*jsontree.Value{}, map[string]*jsontree.Value{}}
		d.called.collect(d.root)
	}
	return d.called
}

// collect takes ids word for word, as TypeBox writes them ({"$id": "T0"}, {"$ref": "T0"}); it does not join them to
// addresses.
func (n *names) collect(v *jsontree.Value) {
	for _, k := range []string{"$anchor", "$dynamicAnchor", "$id", "id"} {
		a := v.Get(k)
		if !a.Is(jsontree.String) {
			continue
		}
		name, isAnchor := strings.CutPrefix(a.Text, "#") // how drafts 4 to 7 spell an anchor
		called := n.anchors
		if !isAnchor && (k == "$id" || k == "id") {
			called, name = n.ids, trimFragment(name)
		}
		if _, taken := called[name]; !taken {
			called[name] = v
		}
	}
	for _, s := range subschemas(v) {
		n.collect(s.schema)
	}
}
