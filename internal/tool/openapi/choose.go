package openapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/suggest"
)

// pattern is an item of include or exclude.
type pattern struct {
	method string         // "" is any
	path   *regexp.Regexp // nil where name is the pattern
	name   *regexp.Regexp
	exact  bool // it can't mean more than one operation
}

// parsePattern reads "GET /pets/*", "/pets/*" or a glob of operationIds. * is any text, with slashes too, so that a path
// and all below it is one pattern.
func parsePattern(s string) (pattern, error) {
	p := pattern{exact: !strings.Contains(s, "*")}
	method, path, both := strings.Cut(s, " ")
	if !both && !strings.HasPrefix(s, "/") {
		if s == "" {
			return p, errors.New("want an operationId, or a method and a path such as GET /pets/*")
		}
		p.name = glob(s)
		return p, nil
	}
	if !both {
		method, path = "*", s
	}
	if path = strings.TrimSpace(path); !strings.HasPrefix(path, "/") && path != "*" {
		return p, fmt.Errorf("%q is no method and path: want one such as GET /pets/*", s)
	}
	if method == "*" {
		p.exact = false
	} else {
		p.method = strings.ToUpper(method)
		if methods[strings.ToLower(method)] == "" {
			return p, fmt.Errorf("%q is no method: want GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS or *", method)
		}
	}
	p.path = glob(path)
	return p, nil
}

func glob(s string) *regexp.Regexp {
	parts := strings.Split(s, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`^(?s:` + strings.Join(parts, ".*") + `)$`)
}

func (p pattern) matches(o *operation) bool {
	if p.path != nil {
		return (p.method == "" || p.method == o.method) && p.path.MatchString(o.path)
	}
	return slices.ContainsFunc(o.names(), p.name.MatchString)
}

// choose marks the operations that become tools.
func (m *maker) choose(list []*operation) {
	for _, o := range list {
		o.chosen = m.config.Include == nil && !isTrue(o.value.Get("deprecated"))
	}
	m.apply(list, "include", m.config.Include, func(o *operation, p pattern, at *config.Node) {
		if p.exact {
			o.named = at
		}
		o.chosen = o.chosen || p.exact || !isTrue(o.value.Get("deprecated"))
	})
	m.apply(list, "exclude", m.config.Exclude, func(o *operation, _ pattern, _ *config.Node) { o.chosen = false })
}

// apply does what a list says, and warns of patterns that match nothing.
func (m *maker) apply(list []*operation, key string, patterns []string, do func(*operation, pattern, *config.Node)) {
	for i, text := range patterns {
		at := m.node.Get(key).Items()[i]
		p, err := parsePattern(text)
		if err != nil {
			continue // reported by Check
		}
		found := false
		for _, o := range list {
			if p.matches(o) {
				found = true
				do(o, p, at)
			}
		}
		if !found {
			at.Warn("%q is no operation of %s%s", text, m.config.Spec, near(text, list))
		}
	}
}

// near is what else a name may have meant.
func near(text string, list []*operation) string {
	var known []string
	for _, o := range list {
		if strings.Contains(text, "/") {
			known = append(known, o.String(), o.path)
		} else {
			known = append(known, o.names()...)
		}
	}
	found := suggest.Nearest(strings.TrimRight(text, "*/"), known, 3)
	if len(found) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(found, ", ") + "?"
}

// readSet gives every operation what the file sets of its tool. A name that is none is a problem, as the tool that it
// was meant for would do without, say, its confirmation.
func (m *maker) readSet(list []*operation) {
	for name := range m.config.Set.All() {
		at := m.config.Set.Node(name)
		var found []*operation
		for _, o := range list {
			if slices.Contains(o.names(), name) {
				found = append(found, o)
			}
		}
		switch {
		case len(found) == 0:
			m.fail(m.node.Get("set"), name, "%q is no operation of %s%s", name, m.config.Spec, near(name, list))
		case len(found) > 1:
			m.fail(m.node.Get("set"), name, "%q is the operationId of %d operations: want the name of a tool, %s or %s", name, len(found), found[0].tool, found[1].tool)
		case found[0].set != nil:
			m.fail(m.node.Get("set"), name, "%s is set already under its other name", found[0])
		case !found[0].chosen:
			at.Warn("%s is not chosen by include and exclude: this has no effect", found[0])
		default:
			found[0].set = at
		}
	}
}

func (m *maker) fail(n *config.Node, key, format string, args ...any) {
	m.failed = true
	n.FailKey(key, format, args...)
}
