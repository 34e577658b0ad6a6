package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is what a value of the file is.
type Kind int

// The kinds. An absent value (a nil *Node) is Null. A scalar in which ${...} was replaced is a String.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Mapping
)

// String is the kind's name in a sentence.
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a text", "a list", "a mapping"}[k]
}

// Node is one value of the file with its place. Its methods may be called on a nil *Node, which is an absent value:
// they return zero values, and what is reported to it is lost, as it has no place (use FailKey of the parent).
type Node struct {
	doc      *document
	parent   *Node
	key      string // in the parent; an item's index
	pos      Pos
	keyPos   Pos
	kind     Kind
	text     string    // a scalar's, substituted
	replaced bool      // a ${...} was replaced in text
	hidden   bool      // text holds something that stands outside the file: never to be shown
	outside  []brought // what that is
	masked   bool      // it was decoded into a Secret
	children []*Node
	index    map[string]*Node // of a mapping
}

// brought is what a ${...} has brought in.
type brought struct {
	name  string // of the variable; "" for a file
	value string
	plain bool // an address that may be shown
}

// Path is the dotted path from the document: "tools.lookup.http.url", with items as "a.0"; "" for the document itself.
func (n *Node) Path() string {
	if n == nil || n.parent == nil {
		return ""
	}
	var parts []string
	for ; n.parent != nil; n = n.parent {
		parts = append(parts, n.key)
	}
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// join adds a key to a dotted path.
func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// Pos is where the value starts; for an alias, where the alias stands.
func (n *Node) Pos() Pos {
	if n == nil {
		return Pos{}
	}
	return n.pos
}

// Kind is what the value is.
func (n *Node) Kind() Kind {
	if n == nil {
		return Null
	}
	return n.kind
}

// Get is the value of a key, nil when there is none or n is no mapping. A key without a value gives a Null node.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	return n.index[key]
}

// Keys are the keys of a mapping in the file's order.
func (n *Node) Keys() []string {
	if n == nil || n.kind != Mapping {
		return nil
	}
	keys := make([]string, len(n.children))
	for i, c := range n.children {
		keys[i] = c.key
	}
	return keys
}

// Items are the items of a list.
func (n *Node) Items() []*Node {
	if n == nil || n.kind != List {
		return nil
	}
	return n.children
}

// Text is a scalar as it is spelled in the file, without quotes and after substitution; "" for anything else.
func (n *Node) Text() string {
	if n == nil {
		return ""
	}
	return n.text
}

// Dir is the folder that relative paths in the value start from.
func (n *Node) Dir() string {
	if n == nil {
		return ""
	}
	return n.doc.dir
}

// Fail reports a problem of this value. The message is without the path and must say what would be right.
func (n *Node) Fail(format string, args ...any) {
	if n == nil {
		return
	}
	n.doc.file.report(n.problem(format, args...))
}

// FailKey reports a problem of the entry key of a mapping: at the key where it stands, else at the mapping. That it is
// not there is not said where it is only misspelt, which has been reported.
func (n *Node) FailKey(key, format string, args ...any) {
	if n == nil || n.Misspelt(key) {
		return
	}
	n.doc.file.report(n.keyProblem(key, format, args...))
}

// Misspelt says whether one of the keys is not there but was reported as what an unknown key beside it may have meant,
// so that it would be the same fault twice to say that it is missing.
func (n *Node) Misspelt(keys ...string) bool {
	return n != nil && slices.ContainsFunc(keys, func(key string) bool {
		return n.Get(key) == nil && n.doc.file.misspelt[place{n.doc.name, join(n.Path(), key)}]
	})
}

// Warn reports what should be looked at but does not make the file bad.
func (n *Node) Warn(format string, args ...any) {
	if n == nil {
		return
	}
	n.doc.file.warnings = append(n.doc.file.warnings, n.problem(format, args...))
}

// failBad is Fail for a value that can't be used: what is said of it later is dropped.
func (n *Node) failBad(format string, args ...any) {
	n.doc.file.reportBad(n.problem(format, args...))
}

func (n *Node) problem(format string, args ...any) Problem {
	if n.hidden && n.text != "" {
		args = slices.Clone(args)
		for i, arg := range args { // also one too short to be among the Secrets
			if s, ok := arg.(string); ok {
				args[i] = strings.ReplaceAll(s, n.text, mask)
			}
		}
	}
	message := fmt.Sprintf(format, args...)
	if n.kind == String && !n.hidden && strings.IndexAny(n.text, "“”„‘’«") == 0 {
		message += `; it begins with a quotation mark that YAML takes for a letter: write "..."`
	}
	return Problem{File: n.doc.name, Pos: n.pos, Path: n.Path(), Message: message}
}

func (n *Node) keyProblem(key, format string, args ...any) Problem {
	p := n.problem(format, args...)
	if c := n.index[key]; c != nil {
		p.Pos = c.keyPos
	}
	p.Path = join(p.Path, key)
	return p
}

// Fragment parses another YAML or JSON document, such as a schema in a file of its own. Its problems go to the same
// File under name, with paths from the fragment's own root; it is nil when it can't be parsed. ${...} stays as it is
// in a fragment: it is somebody else's document. A relative name is taken to be relative to Dir.
func (n *Node) Fragment(name string, data []byte) *Node { return n.part(name, data, false) }

// Include reads and parses the file that the value, a text, names relative to Dir: a part of the configuration that
// stands in a file of its own. It is like Fragment, but ${...} is replaced in it, and it is among the File's Uses. Where
// it can't be read or parsed, that is reported and it is nil.
func (n *Node) Include() *Node {
	if n == nil || !n.want(String) {
		return nil
	}
	name := n.text
	if !filepath.IsAbs(name) {
		name = filepath.Join(n.doc.dir, name)
	}
	data, err := ReadFile(name, MaxBytes)
	n.Uses(name, data)
	if err != nil {
		n.failBad("the file %s can't be read: %s", name, err.Error())
		return nil
	}
	return n.part(n.text, data, true)
}

func (n *Node) part(name string, data []byte, substitute bool) *Node {
	if n == nil {
		return nil
	}
	dir := filepath.Dir(name)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(n.doc.dir, dir)
	}
	d := &document{file: n.doc.file, name: name, dir: dir, substitute: substitute}
	return d.read(data)
}
