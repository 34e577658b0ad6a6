package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// merge adds to n the entries of what a merge key (<<) names: a mapping, an alias of one, or a list of these. A key
// that n has itself, or that an earlier one of the list has, is not taken (https://yaml.org/type/merge.html).
func (b *builder) merge(n *Node, y ast.Node, own map[string]bool, depth int) {
	switch y := y.(type) {
	case *ast.AnchorNode:
		b.merge(n, y.Value, own, depth)
		if b.copying == 0 && y.Name != nil {
			b.anchors[y.Name.GetToken().Value] = y.Value
		}
	case *ast.AliasNode:
		target := b.target(y)
		if target == nil {
			b.badKey(n, "<<", b.tokenPos(y.GetToken()), "no anchor &%s comes before this alias", y.Value.GetToken().Value)
			return
		}
		if _, list := target.(*ast.SequenceNode); list {
			b.badKey(n, "<<", b.tokenPos(y.GetToken()), "want a mapping to merge, got a list")
			return
		}
		b.copying++
		b.merge(n, target, own, depth)
		b.copying--
	case *ast.SequenceNode:
		for _, item := range y.Values {
			b.merge(n, item, own, depth)
		}
	case *ast.MappingNode:
		b.mergeMapping(n, y, own, depth)
	default:
		at := n.pos
		if y != nil {
			at = b.tokenPos(y.GetToken())
		}
		b.badKey(n, "<<", at, "want a mapping to merge, or a list of mappings")
	}
}

// mergeMapping adds the entries of y. Its own keys come before those that it merges in turn.
func (b *builder) mergeMapping(n *Node, y *ast.MappingNode, own map[string]bool, depth int) {
	for _, entry := range y.Values {
		text, ok := keyText(entry.Key)
		if b.expanded++; b.expanded > maxExpanded {
			b.stop(n.pos, fmt.Errorf("the merge keys of the file stand for more than %d values", maxExpanded))
		}
		if b.stopped {
			return
		}
		if !ok || entry.Key.IsMergeKey() || own[text] || n.index[text] != nil {
			continue
		}
		n.put(b.build(entry.Value, n, text, b.tokenPos(keyToken(entry.Key)), depth+1))
	}
	for _, entry := range y.Values {
		if entry.Key.IsMergeKey() {
			b.merge(n, entry.Value, own, depth+1)
		}
	}
}
