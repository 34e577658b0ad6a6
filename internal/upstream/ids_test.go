package upstream

import (
	"maps"
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

func TestIDsAreFitConsistentAndUnique(t *testing.T) {
	pattern := regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9]{9}`), rapid.StringMatching(`call_[a-z]`))).Draw(t, "ids")
		if len(ids) > 0 && rapid.Bool().Draw(t, "one is in the way") {
			ids = append(ids, madeID(ids[0], 0))
		}
		made := fitIDs(pattern, ids)
		if !maps.Equal(made, fitIDs(pattern, ids)) {
			t.Fatal("the same ids give others")
		}
		owner := map[string]string{}
		for _, id := range ids {
			out, mapped := made[id]
			if !mapped {
				out = id
			}
			if !pattern.MatchString(out) || mapped == pattern.MatchString(id) {
				t.Fatalf("%q goes out as %q", id, out)
			}
			if other, ok := owner[out]; ok && other != id {
				t.Fatalf("%q and %q both go out as %q", id, other, out)
			}
			owner[out] = id
		}
	})
}
