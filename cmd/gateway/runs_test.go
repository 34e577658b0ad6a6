package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/trace"
)

func TestRunsFitATerminal(t *testing.T) {
	now := time.Now()
	list := []listed{
		{Summary: trace.Summary{ID: "run_01J8Z3K2M4N5P6Q7R8S9T0V1W2", Model: "assistant-of-the-shop-with-a-long-name", Started: now, MS: 123456, Stop: "upstream_error", Steps: 12, Calls: 30, Failed: 3, Tools: []string{"lookup_customer", "refund_order", "send_mail"}, Prompt: 123456, Output: 4567, Cost: 0.12345}},
		{Summary: trace.Summary{ID: "run_01J8Z3K2M4N5P6Q7R8S9T0V1W3", Model: "m", Started: now.Add(-48 * time.Hour), Stop: "completed", Steps: 1}},
	}
	var out strings.Builder
	printRuns(&screen{out: &out, width: 80}, list, now)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	for _, want := range []string{" S9T0V1W2 ", "128023", "0.123", "123456", "3 faile"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not there:\n%s", want, out.String())
		}
	}
	out.Reset()
	printRuns(&screen{out: &out}, list, now)
	if !strings.Contains(out.String(), "3 failed: lookup_customer,refund_order,send_mail") {
		t.Errorf("not on a terminal, something is cut:\n%s", out.String())
	}
}

func TestBarsStandWhereTheirTimeWas(t *testing.T) {
	ms := time.Millisecond
	for _, tt := range []struct {
		start, took, total time.Duration
		before, length     int
	}{
		{0, 100 * ms, 100 * ms, 0, 40},
		{50 * ms, 50 * ms, 100 * ms, 20, 20},
		{99 * ms, 0, 100 * ms, 39, 1},
		{100 * ms, 0, 100 * ms, 39, 1}, // at the very end
		{0, time.Microsecond, time.Hour, 0, 1},
		{90 * ms, 50 * ms, 100 * ms, 36, 4}, // past the end
		{30 * time.Hour, 10 * time.Hour, 40 * time.Hour, 30, 10},
	} {
		if before, length := place(tt.start, tt.took, tt.total, 40); before != tt.before || length != tt.length {
			t.Errorf("span(%s, %s of %s) = %d, %d; want %d, %d", tt.start, tt.took, tt.total, before, length, tt.before, tt.length)
		}
	}
}

// What models, tools and clients write must not steer the terminal of who looks at it.
func TestNothingOfStrangersSteersTheTerminal(t *testing.T) {
	evil := "a\x1b]0;owned\x07\x1b[2J\r\u202ebc\u009b31m\x00"
	run := trace.NewRun(time.Now())
	run.Model, run.Stop, run.Caller, run.RequestID, run.Error, run.Approval, run.Tainted, run.Notes = evil, evil, evil, evil, evil, evil, evil, []string{evil}
	run.Steps = []trace.Step{{Upstream: evil, Finish: evil}, {Error: evil}}
	run.Calls = []trace.Call{{Step: 1, Name: evil, Outcome: evil, Arguments: evil, Result: "one\n" + evil}, {Step: 9, Name: evil}}
	for _, width := range []int{0, 80} {
		var out strings.Builder
		s := &screen{out: &out, width: width}
		printRun(s, run, true)
		summary := run.Summary()
		summary.ID = evil
		printRuns(s, []listed{{Summary: summary}}, time.Now())
		fmt.Fprintln(&out, (&client{}).refused(500, []byte(fmt.Sprintf(`{"error":{"message":%q}}`, "x\u202e"))))
		if i := strings.IndexAny(out.String(), "\x1b\x07\r\u202e\u009b\x00"); i >= 0 {
			t.Errorf("there is %q:\n%q", out.String()[i:i+1], out.String())
		}
	}
}

func TestLongContentIsCutUnlessItIsAskedFor(t *testing.T) {
	run := trace.NewRun(time.Now())
	run.Steps = []trace.Step{{}}
	run.Calls = []trace.Call{{Step: 1, Name: "read", Outcome: trace.OK, Arguments: "{}", Result: strings.Repeat("line\n", 100) + "the end"}}
	for full, want := range map[bool]string{false: "(467 characters more; --full shows them)", true: "the end"} {
		var out strings.Builder
		printRun(&screen{out: &out, width: 80}, run, full)
		if !strings.Contains(out.String(), want) {
			t.Errorf("full %v: %s is not there:\n%s", full, want, out.String())
		}
	}
}

func TestColorIsForTerminalsThatWantIt(t *testing.T) {
	var out strings.Builder
	if s := newScreen(&out); s.color || s.width != 0 {
		t.Errorf("not a terminal: %+v", s)
	}
	run := trace.NewRun(time.Now())
	run.Steps = []trace.Step{{Error: "busy"}}
	printRun(&screen{out: &out, width: 80, color: true}, run, false)
	if !strings.Contains(out.String(), "\x1b[31m") || !strings.Contains(out.String(), "failed: busy") {
		t.Errorf("a failure is told by its color alone, or without: %q", out.String())
	}
}

func TestWhereAGatewayIsReached(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080", "0.0.0.0:80": "http://127.0.0.1:80", ":80": "http://127.0.0.1:80", "[::]:80": "http://127.0.0.1:80",
		"[::1]:80": "http://[::1]:80", "gw.internal:80": "http://gw.internal:80",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("reachable(%s) = %s, want %s", listen, got, want)
		}
	}
}

// A run of the list keeps what this command does not know of.
func TestListedKeepsItsText(t *testing.T) {
	const text = `{"id":"run_1","model":"m","of_a_later_version":1}`
	var l listed
	if err := json.Unmarshal([]byte(text), &l); err != nil || string(l.raw) != text || l.Model != "m" {
		t.Errorf("%+v, %v", l, err)
	}
}
