package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// address is where the compiler finds the schema. Nothing is fetched from it.
const address = "schema:///parameters"

// noLoader refuses every document but the one that is being compiled. Without it the library would open file:
// references. expand has left none in; this is the second wall.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references that leave the schema are not followed")
}

// check compiles v, self-contained, and reports what is wrong with it; what was found to be wrong before is no more in
// it. It is nil after a fault.
func (b *builder) check(v *jsontree.Value, at place) *jsonschema.Schema {
	if b.overflow {
		return nil
	}
	if size := len(v.JSON()); size > maxBytes {
		b.fail(at, "the schema is larger than %d KiB once its references are in place", maxBytes>>10)
		return nil
	}
	if name := endless(v); name != "" {
		b.fail(at, "the schema %s refers to itself without end", name)
		return nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	doc := checked(v)
	if err := c.AddResource(address, doc); err != nil {
		b.fail(at, "is no JSON Schema: %v", err)
		return nil
	}
	compiled, err := c.Compile(address)
	if err != nil {
		b.invalid(v, doc, at, err)
		return nil
	}
	b.defaults(c, v, nil, at)
	if b.faulty {
		return nil
	}
	return compiled
}

// checked is v as the compiler takes it, without the formats that are not checked.
func checked(v *jsontree.Value) any {
	if !v.Is(jsontree.Object) {
		return v.Any()
	}
	out := make(map[string]any, len(v.Members))
	for _, m := range v.Members {
		switch k := keywords[m.Key]; {
		case m.Key == "format" && m.Value.Is(jsontree.String) && !formats[m.Value.Text]:
		case k == mapOf && m.Value.Is(jsontree.Object):
			inner := make(map[string]any, len(m.Value.Members))
			for _, p := range m.Value.Members {
				inner[p.Key] = checked(p.Value)
			}
			out[m.Key] = inner
		case k == listOf && m.Value.Is(jsontree.List):
			inner := make([]any, len(m.Value.Items))
			for i, item := range m.Value.Items {
				inner[i] = checked(item)
			}
			out[m.Key] = inner
		case k == aSchema || k == oneOrList:
			out[m.Key] = checked(m.Value)
		default:
			out[m.Key] = m.Value.Any()
		}
	}
	return out
}

// invalid reports what the schema of schemas says of v, each fault at its place.
func (b *builder) invalid(v *jsontree.Value, doc any, at place, err error) {
	var meta *jsonschema.SchemaValidationError
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &meta) || !errors.As(meta.Err, &wrong) {
		b.fail(at, "is no JSON Schema: %s", cut(strings.ReplaceAll(err.Error(), address, ""), 200))
		return
	}
	found := reading{doc}.flat(wrong)
	slices.SortStableFunc(found, func(a, b fault) int { return slices.Compare(a.path, b.path) })
	for _, f := range found[:min(len(found), maxFaults)] {
		b.fail(b.placeOf(v, at, f.path), "%s", cut(f.text, maxFault))
	}
}

// placeOf is the place of what stands at path in v, or of the nearest around it.
func (b *builder) placeOf(v *jsontree.Value, at place, path []string) place {
	for _, key := range path {
		v = step(v, key)
		at = b.at(v, at, key)
	}
	return at
}

// defaults reports the defaults in v that their own schema refuses. In a foreign schema they are left out.
func (b *builder) defaults(c *jsonschema.Compiler, v *jsontree.Value, path []string, at place) {
	if d := v.Get("default"); d != nil {
		value := d.Any()
		own, err := c.Compile(address + "#" + pointer(path))
		if err == nil {
			err = own.Validate(value)
		}
		if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			b.refuse(b.at(d, at, "default"), "the default is refused by its own schema: %s", cut(reading{value}.together(wrong), maxFault))
			if b.foreign {
				v.Delete("default")
			}
		}
	}
	for _, s := range subschemas(v) {
		below := append(slices.Clip(path), s.path...)
		b.defaults(c, s.schema, below, b.placeOf(v, at, s.path))
	}
}

// pointer is the fragment of a URL that names path, RFC 6901 section 6.
func pointer(path []string) string {
	var p strings.Builder
	for _, token := range path {
		p.WriteByte('/')
		for _, c := range []byte(escape(token)) {
			if c == '-' || c == '_' || c == '~' || c == '.' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' {
				p.WriteByte(c)
			} else {
				fmt.Fprintf(&p, "%%%02X", c)
			}
		}
	}
	return p.String()
}

// endless is the name of a schema under $defs that applies to a value itself again before looking any deeper: to check
// a value against it would never end. "" when there is none.
func endless(root *jsontree.Value) string {
	const open, done = 1, 2
	state := map[string]int{}
	var visit func(name string) bool
	visit = func(name string) bool {
		if state[name] != 0 {
			return state[name] == open
		}
		state[name] = open
		if slices.ContainsFunc(sameValue(root.Get("$defs").Get(name)), visit) {
			return true
		}
		state[name] = done
		return false
	}
	for _, m := range members(root.Get("$defs")) {
		if visit(m.Key) {
			return strconv.Quote(m.Key)
		}
	}
	return ""
}

// sameValue are the definitions that v applies to the very value that it is applied to.
func sameValue(v *jsontree.Value) []string {
	var names []string
	if name := definitionName(v); name != "" {
		names = append(names, name)
	}
	for _, s := range subschemas(v) {
		switch s.path[0] {
		case "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies":
			names = append(names, sameValue(s.schema)...)
		}
	}
	return names
}

// definitionName is the NAME of a schema with `$ref: '#/$defs/NAME'`.
func definitionName(v *jsontree.Value) string {
	if ref := v.Get("$ref"); ref.Is(jsontree.String) {
		return unescape(strings.TrimPrefix(ref.Text, "#/$defs/"))
	}
	return ""
}
