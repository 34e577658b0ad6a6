// Package budget is what a run may spend: the limits of the file, of a model, of a key and of a request, each
// narrowing or overriding the one before.
package budget

import (
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

// Exhausted is what happens when a run reaches a limit.
type Exhausted string

// What may happen at a limit.
const (
	Answer  Exhausted = "answer"  // one last model call without tools
	Partial Exhausted = "partial" // the run ends with the last text that the model wrote
	Fail    Exhausted = "error"   // the run ends in an error
)

// Limits is what one run may spend. A limit of 0 on tokens or cost is none.
type Limits struct {
	Steps       int
	Time        time.Duration
	ToolCalls   int
	Parallel    int
	Tokens      int64
	Cost        float64
	Repeats     int
	Reserve     time.Duration // kept back from Time for a last answer without tools
	OnExhausted Exhausted
}

// Default is what a file without a budget gives a run.
func Default() Limits {
	return Limits{Steps: 12, Time: time.Minute, ToolCalls: 64, Parallel: 8, Repeats: 3, OnExhausted: Answer}
}

// Config is a budget of the file. What is nil is not set.
type Config struct {
	MaxSteps      *int             `yaml:"max_steps" min:"1" doc:"Model calls in a run. Default 12."`
	MaxSeconds    *float64         `yaml:"max_seconds" doc:"The run's clock in seconds: model, tools, retries and back-off all spend it. Default 60."`
	MaxToolCalls  *int             `yaml:"max_tool_calls" min:"1" doc:"Tool calls in a run. Default 64."`
	MaxParallel   *int             `yaml:"max_parallel" min:"1" doc:"Tool calls at once in a run. Default 8."`
	MaxTokens     *int64           `yaml:"max_tokens" min:"0" doc:"Tokens in all over the run's steps; 0 is no limit."`
	MaxCost       *float64         `yaml:"max_cost" min:"0" doc:"Cost by the model's price; 0 is no limit."`
	MaxRepeats    *int             `yaml:"max_repeats" min:"1" doc:"Calls of one tool with the same arguments in a run. Default 3."`
	AnswerReserve *config.Duration `yaml:"answer_reserve" doc:"Kept back from max_seconds for one last answer without tools."`
	OnExhausted   *string          `yaml:"on_exhausted" enum:"answer,partial,error" doc:"What happens at a limit: a last answer without tools, the last text, or an error. Default answer."`
}

// Check reports what can't work.
func (c *Config) Check(n *config.Node) {
	if c.MaxSeconds != nil && *c.MaxSeconds <= 0 {
		n.Get("max_seconds").Fail("want a number of seconds above 0")
	}
	if c.AnswerReserve != nil && c.MaxSeconds != nil && time.Duration(*c.AnswerReserve).Seconds() >= *c.MaxSeconds {
		n.Get("answer_reserve").Fail("want less than max_seconds, of which it is a part")
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Over is l with what c sets.
func (c Config) Over(l Limits) Limits {
	set(&l.Steps, c.MaxSteps)
	if c.MaxSeconds != nil {
		l.Time = seconds(*c.MaxSeconds)
	}
	set(&l.ToolCalls, c.MaxToolCalls)
	set(&l.Parallel, c.MaxParallel)
	set(&l.Tokens, c.MaxTokens)
	set(&l.Cost, c.MaxCost)
	set(&l.Repeats, c.MaxRepeats)
	if c.AnswerReserve != nil {
		l.Reserve = time.Duration(*c.AnswerReserve)
	}
	if c.OnExhausted != nil {
		l.OnExhausted = Exhausted(*c.OnExhausted)
	}
	return l
}

// Narrow is l with those limits of c that are lower. What happens at a limit and the reserve stay.
func (c Config) Narrow(l Limits) Limits {
	lower(&l.Steps, c.MaxSteps)
	if c.MaxSeconds != nil {
		t := seconds(*c.MaxSeconds)
		lower(&l.Time, &t)
	}
	lower(&l.ToolCalls, c.MaxToolCalls)
	lower(&l.Parallel, c.MaxParallel)
	lower(&l.Repeats, c.MaxRepeats)
	lowerOptional(&l.Tokens, c.MaxTokens)
	lowerOptional(&l.Cost, c.MaxCost)
	return l
}

func lower[T int | time.Duration](to *T, from *T) {
	if from != nil && *from > 0 && *from < *to {
		*to = *from
	}
}

// lowerOptional is lower for limits of which 0 is none.
func lowerOptional[T int64 | float64](to *T, from *T) {
	if from != nil && *from > 0 && (*to == 0 || *from < *to) {
		*to = *from
	}
}

// Price is what a model's tokens cost, in any currency, for a million each.
type Price struct {
	Prompt     float64 `yaml:"prompt" min:"0" doc:"A million prompt tokens."`
	Completion float64 `yaml:"completion" min:"0" doc:"A million completion tokens."`
	Cached     float64 `yaml:"cached" min:"0" doc:"A million prompt tokens that the provider had cached."`
}

// Cost is what that many tokens cost. Cached tokens are among the prompt's.
func (p Price) Cost(prompt, completion, cached int64) float64 {
	cached = min(cached, prompt)
	return (float64(prompt-cached)*p.Prompt + float64(cached)*p.Cached + float64(completion)*p.Completion) / 1e6
}
