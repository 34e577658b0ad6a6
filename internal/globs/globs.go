// Package globs is the lists of names with which keys, models and clients choose tools and models: names and globs,
// and "-" before one to take it away.
package globs

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// List says which names are chosen. The zero value chooses every name. Immutable.
type List struct {
	some    bool // a list was given, be it an empty one
	with    []string
	without []string
}

// Parse reads a list. nil chooses every name, an empty list none. A list that only takes away starts from every name.
func Parse(patterns []string) (List, error) {
	l := List{some: patterns != nil}
	for _, p := range patterns {
		name, minus := strings.CutPrefix(p, "-")
		if _, err := path.Match(name, ""); err != nil || name == "" {
			return List{}, fmt.Errorf("%q is no name and no glob", p)
		}
		if minus {
			l.without = append(l.without, name)
		} else {
			l.with = append(l.with, name)
		}
	}
	if len(l.with) == 0 && len(l.without) > 0 {
		l.with = []string{"*"}
	}
	return l, nil
}

// Has says whether the list chooses name. What is taken away is never chosen, wherever it stands in the list.
func (l List) Has(name string) bool {
	return (!l.some || matches(l.with, name)) && !matches(l.without, name)
}

// Names are the patterns that choose, those without a wildcard among them, to tell a name that nothing matches.
func (l List) Names() []string { return append(slices.Clip(l.with), l.without...) }

// All says whether the list chooses every name.
func (l List) All() bool { return !l.some }

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		// A name with a slash in it, as models have, is one name for "*".
		if p == "*" || p == name {
			return true
		}
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}
