package schema

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// form is a schema as coercion, defaults and the order of messages need it: what kinds of values it takes and which
// schemas hold for what stands in them. Forms of recursive schemas are a graph with cycles; all are immutable once
// newForm has returned.
type form struct {
	kinds  kinds // that its own type, enum and const allow
	values []any // of enum or const, nil when there is none

	properties []*property // in order
	index      map[string]*property
	patterns   []pattern
	required   map[string]bool
	mentioned  map[string]bool // names that conditions and dependencies speak of
	rest       *form           // of properties without a schema of their own
	open       bool            // those are welcome
	closed     bool            // it names its properties, or says that there are none

	prefix   []*form // of the first items
	items    *form   // of the others
	together []*form // that hold for the same value: allOf, $ref
	choices  [][]*form

	sometimes []*form // that may hold for the same value and matter to cost alone: not, if, then, else, dependentSchemas
	scanned   []*form // that may hold for each item or property: contains, unevaluatedItems, unevaluatedProperties

	memo kinds // allowed, once computed is set in it
}

type property struct {
	name   string
	schema *jsontree.Value
	form   *form
	preset *jsontree.Value // its default, nil when it has none
}

type pattern struct {
	expression *regexp.Regexp
	form       *form
}

func (f *form) property(name string) *property { return f.index[name] }

// kinds is a set of kinds of values.
type kinds uint16

const (
	isNull kinds = 1 << iota
	isBool
	isInteger
	isFraction
	isString
	isList
	isObject
	computed // of form.memo: the rest of it holds

	anyKind  = isNull | isBool | isInteger | isFraction | isString | isList | isObject
	isNumber = isInteger | isFraction
)

var kindsOfType = map[string]kinds{
	"null": isNull, "boolean": isBool, "integer": isInteger, "number": isNumber, "string": isString, "array": isList, "object": isObject,
}

// kindOf is the kind of a decoded JSON value, 0 for anything else.
func kindOf(v any) kinds {
	switch v := v.(type) {
	case nil:
		return isNull
	case bool:
		return isBool
	case string:
		return isString
	case []any:
		return isList
	case map[string]any:
		return isObject
	case json.Number:
		if isWholeNumber(string(v)) {
			return isInteger
		}
		return isFraction
	default:
		return 0
	}
}

// newForm is the form of a self-contained schema, and its cost, which is nil where it is out of bounds.
func newForm(root *jsontree.Value) (*form, *cost) {
	m := former{defs: root.Get("$defs"), made: map[string]*form{}}
	f := m.form(root)
	for _, each := range m.all {
		each.allowed()
	}
	return f, newCost(m.all, len(m.made) > 0)
}

type former struct {
	defs *jsontree.Value
	made map[string]*form // by name under $defs
	all  []*form
}

func (m *former) form(v *jsontree.Value) *form {
	f := &form{kinds: anyKind}
	m.fill(f, v)
	return f
}

func (m *former) fill(f *form, v *jsontree.Value) {
	m.all = append(m.all, f)
	if v.Is(jsontree.Bool) && v.Text == "false" {
		f.kinds = 0
	}
	f.limit(v)
	if name := definitionName(v); name != "" {
		f.together = append(f.together, m.definition(name))
	}
	for _, member := range members(v.Get("properties")) {
		p := &property{member.Key, member.Value, m.form(member.Value), member.Value.Get("default")}
		f.properties = append(f.properties, p)
	}
	f.index = make(map[string]*property, len(f.properties))
	for _, p := range f.properties {
		f.index[p.name] = p
	}
	f.closed = v.Get("properties") != nil || v.Get("patternProperties") != nil || v.Get("additionalProperties").Is(jsontree.Bool)
	for _, member := range members(v.Get("patternProperties")) {
		if e, err := regexp.Compile(member.Key); err == nil {
			f.patterns = append(f.patterns, pattern{e, m.form(member.Value)})
		}
	}
	for _, name := range items(v.Get("required")) {
		f.require(name.Text)
	}
	m.others(f, v)
	for _, item := range items(v.Get("prefixItems")) {
		f.prefix = append(f.prefix, m.form(item))
	}
	if i := v.Get("items"); i != nil {
		f.items = m.form(i)
	}
	for _, part := range items(v.Get("allOf")) {
		f.together = append(f.together, m.form(part))
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		var group []*form
		for _, branch := range items(v.Get(k)) {
			group = append(group, m.form(branch))
		}
		if group != nil {
			f.choices = append(f.choices, group)
		}
	}
	m.conditions(f, v)
}

// definition is the form of a recursive schema. It is known before it is filled, since it will meet itself.
func (m *former) definition(name string) *form {
	if f := m.made[name]; f != nil {
		return f
	}
	f := &form{kinds: anyKind}
	m.made[name] = f
	m.fill(f, m.defs.Get(name))
	return f
}

// limit reads type, enum and const.
func (f *form) limit(v *jsontree.Value) {
	if t := v.Get("type"); t != nil {
		f.kinds = kindsOfType[t.Text]
		for _, word := range items(t) {
			f.kinds |= kindsOfType[word.Text]
		}
	}
	values := items(v.Get("enum"))
	if c := v.Get("const"); c != nil {
		values = []*jsontree.Value{c}
	}
	if values == nil {
		return
	}
	var of kinds
	for _, value := range values {
		one := value.Any()
		f.values = append(f.values, one)
		of |= kindOf(one)
	}
	f.kinds &= of
}

// others reads what holds for properties that are not named.
func (m *former) others(f *form, v *jsontree.Value) {
	for _, k := range []string{"additionalProperties", "unevaluatedProperties"} {
		switch rest := v.Get(k); {
		case rest.Is(jsontree.Bool):
			f.open = f.open || rest.Text == "true"
		case rest.Is(jsontree.Object):
			f.open = true
			if r := m.form(rest); k == "additionalProperties" {
				f.rest = r
			} else {
				f.scanned = append(f.scanned, r)
			}
		}
	}
}

// conditions reads the schemas that hold for a value now and then, for the names that they speak of.
func (m *former) conditions(f *form, v *jsontree.Value) {
	for _, s := range subschemas(v) {
		switch s.path[0] {
		case "not", "if", "then", "else", "dependentSchemas", "dependencies":
			f.sometimes = append(f.sometimes, m.form(s.schema))
			f.mention(s.schema)
		case "contains", "unevaluatedItems":
			f.scanned = append(f.scanned, m.form(s.schema))
		}
		if s.path[0] == "dependentSchemas" || s.path[0] == "dependencies" {
			f.know(s.path[1])
		}
	}
	for _, k := range []string{"dependentRequired", "dependencies"} {
		for _, member := range members(v.Get(k)) {
			f.know(member.Key)
			for _, name := range items(member.Value) {
				f.know(name.Text)
			}
		}
	}
}

func (f *form) mention(v *jsontree.Value) {
	for _, member := range members(v.Get("properties")) {
		f.know(member.Key)
	}
	for _, name := range items(v.Get("required")) {
		f.know(name.Text)
	}
	for _, s := range subschemas(v) {
		switch s.path[0] {
		case "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies":
			f.mention(s.schema)
		}
	}
}

func (f *form) know(name string) {
	if f.mentioned == nil {
		f.mentioned = map[string]bool{}
	}
	f.mentioned[name] = true
}

func (f *form) require(name string) {
	if f.required == nil {
		f.required = map[string]bool{}
	}
	f.required[name] = true
}

// allowed is the kinds of values that f may take, what holds together with it included. A value of another kind is
// wrong for certain. It ends since no schema holds for a value again through itself; see endless.
func (f *form) allowed() kinds {
	if f.memo&computed != 0 {
		return f.memo &^ computed
	}
	k := f.kinds
	for _, t := range f.together {
		k &= t.allowed()
	}
	for _, group := range f.choices {
		var either kinds
		for _, branch := range group {
			either |= branch.allowed()
		}
		k &= either
	}
	f.memo = k | computed
	return k
}

// allowed is the kinds that all of fs take.
func allowed(fs []*form) kinds {
	k := anyKind
	for _, f := range fs {
		k &= f.allowed()
	}
	return k
}

// closure is fs with every form that holds for the same value, as follow tells of each; each once.
func closure(fs []*form, follow func(*form) []*form) []*form {
	found := make([]*form, 0, len(fs))
	add := func(f *form) {
		if !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	for _, f := range fs {
		add(f)
	}
	for i := 0; i < len(found); i++ {
		for _, f := range follow(found[i]) {
			add(f)
		}
	}
	return found
}

// always are the forms that hold together with fs for every value.
func always(fs []*form) []*form {
	return closure(fs, func(f *form) []*form { return f.together })
}

// everywhere are the forms that may hold with fs, all branches included.
func everywhere(fs []*form) []*form {
	return closure(fs, func(f *form) []*form { return slices.Concat(append([][]*form{f.together}, f.choices...)...) })
}

// certain are the forms that hold for v if it is valid against fs: where only one branch of a choice can take it, that
// branch too. undecided are the branches between which v does not decide.
func certain(fs []*form, v any) (sure, undecided []*form) {
	plain := true
	for _, f := range fs {
		plain = plain && len(f.together) == 0 && len(f.choices) == 0
	}
	if plain {
		return fs, nil
	}
	sure = closure(fs, func(f *form) []*form {
		next := f.together
		for _, group := range f.choices {
			if possible := candidates(group, v); len(possible) == 1 {
				next = append(slices.Clip(next), possible[0])
			} else {
				undecided = append(undecided, possible...)
			}
		}
		return next
	})
	return sure, undecided
}

// candidates are the branches that may take v, by its kind and by the constants that they want in its properties, such
// as the `kind: {const: a}` of a tagged union.
func candidates(group []*form, v any) []*form {
	var possible []*form
	for _, branch := range group {
		if kindOf(v)&branch.allowed() != 0 && !contradicts(branch, v) {
			possible = append(possible, branch)
		}
	}
	return possible
}

// contradicts says whether a property of v is a string where the branch wants another one.
func contradicts(branch *form, v any) bool {
	object, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for _, p := range branch.properties {
		if s, ok := object[p.name].(string); ok && p.form.values != nil && !p.form.takesText(strings.TrimSpace(s)) {
			return true
		}
	}
	return false
}

// takesText says whether the string is among the values of f, or whether a value is none, which s might become.
func (f *form) takesText(s string) bool {
	return slices.ContainsFunc(f.values, func(v any) bool {
		text, ok := v.(string)
		return !ok || text == s
	})
}
