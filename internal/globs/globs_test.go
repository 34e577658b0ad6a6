package globs

import "testing"

func TestListChooses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patterns []string
		has      []string
		not      []string
	}{
		{"no list: every name", nil, []string{"a", "x/y"}, nil},
		{"an empty list: none", []string{}, nil, []string{"a"}},
		{"a star: every name, slashes too", []string{"*"}, []string{"a", "x/y"}, nil},
		{"names and globs", []string{"get_*", "pay"}, []string{"get_x", "pay"}, []string{"pays", "set_x"}},
		{"taken away, wherever it stands", []string{"-refund_*", "*"}, []string{"pay"}, []string{"refund_order"}},
		{"only taken away: all others", []string{"-pay"}, []string{"get"}, []string{"pay"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Parse(tt.patterns)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range tt.has {
				if !l.Has(name) {
					t.Errorf("Has(%q) = false", name)
				}
			}
			for _, name := range tt.not {
				if l.Has(name) {
					t.Errorf("Has(%q) = true", name)
				}
			}
		})
	}
	for _, bad := range []string{"", "-", "[a"} {
		if _, err := Parse([]string{bad}); err == nil {
			t.Errorf("Parse(%q) is taken", bad)
		}
	}
}
