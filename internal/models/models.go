// Package models is the table of names that clients send as model, and what stands behind each: routes, tools,
// instructions, defaults, budget and price.
package models

import (
	"encoding/json"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/globs"
	"github.com/toolgate/toolgate/internal/guard"
	"github.com/toolgate/toolgate/internal/upstream"
)

// Any is the name in the file that stands for every name not listed.
const Any = "*"

// Config is one entry under `models`.
type Config struct {
	Routes       []RouteConfig            `yaml:"routes" doc:"Ways to the model, in order; the next is tried when one fails before any byte reached the client."`
	Upstream     string                   `yaml:"upstream" doc:"Short for one route: the upstream, with the name that the client sent."`
	Model        string                   `yaml:"model" doc:"With upstream: the model's name there."`
	Tools        *[]string                `yaml:"tools" doc:"Names or globs, -name takes away; [] is pure pass-through. Without it all."`
	Instructions string                   `yaml:"instructions" doc:"A system message put before the client's."`
	Defaults     config.Map[*config.Node] `yaml:"defaults" doc:"Request fields used where the client sent none."`
	ToolCalling  string                   `yaml:"tool_calling" enum:"native,prompt" doc:"native: tools go to the provider as such. prompt: for models without native calls, tools are described in the system message and calls are read from text."`
	Structured   string                   `yaml:"structured" enum:"auto,native,tool" doc:"How response_format json_schema reaches the model. native: as it is. tool: as a tool whose call is the answer. auto: native, and tool where the provider refuses a schema beside tools."`
	Memory       string                   `yaml:"memory" enum:"held,off" doc:"Overrides memory: whether tool turns that the client never saw are put back in its next request."`
	Guard        string                   `yaml:"guard" enum:"off,mark" doc:"Overrides guard: whether results of tools are marked as data."`
	Budget       budget.Config            `yaml:"budget" doc:"Overrides of the budget."`
	Price        budget.Price             `yaml:"price" doc:"Per million tokens, for cost metrics and max_cost."`
}

// RouteConfig is one route of a model.
type RouteConfig struct {
	Upstream string `yaml:"upstream" doc:"A key under upstreams."`
	Model    string `yaml:"model" doc:"The model's name there; without it the client's."`
	Weight   int    `yaml:"weight" min:"0" doc:"Among routes with a weight the first one tried is drawn by it."`
}

// SetDefaults sets what the file need not say.
func (c *Config) SetDefaults() {
	c.ToolCalling = "native"
	c.Structured = "auto"
}

// ownedMembers are members of a request that no default may set.
var ownedMembers = map[string]bool{"model": true, "messages": true, "tools": true, "stream": true, "functions": true}

// Check reports what can't work.
func (c *Config) Check(n *config.Node) {
	switch {
	case c.Upstream == "" && len(c.Routes) == 0 && n.Misspelt("upstream", "routes"):
	case c.Upstream == "" && len(c.Routes) == 0:
		n.Fail("want an upstream, or routes with one each")
	case c.Upstream != "" && len(c.Routes) > 0:
		n.FailKey("upstream", "stands beside routes: want one of the two")
	case c.Model != "" && c.Upstream == "":
		n.FailKey("model", "belongs to upstream; in routes it stands in each route")
	}
	if c.Tools != nil {
		if _, err := globs.Parse(*c.Tools); err != nil {
			n.Get("tools").Fail("%s", err)
		}
	}
	for name := range c.Defaults.All() {
		if ownedMembers[name] {
			c.Defaults.Node(name).Fail("%s is the client's or the gateway's to set, it has no default", name)
		}
	}
}

// CheckUpstreams reports routes to upstreams that the file does not have.
func (c *Config) CheckUpstreams(n *config.Node, known func(string) (suggestion string, ok bool)) {
	check := func(at *config.Node, name string) {
		if name == "" {
			return
		}
		if hint, ok := known(name); !ok {
			at.Fail("there is no upstream %q%s", name, hint)
		}
	}
	check(n.Get("upstream"), c.Upstream)
	for i, r := range c.Routes {
		at := n.Get("routes").Items()[i]
		if r.Upstream == "" {
			at.Fail("upstream is missing")
		}
		check(at.Get("upstream"), r.Upstream)
	}
}

// Model is what stands behind a name. Immutable.
type Model struct {
	Name         string // as the file has it
	Label        string // for metrics: the name, or "other" of Any
	Routes       *upstream.Routes
	Tools        globs.List
	Prompt       bool            // it has no native calls
	Structured   string          // auto, native or tool
	Memory       string          // held, off, or "" where the file's own word holds
	Guard        string          // off, mark, or "" where the file's own word holds
	Instructions json.RawMessage // a message; nil without
	Guarded      json.RawMessage // the same with what the marks around results mean
	Defaults     []chat.Pair
	Limits       budget.Limits
	Price        budget.Price
}

// New makes a model of a checked configuration.
func New(name string, c *Config, upstreams map[string]*upstream.Client, limits budget.Limits) *Model {
	m := &Model{
		Name: name, Label: name, Limits: c.Budget.Over(limits), Price: c.Price,
		Prompt: c.ToolCalling == "prompt", Structured: c.Structured, Memory: c.Memory, Guard: c.Guard,
	}
	if name == Any {
		m.Label = "other"
	}
	if c.Tools != nil {
		m.Tools, _ = globs.Parse(*c.Tools) // Check has refused bad ones
	}
	m.Guarded = chat.SystemMessage(guard.Instruction)
	if c.Instructions != "" {
		m.Instructions = chat.SystemMessage(c.Instructions)
		m.Guarded = chat.SystemMessage(c.Instructions + "\n\n" + guard.Instruction)
	}
	for key, v := range c.Defaults.All() {
		m.Defaults = append(m.Defaults, chat.Pair{Name: key, Value: v.JSON()})
	}
	var routes []upstream.Route
	if c.Upstream != "" {
		target := c.Model
		if target == "" && name != Any {
			target = name
		}
		routes = append(routes, upstream.NewRoute(upstreams[c.Upstream], target, 0))
	}
	for _, r := range c.Routes {
		routes = append(routes, upstream.NewRoute(upstreams[r.Upstream], r.Model, r.Weight))
	}
	m.Routes = upstream.NewRoutes(routes...)
	return m
}

// Table is all models of a configuration. Immutable.
type Table struct {
	list   []*Model
	byName map[string]*Model
	any    *Model
	other  *upstream.Routes
}

// NewTable makes the table. other is where requests go that name no model, such as those for files.
func NewTable(list []*Model, other *upstream.Routes) *Table {
	t := &Table{byName: map[string]*Model{}, other: other}
	for _, m := range list {
		if m.Name == Any {
			t.any = m
			continue
		}
		t.list = append(t.list, m)
		t.byName[m.Name] = m
	}
	return t
}

// Find is the model for the name that a client sent, nil where there is none.
func (t *Table) Find(name string) *Model {
	if m := t.byName[name]; m != nil {
		return m
	}
	return t.any
}

// Named are the models with a name of their own, in the file's order.
func (t *Table) Named() []*Model { return t.list }

// Any is the model for all other names, nil without one.
func (t *Table) Any() *Model { return t.any }

// Other is where requests go that name no model.
func (t *Table) Other() *upstream.Routes { return t.other }
