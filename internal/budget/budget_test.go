package budget

import (
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

func read(t *testing.T, yaml string) Config {
	t.Helper()
	var c Config
	f := config.Parse("b.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	f.Decode(&c)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	return c
}

func TestOverAndNarrow(t *testing.T) {
	base := Default()
	c := read(t, "{max_steps: 20, max_seconds: 2.5, max_tokens: 100, answer_reserve: 1s, on_exhausted: error}")
	over := c.Over(base)
	if over.Steps != 20 || over.Time != 2500*time.Millisecond || over.Tokens != 100 || over.Reserve != time.Second || over.OnExhausted != Fail || over.ToolCalls != base.ToolCalls {
		t.Errorf("Over() = %+v", over)
	}
	narrow := c.Narrow(base)
	if narrow.Steps != base.Steps || narrow.Time != 2500*time.Millisecond || narrow.Tokens != 100 || narrow.OnExhausted != Answer {
		t.Errorf("Narrow() = %+v, want only what is lower", narrow)
	}
	if got := read(t, "{max_tokens: 0, max_cost: 5}").Narrow(over); got.Tokens != 100 || got.Cost != 5 {
		t.Errorf("Narrow() = %+v, want 0 tokens to be no limit", got)
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, yaml := range []string{"{max_steps: 0}", "{max_seconds: 0}", "{max_parallel: -1}", "{on_exhausted: maybe}", "{max_seconds: 5, answer_reserve: 5s}"} {
		var c Config
		f := config.Parse("b.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
		f.Decode(&c)
		if f.Problems() == nil {
			t.Errorf("%s is taken", yaml)
		}
	}
}

func TestPriceCountsCachedTokensOnce(t *testing.T) {
	p := Price{Prompt: 2, Completion: 10, Cached: 1}
	if got := p.Cost(1e6, 1e5, 5e5); got != 1+0.5+1 {
		t.Errorf("Cost() = %v, want 2.5", got)
	}
	if got := p.Cost(10, 0, 20); got != 10e-6 {
		t.Errorf("Cost() with more cached than prompt tokens = %v, want 10e-6", got)
	}
}
