package retry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
)

func TestConfigForms(t *testing.T) {
	type root struct {
		Retry Config `yaml:"retry"`
	}
	tests := []struct {
		name, yaml string
		want       Policy
		problems   string
	}{
		{"absent: one attempt", "", Policy{Attempts: 1}, ""},
		{"a number is further attempts", "retry: 2", Policy{Attempts: 3}, ""},
		{"none further", "retry: 0", Policy{Attempts: 1}, ""},
		{"a mapping", "retry: {attempts: 3, base: 200ms, max: 2s}", Policy{Attempts: 3, Base: 200 * time.Millisecond, Max: 2 * time.Second}, ""},
		{"a mapping in part", "retry: {attempts: 3}", Policy{Attempts: 3}, ""},
		{"negative", "retry: -1", Policy{}, "f.yaml:1:8: retry: want 0 or more further attempts, got -1"},
		{"no attempt", "retry: {attempts: 0}", Policy{}, "f.yaml:1:19: retry.attempts: want 1 or more, got 0"},
		{"base over max", "retry: {attempts: 2, base: 3s, max: 2s}", Policy{}, "f.yaml:1:8: retry: base 3s is longer than max 2s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := config.Parse("f.yaml", "", []byte(tt.yaml), func(string) (string, bool) { return "", false })
			var r root
			f.Decode(&r)
			if got := f.Problems().Error(); got != tt.problems {
				t.Fatalf("problems %q, want %q", got, tt.problems)
			}
			if tt.problems != "" {
				return
			}
			if diff := cmp.Diff(tt.want, r.Retry.Policy()); diff != "" {
				t.Errorf("Policy() (-want +got)\n%s", diff)
			}
		})
	}
}

func TestConfigKeepsWhatItHad(t *testing.T) {
	f := config.Parse("f.yaml", "", []byte("{max: 9s}"), func(string) (string, bool) { return "", false })
	c := Config{Attempts: 3, Base: config.Duration(time.Second)}
	c.DecodeNode(f.Root())
	if want := (Policy{Attempts: 3, Base: time.Second, Max: 9 * time.Second}); c.Policy() != want {
		t.Errorf("Policy() = %v, want %v", c.Policy(), want)
	}
}
