package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pos is a place in a text. Line and column count from 1; a column is a character, not a byte.
type Pos struct{ Line, Col int }

// Problem is one fault of a file. Path is the dotted path of the value, its key included; "" is the document itself.
type Problem struct {
	File    string
	Pos     Pos
	Path    string
	Message string // what is wrong and what would be right, without the path
}

// String is the problem as one line: `gateway.yaml:5:14: budget.max_steps: want a whole number, got "many"`.
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: ", p.File, p.Pos.Line, p.Pos.Col)
	if p.Path != "" {
		s += p.Path + ": "
	}
	return s + p.Message
}

// Problems are the faults of a file and its fragments, ordered by file, line and column, each once. As an error they
// are one a line.
type Problems []Problem

// Error is every problem on a line of its own.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Problems is all that was reported, or nil. No message holds one of Secrets.
func (f *File) Problems() Problems { return f.tidy(f.problems) }

// Warnings is what was reported by Warn, in the order of Problems, or nil.
func (f *File) Warnings() Problems { return f.tidy(f.warnings) }

func (f *File) tidy(reported []Problem) Problems {
	if len(reported) == 0 {
		return nil
	}
	mask := f.masker()
	ps := make(Problems, len(reported))
	for i, p := range reported {
		p.Message = mask.Replace(p.Message)
		ps[i] = p
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			compareFile(a.File, b.File, f.name),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(ps)
}

// compareFile puts the configuration file itself before its fragments.
func compareFile(a, b, main string) int {
	switch {
	case a == b:
		return 0
	case a == main:
		return -1
	case b == main:
		return 1
	default:
		return cmp.Compare(a, b)
	}
}

// masker hides the known secrets, as they are and as %q writes them; the longer first, as one may begin another.
func (f *File) masker() *strings.Replacer {
	secrets := f.Secrets()
	slices.SortStableFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, mask)
		if q := strconv.Quote(s); q[1:len(q)-1] != s {
			pairs = append(pairs, q[1:len(q)-1], mask)
		}
	}
	return strings.NewReplacer(pairs...)
}

// report keeps a problem, unless its value is known to be bad already.
func (f *File) report(p Problem) {
	if f.faulty[place{p.File, p.Path}] {
		return
	}
	f.problems = append(f.problems, p)
}

// reportBad keeps a problem of a value that is of no use: later problems at the same path would only repeat it.
func (f *File) reportBad(p Problem) {
	f.report(p)
	f.faulty[place{p.File, p.Path}] = true
}
