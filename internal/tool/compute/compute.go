// Package compute is the kind of tool that is an expression over its arguments, in the language of
// github.com/expr-lang/expr.
package compute

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `compute` kind of tool.
var Kind = tool.Kind{Name: "compute", Doc: "A calculation over the arguments, without any request.", New: func() tool.Config { return &Config{} }}

// TypeCompute is the type of a failed computation, as the model reads it.
const TypeCompute = "ComputeError"

// Config is the `compute` part of a tool: the expression.
type Config struct {
	code    string
	program *vm.Program // made by Check
}

// DecodeNode reads the expression.
func (c *Config) DecodeNode(n *config.Node) {
	if c.code = n.Text(); strings.TrimSpace(c.code) == "" {
		n.Fail("want an expression over the tool's arguments, such as round(subtotal * rate, 2)")
	}
}

// ConfigSchema is that of a text.
func (*Config) ConfigSchema() any {
	return map[string]any{"type": "string", "description": "An expression over the tool's arguments (expr-lang)."}
}

// DefaultEffect is Read.
func (*Config) DefaultEffect() tool.Effect { return tool.Read }

// Hosts is empty: the tool talks to nobody.
func (*Config) Hosts() []string { return nil }

// Check compiles the expression and reports names that are no parameters.
func (c *Config) Check(n *config.Node, s tool.Spec) {
	env := make(types.Map, len(s.Params))
	for name := range s.Params {
		env[name] = types.Any // what it is shows in a call; an optional one may be nil
	}
	var err error
	c.program, err = expr.Compile(c.code, expr.Env(env), expr.DisableBuiltin("round"), expr.Function("round", round), expr.DisableBuiltin("now"))
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		n.Fail("is no expression over the tool's arguments: %s", first)
	}
}

// Build makes the tool.
func (c *Config) Build(s tool.Spec, _ tool.Env) (tool.Tool, error) {
	if c.program == nil {
		return nil, fmt.Errorf("compute: Build before Check")
	}
	return &client{program: c.program, names: s.Names()}, nil
}

// round rounds half away from zero, to a whole number or to so many digits.
func round(args ...any) (any, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, fmt.Errorf("round wants a number and, if it is not 0, a number of digits")
	}
	x, ok := float(args[0])
	digits := 0.0
	if len(args) == 2 {
		var whole bool
		if digits, whole = float(args[1]); !whole || digits != math.Trunc(digits) || math.Abs(digits) > 15 {
			return nil, fmt.Errorf("round wants a whole number of digits")
		}
	}
	if !ok {
		return nil, fmt.Errorf("round wants a number")
	}
	// By way of the decimal form, so that 1.005 is not taken for the slightly smaller number that stands for it.
	return shift(math.Round(shift(x, int(digits))), -int(digits)), nil
}

// shift is x times ten to the power of digits, in decimal, without the error of a multiplication.
func shift(x float64, digits int) float64 {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	power, err := strconv.Atoi(exponent)
	if err != nil { // an infinity, or no number
		return x
	}
	shifted, err := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(power+digits), 64)
	if err != nil {
		return x
	}
	return shifted
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

type client struct {
	program *vm.Program
	names   []string
}

// Call evaluates the expression. It ends by itself: the language has no endless loops, and its memory is bounded.
func (t *client) Call(_ context.Context, c tool.Call) (tool.Result, error) {
	env := make(map[string]any, len(t.names))
	for _, name := range t.names {
		env[name] = native(c.Args[name])
	}
	v, err := expr.Run(t.program, env)
	if err != nil {
		return tool.Result{}, &tool.Error{Class: tool.Failed, Type: TypeCompute, Err: err}
	}
	text, err := show(v)
	if err != nil {
		return tool.Result{}, &tool.Error{Class: tool.InvalidResult, Type: TypeCompute, Err: err}
	}
	return tool.Result{Text: text}, nil
}

// native is an argument with numbers as the language has them.
func native(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = native(v[i])
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k := range v {
			m[k] = native(v[k])
		}
		return m
	}
	return v
}

// show is a value as the model reads it: a text as it is, a number without an exponent, anything else as JSON.
func show(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", fmt.Errorf("the result is no number")
		}
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	if _, err := json.Marshal(v); err != nil {
		return "", fmt.Errorf("the result has no JSON: %w", err)
	}
	return string(tool.EncodeJSON(v)), nil
}
