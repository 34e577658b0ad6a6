package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/trace"
)

// printRun prints a run and what it did over its time.
func printRun(s *screen, r *trace.Run, full bool) {
	for _, line := range facts(r) {
		fmt.Fprintf(s.out, "%s %s\n", s.paint(faint, fill(line[0], 9)), line[1])
	}
	fmt.Fprintln(s.out)
	w := newWaterfall(s, r)
	w.scale()
	kept := false
	for i, step := range r.Steps {
		outcome, p := plain(step.Finish), blue
		if step.Error != "" {
			outcome, p = "failed: "+plain(step.Error), red
		}
		w.bar(stepName(i), step.Start, step.Took, p, outcome)
		kept = w.calls(r, i+1, full) || kept
	}
	kept = w.calls(r, 0, full) || kept
	if len(r.Calls) > 0 && !kept {
		fmt.Fprintln(s.out, "\n"+s.paint(faint, "arguments and results are not kept; trace.content: true keeps them"))
	}
}

func stepName(i int) string { return fmt.Sprintf("model call %d", i+1) }

// facts are the lines over the bars.
func facts(r *trace.Run) [][2]string {
	tokens := chat.ReadTokens(r.Usage)
	model := plain(r.Model)
	if r.Stream {
		model += ", streamed"
	}
	if up := upstreams(r); up != "" {
		model += ", by " + up
	}
	spent := fmt.Sprintf("%d tokens in, %d out", tokens.Prompt, tokens.Completion)
	if r.Cost > 0 {
		spent += ", cost " + money(r.Cost)
	}
	lines := [][2]string{
		{"run", plain(r.ID)},
		{"ended", fmt.Sprintf("%s after %s, of which model calls took %s", plain(r.Stop), took(r.Took), took(r.UpstreamTime()))},
		{"began", r.Start.Local().Format("2006-01-02 15:04:05.000 -07:00")},
		{"model", model},
		{"did", fmt.Sprintf("%s and %s, %d failed; %s offered", count(len(r.Steps), "model call"), count(len(r.Calls), "tool call"), r.Failed(), count(r.Offered, "tool"))},
		{"spent", spent},
		{"caller", plain(r.Caller)},
		{"request", plain(r.RequestID)},
		{"error", plain(r.Error)},
		{"waits for", plain(r.Approval)},
		{"untrusted", plain(r.Tainted)},
	}
	for _, n := range r.Notes {
		lines = append(lines, [2]string{"note", plain(n)})
	}
	var said [][2]string
	for _, l := range lines {
		if l[1] != "" {
			said = append(said, l)
		}
	}
	return said
}

func upstreams(r *trace.Run) string {
	var names []string
	for _, s := range r.Steps {
		if s.Upstream != "" && (len(names) == 0 || names[len(names)-1] != s.Upstream) {
			names = append(names, s.Upstream)
		}
	}
	return plain(strings.Join(names, ", then "))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// took is a time as short as it can be read.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Hour:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// waterfall is the bars of a run under each other: a name, a bar over the run's time, how long, and what came of it.
type waterfall struct {
	*screen
	total time.Duration
	names int // width of the names
	bars  int // width of the bars
}

const (
	tookWidth    = 8
	outcomeWidth = 18
	maxNames     = 24
)

func newWaterfall(s *screen, r *trace.Run) *waterfall {
	w := &waterfall{screen: s, total: max(r.Took, time.Millisecond), names: utf8.RuneCountInString(stepName(0))}
	for _, step := range r.Steps { // a run that was cut off may have parts that end after it
		w.total = max(w.total, step.Start+step.Took)
	}
	for _, c := range r.Calls {
		w.total = max(w.total, c.Start+c.Took)
		w.names = max(w.names, utf8.RuneCountInString(c.Name)+2)
	}
	w.names = min(w.names, maxNames)
	width := s.width
	if width == 0 {
		width = defaultWidth
	}
	w.bars = width - w.names - tookWidth - outcomeWidth - 4
	return w
}

// scale is the line over the bars.
func (w *waterfall) scale() {
	end := took(w.total)
	line := "0" + strings.Repeat(" ", max(1, w.bars-1-utf8.RuneCountInString(end))) + end
	fmt.Fprintln(w.out, w.paint(faint, strings.Repeat(" ", w.names+2)+line))
}

// place is where a part stands among width places: before it, and itself, which is at least one.
func place(start, took, total time.Duration, width int) (before, length int) {
	begin := int(int64(start) * int64(width) / int64(total))
	end := int((int64(start+took)*int64(width) + int64(total) - 1) / int64(total)) // rounded up
	begin = min(max(begin, 0), width-1)
	return begin, min(max(end-begin, 1), width-begin)
}

func (w *waterfall) bar(name string, start, length time.Duration, p paint, outcome string) {
	before, n := place(start, length, w.total, w.bars)
	bar := strings.Repeat(" ", before) + w.paint(p, strings.Repeat("█", n)) + strings.Repeat(" ", w.bars-before-n)
	fmt.Fprintf(w.out, "%s  %s %s %s\n", fill(name, w.names), bar, fillLeft(took(length), tookWidth), w.outcome(outcome, p))
}

func (w *waterfall) outcome(text string, p paint) string {
	if w.width > 0 {
		text = shorten(text, outcomeWidth)
	}
	if p == red {
		return w.paint(red, text)
	}
	return text
}

// calls prints the calls of a step, of 0 those of none that is there, and says whether their content was.
func (w *waterfall) calls(r *trace.Run, step int, full bool) (kept bool) {
	for _, c := range r.Calls {
		if c.Step != step && (step != 0 || c.Step > 0 && c.Step <= len(r.Steps)) {
			continue
		}
		p := green
		if c.Outcome != trace.OK && c.Outcome != trace.Skipped {
			p = red
		}
		w.bar("  "+plain(c.Name), c.Start, c.Took, p, plain(c.Outcome))
		w.content("arguments", c.Arguments, full)
		w.content("result", c.Result, full)
		kept = kept || c.Arguments != "" || c.Result != ""
	}
	return kept
}

const (
	contentLines = 8
	contentRunes = 600
)

// content prints what a tool got or gave, cut where it is long.
func (w *waterfall) content(what, text string, full bool) {
	if text == "" {
		return
	}
	text = strings.TrimRight(plainLines(text), "\n ")
	rest := 0
	if all := []rune(text); !full && len(all) > contentRunes {
		text, rest = string(all[:contentRunes]), len(all)-contentRunes
	}
	if lines := strings.SplitAfter(text, "\n"); !full && len(lines) > contentLines {
		head := strings.Join(lines[:contentLines], "")
		rest += utf8.RuneCountInString(text) - utf8.RuneCountInString(head)
		text = strings.TrimRight(head, "\n")
	}
	if rest > 0 {
		text += fmt.Sprintf("… (%d characters more; --full shows them)", rest)
	}
	width := 0
	if w.width > 0 {
		width = w.width - 14
	}
	for i, line := range wrap(text, width) {
		head := ""
		if i == 0 {
			head = what
		}
		fmt.Fprintf(w.out, "    %s%s\n", w.paint(faint, fill(head, 10)), line)
	}
}

// wrap breaks lines at a width; 0 leaves them as they are.
func wrap(text string, width int) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		for r := []rune(line); width > 0 && len(r) > width; r = []rune(line) {
			lines = append(lines, string(r[:width]))
			line = string(r[width:])
		}
		lines = append(lines, line)
	}
	return lines
}
