package mcptool

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	long := "a_tool_with_a_name_that_goes_on_and_on_until_no_provider_takes_it_any_more"
	tests := []struct {
		name, prefix string
		ids, want    []string
	}{
		{"as they are", "notes__", []string{"find", "drop-all"}, []string{"notes__find", "notes__drop-all"}},
		{"without a prefix", "", []string{"find"}, []string{"find"}},
		{"other characters", "n__", []string{"a.b", "ä/ö"}, []string{"n__a_b", "n_____"}},
		{"alike once they are plain", "n__", []string{"a.b", "a/b", "a_b"}, []string{"n__a_b_881ebe1c", "n__a_b_3547e173", "n__a_b"}},
		{"too long", "n__", []string{long}, []string{"n__a_tool_with_a_name_that_goes_on_and_on_until_no_prov_d351bfc0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, names(tt.prefix, tt.ids)); diff != "" {
				t.Errorf("names() (-want +got)\n%s", diff)
			}
		})
	}
}

func TestNamesAreValidStableAndDistinct(t *testing.T) {
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringN(1, 80, 200), 1, 10, rapid.ID).Draw(t, "ids")
		list := names("srv__", ids)
		again := names("srv__", ids)
		seen := map[string]bool{}
		for i, name := range list {
			if !valid.MatchString(name) || seen[name] || again[i] != name {
				t.Fatalf("%q is called %q in %q", ids[i], name, list)
			}
			seen[name] = true
		}
	})
}
