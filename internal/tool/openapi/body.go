package openapi

import (
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// body is what becomes of an operation's request body.
type body struct {
	sent        string // json or form: the arguments that stand nowhere else; whole: one argument; "": none
	contentType string // "" for the usual one
	args        []*argument
	defs        *jsontree.Value
}

const (
	sentJSON  = "json"
	sentForm  = "form"
	sentWhole = "whole"
)

const typeForm = "application/x-www-form-urlencoded"

// body reads the body of an operation. params are its other arguments, beside whose names those of the body stand.
func (m *maker) body(o *operation, params []*argument) (*body, error) {
	v, err := m.doc.follow(o.value.Get("requestBody"))
	if err != nil {
		return nil, fmt.Errorf("its body: %w", err)
	}
	content := members(v.Get("content"))
	if len(content) == 0 {
		return &body{}, nil
	}
	media, err := pickMedia(content)
	if err != nil {
		return nil, err
	}
	b := &body{sent: sentJSON}
	if baseType(media.Key) == typeForm {
		b.sent = sentForm
	} else if t := baseType(media.Key); strings.HasSuffix(t, "+json") && !strings.Contains(t, "*") {
		b.contentType = media.Key
	}
	whole, defs, err := m.bodySchema(o, media.Value.Get("schema"))
	if err != nil {
		return nil, fmt.Errorf("its body: %w", err)
	}
	spread, err := m.spread(o, whole, defs)
	if err != nil {
		return nil, fmt.Errorf("its body: %w", err)
	}
	switch {
	case b.sent == sentForm && spread == nil:
		return nil, errors.New("its body is a form that is no plain object")
	case spread != nil && (b.sent == sentForm || m.canSpread(v, spread, params)):
		b.defs = spread.defs
		for _, p := range spread.properties {
			b.args = append(b.args, &argument{wire: p.Key, in: inBody, schema: p.Value, required: spread.required[p.Key]})
		}
		return b, nil
	}
	b.sent, b.defs = sentWhole, defs
	a := &argument{wire: "body", in: inRequest, schema: whole, required: isTrue(v.Get("required"))}
	if whole.Get("description") == nil {
		a.schema = m.clean.described(whole, v)
	}
	b.args = []*argument{a}
	return b, nil
}

// pickMedia is the form in which a body is sent: plain JSON before its variants before a form.
func pickMedia(content []jsontree.Member) (jsontree.Member, error) {
	ways := []func(string) bool{
		func(t string) bool { return t == "application/json" },
		isJSON,
		func(t string) bool { return t == typeForm },
	}
	for _, way := range ways {
		for _, c := range content {
			if _, _, err := mime.ParseMediaType(c.Key); err == nil && way(baseType(c.Key)) {
				return c, nil
			}
		}
	}
	return jsontree.Member{}, fmt.Errorf("its body is %s, and only JSON and forms can be sent", cut(content[0].Key, maxName))
}

// bodySchema is the schema of a body, references in place and without what only the service sets, and the definitions
// that recursive parts of it refer to.
func (m *maker) bodySchema(o *operation, v *jsontree.Value) (whole, defs *jsontree.Value, err error) {
	clean, err := m.clean.schema(v)
	if err != nil {
		return nil, nil, err
	}
	root := objectOf([]*argument{{name: "body", schema: clean}})
	if root, err = m.parse(o, root); err != nil {
		return nil, nil, err
	}
	whole, defs = root.Get("properties").Get("body"), root.Get("$defs")
	dropReadOnly(whole, defs)
	for _, d := range members(defs) {
		dropReadOnly(d.Value, defs)
	}
	return whole, defs, nil
}

// spread is the body by its properties, nil where it is more than these.
func (m *maker) spread(o *operation, whole, defs *jsontree.Value) (*objectSchema, error) {
	if !takesObjects(whole) {
		return nil, nil
	}
	root := &jsontree.Value{Kind: jsontree.Object, Members: slices.Clone(whole.Members)}
	if defs != nil {
		root.Set("$defs", defs)
	}
	s, err := m.asObject(o, root)
	if err != nil {
		return nil, err
	}
	if s.more || whole.Get("properties") == nil && len(s.properties) == 0 {
		return nil, nil
	}
	return s, nil
}

// canSpread says whether the properties of a body can be arguments beside params and mean the same. They can't where
// two names would be one, and where leaving the body out is another request than giving what is required of it.
func (m *maker) canSpread(requestBody *jsontree.Value, s *objectSchema, params []*argument) bool {
	var args []*argument
	for _, p := range s.properties {
		args = append(args, &argument{wire: p.Key})
	}
	mayLack := requestBody.Get("required") != nil && !isTrue(requestBody.Get("required"))
	return !clash(args, params) && (!mayLack || len(s.required) == 0)
}
