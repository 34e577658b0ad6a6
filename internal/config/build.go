package config

import (
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// builder makes the Nodes of one document.
type builder struct {
	*document
	anchors  map[string]ast.Node         // defined so far
	targets  map[*ast.AliasNode]ast.Node // as of the first time that the alias was met
	copying  int                         // > 0 inside what an alias stands for, which has been built and reported before
	expanded int                         // values built while copying
	brought  int                         // bytes of texts that are copies or had something put in
	stopped  bool                        // a limit was passed and reported
}

// node is a new value that stands in parent, of which it is not yet a child.
func (d *document) node(parent *Node, key string, at Pos, kind Kind) *Node {
	n := &Node{doc: d, parent: parent, key: key, pos: at, keyPos: at, kind: kind}
	if kind == Mapping {
		n.index = map[string]*Node{}
	}
	return n
}

// put adds the value of a key or an item.
func (n *Node) put(c *Node) {
	n.children = append(n.children, c)
	if n.kind == Mapping {
		n.index[c.key] = c
	}
}

// build makes the value of y, with aliases in place. depth is the number of its parents.
func (b *builder) build(y ast.Node, parent *Node, key string, keyPos Pos, depth int) *Node {
	n := b.value(y, parent, key, depth)
	if keyPos != (Pos{}) {
		n.keyPos = keyPos
	}
	return n
}

func (b *builder) value(y ast.Node, parent *Node, key string, depth int) *Node {
	at := Pos{1, 1}
	if y != nil {
		at = b.tokenPos(y.GetToken())
	}
	if b.copying > 0 {
		if b.expanded++; b.expanded > maxExpanded {
			b.stop(at, fmt.Errorf("the aliases of the file stand for more than %d values", maxExpanded))
		}
	}
	if depth > maxDepth {
		b.stop(at, errDepth)
	}
	if b.stopped {
		return b.node(parent, key, at, Null)
	}
	switch y := y.(type) {
	case *ast.MappingNode:
		return b.mapping(y, parent, key, depth)
	case *ast.SequenceNode:
		n := b.node(parent, key, at, List)
		for i, item := range y.Values {
			n.put(b.build(item, n, strconv.Itoa(i), Pos{}, depth+1))
		}
		return n
	case *ast.AnchorNode:
		n := b.value(y.Value, parent, key, depth)
		if b.copying == 0 && y.Name != nil {
			b.anchors[y.Name.GetToken().Value] = y.Value
		}
		return n
	case *ast.AliasNode:
		return b.alias(y, parent, key, depth)
	case *ast.TagNode:
		n := b.value(y.Value, parent, key, depth)
		b.retag(n, y)
		return n
	case *ast.LiteralNode:
		n := b.node(parent, key, at, String)
		b.setText(n, y.Value.Value)
		return n
	case *ast.NullNode:
		return b.node(parent, key, at, Null)
	case ast.ScalarNode:
		return b.scalar(y.GetToken(), parent, key)
	}
	n := b.node(parent, key, at, Null)
	b.bad(n, "not valid YAML: a value was expected here")
	return n
}

// scalar makes a plain or quoted scalar.
func (b *builder) scalar(t *token.Token, parent *Node, key string) *Node {
	n := b.node(parent, key, b.tokenPos(t), String)
	if t.Type != token.SingleQuoteType && t.Type != token.DoubleQuoteType {
		n.kind = plainKind(t.Value)
	}
	b.setText(n, t.Value)
	return n
}

// alias builds what the alias stands for once more, at its own place in the tree.
func (b *builder) alias(y *ast.AliasNode, parent *Node, key string, depth int) *Node {
	at := b.tokenPos(y.GetToken())
	target := b.target(y)
	if target == nil {
		n := b.node(parent, key, at, Null)
		b.bad(n, "no anchor &%s comes before this alias", y.Value.GetToken().Value)
		return n
	}
	b.copying++
	n := b.value(target, parent, key, depth)
	b.copying--
	n.pos, n.keyPos = at, at
	return n
}

// target is what the alias stands for, nil when nothing that is complete has its name: an alias in its own anchor
// would have no end.
func (b *builder) target(y *ast.AliasNode) ast.Node {
	target, known := b.targets[y]
	if !known {
		target = b.anchors[y.Value.GetToken().Value]
		b.targets[y] = target
	}
	return target
}

// mapping builds the entries in the file's order, with those of << in its place.
func (b *builder) mapping(y *ast.MappingNode, parent *Node, key string, depth int) *Node {
	n := b.node(parent, key, b.mappingPos(y), Mapping)
	own := map[string]bool{}
	for _, entry := range y.Values {
		if text, ok := keyText(entry.Key); ok {
			own[text] = true
		}
	}
	first := map[string]Pos{}
	for _, entry := range y.Values {
		at := b.tokenPos(keyToken(entry.Key))
		text, ok := keyText(entry.Key)
		merge := entry.Key.IsMergeKey()
		if !ok {
			b.badKey(n, text, at, "a key must be a plain or quoted text")
			continue
		}
		if before, again := first[text]; again {
			b.badKey(n, text, at, "duplicate key: it is set already at line %d", before.Line)
			b.build(entry.Value, n, text, at, depth+1) // for its problems and anchors
			continue
		}
		first[text] = at
		if merge {
			b.merge(n, entry.Value, own, depth)
			continue
		}
		n.put(b.build(entry.Value, n, text, at, depth+1))
		if y.IsFlowStyle && entry.Start != nil && entry.Start.Type != token.MappingValueType && b.copying == 0 {
			b.file.warnings = append(b.file.warnings,
				n.keyProblem(text, "this is read as a key without a value: put a text that holds a comma in quotes"))
		}
	}
	return n
}

// mappingPos is the first key of a block mapping, the brace of one in flow style.
func (b *builder) mappingPos(y *ast.MappingNode) Pos {
	if !y.IsFlowStyle && len(y.Values) > 0 {
		return b.tokenPos(keyToken(y.Values[0].Key))
	}
	return b.tokenPos(y.GetToken())
}

// keyToken is where a key is written.
func keyToken(key ast.Node) *token.Token {
	switch key := key.(type) {
	case *ast.AnchorNode:
		return keyToken(key.Value)
	case *ast.TagNode:
		return keyToken(key.Value)
	case *ast.MappingKeyNode:
		return keyToken(key.Value)
	case *ast.LiteralNode, *ast.AliasNode:
		return key.GetToken()
	case nil:
		return nil
	}
	return key.GetToken()
}

// keyText is a key as it is spelled: 404 and "404" are the same, and nothing is replaced in it.
func keyText(key ast.Node) (text string, ok bool) {
	switch key := key.(type) {
	case *ast.AnchorNode:
		return keyText(key.Value)
	case *ast.TagNode:
		return keyText(key.Value)
	case *ast.MappingKeyNode:
		return keyText(key.Value)
	case *ast.LiteralNode:
		return key.Value.Value, true
	case *ast.AliasNode, *ast.MappingNode, *ast.SequenceNode, nil:
		return "", false
	}
	t := key.GetToken()
	return t.Value, t.Type != token.ImplicitNullType
}

// bad reports a value that is of no use; the copies behind aliases have been reported with the original.
func (b *builder) bad(n *Node, format string, args ...any) {
	if b.copying > 0 {
		b.file.faulty[place{b.name, n.Path()}] = true
		return
	}
	n.failBad(format, args...)
}

func (b *builder) badKey(n *Node, key string, at Pos, format string, args ...any) {
	if b.copying > 0 {
		return
	}
	p := n.keyProblem(key, format, args...)
	p.Pos = at
	b.file.report(p)
}

// stop reports a limit of the whole document, once; what is not yet built is left out.
func (b *builder) stop(at Pos, err error) {
	if !b.stopped {
		b.fail(at, "%s", err)
	}
	b.stopped = true
}
