package suggest

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	keys := []string{"description", "parameters", "timeout", "retry", "http", "sql", "max_steps", "max_seconds", "max_rows", "é"}
	for name, c := range map[string]struct {
		name string
		max  int
		want []string
	}{
		"a letter is missing":               {"descripton", 1, []string{"description"}},
		"two letters are swapped":           {"htpt", 3, []string{"http"}},
		"swapped at the end":                {"sqll", 3, []string{"sql"}},
		"case is no difference":             {"TimeOut", 3, []string{"timeout"}},
		"a beginning is enough":             {"desc", 3, []string{"description"}},
		"so is one that goes on":            {"retry_policy", 3, []string{"retry"}},
		"one that is far stays away":        {"max_step", 3, []string{"max_steps"}},
		"no more than asked for":            {"max_step", 1, []string{"max_steps"}},
		"none asked for":                    {"max_step", 0, nil},
		"nothing near":                      {"frobnicate", 3, nil},
		"two letters are no beginning":      {"ma", 3, nil},
		"one letter for another is no hint": {"x", 3, nil},
		"an empty name is like none":        {"", 3, nil},
		"characters count, not bytes":       {"à", 3, nil},
		"the name itself":                   {"sql", 1, []string{"sql"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Nearest(c.name, keys, c.max); !slices.Equal(got, c.want) {
				t.Errorf("Nearest(%q) = %q, want %q", c.name, got, c.want)
			}
		})
	}
	if got := Nearest("max_sters", []string{"max_stars_", "max_steps", "max_stairs"}, 5); !slices.Equal(got, []string{"max_steps", "max_stars_", "max_stairs"}) {
		t.Errorf("closest first: %q", got)
	}
	if got := Nearest("ab", []string{"abc", "ab", "abc", "abd"}, 5); !slices.Equal(got, []string{"ab", "abc", "abd"}) {
		t.Errorf("doubles: %q", got)
	}
}
