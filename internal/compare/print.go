package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// markdown is the table.
func markdown(verdicts []verdict) string {
	lines := [][]string{{"scenario", "", "must reach", "measured", "least to most", "verdict"}}
	for _, v := range verdicts {
		said := "pass"
		switch {
		case !v.reached:
			said = "**short**"
		case v.aside:
			said = "aside"
		}
		if v.note != "" {
			said += ": " + strings.NewReplacer("|", "/", "\n", " ").Replace(v.note)
		}
		spread := ""
		if n := len(v.values); n > 1 {
			spread = figure(v.values[0]) + " – " + figure(v.values[n-1])
		}
		lines = append(lines, []string{v.what, v.id, v.want(), figure(v.median) + measuredUnit(v.unit), spread, said})
	}
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, line := range lines {
		for i, cell := range line {
			b.WriteString("| " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// want is what a row must reach, as the table has it.
func (r row) want() string {
	if r.aside {
		return "- " + r.unit
	}
	sign := "≤ "
	if r.least {
		sign = "≥ "
	}
	if r.unit == "" {
		return sign + strconv.FormatFloat(r.bound, 'f', -1, 64)
	}
	return sign + strconv.FormatFloat(r.bound, 'f', -1, 64) + " " + r.unit
}

// measuredUnit is a unit without what it is compared with, which the column before says.
func measuredUnit(unit string) string {
	short, _, _ := strings.Cut(unit, " ")
	if short != "" {
		short = " " + short
	}
	return short
}

// figure is a number with what can be believed of it.
func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) || math.Abs(v) >= 20:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// tooBusy is how many cores other programs may keep busy beside most runs: beyond it the same program, measured twice, was
// seen to differ by more than rows leave room for.
const tooBusy = 0.25

// describe says what was measured, where and when.
func describe(o options, found results) string {
	var busy []float64
	for id, targets := range found {
		for _, reports := range targets {
			if id == scenarioStart || id == scenarioSteps || id == scenarioMemory { // the harness looks in its own comparison alone
				continue
			}
			for _, r := range reports {
				busy = append(busy, r.Others)
			}
		}
	}
	slices.Sort(busy)
	noise := ""
	if len(busy) > 0 {
		noise = fmt.Sprintf(" Other programs kept %.2f cores busy, at most %.2f.", median(busy), busy[len(busy)-1])
		if median(busy) > tooBusy {
			noise += " **That is too much to go by these figures.**"
		}
	}
	rounds := fmt.Sprintf("Medians of %d interleaved rounds", o.rounds)
	if o.rounds == 1 {
		rounds = "One round"
	}
	return fmt.Sprintf("%s: gateway %s, %s, %s. %s of %s.%s",
		time.Now().UTC().Format(time.DateOnly), o.version, runtime.Version(), machine(), rounds, o.dur, noise)
}

// machine is what it ran on.
func machine() string {
	text := fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if m := firstAfter("/proc/cpuinfo", "model name"); m != "" {
		text += " (" + m + ")"
	}
	if kb, err := strconv.Atoi(strings.TrimSuffix(firstAfter("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		text += fmt.Sprintf(", %d GiB", (kb+1<<19)>>20)
	}
	return text
}

// firstAfter is what the first line of a file with that name has behind its colon.
func firstAfter(file, name string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// The lines of a document between which the table is.
const (
	tableBegin = "<!-- make compare: from here -->"
	tableEnd   = "<!-- make compare: to here -->"
)

// replaceIn puts a table into a document.
func replaceIn(file, table string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := replaced(string(data), table)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // it is part of the repository
}

func replaced(text, table string) (string, error) {
	before, rest, ok := strings.Cut(text, tableBegin+"\n")
	_, after, closed := strings.Cut(rest, tableEnd+"\n")
	if !ok || !closed || strings.Contains(after, tableBegin) {
		return "", fmt.Errorf("want one line %q and behind it one %q", tableBegin, tableEnd)
	}
	return before + tableBegin + "\n" + table + "\n" + tableEnd + "\n" + after, nil
}
