package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// report is what the harness says of one run. Times are in microseconds.
type report struct {
	Requests int     `json:"requests"`
	Errors   int     `json:"errors"`
	Error    string  `json:"error"`
	RPS      float64 `json:"rps"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	First50  float64 `json:"first_p50_us"`
	CPUms    float64 `json:"cpu_ms_per_request"`
	RSS0     float64 `json:"rss_before_mb"`
	RSS      float64 `json:"rss_peak_mb"`
	PerConn  float64 `json:"kb_per_stream"`
	Others   float64 `json:"other_load"`
}

// results are the runs of each scenario and target, one a round.
type results map[string]map[string][]report

// The targets. The gateway is several: a key without tools, which is passed through; one that is offered the one tool that
// the bare loop has; one that is offered twenty; the same where nothing is held back in streams. What this program measures by itself is in results under names of its own.
const (
	direct   = "direct"   // no gateway
	revproxy = "revproxy" // the bare proxy
	refloop  = "refloop"  // the bare loop
	pass     = "pass"
	lookup   = "lookup"
	tools    = "tools"
	now      = "now"

	fewSteps  = "50 steps"
	manySteps = "200 steps"
)

// What this program measures by itself, beside the harness's scenarios. Where it starts gateways of its own for it, f is
// among them: memory that a gateway has already taken would not show.
const (
	scenarioF      = "f"
	scenarioSteps  = "steps"
	scenarioStart  = "start"
	scenarioMemory = "memory"
	everyScenario  = "all"
)

// row is one of the table: something that is measured in each round, and what it has to reach.
type row struct {
	id      string // the scenario
	what    string
	targets []string
	value   func(of []report) (float64, bool) // of a round; the reports are in the order of targets. false: it says nothing
	once    bool                              // it is measured once, not in each round
	least   bool                              // bound is the least, else the most
	bound   float64
	unit    string
	aside   bool // it is measured for comparison, and has no bound
}

func table() []row {
	return []row{
		atLeast("a1", "pass-through, 1 KB, 1 connection", pass, revproxy, 0.9),
		atLeast("a32", "pass-through, 1 KB, 32 connections", pass, revproxy, 0.9),
		atLeast("a1", "20 tools attached, answer without a call, 1 KB, 1 connection", tools, revproxy, 0.75),
		atLeast("a32", "20 tools attached, answer without a call, 1 KB, 32 connections", tools, revproxy, 0.75),
		atLeast("b1", "pass-through, 200 KB conversation, 1 connection", pass, revproxy, 1),
		atLeast("b16", "pass-through, 200 KB conversation, 16 connections", pass, revproxy, 1),
		atLeast("b1", "20 tools attached, 200 KB conversation, 1 connection", tools, revproxy, 0.8),
		atLeast("b16", "20 tools attached, 200 KB conversation, 16 connections", tools, revproxy, 0.8),
		atLeast("c1", "stream of 200 chunks, pass-through, 1 connection", pass, revproxy, 0.9),
		atLeast("c16", "stream of 200 chunks, pass-through, 16 connections", pass, revproxy, 0.9),
		atLeast("c1", "stream of 200 chunks, 20 tools attached, 1 connection", tools, revproxy, 0.7),
		atLeast("c16", "stream of 200 chunks, 20 tools attached, 16 connections", tools, revproxy, 0.7),
		{
			id: "cp", what: "added time to the first chunk, 20 tools attached, hold: 0", bound: 2, unit: "× bare proxy",
			targets: []string{now, revproxy, direct}, value: addedFirst,
		},
		atLeast("d1", "tool loop 1 × 1, 1 connection", lookup, refloop, 1),
		atLeast("d16", "tool loop 1 × 1, 16 connections", lookup, refloop, 1),
		atLeast("e0", "tool loop 3 × 4 parallel, no delay, 16 connections", lookup, refloop, 1),
		aside("d1", "tool loop 1 × 1, 1 connection, 20 tools where the bare loop has one", tools, refloop),
		aside("d16", "tool loop 1 × 1, 16 connections, 20 tools where the bare loop has one", tools, refloop),
		aside("e0", "tool loop 3 × 4 parallel, no delay, 20 tools where the bare loop has one", tools, refloop),
		atLeast("db", "tool loop 1 × 1, 200 KB conversation, 4 connections", lookup, refloop, 2),
		{
			id: "db", what: "the same, CPU of a request", bound: 2, unit: "ms", targets: []string{lookup},
			value: one(func(r report) float64 { return r.CPUms }),
		},
		addedP99("open loop 200/s, upstream of 20 ms, pass-through: p99 over direct", pass),
		addedP99("open loop 200/s, upstream of 20 ms, 20 tools attached: p99 over direct", tools),
		{
			id: "e1", what: "tool loop 3 × 4 parallel of 50 ms: p50 over the least, 153 ms", bound: 3, unit: "ms", targets: []string{lookup},
			value: one(func(r report) float64 { return r.P50/1e3 - 153 }),
		},
		{
			id: scenarioF, what: "1,000 slow streams, 20 tools attached: memory of each", bound: 64, unit: "KB", targets: []string{tools},
			value: one(func(r report) float64 { return r.PerConn }),
		},
		{
			id: scenarioMemory, what: "resident memory, idle", bound: 40, unit: "MB", targets: []string{tools}, once: true,
			value: one(func(r report) float64 { return r.RSS0 }),
		},
		{
			id: scenarioMemory, what: "resident memory, at most 5 minutes after load", bound: 2, unit: "× idle", targets: []string{tools}, once: true,
			value: one(func(r report) float64 { return r.RSS / r.RSS0 }),
		},
		{
			id: scenarioStart, what: "from start to ready, 50 http tools", bound: 150, unit: "ms", targets: []string{tools},
			value: one(func(r report) float64 { return r.P50 / 1e3 }),
		},
		{
			// What grows with the conversation is the writing of its bytes; the rest of a step must not.
			id: scenarioSteps, what: "CPU of a step: a run of 200 steps, 400 messages, against one of 50", bound: 1.25, unit: "×",
			targets: []string{manySteps, fewSteps}, value: stepCost,
		},
		{id: everyScenario, what: "requests that failed and streams cut short, of all that the gateway was sent", bound: 0, once: true},
	}
}

// atLeast is a row of requests a second against a baseline's.
func atLeast(id, what, target, base string, bound float64) row {
	unit := "× bare proxy"
	if base == refloop {
		unit = "× bare loop"
	}
	return row{id: id, what: what, targets: []string{target, base}, least: true, bound: bound, unit: unit, value: func(of []report) (float64, bool) {
		return of[0].RPS / of[1].RPS, of[1].RPS > 0 // a target that answers nothing is 0 times as fast
	}}
}

// aside is a row of the same sort that has nothing to reach.
func aside(id, what, target, base string) row {
	r := atLeast(id, what, target, base, 0)
	r.aside = true
	return r
}

func addedP99(what, target string) row {
	return row{id: "ao", what: what, bound: 3, unit: "ms", targets: []string{target, direct}, value: func(of []report) (float64, bool) {
		return (of[0].P99 - of[1].P99) / 1e3, of[0].Requests > 0 && of[1].Requests > 0
	}}
}

// one is a figure of one target, where that has answered.
func one(f func(report) float64) func([]report) (float64, bool) {
	return func(of []report) (float64, bool) { return f(of[0]), of[0].Requests > 0 }
}

func addedFirst(of []report) (float64, bool) {
	base := of[1].First50 - of[2].First50
	return (of[0].First50 - of[2].First50) / base, of[0].Requests > 0 && of[2].Requests > 0 && base > 0
}

func stepCost(of []report) (float64, bool) {
	return of[0].CPUms / 200 / (of[1].CPUms / 50), of[0].Requests > 0 && of[1].CPUms > 0
}

// choose is the rows that are asked for. The one of failures is always among them.
func choose(rows []row, only string) ([]row, error) {
	if only == "" {
		return rows, nil
	}
	var chosen []row
	for o := range strings.SplitSeq(only, ",") {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.chosen(o) }) {
			return nil, fmt.Errorf("-only %s: there is no row %q", only, o)
		}
	}
	for _, r := range rows {
		if r.id == everyScenario || slices.ContainsFunc(strings.Split(only, ","), r.chosen) {
			chosen = append(chosen, r)
		}
	}
	return chosen, nil
}

// chosen says whether a word is the row's id, or the letter of its scenario as the harness has it.
func (r row) chosen(word string) bool {
	return word == r.id || len(word) == 1 && len(r.id) <= 3 && strings.HasPrefix(r.id, word)
}

// part is scenarios of the harness that want the same targets, which one call of it runs.
type part struct{ scenarios, targets []string }

// plan is how the harness is called for rows, but for what is measured with gateways of its own.
func plan(rows []row) []part {
	var parts []part
	wanted := map[string][]string{}
	var order []string
	for _, r := range rows {
		if slices.Contains([]string{scenarioF, scenarioSteps, scenarioStart, scenarioMemory, everyScenario}, r.id) {
			continue
		}
		if wanted[r.id] == nil {
			order = append(order, r.id)
		}
		wanted[r.id] = append(wanted[r.id], r.targets...)
	}
	for _, id := range order {
		targets := slices.DeleteFunc([]string{direct, revproxy, refloop, pass, lookup, tools, now}, func(t string) bool {
			return !slices.Contains(wanted[id], t)
		})
		i := slices.IndexFunc(parts, func(p part) bool { return slices.Equal(p.targets, targets) })
		if i < 0 {
			parts = append(parts, part{targets: targets})
			i = len(parts) - 1
		}
		parts[i].scenarios = append(parts[i].scenarios, id)
	}
	return parts
}

// verdict is what became of a row.
type verdict struct {
	row
	values  []float64 // of the rounds that say something, in order of size
	median  float64
	reached bool
	note    string // why it is short where the median does not say it
}

// judge says of each row whether it is reached. A round that is missing, or says nothing, is short.
func judge(rows []row, found results, rounds int) []verdict {
	var all []verdict
	for _, r := range rows {
		v := verdict{row: r}
		if r.id == everyScenario {
			v.values, v.note = failures(found)
		} else {
			v.values = r.values(found)
			want := rounds
			if r.once {
				want = 1
			}
			if len(v.values) != want {
				v.note = fmt.Sprintf("%d of %d rounds", len(v.values), want)
			}
		}
		slices.Sort(v.values)
		v.median = median(v.values)
		v.reached = v.median <= r.bound
		if r.least {
			v.reached = v.median >= r.bound
		}
		v.reached = v.reached && v.note == "" // NaN is neither
		all = append(all, v)
	}
	return all
}

// values are those of the rounds in which all of the row's targets ran.
func (r row) values(found results) []float64 {
	var values []float64
	for round := 0; ; round++ {
		of := make([]report, len(r.targets))
		for i, t := range r.targets {
			runs := found[r.id][t]
			if round >= len(runs) {
				return values
			}
			of[i] = runs[round]
		}
		if v, ok := r.value(of); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
}

// failures counts what went wrong at the gateway. The note is one of the errors, and short by itself.
func failures(found results) (count []float64, note string) {
	n, runs := 0, 0
	for id, targets := range found {
		for name, reports := range targets {
			if name == direct || name == revproxy || name == refloop {
				continue
			}
			for _, r := range reports {
				runs++
				n += r.Errors
				if r.Errors > 0 && (note == "" || id < note) {
					note = fmt.Sprintf("%s of %s: %s", id, name, r.Error)
				}
			}
		}
	}
	if runs == 0 {
		return nil, "nothing was sent"
	}
	return []float64{float64(n)}, note
}

// median is that of sorted values, NaN of none.
func median(v []float64) float64 {
	n := len(v)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 0:
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[n/2]
}
