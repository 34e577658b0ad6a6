package trace

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

func sample(calls int) *Run {
	r := NewRun(time.Now())
	r.Stop, r.Offered, r.Took = "completed", 5, 812*time.Millisecond
	r.Steps = []Step{{Took: 700 * time.Millisecond}, {Took: 90 * time.Millisecond}}
	for i := range calls {
		c := Call{Name: fmt.Sprintf("tool_%d", i), Took: 12 * time.Millisecond, Outcome: OK}
		if i%3 == 1 {
			c.Outcome = "not_found"
		}
		r.Calls = append(r.Calls, c)
	}
	return r
}

func TestDictionary(t *testing.T) {
	r := sample(2)
	want := `id="` + r.ID + `", stop=completed, steps=2, calls=2, failed=1, ms=812, upstream_ms=790, offered=5, tools=("tool_0";ms=12;ok "tool_1";ms=12;code=not_found)`
	if got := r.Dictionary(); got != want {
		t.Errorf("Dictionary() = %s, want %s", got, want)
	}
	if !regexp.MustCompile(`^run_[0-9A-HJKMNP-TV-Z]{26}$`).MatchString(r.ID) {
		t.Errorf("id %q is no ULID", r.ID)
	}
}

// Whatever a run has been through, its header is an RFC 9651 dictionary of at most 1 KiB, and the calls that it shows and
// those that it leaves out are all of them.
func TestDictionaryIsValidAndBounded(t *testing.T) {
	odd := sample(3)
	odd.Calls[0].Name, odd.Calls[1].Outcome, odd.Calls[2].Outcome = "na\"me\\\n\u00e9", "Bad code!", ""
	for name, r := range map[string]*Run{"none": sample(0), "one": sample(1), "many": sample(500), "odd names": odd} {
		text := r.Dictionary()
		if len(text) > 1024 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
		d, err := httpsfv.UnmarshalDictionary([]string{text})
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
			continue
		}
		shown, more := 0, int64(0)
		if v, ok := d.Get("tools"); ok {
			shown = len(v.(httpsfv.InnerList).Items)
		}
		if v, ok := d.Get("more"); ok {
			more = v.(httpsfv.Item).Value.(int64)
		}
		if shown+int(more) != len(r.Calls) {
			t.Errorf("%s: %d calls shown and %d more, want %d in all", name, shown, more, len(r.Calls))
		}
	}
}

func TestRunAsJSON(t *testing.T) {
	b, err := json.Marshal(sample(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"stop":"completed"`, `"ms":812`, `"upstream_ms":790`, `"calls":[{"step":0,"tool":"tool_0","start_ms":0,"ms":12,"outcome":"ok"}]`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("JSON lacks %s: %s", want, b)
		}
	}
}

func TestStoreIsBoundedByNumberTimeAndCaller(t *testing.T) {
	s := NewMemory(2, time.Hour)
	now := time.Now()
	s.now = func() time.Time { return now }
	runs := []*Run{sample(0), sample(0), sample(0)}
	for _, r := range runs {
		r.Caller = "web"
		s.Add(r)
	}
	for i, want := range []bool{false, true, true} {
		if _, err := s.Get(t.Context(), runs[i].ID, Access{Caller: "web"}); (err == nil) != want {
			t.Errorf("run %d of 3 in a store of 2: %v, want it kept %v", i, err, want)
		}
	}
	if _, err := s.Get(t.Context(), runs[2].ID, Access{Caller: "app"}); err == nil {
		t.Error("another caller sees the run")
	}
	now = now.Add(2 * time.Hour)
	if _, err := s.Get(t.Context(), runs[2].ID, Access{Caller: "web"}); err == nil {
		t.Error("a run is seen after its time")
	}
	s.Limit(3, 3*time.Hour)
	if _, err := s.Get(t.Context(), runs[2].ID, Access{Caller: "web"}); err != nil {
		t.Error("a run is gone in a store that keeps runs for longer now")
	}
	s.Add(runs[0])
	s.Limit(2, 3*time.Hour)
	for i, want := range []bool{true, false, true} {
		if _, err := s.Get(t.Context(), runs[i].ID, Access{Caller: "web"}); (err == nil) != want {
			t.Errorf("run %d in a store that is smaller now: %v, want it kept %v", i, err, want)
		}
	}
	s.Add(runs[1])
	if _, err := s.Get(t.Context(), runs[2].ID, Access{Caller: "web"}); err == nil {
		t.Error("the oldest run is kept")
	}
	none := NewMemory(0, time.Hour)
	none.Add(runs[0])
	if _, err := none.Get(t.Context(), runs[0].ID, Access{Caller: "web"}); err == nil {
		t.Error("a store of 0 keeps a run")
	}
}
