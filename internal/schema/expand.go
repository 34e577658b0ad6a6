package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// context is where in the schemas expand is.
type context struct {
	doc   *document
	place place
	group *group // the recursive group that is being put in place, nil outside of any
	depth int
}

func (c context) down(at place) context {
	c.place = at
	c.depth++
	return c
}

// expand is the schema v made self-contained and plain: what it refers to stands in it, except for references from a
// recursive schema to itself, which go to '#/$defs/NAME'; what is only OpenAPI's or an older draft's is put in terms of
// JSON Schema 2020-12.
func (b *builder) expand(v *jsontree.Value, c context) *jsontree.Value {
	if !b.afford(c) || v.Is(jsontree.Bool) {
		b.places[v] = c.place
		return v
	}
	out := &jsontree.Value{Kind: jsontree.Object}
	b.places[out] = c.place
	if !v.Is(jsontree.Object) {
		b.fail(c.place, "must be a schema, got %v", v.Kind)
		return out
	}
	for _, m := range v.Members {
		if b.isDropped(m, c) {
			continue
		}
		if m, keep := b.keyword(m, v, c); keep {
			out.Members = append(out.Members, m)
			b.bytes += len(m.Key) + 6
		}
	}
	exclusiveBounds(out)
	if t, ok := b.targetOf(v, c); ok {
		out = b.merge(b.body(t, c), out, c)
	}
	if n := v.Get("nullable"); n.Is(jsontree.Bool) && n.Text == "true" && c.depth > 0 {
		out = b.nullable(out)
	}
	return out
}

// afford counts what is made and says whether there is room for more.
func (b *builder) afford(c context) bool {
	b.count++
	message := ""
	switch {
	case b.overflow:
		return false
	case c.depth > maxDepth:
		message = fmt.Sprintf("schemas stand in each other deeper than %d levels", maxDepth)
	case b.count > maxSubschemas:
		message = fmt.Sprintf("the schema consists of more than %d schemas once its references are in place", maxSubschemas)
	case b.bytes > maxBytes:
		message = fmt.Sprintf("the schema is larger than %d KiB once its references are in place", maxBytes>>10)
	default:
		return true
	}
	b.overflow = true
	b.fail(c.place, "%s", message)
	return false
}

// isDropped says whether a member has no place in what the model sees.
func (b *builder) isDropped(m jsontree.Member, c context) bool {
	switch m.Key {
	case "$ref", "$recursiveRef", "$dynamicRef":
		return m.Value.Is(jsontree.String)
	case "$file":
		return !b.foreign
	case "id":
		return c.doc.draft == 4 && m.Value.Is(jsontree.String)
	case "components": // where an OpenAPI document keeps what it refers to
		return c.depth == 0
	default:
		return dropped[m.Key]
	}
}

// keyword is a member of the schema `of` in its plain form. keep is false where it is dropped.
func (b *builder) keyword(m jsontree.Member, of *jsontree.Value, c context) (_ jsontree.Member, keep bool) {
	at := b.at(m.Value, c.place, m.Key)
	kind, known := keywords[m.Key]
	if !known && !b.foreign {
		b.checkSpelling(m.Key, at)
	}
	switch {
	case m.Key == "type":
		m.Value = b.typeWords(m.Value, at)
	case m.Key == "pattern":
		keep := b.goodPattern(m.Value, at)
		b.bytes += len(m.Value.Text)
		return m, keep
	case m.Key == "patternProperties" && m.Value.Is(jsontree.Object):
		m.Value = b.mapping(m.Value, at, c, b.goodPattern)
	case m.Key == "required" && m.Value.Is(jsontree.Bool):
		b.refuse(at, "want a list of names on the object around it; the short form of parameters has `optional: true`")
		return m, false
	case m.Key == "required" && m.Value.Is(jsontree.List) && len(m.Value.Items) == 0:
		return m, false // drafts up to 4 refuse it, and it says nothing
	case m.Key == "additionalItems":
		if !of.Get("items").Is(jsontree.List) {
			return m, false // without meaning
		}
		m.Key, m.Value = "items", b.expand(m.Value, c.down(at))
	case m.Key == "items" && m.Value.Is(jsontree.List) && of.Get("prefixItems") == nil:
		m.Key, m.Value = "prefixItems", b.list(m.Value, at, c)
	case kind == listOf && m.Value.Is(jsontree.List):
		m.Value = b.list(m.Value, at, c)
	case m.Key == "dependencies" && m.Value.Is(jsontree.Object):
		m.Value = b.dependencies(m.Value, at, c)
	case kind == mapOf && m.Value.Is(jsontree.Object):
		m.Value = b.mapping(m.Value, at, c, nil)
	case kind == aSchema || kind == oneOrList:
		m.Value = b.expand(m.Value, c.down(at))
	default:
		b.places[m.Value] = at
		b.bytes += len(m.Value.JSON())
	}
	return m, m.Value != nil
}

func (b *builder) list(v *jsontree.Value, at place, c context) *jsontree.Value {
	out := &jsontree.Value{Kind: jsontree.List}
	b.places[out] = at
	for i, item := range v.Items {
		out.Items = append(out.Items, b.expand(item, c.down(b.at(item, at, strconv.Itoa(i)))))
	}
	return out
}

// mapping is an object of schemas. Those under a key that good refuses are left out.
func (b *builder) mapping(v *jsontree.Value, at place, c context, good func(key *jsontree.Value, at place) bool) *jsontree.Value {
	out := &jsontree.Value{Kind: jsontree.Object}
	b.places[out] = at
	for _, m := range v.Members {
		below := b.at(m.Value, at, m.Key)
		if good == nil || good(jsontree.Text(m.Key), below) {
			b.bytes += len(m.Key) + 6
			out.Members = append(out.Members, jsontree.Member{Key: m.Key, Value: b.expand(m.Value, c.down(below))})
		}
	}
	return out
}

// dependencies is the mapping of drafts up to 7, which has schemas and lists of names.
func (b *builder) dependencies(v *jsontree.Value, at place, c context) *jsontree.Value {
	out := &jsontree.Value{Kind: jsontree.Object}
	b.places[out] = at
	for _, m := range v.Members {
		below := b.at(m.Value, at, m.Key)
		if isSchema(m.Value) {
			m.Value = b.expand(m.Value, c.down(below))
		} else {
			b.places[m.Value] = below
			b.bytes += len(m.Value.JSON())
		}
		out.Members = append(out.Members, m)
	}
	return out
}

// refuse is a fault of the file, but only a warning in a schema that nobody here can mend: the keyword is dropped.
func (b *builder) refuse(at place, format string, args ...any) {
	if b.foreign {
		b.warn(at, "dropped: "+format, args...)
		return
	}
	b.fail(at, format, args...)
}

// goodPattern says whether Go's regexp can check the pattern. It has no look-around and no back-references.
func (b *builder) goodPattern(v *jsontree.Value, at place) bool {
	if !v.Is(jsontree.String) {
		return true // the fault is found by the check of the whole schema
	}
	_, err := regexp.Compile(v.Text)
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		b.refuse(at, "the pattern is no RE2 expression (no look-around, no back-references): %s", cut(reason, 120))
	}
	return err == nil
}

// typeWords is the value of `type` in lower case, nil where a word is unknown.
func (b *builder) typeWords(v *jsontree.Value, at place) *jsontree.Value {
	out := &jsontree.Value{Kind: v.Kind, Text: v.Text}
	b.places[out] = at
	switch v.Kind {
	case jsontree.String:
		word, ok := b.typeWord(v.Text, at)
		if !ok {
			return nil
		}
		out.Text = word
	case jsontree.List:
		good := true
		seen := map[string]bool{}
		for i, item := range v.Items {
			if item.Is(jsontree.Null) && !b.foreign {
				item = jsontree.Text("null") // in YAML, the word alone is null
			}
			if !item.Is(jsontree.String) {
				return v
			}
			word, ok := b.typeWord(item.Text, b.at(item, at, strconv.Itoa(i)))
			good = good && ok
			if !seen[word] {
				seen[word] = true
				out.Items = append(out.Items, jsontree.Text(word))
			}
		}
		if !good {
			return nil
		}
	default: // no type at all, which the metaschema refuses
	}
	return out
}

// aliases are words of other languages for the types of JSON Schema.
var aliases = map[string]string{
	"str": "string", "text": "string", "date": "string", "datetime": "string", "file": "string",
	"int": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number",
	"bool": "boolean", "list": "array", "dict": "object", "map": "object", "none": "null", "nil": "null",
}

func (b *builder) typeWord(word string, at place) (string, bool) {
	lower := strings.ToLower(word)
	for _, t := range types {
		if lower == t {
			return t, true
		}
	}
	hint := didYouMean(lower, types)
	if alias := aliases[lower]; alias != "" {
		hint = fmt.Sprintf(": did you mean %q?", alias)
	}
	if hint == "" {
		hint = ": want " + strings.Join(types[:len(types)-1], ", ") + " or null"
	}
	b.fail(at, "unknown type %q%s", cut(word, 40), hint)
	return "", false
}

// checkSpelling warns of a keyword that is none, where one is near: JSON Schema takes it for a note, and what it was
// to check is not checked.
func (b *builder) checkSpelling(key string, at place) {
	if strings.HasPrefix(key, "x-") {
		return
	}
	if key == "optional" {
		b.warn(at, "`optional` has a meaning in the short form of parameters only; here `required` lists what is not")
		return
	}
	if hint := didYouMean(key, sortedNames(keywords)); hint != "" {
		b.warn(at, "unknown keyword %q%s", key, hint)
	}
}

// exclusiveBounds turns the `exclusiveMinimum: true` of draft 4 and OpenAPI 3.0 into the number that it means.
func exclusiveBounds(v *jsontree.Value) {
	for _, k := range []struct{ bound, exclusive string }{{"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}} {
		flag := v.Get(k.exclusive)
		if !flag.Is(jsontree.Bool) {
			continue
		}
		if limit := v.Get(k.bound); limit != nil && flag.Text == "true" {
			v.Set(k.exclusive, limit)
			v.Delete(k.bound)
		} else {
			v.Delete(k.exclusive)
		}
	}
}
