package config

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// allowance is a comment that switches off a piece of advice, by the name of its rule:
//
//	# toolgate: allow similar-tools, many-tools (and why)
var allowance = regexp.MustCompile(`(?:^|\s)#\s*toolgate:\s*allow\s+([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)`)

// Allows says whether a comment switches the rule off for the entry key of the mapping n: on a line of the entry, or on
// a line of its own right above it.
func (n *Node) Allows(key, rule string) bool {
	if n == nil || n.index[key] == nil {
		return false
	}
	lines := bytes.Split(n.doc.data, []byte("\n"))
	first := n.index[key].keyPos
	from := first.Line - 1 // counts from 0
	to := from + 1
	for to < len(lines) && within(lines[to], first.Col) {
		to++
	}
	for from > 0 && bytes.HasPrefix(bytes.TrimSpace(lines[from-1]), []byte("#")) {
		from--
	}
	for _, line := range lines[max(from, 0):min(to, len(lines))] {
		for _, found := range allowance.FindAllSubmatch(line, -1) {
			rules := strings.FieldsFunc(string(found[1]), func(r rune) bool { return r == ',' || r == ' ' })
			if slices.Contains(rules, rule) {
				return true
			}
		}
	}
	return false
}

// within says whether a line belongs to an entry whose key begins at that column: it is blank, or stands further right.
func within(line []byte, col int) bool {
	trimmed := bytes.TrimLeft(line, " ")
	return len(bytes.TrimSpace(trimmed)) == 0 || len(line)-len(trimmed) >= col
}
