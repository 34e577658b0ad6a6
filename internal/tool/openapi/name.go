package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxName is how long names of tools and arguments may be: the least of what providers take.
const maxName = 64

var (
	notInName  = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	wellFormed = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// reserved are the names that placeholders have a meaning of their own for.
var reserved = map[string]bool{"run_id": true, "idempotency_key": true, "caller": true, "status": true}

// toolName is a text as (a part of) the name of a tool: of A-Z, a-z, 0-9, _ and -, "" where nothing is left of it.
func toolName(s string) string {
	if notInName.MatchString(s) {
		s = strings.Trim(notInName.ReplaceAllString(s, "_"), "_")
	}
	return s
}

// argumentName is the name of an argument for a name on the wire, the same each time: "filter[name]" is filter_name. It
// is wellFormed and of up to maxName characters, and a name that is so already stays as it is.
func argumentName(wire string) string {
	name := toolName(wire)
	switch {
	case strings.Trim(name, "_-") == "" && name != wire:
		name = "arg_" + hash(wire)
	case !wellFormed.MatchString(name):
		name = "_" + name
	}
	return shorten(name, wire)
}

// shorten is a name of up to maxName characters. A longer one ends in a hash of what it stands for.
func shorten(name, of string) string {
	if len(name) <= maxName {
		return name
	}
	return name[:maxName-9] + "_" + hash(of)
}

// hash is 8 characters that tell s from other texts.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// nameOperations gives every operation of a document the name of its tool, whether or not it becomes one, so that
// include changes no name. It is prefix and operationId; where that is missing, or stands for more than one operation,
// it is prefix, method and path.
func nameOperations(list []*operation, prefix string, w *warnings) {
	byPath := func(o *operation) string {
		return prefix + strings.TrimSuffix(strings.ToLower(o.method)+"_"+toolName(o.path), "_")
	}
	byID := func(o *operation) string {
		if name := toolName(o.id); name != "" {
			return prefix + name
		}
		return byPath(o)
	}
	for _, o := range list {
		o.tool = shorten(byID(o), byID(o))
	}
	for _, same := range clashes(list) {
		for _, o := range same {
			if o.id != "" {
				w.add(o, "the operationId %q is no name for one operation alone: its tool is named by method and path", cut(o.id, maxName))
			}
			o.tool = shorten(byPath(o), byPath(o))
		}
	}
	for _, same := range clashes(list) {
		for _, o := range same {
			o.tool = shorten(byPath(o)+"_"+hash(o.String()), byPath(o)+o.String())
		}
	}
	for _, o := range list {
		o.short = strings.TrimPrefix(o.tool, prefix)
	}
}

// clashes are the groups of operations whose tools have one name, in the order of the document.
func clashes(list []*operation) [][]*operation {
	by := map[string][]*operation{}
	var groups [][]*operation
	for _, o := range list {
		by[o.tool] = append(by[o.tool], o)
	}
	for _, o := range list {
		if same := by[o.tool]; len(same) > 1 && same[0] == o {
			groups = append(groups, same)
		}
	}
	return groups
}

// nameArguments gives every argument a name of its own that is not reserved and not among those taken. What can have its
// name on the wire has it; what clashes with another is told apart by where it stands: query_status, path_id.
func nameArguments(list []*argument, taken map[string]bool) {
	take := func(a *argument, name string) bool {
		if reserved[name] || taken[name] {
			return false
		}
		a.name, taken[name] = name, true
		return true
	}
	for _, a := range list {
		if argumentName(a.wire) == a.wire {
			take(a, a.wire)
		}
	}
	for _, a := range list {
		if a.name != "" || take(a, argumentName(a.wire)) {
			continue
		}
		told := string(a.in) + "_" + argumentName(a.wire)
		for i := 2; !take(a, shorten(told, told)); i++ {
			told = fmt.Sprintf("%s_%s_%d", a.in, argumentName(a.wire), i)
		}
	}
}

// clash says whether an argument of a would have the name of one of b.
func clash(a, b []*argument) bool {
	return slices.ContainsFunc(a, func(x *argument) bool {
		return slices.ContainsFunc(b, func(y *argument) bool { return argumentName(x.wire) == argumentName(y.wire) })
	})
}
