package retry

import (
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

// Config is a Policy in the file: `retry: 2` is the number of further attempts, the mapping says more. What is absent
// keeps the value that it had before decoding, and zero means Policy's default.
type Config struct {
	Attempts int             `yaml:"attempts" min:"1" doc:"attempts in all, the first one included"`
	Base     config.Duration `yaml:"base" doc:"about how long the first wait is; each further one is about twice as long"`
	Max      config.Duration `yaml:"max" doc:"the longest wait, unless the other side asks for a longer one"`
}

// DecodeNode reads either form.
func (c *Config) DecodeNode(n *config.Node) {
	if n.Kind() == config.Mapping {
		n.Decode(c)
		return
	}
	var more int
	n.Decode(&more)
	if more < 0 {
		n.Fail("want 0 or more further attempts, got %d", more)
		return
	}
	c.Attempts = more + 1
}

// Check reports what can't go together.
func (c *Config) Check(n *config.Node) {
	if p := c.Policy(); p.Max > 0 && p.Base > p.Max {
		n.Fail("base %s is longer than max %s", c.Base, c.Max)
	}
}

// Policy is what the configuration says. Without one it is a single attempt.
func (c Config) Policy() Policy {
	return Policy{Attempts: max(c.Attempts, 1), Base: time.Duration(c.Base), Max: time.Duration(c.Max)}
}

// ConfigSchema is the JSON Schema of both forms.
func (Config) ConfigSchema() any {
	duration := func(doc string) any {
		return map[string]any{"type": "string", "pattern": `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`, "description": doc}
	}
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "integer", "minimum": 0, "description": "further attempts"},
		map[string]any{
			"type": "object",
			"properties": map[string]any{
				"attempts": map[string]any{"type": "integer", "minimum": 1, "description": "attempts in all"},
				"base":     duration("about how long the first wait is; each further one is about twice as long"),
				"max":      duration("the longest wait, unless the other side asks for a longer one"),
			},
			"additionalProperties": false,
		},
	}}
}
