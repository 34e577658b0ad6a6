package schema

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// Bounds of a schema once its references are in place. A few lines of references can spell gigabytes.
const (
	maxBytes      = 256 << 10
	maxDepth      = 30   // of schemas in schemas: as JSON, about jsontree.MaxDepth
	maxSubschemas = 5000 // compiling takes the square of them
)

// builder makes one Schema. It collects faults instead of stopping at the first.
type builder struct {
	named   map[string]json.RawMessage // what '#/schemas/NAME' means
	home    *config.Node               // whose folder the files of named schemas are relative to
	foreign bool                       // a schema that nobody here can mend: what can be spared is dropped with a warning

	places map[*jsontree.Value]place // of what stands in a file and of all that was made
	docs   map[string]*document      // named schemas and files that were met
	groups map[*jsontree.Value]*group
	edges  map[*jsontree.Value][]target

	defs     map[*jsontree.Value]string // the names of recursive schemas
	pending  []target                   // those of them that are still to be made
	bytes    int
	count    int
	overflow bool

	faulty   bool
	faults   []string // of a foreign schema; others go to their nodes
	warnings []string
}

// place is where to report what is wrong with a value: at node, with label saying where below it the value stands. A
// foreign schema has no node.
type place struct {
	node  *config.Node
	label string // "#/schemas/lead: properties.mail", "" for the node itself
}

// below is the place of what stands under key, where nothing better is known.
func (p place) below(key string) place {
	if p.label == "" {
		return place{p.node, key}
	}
	return place{p.node, p.label + "." + key}
}

// document is a text with schemas in it: references that start with # are looked up in its root.
type document struct {
	name   string // for a definition of its root
	root   *jsontree.Value
	place  place
	draft  int    // 4, 6, 7, 2019 or 2020
	called *names // built on first use
}

func newBuilder(home *config.Node, named map[string]json.RawMessage) *builder {
	return &builder{
		home: home, named: named, foreign: home == nil,
		places: map[*jsontree.Value]place{}, docs: map[string]*document{},
		groups: map[*jsontree.Value]*group{}, edges: map[*jsontree.Value][]target{},
		defs: map[*jsontree.Value]string{},
	}
}

func (b *builder) fail(at place, format string, args ...any) {
	b.faulty = true
	message := at.message(format, args...)
	if at.node != nil {
		at.node.Fail("%s", message)
	} else if !slices.Contains(b.faults, message) {
		b.faults = append(b.faults, message)
	}
}

func (b *builder) warn(at place, format string, args ...any) {
	message := at.message(format, args...)
	if at.node != nil {
		at.node.Warn("%s", message)
	} else if !slices.Contains(b.warnings, message) {
		b.warnings = append(b.warnings, message)
	}
}

func (p place) message(format string, args ...any) string {
	message := fmt.Sprintf(format, args...)
	if p.label != "" {
		message = p.label + ": " + message
	}
	return message
}

// at is the place of v, which stands under key in something at parent.
func (b *builder) at(v *jsontree.Value, parent place, key string) place {
	if p, ok := b.places[v]; ok {
		return p
	}
	return parent.below(key)
}

// read is the value of a node. Its places are the nodes.
func (b *builder) read(n *config.Node) *jsontree.Value { return b.readAt(n, 0) }

func (b *builder) readAt(n *config.Node, depth int) *jsontree.Value {
	v := &jsontree.Value{}
	b.places[v] = place{node: n}
	switch {
	case depth > jsontree.MaxDepth:
		b.fail(place{node: n}, "must not be nested deeper than %d levels", jsontree.MaxDepth)
	case n.Kind() == config.Mapping:
		v.Kind = jsontree.Object
		for _, k := range n.Keys() {
			v.Members = append(v.Members, jsontree.Member{Key: k, Value: b.readAt(n.Get(k), depth+1)})
		}
	case n.Kind() == config.List:
		v.Kind = jsontree.List
		for _, item := range n.Items() {
			v.Items = append(v.Items, b.readAt(item, depth+1))
		}
	case n.Kind() == config.String:
		v.Kind, v.Text = jsontree.String, n.Text()
	default:
		plain, err := jsontree.Parse(n.JSON())
		if err != nil {
			b.fail(place{node: n}, "%v", err)
			return v
		}
		*v = *plain
	}
	return v
}

// newDocument is a document of root.
func (b *builder) newDocument(name string, root *jsontree.Value, at place) *document {
	d := &document{name: name, root: root, place: at, draft: 2020}
	if root.Get("$schema").Is(jsontree.String) {
		draft, ok := drafts[trimFragment(root.Get("$schema").Text)]
		if ok {
			d.draft = draft
		} else {
			b.unknownDraft(b.at(root.Get("$schema"), at, "$schema"))
		}
	}
	return d
}

func (b *builder) unknownDraft(at place) {
	const message = "is no draft of JSON Schema that is known: 4, 6, 7, 2019-09 and 2020-12 are"
	if b.foreign {
		b.warn(at, message)
		return
	}
	b.fail(at, message)
}

var drafts = map[string]int{
	"http://json-schema.org/schema":                2020,
	"http://json-schema.org/draft-04/schema":       4,
	"http://json-schema.org/draft-06/schema":       6,
	"http://json-schema.org/draft-07/schema":       7,
	"https://json-schema.org/draft/2019-09/schema": 2019,
	"https://json-schema.org/draft/2020-12/schema": 2020,
	"https://json-schema.org/draft-07/schema":      7,
	"https://json-schema.org/draft-04/schema":      4,
	"https://json-schema.org/draft-06/schema":      6,
	"http://json-schema.org/draft/2019-09/schema":  2019,
	"http://json-schema.org/draft/2020-12/schema":  2020,
}
