// Package answer is the kind of tool whose checked arguments are the run's answer, as JSON.
package answer

import (
	"context"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `answer` kind of tool.
var Kind = tool.Kind{Name: "answer", Doc: "The arguments are the answer: the run ends with them.", New: func() tool.Config { return &Config{} }}

// Config is the `answer` part of a tool, which has nothing to say: answer: {}.
type Config struct{}

// DefaultEffect is Read: nothing happens to the world.
func (*Config) DefaultEffect() tool.Effect { return tool.Read }

// Ending is Final: the arguments are for the user.
func (*Config) Ending() tool.Ending { return tool.Final }

// Check finds nothing to report.
func (*Config) Check(*config.Node, tool.Spec) {}

// Hosts is empty: the tool talks to nobody.
func (*Config) Hosts() []string { return nil }

// Build makes the tool.
func (*Config) Build(tool.Spec, tool.Env) (tool.Tool, error) { return client{}, nil }

type client struct{}

// Call gives the arguments back.
func (client) Call(_ context.Context, c tool.Call) (tool.Result, error) {
	return tool.Result{Text: string(c.JSON())}, nil
}
