package config

import "testing"

func TestAllows(t *testing.T) {
	f := Parse("a.yaml", ".", []byte(`tools:
  # toolgate: allow above
  one:
    description: One. # toolgate: allow inside, other
    # toolgate: allow deep

    x: '# toolgate: allow quoted'
  two: {description: Two.} # toolgate: allow line
  # toolgate: allow above3
  three: {}
`), func(string) (string, bool) { return "", false })
	n := f.Root().Get("tools")
	for _, tt := range []struct {
		key, rule string
		want      bool
	}{
		{"one", "above", true},
		{"one", "inside", true},
		{"one", "other", true},
		{"one", "deep", true},
		{"one", "line", false},
		{"one", "insid", false},
		{"two", "line", true},
		{"two", "inside", false},
		{"two", "above3", false},
		{"three", "above3", true},
		{"three", "line", false},
		{"none", "line", false},
	} {
		if got := n.Allows(tt.key, tt.rule); got != tt.want {
			t.Errorf("Allows(%s, %s) = %v, want %v", tt.key, tt.rule, got, tt.want)
		}
	}
}
