package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/internal/suggest"
)

// didYouMean is the end of a message about a word that is unknown, "" where nothing is near.
func didYouMean(word string, among []string) string {
	near := suggest.Nearest(word, among, 1)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", near[0])
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// cut is s with up to limit characters, and a mark where there were more.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == limit {
			rest := s[i:]
			if len([]rune(rest)) == 1 {
				return s
			}
			return s[:i] + "…"
		}
	}
	return s
}
