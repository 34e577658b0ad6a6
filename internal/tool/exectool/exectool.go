// Package exectool is the kind of tool that runs a program of the operator's: a call fills placeholders in its argument
// list, hands the arguments to it as JSON on stdin, and what it writes to stdout is the result. No shell is involved.
package exectool

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `exec` kind of tool.
var Kind = tool.Kind{Name: "exec", Doc: "A program, without a shell; the arguments are JSON on its standard input.", New: func() tool.Config { return &Config{} }}

// Config is the `exec` part of a tool.
type Config struct {
	Command []string           `yaml:"command" doc:"the program and its arguments, no shell; {name} is an argument of the call, {caller.x} a field of the caller, also {run_id} and {idempotency_key}. A value is one argument whatever it holds, and no option: one that begins with - is refused where it begins an argument. An absent argument drops the item that it stands in. The program holds no placeholder; it is looked up in the gateway's PATH or, with a slash, from the file's folder"`
	Env     config.Map[string] `yaml:"env" doc:"the whole environment of the program, fixed texts without placeholders; not even PATH is there by itself. IDEMPOTENCY_KEY is added where the tool writes"`
	Dir     string             `yaml:"dir" doc:"the working folder, by default that of the file"`
	Stdin   string             `yaml:"stdin" enum:"json,none" doc:"json: the arguments as one line of JSON; none: nothing"`

	plan *plan // made by Check
}

// The values of Config.Stdin.
const (
	stdinJSON = "json"
	stdinNone = "none"
)

// idempotencyKey is the variable that holds the key of a write.
const idempotencyKey = "IDEMPOTENCY_KEY"

// plan is what a call needs of the configuration. It is immutable.
type plan struct {
	program string // absolute
	args    []element
	env     []string // never nil: package exec gives a nil one the gateway's own
	dir     string   // absolute
	stdin   string
}

// SetDefaults is what holds where the file is silent.
func (c *Config) SetDefaults() { c.Stdin = stdinJSON }

// DefaultEffect is Write: nobody can tell what a program does.
func (*Config) DefaultEffect() tool.Effect { return tool.Write }

// Hosts is empty: whom the program talks to is its own business.
func (*Config) Hosts() []string { return nil }

// CallerFields are the fields of the caller that the argument list names, in order. They are known after Check.
func (c *Config) CallerFields() []string {
	if c.plan == nil {
		return nil
	}
	var fields []string
	for _, e := range c.plan.args {
		fields = append(fields, e.callerFields...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// Check finds the program and reports what can't work.
func (c *Config) Check(n *config.Node, s tool.Spec) {
	if !supported {
		n.Fail("exec tools need a Unix system")
		return
	}
	p := &plan{env: []string{}, stdin: c.Stdin}
	folder, err := filepath.Abs(n.Dir())
	if err != nil {
		n.Fail("the folder of the file is not known: %s", err)
		return
	}
	p.dir = checkDir(n, folder, c.Dir)
	c.checkCommand(n, s, folder, p)
	n.Get("command").FailSecrets("everybody on the machine can read the arguments of a program (ps); set it under env, where the program reads it")
	c.checkEnv(n, p)
	c.plan = p
	c.warnUnused(n, s)
}

func (c *Config) checkCommand(n *config.Node, s tool.Spec, folder string, p *plan) {
	if len(c.Command) == 0 {
		n.FailKey("command", "want a list of the program and its arguments, such as [./tool.sh, \"{name}\"]")
		return
	}
	items := n.Get("command").Items()
	p.program = checkProgram(items[0], c.Command[0], folder)
	for i, text := range c.Command[1:] {
		p.args = append(p.args, newElement(items[i+1], text, s))
	}
}

func (c *Config) checkEnv(n *config.Node, p *plan) {
	for name, value := range c.Env.All() {
		switch fault := faultOfVariable(name, value); {
		case fault != "":
			n.Get("env").FailKey(name, "%s", fault)
		default:
			p.env = append(p.env, name+"="+value)
		}
	}
}

// warnUnused tells of parameters that the program never gets.
func (c *Config) warnUnused(n *config.Node, s tool.Spec) {
	if c.Stdin != stdinNone {
		return
	}
	used := map[string]bool{}
	for _, e := range c.plan.args {
		for _, name := range e.text.Names() {
			used[name] = true
		}
	}
	for _, name := range s.Names() {
		switch {
		case used[name]:
		case name == placeholder.RunID, name == placeholder.IdempotencyKey:
			n.Warn("parameter %q is not used: {%s} is the gateway's own", name, name)
		default:
			n.Warn("parameter %q is not used: it stands nowhere in the command, and stdin is none", name)
		}
	}
}

// Build makes the tool.
func (c *Config) Build(tool.Spec, tool.Env) (tool.Tool, error) {
	if c.plan == nil {
		return nil, errors.New("exectool: Build before Check")
	}
	return &runner{plan: c.plan}, nil
}
