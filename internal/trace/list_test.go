package trace

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/toolgate/toolgate/internal/state/redistest"
)

// runsAt are runs a second apart, the oldest first, of two callers and three models.
func runsAt(n int, begin time.Time) []*Run {
	var runs []*Run
	for i := range n {
		start := begin.Add(time.Duration(i) * time.Second)
		r := &Run{
			ID: "run_" + ulid.MustNew(ulid.Timestamp(start), ulid.DefaultEntropy()).String(), Start: start, Caller: []string{"web", "app"}[i%2],
			Model: fmt.Sprint("m", i%3), Stop: []string{"completed", "timeout"}[i/2%2], Calls: []Call{{Name: fmt.Sprint("t", i%4)}, {Name: "every"}, {Name: "every"}},
		}
		runs = append(runs, r)
	}
	return runs
}

// all may see all runs.
var all = Access{Everyone: true}

func TestListOfRuns(t *testing.T) {
	begin := time.Now().Add(-time.Minute).Truncate(time.Second)
	runs := runsAt(12, begin)
	shared := sharedRuns(t, redistest.Start(t), 100)
	defer shared.Close()
	memory := NewMemory(100, time.Hour)
	for i := range runs { // in the order that they ended, which is another one
		r := runs[(i*5)%len(runs)]
		memory.Add(r)
		shared.put(t.Context(), r)
	}
	for name, s := range map[string]Store{"memory": memory, "redis": shared} {
		for _, tt := range []struct {
			query Query
			want  []int
			next  bool
		}{
			{Query{Access: Access{Caller: "web"}}, []int{10, 8, 6, 4, 2, 0}, false},
			{Query{Access: all, Limit: 3}, []int{11, 10, 9}, true},
			{Query{Access: all, Before: runs[9].ID, Limit: 2}, []int{8, 7}, true},
			{Query{Access: all, Model: "m1"}, []int{10, 7, 4, 1}, false},
			{Query{Access: all, Stop: "timeout", Tool: "t3"}, []int{11, 7, 3}, false},
			{Query{Access: all, Tool: "every", Since: begin.Add(10 * time.Second)}, []int{11, 10}, false},
			{Query{Access: all, Tool: "none"}, nil, false},
			{Query{Access: all, Before: runs[0].ID}, nil, false},
		} {
			page, err := s.List(t.Context(), tt.query)
			var got, want []string
			for _, r := range page.Runs {
				got = append(got, r.ID)
			}
			for _, i := range tt.want {
				want = append(want, runs[i].ID)
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil || (page.Next != "") != tt.next {
				t.Errorf("%s: %+v: %v, next %q (-want +got):\n%s", name, tt.query, err, page.Next, diff)
			}
		}
	}
}

// Page by page there are all runs, each once, also where many began in the same millisecond.
func TestPagesHaveEachRunOnce(t *testing.T) {
	shared := sharedRuns(t, redistest.Start(t), 1000)
	defer shared.Close()
	memory := NewMemory(1000, time.Hour)
	want := map[string]bool{}
	for i := range 250 {
		r := NewRun(time.Now())
		r.ID = "run_" + ulid.MustNew(ulid.Timestamp(r.Start.Add(-time.Duration(i/50)*time.Second)), ulid.DefaultEntropy()).String()
		r.Start, _ = begun(r.ID)
		want[r.ID] = true
		memory.Add(r)
		shared.put(t.Context(), r)
	}
	for name, s := range map[string]Store{"memory": memory, "redis": shared} {
		for _, limit := range []int{7, 50, 51, 200} {
			q, seen := Query{Limit: limit}, map[string]bool{}
			for {
				page, err := s.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Runs {
					if seen[r.ID] || !want[r.ID] {
						t.Fatalf("%s: %s stands twice, or was never there", name, r.ID)
					}
					seen[r.ID] = true
				}
				if q.Before = page.Next; q.Before == "" {
					break
				}
			}
			if len(seen) != len(want) {
				t.Fatalf("%s: %d of %d runs", name, len(seen), len(want))
			}
		}
	}
}

func TestQueryKnowsIDs(t *testing.T) {
	for id, ok := range map[string]bool{"": true, NewRun(time.Now()).ID: true, "run_1": false, "01J8Z3K2M4N5P6Q7R8S9T0V1W2": false, "x": false} {
		if err := (&Query{Before: id}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestSummary(t *testing.T) {
	r := runsAt(1, time.Now())[0]
	r.Usage = []byte(`{"prompt_tokens":3,"completion_tokens":4}`)
	r.Calls[1].Outcome = OK
	s := r.Summary()
	if diff := cmp.Diff([]string{"t0", "every"}, s.Tools); diff != "" || s.Prompt != 3 || s.Output != 4 || s.Calls != 3 || s.Failed != 2 {
		t.Errorf("%+v\n%s", s, diff)
	}
}
