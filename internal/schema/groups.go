package schema

import "github.com/toolgate/toolgate/internal/schema/jsontree"

// group is a set of schemas that refer to each other, each directly or through others to itself. A reference from
// inside a group to one of its own can't be put in place; all others can.
type group struct{ recursive bool }

// groupOf is the group of t: the strongly connected component of t in the graph of references, by Tarjan's algorithm.
func (b *builder) groupOf(t target) *group {
	if g := b.groups[t.schema]; g != nil {
		return g
	}
	s := search{b: b, index: map[*jsontree.Value]int{}, low: map[*jsontree.Value]int{}, on: map[*jsontree.Value]bool{}}
	s.visit(t)
	return b.groups[t.schema]
}

type search struct {
	b          *builder
	index, low map[*jsontree.Value]int
	on         map[*jsontree.Value]bool
	stack      []*jsontree.Value
}

func (s *search) visit(t target) {
	v := t.schema
	s.index[v] = len(s.index)
	s.low[v] = s.index[v]
	s.stack, s.on[v] = append(s.stack, v), true
	self := false
	for _, next := range s.b.references(t.schema, t.doc) {
		w := next.schema
		self = self || w == v
		if s.b.groups[w] != nil {
			continue // of a group that is complete
		}
		if _, seen := s.index[w]; !seen {
			s.visit(next)
			s.low[v] = min(s.low[v], s.low[w])
		} else if s.on[w] {
			s.low[v] = min(s.low[v], s.index[w])
		}
	}
	if s.low[v] != s.index[v] {
		return
	}
	g := &group{recursive: self}
	for last := (*jsontree.Value)(nil); last != v; {
		last = s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		s.on[last] = false
		s.b.groups[last] = g
		g.recursive = g.recursive || last != v
	}
}

// references are the distinct targets of the references anywhere in v, files that it takes in among them. What can't
// be resolved is left out; it is reported when the references are followed.
func (b *builder) references(v *jsontree.Value, d *document) []target {
	if found, ok := b.edges[v]; ok {
		return found
	}
	var found []target
	seen := map[*jsontree.Value]bool{}
	var walk func(v *jsontree.Value)
	walk = func(v *jsontree.Value) {
		if t, ok := b.peek(v, d); ok && !seen[t.schema] {
			seen[t.schema] = true
			found = append(found, t)
		}
		for _, s := range subschemas(v) {
			if k := s.path[0]; k != "$defs" && k != "definitions" {
				walk(s.schema)
			}
		}
	}
	walk(v)
	b.edges[v] = found
	return found
}

// peek is what v refers to, without a word where it can't be found.
func (b *builder) peek(v *jsontree.Value, d *document) (target, bool) {
	if file := b.fileOf(v); file != nil {
		fd, err := b.fileDocument(file.Text, b.at(file, d.place, "$file"))
		if err != nil || fd == nil {
			return target{}, false
		}
		return fd.target(), true
	}
	ref := reference(v)
	if ref == nil {
		return target{}, false
	}
	t, err := b.resolve(ref.Text, d)
	return t, err == nil
}
