package openapi

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// place is where in a request an argument goes.
type place string

const (
	inPath   place = "path"
	inQuery  place = "query"
	inHeader place = "header"
	inBody   place = "body"

	inRequest place = "request" // as the whole body
)

// argument is an argument of a tool.
type argument struct {
	name     string // as the model has it; set by nameArguments
	wire     string // as the service has it
	in       place
	schema   *jsontree.Value
	required bool
	encode   string // how it is one text, "" where it is that or several
}

// unsupported is why a parameter can't be an argument. Where it is required, its operation can't be a tool.
type unsupported struct{ parameter, why string }

func (e *unsupported) Error() string { return fmt.Sprintf("%s %s", e.parameter, e.why) }

// ignored are headers that are no parameters (OpenAPI 3.1.1, 4.8.12.1) or that are the gateway's own, beside those of
// the connection.
var ignored = map[string]bool{"Accept": true, "Authorization": true, "Content-Type": true, "Host": true, "Idempotency-Key": true}

// parameters are the arguments that an operation's parameters become, in the order of the document.
func (m *maker) parameters(o *operation) ([]*argument, error) {
	var list []*argument
	declared, err := m.declared(o)
	if err != nil {
		return nil, err
	}
	for _, p := range declared {
		if m.isIgnored(p) {
			continue
		}
		made, err := m.arguments(o, p)
		switch {
		case err == nil:
			list = append(list, distinct(list, made)...)
		case isRequired(p):
			return nil, err
		default:
			m.warnings.add(o, "optional %v and is left out", err)
		}
	}
	return m.withPath(o, list)
}

// declared are the parameters of the operation and of its path; one of the operation takes the place of the path's.
func (m *maker) declared(o *operation) ([]*jsontree.Value, error) {
	var list []*jsontree.Value
	at := map[[2]string]int{}
	for _, from := range []*jsontree.Value{o.item, o.value} {
		for _, p := range items(from.Get("parameters")) {
			p, err := m.doc.follow(p)
			if err != nil {
				return nil, fmt.Errorf("a parameter: %w", err)
			}
			key := [2]string{text(p.Get("in")), text(p.Get("name"))}
			if i, again := at[key]; again {
				list[i] = p
				continue
			}
			at[key] = len(list)
			list = append(list, p)
		}
	}
	return list, nil
}

func isRequired(p *jsontree.Value) bool {
	return isTrue(p.Get("required")) || p.Get("in").IsText(string(inPath))
}

// isIgnored says whether a parameter is nothing that the model could give: what the gateway or the entry sends itself.
func (m *maker) isIgnored(p *jsontree.Value) bool {
	name := text(p.Get("name"))
	switch place(text(p.Get("in"))) {
	case inHeader:
		key := http.CanonicalHeaderKey(name)
		return ignored[key] || placeholder.FramingHeader(key) || m.sentHeaders[key]
	case inQuery:
		a := m.config.Auth
		return a != nil && a.Query != nil && a.Query.Name == name
	default:
		return false
	}
}

// distinct is made without what list has: an object in the query may bring a name that another parameter has too, and
// headers that differ in their case are one.
func distinct(list, made []*argument) []*argument {
	var kept []*argument
next:
	for _, a := range made {
		for _, b := range list {
			if a.in == b.in && (a.wire == b.wire || a.in == inHeader && strings.EqualFold(a.wire, b.wire)) {
				continue next
			}
		}
		kept = append(kept, a)
	}
	return kept
}

// arguments are what a parameter becomes: one argument, or one for each property of an object.
func (m *maker) arguments(o *operation, p *jsontree.Value) ([]*argument, error) {
	a := &argument{wire: text(p.Get("name")), in: place(text(p.Get("in"))), required: isRequired(p)}
	no := func(format string, args ...any) ([]*argument, error) {
		return nil, &unsupported{fmt.Sprintf("%s parameter %q", a.in, cut(a.wire, maxName)), fmt.Sprintf(format, args...)}
	}
	switch {
	case a.wire == "":
		return no("has no name")
	case a.in != inPath && a.in != inQuery && a.in != inHeader:
		return no("is nothing that a tool can send")
	case a.in == inHeader && !httpguts.ValidHeaderFieldName(a.wire):
		return no("is no name of a header")
	}
	schema := p.Get("schema")
	if content := members(p.Get("content")); len(content) > 0 {
		if !isJSON(content[0].Key) {
			return no("is sent as %s", cut(content[0].Key, maxName))
		}
		schema, a.encode = content[0].Value.Get("schema"), asJSON
	}
	if schema == nil {
		schema = stringSchema()
	}
	var err error
	if a.schema, err = m.clean.schema(schema); err != nil {
		return no("has a schema that can't be used: %v", err)
	}
	a.schema = m.clean.described(a.schema, p)
	if a.encode == asJSON {
		return []*argument{a}, nil
	}
	kinds := m.kindsOf(schema, 0)
	form := formOf(p, a.in)
	switch {
	case form.style == "":
		return no("has the style %q, which is not supported", cut(text(p.Get("style")), maxName))
	case kinds == isObject && form.style == "deepObject":
		return m.properties(o, a, func(name string) string { return a.wire + "[" + name + "]" }, false)
	case kinds == isObject && form.style == "form" && form.explode:
		return m.properties(o, a, func(name string) string { return name }, true)
	case kinds&isObject != 0:
		return no("is an object, which has no form in a %s in this style", a.in)
	case form.style == "deepObject":
		return no("has the style deepObject and is no object")
	case kinds&isList != 0 && !form.explode:
		a.encode = form.joined
	}
	return []*argument{a}, nil
}

// properties are the properties of the object that the parameter a is, each as an argument. lists says whether one may
// be a list.
func (m *maker) properties(o *operation, a *argument, wire func(string) string, lists bool) ([]*argument, error) {
	no := func(format string, args ...any) error {
		return &unsupported{fmt.Sprintf("%s parameter %q", a.in, cut(a.wire, maxName)), fmt.Sprintf(format, args...)}
	}
	whole, err := m.asObject(o, a.schema)
	if err != nil {
		return nil, no("has a schema that can't be used: %v", err)
	}
	if len(whole.properties) == 0 {
		return nil, no("is an object without known properties")
	}
	var made []*argument
	for _, p := range whole.properties {
		required := whole.required[p.Key] && a.required
		kinds := m.kindsOf(p.Value, 0)
		if kinds&isObject != 0 || kinds&isList != 0 && !lists {
			if required {
				return nil, no("has a property %q that has no form in a %s", cut(p.Key, maxName), a.in)
			}
			m.warnings.add(o, "the property %q of %s parameter %q has no form in a %s and is left out", cut(p.Key, maxName), a.in, cut(a.wire, maxName), a.in)
			continue
		}
		if p.Value.Get("description") == nil {
			if d := a.schema.Get("description"); d != nil && p.Value.Is(jsontree.Object) {
				p.Value.Set("description", d)
			}
		}
		made = append(made, &argument{wire: wire(p.Key), in: a.in, schema: p.Value, required: required})
	}
	return made, nil
}

// form is how the value of a parameter is written.
type form struct {
	style   string // "" for one that is not supported
	explode bool   // a list is several items
	joined  string // else: how it is one
}

// formOf is that of a parameter (OpenAPI 3.1.1, 4.8.12.3).
func formOf(p *jsontree.Value, in place) form {
	style := text(p.Get("style"))
	if style == "" && in == inQuery {
		style = "form"
	} else if style == "" {
		style = "simple"
	}
	f := form{style: style, explode: style == "form", joined: commas}
	if e := p.Get("explode"); e != nil {
		f.explode = isTrue(e)
	}
	switch {
	case in == inQuery && (style == "form" || style == "deepObject"):
	case in == inQuery && style == "spaceDelimited":
		f.joined = blanks
	case in == inQuery && style == "pipeDelimited":
		f.joined = pipes
	case in != inQuery && style == "simple":
		f.explode = false // a list is joined by commas either way
	default:
		f.style = ""
	}
	return f
}

// withPath is list with an argument for each name in the path, and without those that the path has no place for.
func (m *maker) withPath(o *operation, list []*argument) ([]*argument, error) {
	names, err := pathNames(o.path)
	if err != nil {
		return nil, err
	}
	var kept []*argument
	has := map[string]bool{}
	for _, a := range list {
		if a.in == inPath && !names[a.wire] {
			m.warnings.add(o, "path parameter %q stands nowhere in the path and is left out", cut(a.wire, maxName))
			continue
		}
		has[a.wire] = has[a.wire] || a.in == inPath
		kept = append(kept, a)
	}
	var missing []*argument
	for _, name := range placeInPath.FindAllStringSubmatch(o.path, -1) {
		if !has[name[1]] {
			has[name[1]] = true
			m.warnings.add(o, "path parameter %q is not described: any text is taken", cut(name[1], maxName))
			missing = append(missing, &argument{wire: name[1], in: inPath, schema: stringSchema(), required: true})
		}
	}
	return append(missing, kept...), nil
}

func stringSchema() *jsontree.Value {
	v := newObject()
	v.Set("type", jsontree.Text("string"))
	return v
}

// isJSON says whether a media type, or a range of them, has JSON.
func isJSON(mediaType string) bool {
	t := baseType(mediaType)
	return t == "application/json" || t == "*/*" || t == "application/*" || strings.HasSuffix(t, "+json")
}

func baseType(mediaType string) string {
	t, _, _ := strings.Cut(mediaType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
