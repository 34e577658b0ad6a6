package config

import "github.com/goccy/go-yaml/ast"

// retag makes a value what its tag says. The tags are those of the core schema; !!str makes a text of 0123 or true.
func (b *builder) retag(n *Node, y *ast.TagNode) {
	tag := y.GetToken().Value
	scalar := n.kind != List && n.kind != Mapping
	switch {
	case tag == "!!str" && scalar, tag == "!" && scalar:
		n.kind = String
	case tag == "!!map" && n.kind == Mapping, tag == "!!seq" && n.kind == List,
		tag == "!!null" && n.kind == Null, tag == "!!bool" && n.typed() == Bool,
		(tag == "!!int" || tag == "!!float") && n.typed() == Number:
	case (tag == "!!int" || tag == "!!float") && n.kind == String && plainKind(n.text) == Number:
		n.kind = Number
	case tag == "!!str", tag == "!", tag == "!!map", tag == "!!seq", tag == "!!null", tag == "!!bool", tag == "!!int", tag == "!!float":
		b.bad(n, "the tag %s does not fit %s", tag, n.kind)
	default:
		b.bad(n, "the tag %s is not supported: take it away", shorten(tag))
	}
}
