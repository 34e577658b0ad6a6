// Package fixed is the kind of tool, `const`, that gives the same text each time.
package fixed

import (
	"context"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `const` kind of tool.
var Kind = tool.Kind{Name: "const", Doc: "The same text each time.", New: func() tool.Config { return &Config{} }}

// Config is the `const` part of a tool: a text, or anything else, which becomes JSON.
type Config struct{ text string }

// DecodeNode reads the text.
func (c *Config) DecodeNode(n *config.Node) {
	if c.text = n.Text(); n.Kind() == config.Mapping || n.Kind() == config.List {
		c.text = string(n.JSON())
	}
	if c.text == "" {
		n.Fail("want the text that the tool gives")
	}
}

// ConfigSchema lets anything stand there.
func (*Config) ConfigSchema() any {
	return map[string]any{"description": "The text that the tool gives."}
}

// DefaultEffect is Read.
func (*Config) DefaultEffect() tool.Effect { return tool.Read }

// Check finds nothing more to report.
func (*Config) Check(*config.Node, tool.Spec) {}

// Hosts is empty: the tool talks to nobody.
func (*Config) Hosts() []string { return nil }

// Build makes the tool.
func (c *Config) Build(tool.Spec, tool.Env) (tool.Tool, error) { return client(c.text), nil }

type client string

// Call gives the text.
func (c client) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Text: string(c)}, nil
}
