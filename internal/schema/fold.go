package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// fold makes the faults of a choice, none of whose branches took the value, into what a model can act on. A branch for
// another type, or for another constant in one of the properties, was not meant and is left out. What remains is told
// as if there were no choice where it is one branch, and else in one line.
func (r reading) fold(e *jsonschema.ValidationError) []fault {
	depth := len(e.InstanceLocation)
	var branches [][]fault
	for _, cause := range e.Causes {
		branches = append(branches, r.flat(cause))
	}
	one := func(text string) []fault {
		return []fault{{path: e.InstanceLocation, text: text, why: e.ErrorKind}}
	}
	meant := keep(branches, func(f fault) bool { return !isType(f) || len(f.path) > depth })
	if len(meant) == 0 {
		types := allTypes(branches, depth)
		return []fault{{path: e.InstanceLocation, text: sentence(types), why: types}}
	}
	if values, path := constants(meant, depth); values != nil {
		return []fault{{path: path, text: oneOfValues(values), why: &kind.Enum{Want: values}}}
	}
	if tagged := keep(meant, func(f fault) bool { return !isConstant(f) || len(f.path) != depth+1 }); len(tagged) > 0 {
		meant = tagged
	}
	if len(meant) == 1 {
		return meant[0]
	}
	var forms []string
	for _, branch := range meant {
		if text := r.oneLine(branch, depth); !slices.Contains(forms, text) {
			forms = append(forms, text)
		}
	}
	if len(forms) == 1 {
		return meant[0]
	}
	return one("fits none of its forms: " + strings.Join(forms, "; or "))
}

// keep are the branches all of whose faults are good.
func keep(branches [][]fault, good func(fault) bool) [][]fault {
	var kept [][]fault
	for _, branch := range branches {
		if !slices.ContainsFunc(branch, func(f fault) bool { return !good(f) }) {
			kept = append(kept, branch)
		}
	}
	return kept
}

func isType(f fault) bool {
	_, ok := f.why.(*kind.Type)
	return ok
}

func isConstant(f fault) bool {
	switch f.why.(type) {
	case *kind.Const, *kind.Enum:
		return true
	default:
		return false
	}
}

// allTypes is one fault of type for the branches, each of which wants another type.
func allTypes(branches [][]fault, depth int) *kind.Type {
	all := &kind.Type{}
	for _, branch := range branches {
		for _, f := range branch {
			if t, ok := f.why.(*kind.Type); ok && len(f.path) == depth {
				all.Got = t.Got
				all.Want = append(all.Want, t.Want...)
			}
		}
	}
	return all
}

// constants are the values that the branches want together in one place, if each of them misses its constant there: in
// the value itself or in one of its properties.
func constants(branches [][]fault, depth int) (values []any, path []string) {
	for _, first := range branches[0] {
		if !isConstant(first) || len(first.path) > depth+1 || path != nil && slices.Compare(first.path, path) > 0 {
			continue
		}
		if found := missed(branches, first.path); found != nil {
			values, path = found, first.path
		}
	}
	return values, path
}

// missed are the constants of all branches at path, nil if one of them does not miss any there.
func missed(branches [][]fault, path []string) []any {
	var values []any
	for _, branch := range branches {
		i := slices.IndexFunc(branch, func(f fault) bool { return isConstant(f) && slices.Equal(f.path, path) })
		if i < 0 {
			return nil
		}
		switch k := branch[i].why.(type) {
		case *kind.Const:
			values = append(values, k.Want)
		case *kind.Enum:
			values = append(values, k.Want...)
		}
	}
	return values
}
