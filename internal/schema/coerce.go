package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// Coerce is args with the slips put right that models make, wherever the schema leaves no doubt. args is not changed;
// its numbers are json.Number.
//
//   - A string loses the blanks around it.
//   - Where the schema takes no string: "5" and "5.0" become 5 if it takes an integer, "5.5" becomes 5.5 if it takes a
//     number ("1e2" stays a string: it may well be a code), true, false, yes and no in any case a boolean; the text of
//     a JSON list or object becomes that.
//   - 5.0 and 5e0 become 5 where an integer is wanted and no fraction is. No digit is lost, however long the number.
//   - A lone value becomes a list of one where the schema takes a list and not the value.
//   - null goes where the property is optional and its schema does not take null.
//   - What the schema does not name goes, unless it has additionalProperties (true or a schema). An object whose schema
//     names nothing at all is free, and keeps everything; the arguments themselves are never.
//
// In a choice (anyOf, oneOf) that happens only where a single branch can take the value. Coercing twice is coercing
// once, and what was valid stays valid, if it had no unknown arguments and no blanks around its strings.
//
// Call it before FillDefaults: a null that goes leaves room for a default.
func (s *Schema) Coerce(args map[string]any) map[string]any {
	return object([]*form{s.form}, args, true)
}

// coerced is v as it should be for fs, all of which hold for it.
func coerced(fs []*form, v any) any {
	if len(fs) == 0 {
		return v
	}
	if s, ok := v.(string); ok {
		v = strings.TrimSpace(s)
	}
	want := allowed(fs)
	if kindOf(v)&want == 0 {
		v = converted(fs, v, want)
	}
	switch v := v.(type) {
	case map[string]any:
		return object(fs, v, false)
	case []any:
		return list(fs, v)
	case json.Number:
		if whole, ok := wholeNumber(string(v)); ok && want&isNumber == isInteger {
			return json.Number(whole)
		}
	}
	return v
}

// converted is v, of a kind that is not wanted, as one that is; v itself where there is none.
func converted(fs []*form, v any, want kinds) any {
	if inner, ok := inText(v, want); ok {
		return inner
	}
	if v != nil && want&isList != 0 && listsEnd(fs, v) {
		return []any{v}
	}
	return v
}

var kindOfTree = map[jsontree.Kind]kinds{jsontree.List: isList, jsontree.Object: isObject}

var truth = map[string]bool{"true": true, "yes": true, "false": false, "no": false}

// object is the object m as it should be for fs. top are the arguments themselves.
func object(fs []*form, m map[string]any, top bool) map[string]any {
	sure, undecided := certain(fs, m)
	r := rules{sure: sure, undecided: closure(undecided, inBranch)}
	r.keepAll = !top && !anyClosed(sure) && (len(undecided) == 0 || slices.ContainsFunc(undecided, free))
	out := make(map[string]any, len(m))
	for name, v := range m {
		below, named := r.under(name)
		switch {
		case !named && !r.open():
			continue
		case v == nil && len(below) > 0 && allowed(below)&isNull == 0 && !r.requires(name):
			continue
		}
		out[name] = coerced(below, v)
	}
	return out
}

// anyClosed says whether one of fs names properties.
func anyClosed(fs []*form) bool {
	return slices.ContainsFunc(fs, func(f *form) bool { return f.closed })
}

// free says whether a branch names no properties.
func free(branch *form) bool { return !anyClosed(closure([]*form{branch}, inBranch)) }

// inBranch is everything that may hold where a branch does.
func inBranch(f *form) []*form {
	next := f.together
	for _, group := range f.choices {
		next = append(slices.Clip(next), group...)
	}
	return next
}

// rules say what becomes of the properties of one object.
type rules struct {
	sure, undecided []*form
	keepAll         bool // the object is free
}

// under are the forms that hold for certain for the property name; named says whether the schema knows it at all.
func (r rules) under(name string) (fs []*form, named bool) {
	for _, f := range r.sure {
		below := f.under(name)
		fs = append(fs, below...)
		named = named || f.names(name)
	}
	for _, f := range r.undecided {
		named = named || f.names(name)
	}
	return fs, named
}

func (r rules) open() bool {
	if r.keepAll {
		return true
	}
	for _, f := range append(slices.Clip(r.sure), r.undecided...) {
		if f.open {
			return true
		}
	}
	return false
}

func (r rules) requires(name string) bool {
	for _, f := range r.sure {
		if f.required[name] {
			return true
		}
	}
	return false
}

// names says whether the form speaks of the property.
func (f *form) names(name string) bool {
	if f.index[name] != nil || f.required[name] || f.mentioned[name] {
		return true
	}
	for _, p := range f.patterns {
		if p.expression.MatchString(name) {
			return true
		}
	}
	return false
}

// under are the forms that f has for the property name.
func (f *form) under(name string) []*form {
	var fs []*form
	if p := f.index[name]; p != nil {
		fs = append(fs, p.form)
	}
	for _, p := range f.patterns {
		if p.expression.MatchString(name) {
			fs = append(fs, p.form)
		}
	}
	if fs == nil && f.rest != nil {
		fs = append(fs, f.rest)
	}
	return fs
}

// list is the list l as it should be for fs.
func list(fs []*form, l []any) []any {
	sure, _ := certain(fs, l)
	out := make([]any, len(l))
	for i, v := range l {
		var below []*form
		for _, f := range sure {
			below = append(below, f.at(i)...)
		}
		out[i] = coerced(below, v)
	}
	return out
}

// inText is what a text says, where that is of a kind that is wanted.
func inText(v any, want kinds) (any, bool) {
	s, ok := v.(string)
	if !ok {
		return nil, false
	}
	if number, kind := decimal(s); kind&want != 0 {
		return number, true
	}
	if b, ok := truth[strings.ToLower(s)]; ok && want&isBool != 0 {
		return b, true
	}
	if want&(isList|isObject) != 0 && (strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{")) {
		if inner, err := jsontree.Parse([]byte(s)); err == nil && kindOfTree[inner.Kind]&want != 0 {
			return inner.Any(), true
		}
	}
	return nil, false
}

// listsEnd says whether v, put into as many lists as fs want, comes to something else than the next list: a list of
// lists of itself has no place for it.
func listsEnd(fs []*form, v any) bool {
	var seen []*form
	for want := allowed(fs); kindOf(v)&want == 0 && want&isList != 0; want = allowed(fs) {
		if _, ok := inText(v, want); ok {
			return true
		}
		sure, _ := certain(fs, []any{v})
		var below []*form
		known := true
		for _, f := range sure {
			for _, item := range f.at(0) {
				below = append(below, item)
				known = known && slices.Contains(seen, item)
			}
		}
		if len(below) == 0 {
			return true
		}
		if known {
			return false
		}
		seen, fs = append(seen, below...), below
	}
	return true
}

// at are the forms that f has for item i of a list.
func (f *form) at(i int) []*form {
	switch {
	case i < len(f.prefix):
		return f.prefix[i : i+1]
	case f.items != nil:
		return []*form{f.items}
	default:
		return nil
	}
}
