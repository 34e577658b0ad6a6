package config

import (
	"iter"
	"reflect"
)

// Map is a mapping whose keys are the user's (names of tools, headers, ...) in the file's order. Its zero value is
// empty. It is read-only once decoded and then for many goroutines.
type Map[T any] struct {
	keys   []string
	values map[string]T
	nodes  map[string]*Node
}

// All yields keys and values in the file's order.
func (m Map[T]) All() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, k := range m.keys {
			if !yield(k, m.values[k]) {
				return
			}
		}
	}
}

// Get is the value of a key.
func (m Map[T]) Get(key string) (T, bool) {
	v, ok := m.values[key]
	return v, ok
}

// Len is the number of keys.
func (m Map[T]) Len() int { return len(m.keys) }

// Keys are the keys in the file's order. The slice is the Map's own.
func (m Map[T]) Keys() []string { return m.keys }

// Node is the place of a key's value, nil when there is none.
func (m Map[T]) Node(key string) *Node { return m.nodes[key] }

// DecodeNode fills the map, replacing what was in it.
func (m *Map[T]) DecodeNode(n *Node) {
	*m = Map[T]{}
	if !n.want(Mapping) {
		return
	}
	m.values, m.nodes = map[string]T{}, map[string]*Node{}
	for _, c := range n.children {
		var v T
		decodeElement(c, reflect.ValueOf(&v).Elem(), field{})
		m.keys = append(m.keys, c.key)
		m.values[c.key], m.nodes[c.key] = v, c
	}
}

func (*Map[T]) element() reflect.Type { return reflect.TypeFor[T]() }
