// Package openapi makes tools of the operations of an OpenAPI document, 3.0 or 3.1: each becomes an http tool whose
// arguments are the operation's parameters and the properties of its body.
//
// The way of a document: readDocument makes a tree of the file, operations lists what is in it and gives names, the
// entry's include and exclude choose, a maker turns each chosen operation into the configuration of a tool, and all of
// them together are a mapping that is read like the file's own `tools`.
//
// A document is somebody else's and seldom without faults. What is wrong with one operation leaves that one out, with
// a warning; only what concerns the whole document, or an operation that the file names, is a problem. Nothing but the
// file itself is read: a reference to another file or address is never followed.
//
// The document is read as a tree and not into the types of kin-openapi, which refuse all of it for one slip anywhere
// (a broken reference in a response, a text where a number is due), lose the order of keys and round large numbers.
package openapi

import (
	"bytes"
	"fmt"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// Tools reads one entry under `openapi`, reports what is wrong to its nodes, and returns the tools that it makes: a
// mapping like `tools`, in the order of the document, whose kinds are Kind alone. It is nil after a problem.
//
// The mapping is a fragment of the same file: texts of the entry in which ${...} was replaced are in it as they are,
// and what was a secret of the file stays one.
func Tools(name string, n *config.Node) *config.Node {
	c := read(n)
	if c == nil {
		return nil
	}
	doc := readDocument(n, c.Spec)
	if doc == nil {
		return nil
	}
	m := newMaker(name, c, n, doc)
	if m == nil {
		return nil
	}
	tools := m.tools()
	m.warnings.report(n.Get("spec"), c.Spec)
	if m.failed || len(tools.Members) == 0 {
		return nil
	}
	return m.fragment(tools)
}

// maxFragment is how large the tools of an entry may be together, in bytes; more is no use to any model.
const maxFragment = config.MaxBytes

// fragment is the tools as a part of the file, each on a line of its own.
func (m *maker) fragment(tools *jsontree.Value) *config.Node {
	var b bytes.Buffer
	for i, t := range tools.Members {
		b.WriteString([]string{"{\n", ",\n"}[min(i, 1)])
		b.Write(jsontree.Text(t.Key).JSON())
		b.WriteByte(':')
		b.Write(t.Value.JSON())
	}
	b.WriteString("\n}")
	if b.Len() > maxFragment {
		m.node.Get("spec").Fail("the %d tools of %s take more than %s together: choose operations with include", len(tools.Members), m.config.Spec, config.Size(maxFragment))
		return nil
	}
	return m.node.Fragment(fmt.Sprintf("%s (openapi.%s)", m.config.Spec, m.name), printable(b.Bytes()))
}

// tools are the tools of the chosen operations by name.
func (m *maker) tools() *jsontree.Value {
	tools := newObject()
	operations := m.doc.operations(&m.warnings)
	nameOperations(operations, m.prefix, &m.warnings)
	m.choose(operations)
	m.readSet(operations)
	m.adviseCredentials(operations)
	for _, o := range operations {
		if !o.chosen {
			continue
		}
		t, err := m.tool(o)
		if err != nil {
			m.leaveOut(o, err)
			continue
		}
		tools.Members = append(tools.Members, jsontree.Member{Key: o.tool, Value: t})
	}
	if len(tools.Members) == 0 {
		m.node.Get("spec").Warn("no tool is made of %s", m.config.Spec)
	}
	return tools
}

// leaveOut reports an operation that can't be a tool. One that the file names is wanted: then it is a problem.
func (m *maker) leaveOut(o *operation, err error) {
	if o.named == nil {
		m.warnings.add(o, "left out: %v", err)
		return
	}
	m.failed = true
	o.named.Fail("%s of %s can't be a tool: %v", o, m.config.Spec, err)
}
