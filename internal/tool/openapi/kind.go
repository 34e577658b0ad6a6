package openapi

import (
	"context"
	"maps"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/httptool"
)

// Kind is the kind of the tools that Tools returns: `http` with what only parameters of OpenAPI need. It is not for the
// list of kinds that a file may use, but for reading what Tools returns.
var Kind = KindWith(nil)

// KindWith is Kind for an entry with settings for TLS, which are in none of the tools that Tools returns.
func KindWith(t *outbound.TLS) tool.Kind {
	return tool.Kind{Name: httptool.Kind.Name, New: func() tool.Config { return &request{tls: t} }}
}

// request is the `http` part of a generated tool.
type request struct {
	httptool.Config `yaml:",inline"`
	Encode          config.Map[string] `yaml:"encode"` // by argument: how its value is one text
	Wire            config.Map[string] `yaml:"wire"`   // by argument of the body: its name there

	tls *outbound.TLS
}

// The ways in which the value of an argument is one text.
const (
	commas = "comma"
	blanks = "space"
	pipes  = "pipe"
	asJSON = "json"
)

var separators = map[string]string{commas: ",", blanks: " ", pipes: "|"}

// Check looks at the request with the names that arguments have in it.
func (r *request) Check(n *config.Node, s tool.Spec) { r.Config.Check(n, r.inner(s)) }

func (r *request) inner(s tool.Spec) tool.Spec {
	params := make(map[string]tool.Param, len(s.Params))
	for name, p := range s.Params {
		if wire, ok := r.Wire.Get(name); ok {
			name = wire
		}
		params[name] = p
	}
	s.Params = params
	return s
}

// Build makes the tool.
func (r *request) Build(s tool.Spec, env tool.Env) (tool.Tool, error) {
	r.TLS = r.tls
	made, err := r.Config.Build(r.inner(s), env)
	if err != nil || r.Encode.Len() == 0 && r.Wire.Len() == 0 {
		return made, err
	}
	return &encoder{Tool: made, encode: r.Encode, wire: r.Wire}, nil
}

// encoder is an http tool whose arguments are made ready for the wire first.
type encoder struct {
	tool.Tool
	encode, wire config.Map[string]
}

// Call makes the call with the changed arguments.
func (e *encoder) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	args := maps.Clone(c.Args)
	for name, how := range e.encode.All() {
		if v, ok := args[name]; ok && v != nil {
			args[name] = encode(v, how)
		}
	}
	for name := range e.wire.All() {
		delete(args, name)
	}
	for name, wire := range e.wire.All() {
		if v, ok := c.Args[name]; ok {
			args[wire] = v
		}
	}
	c.Args = args
	return e.Tool.Call(ctx, c)
}

// encode is a value as one text. A list without items is nil, as if the argument were absent; what is no list needs no
// separators.
func encode(v any, how string) any {
	if how == asJSON {
		return string(tool.EncodeJSON(v))
	}
	list, ok := v.([]any)
	if !ok {
		return v
	}
	if len(list) == 0 {
		return nil
	}
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = placeholder.Text(item)
	}
	return strings.Join(texts, separators[how])
}
