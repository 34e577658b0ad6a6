package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// screen is what is known of where output goes.
type screen struct {
	out   io.Writer
	width int // of a line; 0 for no limit, where nobody looks
	color bool
}

// defaultWidth is that of most terminals when they open.
const defaultWidth = 80

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	f, ok := out.(*os.File)
	if !ok {
		return s
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return s
	}
	s.width = defaultWidth
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= defaultWidth {
		s.width = n
	}
	s.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// paint is the way in which a text shows. Nothing is said by color alone.
type paint string

const (
	bold  paint = "1"
	faint paint = "2"
	red   paint = "31"
	green paint = "32"
	blue  paint = "34"
)

func (s *screen) paint(p paint, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// plain is a text of strangers on one line, without what would steer a terminal: escapes, and characters that turn the
// direction of writing.
func plain(s string) string { return clean(s, false) }

// plainLines is plain for a text of several lines.
func plainLines(s string) string { return clean(s, true) }

func clean(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' && lines:
			return r
		case r == '\t' || r == '\n':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// fill pads a text to a width, counted in characters, or cuts it.
func fill(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n > width {
		return shorten(s, max(width, 1))
	}
	return s + strings.Repeat(" ", width-n)
}

// fillLeft is fill for numbers.
func fillLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}
