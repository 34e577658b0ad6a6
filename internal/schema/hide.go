package schema

import (
	"slices"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// Hide is the schema with the named parameters gone from what the model sees. They stay known to everything else:
// Validate checks them, and its messages name them; Properties lists them. A model that makes one up is not stopped
// here; who binds them must put his own values over whatever came.
func (s *Schema) Hide(names ...string) *Schema {
	if len(names) == 0 {
		return s
	}
	hidden := *s
	hidden.hidden = append(slices.Clip(s.hidden), names...)
	root := without(s.root, hidden.hidden)
	prune(root)
	hidden.shown = root.JSON()
	return &hidden
}

// without is a copy of v, which describes an object, that does not mention the properties.
func without(v *jsontree.Value, names []string) *jsontree.Value {
	out := &jsontree.Value{Kind: v.Kind, Text: v.Text}
	for _, m := range v.Members {
		switch m.Key {
		case "properties", "dependentRequired", "dependentSchemas", "dependencies":
			m.Value = withoutKeys(m.Key, m.Value, names)
			if m.Key != "properties" && len(m.Value.Members) == 0 {
				continue
			}
		case "required":
			if m.Value = withoutTexts(m.Value, names); len(m.Value.Items) == 0 {
				continue
			}
		case "default", "examples":
			if holdsKey(m.Value, names) {
				continue
			}
		case "allOf", "anyOf", "oneOf":
			list := &jsontree.Value{Kind: jsontree.List}
			for _, item := range m.Value.Items {
				list.Items = append(list.Items, without(item, names))
			}
			m.Value = list
		case "if", "then", "else":
			m.Value = without(m.Value, names)
		case "not":
			if m.Value = without(m.Value, names); len(m.Value.Members) == 0 {
				continue // it was about hidden ones alone
			}
		}
		out.Members = append(out.Members, m)
	}
	return out
}

// withoutKeys is a mapping by property without the names, both as keys and within what stands under other keys.
func withoutKeys(keyword string, v *jsontree.Value, names []string) *jsontree.Value {
	out := &jsontree.Value{Kind: v.Kind}
	for _, m := range v.Members {
		if slices.Contains(names, m.Key) {
			continue
		}
		switch {
		case keyword == "properties":
		case m.Value.Is(jsontree.List):
			m.Value = withoutTexts(m.Value, names)
		default:
			m.Value = without(m.Value, names)
		}
		out.Members = append(out.Members, m)
	}
	return out
}

func withoutTexts(v *jsontree.Value, names []string) *jsontree.Value {
	out := &jsontree.Value{Kind: v.Kind}
	for _, item := range v.Items {
		if !slices.Contains(names, item.Text) {
			out.Items = append(out.Items, item)
		}
	}
	return out
}

// holdsKey says whether v is an object, or a list of them, with one of the names as key.
func holdsKey(v *jsontree.Value, names []string) bool {
	return slices.ContainsFunc(v.Members, func(m jsontree.Member) bool { return slices.Contains(names, m.Key) }) ||
		slices.ContainsFunc(v.Items, func(i *jsontree.Value) bool { return holdsKey(i, names) })
}

// prune takes definitions away that nothing refers to any more. root must be a copy at its top.
func prune(root *jsontree.Value) {
	defs := root.Get("$defs")
	if defs == nil {
		return
	}
	used := map[string]bool{}
	var mark func(v *jsontree.Value)
	mark = func(v *jsontree.Value) {
		if name := definitionName(v); name != "" && !used[name] {
			used[name] = true
			mark(defs.Get(name))
		}
		for _, s := range subschemas(v) {
			if s.path[0] != "$defs" {
				mark(s.schema)
			}
		}
	}
	mark(root)
	kept := &jsontree.Value{Kind: jsontree.Object}
	for _, m := range defs.Members {
		if used[m.Key] {
			kept.Members = append(kept.Members, m)
		}
	}
	root.Set("$defs", kept)
	if len(kept.Members) == 0 {
		root.Delete("$defs")
	}
}
