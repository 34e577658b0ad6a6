package exectool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// element is one item of the argument list. It becomes one argument of the program, or none.
type element struct {
	text         *placeholder.Template
	open         bool     // begins with a placeholder: its value decides whether it is an option
	visible      string   // the arguments in it that the model knows, for messages to it
	callerFields []string // in it
}

// newElement reads an item and reports to n what can't work.
func newElement(n *config.Node, text string, s tool.Spec) element {
	t := placeholder.Read(n, text, s)
	e := element{text: t, callerFields: t.CallerFields()}
	var visible []string
	for _, name := range t.Names() {
		if !s.Params[name].Bound {
			visible = append(visible, name)
		}
	}
	e.visible = strings.Join(visible, ", ")
	first := true
	for p := range t.Parts() {
		literal, isLiteral := p.Literal()
		switch {
		case isLiteral && strings.Contains(literal, "\x00"):
			n.Fail("an argument can't hold a NUL character")
		case !first:
		case !isLiteral:
			e.open = true
		case !t.Static() && strings.Trim(literal, "-") == "":
			n.Fail("a value right after %q would choose the option: write the option's name before it", literal)
		}
		first = false
	}
	return e
}

// argv is the program's arguments for a call. Each element gives at most one: there is nothing in a value that could
// split it. It is safe to hand a model's texts to a program as long as that takes no option from them, so a value that
// begins with "-" is refused where it begins an argument; behind other text ("--name={name}") it may.
func argv(elements []element, c tool.Call) ([]string, *tool.Error) {
	args := make([]string, 0, len(elements))
	for _, e := range elements {
		for _, field := range e.callerFields {
			if c.Caller[field] == nil {
				// What is not known of the caller must not read like a call without that argument.
				return nil, &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: fmt.Errorf("the caller has no field %s", field)}
			}
		}
		text, missing := e.text.Expand(c, nil)
		switch {
		case missing:
			continue
		case e.open && strings.HasPrefix(text, "-"):
			return nil, e.refuse("must not begin with -")
		case strings.Contains(text, "\x00"):
			return nil, e.refuse("must not hold a NUL character")
		}
		args = append(args, text)
	}
	return args, nil
}

// refuse is the failure of a value that may not be passed. The model reads why, unless the gateway itself has filled
// the value in.
func (e element) refuse(why string) *tool.Error {
	if e.visible == "" {
		return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: errors.New("a bound argument or field of the caller " + why)}
	}
	message := "argument " + e.visible + ": " + why
	return &tool.Error{Class: tool.Business, Message: message, Err: errors.New(message)}
}
