package trace

import (
	"slices"
	"testing"
	"time"

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

// The header and the ids are made for every request.
func TestAllocations(t *testing.T) {
	run := NewRun(time.Now())
	run.Stop = "completed"
	run.Steps = make([]Step, 3)
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"an id", 2, func() { NewID("run_") }},
		{"the header of a run without calls", 4, func() { _ = run.Dictionary() }},
	} {
		if got := testing.AllocsPerRun(50, tt.f); got > tt.most {
			t.Errorf("%s takes %v allocations, want %v at most", tt.name, got, tt.most)
		}
	}
}

func BenchmarkDictionary(b *testing.B) {
	run := NewRun(time.Now())
	run.Stop = "completed"
	run.Steps = make([]Step, 3)
	run.Calls = []Call{{Name: "lookup", Took: time.Millisecond, Outcome: OK}, {Name: "lookup", Took: time.Millisecond, Outcome: OK}}
	b.ReportAllocs()
	for b.Loop() {
		_ = run.Dictionary()
	}
}
