package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxIncluded is the size up to which ${file:PATH} reads a file.
const maxIncluded = 1 << 20

// reference is ${NAME}, ${NAME:-default} or ${file:PATH}.
var reference = regexp.MustCompile(`^\$\{(?:file:([^}]+)|([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?)\}`)

// setText gives a scalar its text, with ${...} replaced where the document wants that. What is put in is never looked
// at again: it can neither be YAML nor hold another reference.
func (b *builder) setText(n *Node, text string) {
	n.text = text
	if b.substitute && strings.Contains(text, "${") {
		b.replace(n)
	}
	if n.replaced || b.copying > 0 {
		if b.brought += len(n.text); b.brought > maxBrought {
			b.stop(n.pos, fmt.Errorf("the aliases and ${...} of the file stand for more than %s", Size(maxBrought)))
		}
	}
	b.file.addPasswords(n.text)
}

// replace puts values in place of the references of n.text. $${ stands for a plain ${.
func (b *builder) replace(n *Node) {
	var (
		out   strings.Builder
		rest  = n.text
		where = &locator{}
	)
	defer func() {
		if where.bad {
			b.file.faulty[place{b.name, n.Path()}] = true
		}
	}()
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			break
		}
		where.seen++
		if i > 0 && rest[i-1] == '$' {
			out.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		out.WriteString(rest[:i])
		rest = rest[i:]
		m := reference.FindStringSubmatch(rest)
		if m == nil || strings.Contains(m[4], "${") {
			b.badReference(n, where, "want ${NAME}, ${NAME:-default} or ${file:PATH}; for a plain ${ write $${")
			return
		}
		value, outside, err := b.resolve(m)
		if err != nil {
			b.badReference(n, where, "%s", err)
		}
		if outside && value != "" {
			n.hidden = true
			n.outside = append(n.outside, brought{name: m[2], value: value, plain: !b.file.addOutside(value)})
		}
		out.WriteString(value)
		n.replaced, n.kind = true, String
		rest = rest[len(m[0]):]
	}
	n.text = out.String() + rest
}

// resolve is the value of a reference; outside says that it does not stand in the configuration itself.
func (b *builder) resolve(m []string) (value string, outside bool, err error) {
	path, name, hasDefault, byDefault := m[1], m[2], m[3] != "", m[4]
	if path != "" {
		value, err = b.include(path)
		return value, true, err
	}
	value, set := b.file.lookup(name)
	switch {
	case hasDefault && value == "": // as in a shell: unset or empty
		return byDefault, false, nil
	case !set:
		return "", false, fmt.Errorf("environment variable %s is not set; set it or give a default: ${%s:-...}", name, name)
	case !utf8.ValidString(value):
		return "", false, fmt.Errorf("environment variable %s is not valid UTF-8", name)
	}
	return value, true, nil
}

// include is the content of the file of ${file:PATH} without its last line break.
func (b *builder) include(path string) (string, error) {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(b.dir, path)
	}
	data, err := ReadFile(full, maxIncluded)
	b.file.use(full, data)
	if err != nil {
		return "", fmt.Errorf("file %s can't be read: %w", path, err)
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("file %s is not valid UTF-8", path)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// locator finds the references of a scalar in the text of the document.
type locator struct {
	cursor
	seen, found int // references met in the scalar, and located
	lost        bool
	bad         bool // something was reported
}

// badReference reports a reference at its own place, which in a long block text is far from the scalar's.
func (b *builder) badReference(n *Node, where *locator, format string, args ...any) {
	at := n.pos
	if !where.bad {
		where.cursor = cursor{data: b.data, at: b.offset(n.pos), pos: n.pos}
		where.bad = true
	}
	for where.found < where.seen && !where.lost {
		if where.found > 0 {
			where.move(where.at + 2)
		}
		where.lost = !where.find("${")
		where.found++
	}
	if !where.lost {
		at = where.pos
	}
	if b.copying == 0 {
		p := n.problem(format, args...)
		p.Pos = at
		b.file.report(p)
	}
}
