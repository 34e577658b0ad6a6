package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rowOf is the first row of a scenario whose text has a word.
func rowOf(t *testing.T, id, word string) row {
	t.Helper()
	for _, r := range table() {
		if r.id == id && strings.Contains(r.what, word) {
			return r
		}
	}
	t.Fatalf("there is no row %s %q", id, word)
	return row{}
}

func read(t *testing.T, text string) results {
	t.Helper()
	var found results
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name     string
		id, word string
		runs     string // as the harness writes them
		rounds   int
		reached  bool
		measured string
		note     string
	}{
		{
			name: "a ratio is taken in each round, and the median of the ratios counts",
			id:   "a32", word: "pass-through", rounds: 3, reached: true, measured: "0.95",
			runs: `{"a32":{"pass":[{"requests":9,"rps":95},{"requests":9,"rps":500},{"requests":9,"rps":10}],
			               "revproxy":[{"requests":9,"rps":100},{"requests":9,"rps":500},{"requests":9,"rps":1000}]}}`,
		},
		{
			name: "what must be reached is enough", id: "b16", word: "pass-through", rounds: 1, reached: true, measured: "1",
			runs: `{"b16":{"pass":[{"requests":9,"rps":70}],"revproxy":[{"requests":9,"rps":70}]}}`,
		},
		{
			name: "a little less is short", id: "b16", word: "pass-through", rounds: 1, measured: "0.99",
			runs: `{"b16":{"pass":[{"requests":9,"rps":69}],"revproxy":[{"requests":9,"rps":70}]}}`,
		},
		{
			name: "a row with tools has its own bound and target", id: "b16", word: "20 tools", rounds: 1, reached: true, measured: "0.80",
			runs: `{"b16":{"pass":[{"requests":9,"rps":1}],"tools":[{"requests":9,"rps":56}],"revproxy":[{"requests":9,"rps":70}]}}`,
		},
		{
			name: "loops are held against the bare loop", id: "db", word: "200 KB", rounds: 1, reached: true, measured: "2.40",
			runs: `{"db":{"lookup":[{"requests":9,"rps":360}],"refloop":[{"requests":9,"rps":150}],"revproxy":[{"requests":9,"rps":900}]}}`,
		},
		{
			name: "a gateway that answers nothing is short", id: "a1", word: "pass-through", rounds: 1, measured: "0",
			runs: `{"a1":{"pass":[{"errors":3,"error":"EOF"}],"revproxy":[{"requests":9,"rps":70}]}}`,
		},
		{
			name: "a baseline that answers nothing says nothing", id: "a1", word: "pass-through", rounds: 2, measured: "2", note: "1 of 2 rounds",
			runs: `{"a1":{"pass":[{"requests":9,"rps":70},{"requests":9,"rps":70}],"revproxy":[{"errors":1},{"requests":9,"rps":35}]}}`,
		},
		{
			name: "a round that is missing is short", id: "a1", word: "pass-through", rounds: 2, measured: "1", note: "1 of 2 rounds",
			runs: `{"a1":{"pass":[{"requests":9,"rps":70},{"requests":9,"rps":70}],"revproxy":[{"requests":9,"rps":70}]}}`,
		},
		{name: "a scenario that is missing is short", id: "e1", rounds: 1, measured: "-", note: "0 of 1 rounds", runs: `{}`},
		{
			name: "of latencies the most counts, and nothing answered is not fast", id: "e1", rounds: 2, measured: "2.10", note: "1 of 2 rounds",
			runs: `{"e1":{"lookup":[{"requests":9,"p50_us":155100},{"errors":4}]}}`,
		},
		{
			name: "over the bound is short", id: "e1", rounds: 1, measured: "3.50",
			runs: `{"e1":{"lookup":[{"requests":9,"p50_us":156500}]}}`,
		},
		{
			name: "a p99 is what comes on top of direct", id: "ao", word: "tools", rounds: 1, reached: true, measured: "2.50",
			runs: `{"ao":{"tools":[{"requests":9,"p99_us":26500}],"direct":[{"requests":9,"p99_us":24000}]}}`,
		},
		{
			name: "the first chunk's time is what each adds to direct", id: "cp", rounds: 3, reached: true, measured: "1.50",
			runs: `{"cp":{"now":[{"requests":9,"first_p50_us":950},{"requests":9,"first_p50_us":900},{"requests":9,"first_p50_us":1350}],
			              "revproxy":[{"requests":9,"first_p50_us":750},{"requests":9,"first_p50_us":800},{"requests":9,"first_p50_us":750}],
			              "direct":[{"requests":9,"first_p50_us":350},{"requests":9,"first_p50_us":300},{"requests":9,"first_p50_us":350}]}}`,
		},
		{
			name: "a bare proxy that adds nothing is no measure", id: "cp", rounds: 1, measured: "-", note: "0 of 1 rounds",
			runs: `{"cp":{"now":[{"requests":9,"first_p50_us":950}],"revproxy":[{"requests":9,"first_p50_us":300}],"direct":[{"requests":9,"first_p50_us":350}]}}`,
		},
		{
			name: "CPU is by request", id: "db", word: "CPU", rounds: 1, measured: "2.20",
			runs: `{"db":{"lookup":[{"requests":9,"cpu_ms_per_request":2.2}]}}`,
		},
		{
			name: "memory is by stream", id: "f", rounds: 1, reached: true, measured: "46",
			runs: `{"f":{"tools":[{"requests":1000,"kb_per_stream":46.2}]}}`,
		},
		{
			name: "memory after load is held against that before it, once", id: "memory", word: "after", rounds: 5, measured: "2.50",
			runs: `{"memory":{"tools":[{"requests":1,"rss_before_mb":36,"rss_peak_mb":90}]}}`,
		},
		{
			name: "idle memory", id: "memory", word: "idle", rounds: 5, reached: true, measured: "36",
			runs: `{"memory":{"tools":[{"requests":1,"rss_before_mb":36,"rss_peak_mb":90}]}}`,
		},
		{
			name: "a step's CPU is that of a run by its steps", id: "steps", rounds: 1, reached: true, measured: "1.20",
			runs: `{"steps":{"200 steps":[{"requests":20,"cpu_ms_per_request":24}],"50 steps":[{"requests":80,"cpu_ms_per_request":5}]}}`,
		},
		{
			name: "twice the steps for four times the CPU is short", id: "steps", rounds: 1, measured: "4",
			runs: `{"steps":{"200 steps":[{"requests":20,"cpu_ms_per_request":80}],"50 steps":[{"requests":80,"cpu_ms_per_request":5}]}}`,
		},
		{
			name: "failures of baselines are not the gateway's", id: "all", rounds: 1, reached: true, measured: "0",
			runs: `{"c16":{"pass":[{"requests":9}],"revproxy":[{"errors":4,"error":"EOF"}],"direct":[{"errors":1}],"refloop":[{"errors":1}]}}`,
		},
		{
			name: "failures of all scenarios and rounds are added up", id: "all", rounds: 2, measured: "3", note: "c16 of now: EOF",
			runs: `{"f":{"tools":[{"requests":9,"errors":1,"error":"no answer"},{"requests":9}]},"c16":{"now":[{"requests":9},{"requests":9,"errors":2,"error":"EOF"}]}}`,
		},
		{name: "no failure of nothing is short", id: "all", rounds: 1, measured: "-", note: "nothing was sent", runs: `{"c16":{"revproxy":[{"requests":9}]}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := judge([]row{rowOf(t, test.id, test.word)}, read(t, test.runs), test.rounds)[0]
			if got.reached != test.reached || figure(got.median) != test.measured || got.note != test.note {
				t.Errorf("reached %v, measured %s, note %q; want %v, %s, %q", got.reached, figure(got.median), got.note, test.reached, test.measured, test.note)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		only string
		want string // the ids
	}{
		{"a1", "a1 a1 all"},
		{"a", "a1 a32 a1 a32 ao ao all"},
		{"e0,start", "e0 e0 start all"},
		{"f", "f all"},
		{"s", ""}, // a letter is of a scenario of the harness
		{"a1,nothing", ""},
	} {
		rows, err := choose(table(), test.only)
		var ids []string
		for _, r := range rows {
			ids = append(ids, r.id)
		}
		if got := strings.Join(ids, " "); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("choose(%q) = %q, %v, want %q", test.only, got, err, test.want)
		}
	}
}

// Targets of a row run side by side, or their ratio says nothing; what no row wants does not run.
func TestPlan(t *testing.T) {
	want := []part{
		{[]string{"a1", "a32", "b1", "b16", "c1", "c16"}, []string{revproxy, pass, tools}},
		{[]string{"cp"}, []string{direct, revproxy, now}},
		{[]string{"d1", "d16", "e0"}, []string{refloop, lookup, tools}},
		{[]string{"db"}, []string{refloop, lookup}},
		{[]string{"ao"}, []string{direct, pass, tools}},
		{[]string{"e1"}, []string{lookup}},
	}
	if diff := cmp.Diff(want, plan(table()), cmp.AllowUnexported(part{})); diff != "" {
		t.Error(diff)
	}
}

func TestMarkdown(t *testing.T) {
	rows := []row{rowOf(t, "a1", "pass-through"), rowOf(t, "e1", ""), rowOf(t, "all", "")}
	got := markdown(judge(rows, read(t, `{
		"a1":{"pass":[{"requests":9,"rps":96},{"requests":9,"rps":120}],"revproxy":[{"requests":9,"rps":100},{"requests":9,"rps":100}]},
		"e1":{"lookup":[{"requests":9,"errors":1,"error":"a|b\nc","p50_us":255000}]}}`), 2))
	want := strings.Join([]string{
		"| scenario                                                                     |     | must reach         | measured | least to most | verdict                        |",
		"|------------------------------------------------------------------------------|-----|--------------------|----------|---------------|--------------------------------|",
		"| pass-through, 1 KB, 1 connection                                             | a1  | ≥ 0.9 × bare proxy | 1.08 ×   | 0.96 – 1.20   | pass                           |",
		"| tool loop 3 × 4 parallel of 50 ms: p50 over the least, 153 ms                | e1  | ≤ 3 ms             | 102 ms   |               | **short**: 1 of 2 rounds       |",
		"| requests that failed and streams cut short, of all that the gateway was sent | all | ≤ 0                | 1        |               | **short**: e1 of lookup: a/b c |",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDescribe(t *testing.T) {
	o := options{version: "v1", rounds: 1, dur: time.Second}
	for _, test := range []struct{ name, runs, want string }{
		{"quiet", `{"a1":{"pass":[{"other_load":0.1}],"revproxy":[{"other_load":0.2}]}}`, "One round of 1s. Other programs kept 0.15 cores busy, at most 0.20."},
		{"busy", `{"a1":{"pass":[{"other_load":1}]}}`, "at most 1.00. **That is too much to go by these figures.**"},
		{"what the harness did not look at", `{"start":{"tools":[{}]}}`, "One round of 1s."},
	} {
		if got := describe(o, read(t, test.runs)); !strings.HasSuffix(got, test.want) || !strings.Contains(got, "gateway v1, go") {
			t.Errorf("%s: describe() = %q, want it to end in %q", test.name, got, test.want)
		}
	}
}

func TestReplaced(t *testing.T) {
	document := "before\n" + tableBegin + "\nold\n\n| old |\n" + tableEnd + "\nafter\n"
	got, err := replaced(document, "new")
	if want := "before\n" + tableBegin + "\nnew\n" + tableEnd + "\nafter\n"; err != nil || got != want {
		t.Errorf("replaced() = %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"", tableBegin + "\n", tableEnd + "\n" + tableBegin + "\n", document + document} {
		if got, err := replaced(bad, "new"); err == nil {
			t.Errorf("replaced(%q) = %q, want an error", bad, got)
		}
	}
}

// The document shows all rows as they are judged now. Where this fails, `make compare UPDATE=1`.
func TestTheDocumentHasTheTable(t *testing.T) {
	data, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), tableBegin+"\n")
	shown, _, ok := strings.Cut(rest, tableEnd+"\n")
	if !ok {
		t.Fatal("docs/performance.md has no place for the table")
	}
	cells := map[string]bool{}
	for line := range strings.Lines(shown) {
		if c := strings.Split(line, "|"); len(c) > 3 {
			cells[strings.TrimSpace(c[1])+", "+strings.TrimSpace(c[2])+", "+strings.TrimSpace(c[3])] = true
		}
	}
	for _, r := range table() {
		if want := r.what + ", " + r.id + ", " + r.want(); !cells[want] {
			t.Errorf("docs/performance.md lacks the row %s", want)
		}
	}
	if got, want := len(cells), len(table())+2; got != want { // two lines are the head
		t.Errorf("docs/performance.md has a table of %d lines, want %d", got, want)
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"-rounds", "0"},
		{"-dur", "0s"},
		{"more"},
		{"-update", "x.md", "-only", "a"},
		{"-update", "x.md", "-rounds", "4"},
	} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("parse(%q) takes it", bad)
		}
	}
	if _, err := parse([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parse(-h) = %v", err)
	}
	if o, err := parse([]string{"-update", "x.md"}, io.Discard); err != nil || o.rounds < fewestRounds {
		t.Errorf("parse(-update) = %+v, %v", o, err)
	}
}

// Without the harness there is nothing to build, and somebody has to be told what to do.
func TestNoHarness(t *testing.T) {
	err := run(t.Context(), []string{"-bench", t.TempDir()}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "BENCH=") {
		t.Errorf("run() = %v, want where to say where the harness is", err)
	}
}
