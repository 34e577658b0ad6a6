package breaker

import (
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

func TestConfig(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       Options
		problems   string
	}{
		{"absent", "", Options{Name: "db", Failures: 5, OpenFor: 15 * time.Second}, ""},
		{"in part", "breaker: {failures: 2}", Options{Name: "db", Failures: 2, OpenFor: 15 * time.Second}, ""},
		{"no failure", "breaker: {failures: 0}", Options{}, "f.yaml:1:21: breaker.failures: want 1 or more, got 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := config.Parse("f.yaml", "", []byte(tt.yaml), func(string) (string, bool) { return "", false })
			var root struct {
				Breaker Config `yaml:"breaker"`
			}
			f.Decode(&root)
			if got := f.Problems().Error(); got != tt.problems {
				t.Fatalf("problems %q, want %q", got, tt.problems)
			}
			if got := root.Breaker.Options("db"); tt.problems == "" && (got.Name != tt.want.Name || got.Failures != tt.want.Failures || got.OpenFor != tt.want.OpenFor) {
				t.Errorf("Options() = %+v, want %+v", got, tt.want)
			}
		})
	}
}
