package trace

import (
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
)

func TestIDsSortAsTheyWereMade(t *testing.T) {
	var ids []string
	for range 1000 {
		id := NewID("run_")
		if _, err := ulid.ParseStrict(id[len("run_"):]); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 1000 {
		t.Error("ids are out of order, or the same")
	}
}
