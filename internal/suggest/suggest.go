// Package suggest finds the names that a mistyped one may have meant.
package suggest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest is up to limit of the names in among that name may have meant, closest first, equally close ones in the order
// of among. A name is near when no more than a third of its characters differ (one always may, two that are swapped
// count as one, case does not count), or when one begins with the other, of at least three characters. Nothing near: nil.
func Nearest(name string, among []string, limit int) []string {
	type found struct {
		name string
		cost int
	}
	var near []found
	for _, other := range among {
		if cost, ok := distance(name, other); ok {
			near = append(near, found{other, cost})
		}
	}
	slices.SortStableFunc(near, func(a, b found) int { return cmp.Compare(a.cost, b.cost) })
	var names []string
	for _, f := range near {
		if len(names) >= limit {
			break
		}
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// distance is the number of edits between two names, ok being false where they have little in common.
func distance(a, b string) (cost int, ok bool) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	short, long := []rune(a), []rune(b)
	if len(short) > len(long) {
		short, long = long, short
	}
	switch cost = levenshtein.ComputeDistance(a, b); {
	case swapped(short, long):
		return 1, true
	case cost <= max(1, len(long)/3) && cost < len(long):
		return cost, true
	case len(short) >= 3 && strings.HasPrefix(string(long), string(short)):
		return cost, true
	}
	return 0, false
}

// swapped says whether a and b differ by two neighbours in the wrong order, the most usual slip of fast typing.
func swapped(a, b []rune) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) - 1 {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && slices.Equal(a[i+2:], b[i+2:])
		}
	}
	return false
}
