package main

import (
	"time"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/registry"
)

// effective is the configuration in force as YAML, with its defaults and without its secrets. What a tool's own kind
// says stands as in the file.
func (c *checked) effective(f *config.File) []byte {
	s := c.settings
	s.Budget = wholeBudget(c.limits)
	rest := map[string]func() any{"tools": func() any { return &registry.Config{} }}
	return f.Effective(&s, rest, mask.New(f.Secrets()))
}

// wholeBudget is a budget that says every limit.
func wholeBudget(l budget.Limits) budget.Config {
	seconds, reserve, exhausted := l.Time.Seconds(), config.Duration(l.Reserve/time.Millisecond*time.Millisecond), string(l.OnExhausted)
	return budget.Config{
		MaxSteps: &l.Steps, MaxSeconds: &seconds, MaxToolCalls: &l.ToolCalls, MaxParallel: &l.Parallel, MaxTokens: &l.Tokens,
		MaxCost: &l.Cost, MaxRepeats: &l.Repeats, AnswerReserve: &reserve, OnExhausted: &exhausted,
	}
}
