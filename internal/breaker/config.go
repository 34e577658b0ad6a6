package breaker

import (
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

// Config is a breaker in the file.
type Config struct {
	Failures int             `yaml:"failures" min:"1" doc:"failures in a row that open the breaker"`
	OpenFor  config.Duration `yaml:"open_for" min:"1ms" doc:"how long calls are refused before one is let through to see"`
}

// SetDefaults is what holds without a word in the file.
func (c *Config) SetDefaults() {
	*c = Config{Failures: defaultFailures, OpenFor: config.Duration(defaultOpenFor)}
}

// Options is what the configuration says, for a breaker called name.
func (c Config) Options(name string) Options {
	return Options{Name: name, Failures: c.Failures, OpenFor: time.Duration(c.OpenFor)}
}
