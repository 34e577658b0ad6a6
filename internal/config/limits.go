package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// What bounds the work on a file: the parser recurses for each level and for each key of a block mapping, whose time
// grows with the square of the keys (10,000: a quarter of a second); aliases can make much of little.
const (
	maxDepth    = 100
	maxTokens   = 200_000
	maxKeys     = 10_000   // of one mapping in block style
	maxKeyChars = 1024     // YAML 1.2.2 §8.2.2: of an implicit key
	maxExpanded = 100_000  // values that stand in place of aliases and merge keys
	maxBrought  = 64 << 20 // bytes that stand in place of aliases and ${...}
	maxLessThan = 255      // in a row: the scanner looks for a merge key at each, to the end of the run
)

var (
	errDepth  = fmt.Errorf("nested more than %d levels deep", maxDepth)
	errSecond = errors.New("a second document begins here: want one document in a file")
)

// checkText finds what the scanner would take too long for.
func checkText(text string) error {
	if strings.Contains(text, strings.Repeat("<", maxLessThan+1)) {
		return fmt.Errorf("more than %d characters < in a row", maxLessThan)
	}
	return nil
}

// checkTokens finds what the parser would take too long for, and more than one document (of which it loses some).
func checkTokens(tokens token.Tokens) (at *token.Token, err error) {
	if len(tokens) > maxTokens {
		return tokens[maxTokens], fmt.Errorf("too much in one file: more than %d keys, values and signs", maxTokens)
	}
	var (
		levels blockLevels
		flow   int
		body   bool // a value or --- has come
		ended  bool // ... has come
		last   *token.Token
		line   int // of directive
	)
	for _, t := range tokens {
		if t.Type == token.CommentType {
			continue
		}
		if ended {
			return t, errSecond
		}
		switch t.Type {
		case token.DocumentEndType:
			ended = true
		case token.DirectiveType:
			line = t.Position.Line
		case token.DocumentHeaderType:
			if body {
				return t, errSecond
			}
			body, levels = true, nil
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(0, flow-1)
		case token.MappingValueType:
			if last != nil && len(last.Value) > maxKeyChars {
				return last, fmt.Errorf("a key of more than %d characters", maxKeyChars)
			}
			if flow == 0 && levels.addKey() > maxKeys {
				return t, fmt.Errorf("a mapping with more than %d keys", maxKeys)
			}
			if flow > 0 && gluedColon(last, t) {
				return last, errors.New("a colon inside { } needs a blank after it, or the text quotes around it")
			}
		}
		if line != t.Position.Line && t.Type != token.DocumentHeaderType {
			body = true
		}
		if flow == 0 && startsBlock(last, t) {
			levels.enter(t.Position.Column)
		}
		if flow+len(levels) > maxDepth {
			return t, errDepth
		}
		last = t
	}
	return nil, nil
}

// gluedColon says whether the colon t is one that YAML 1.2.2 §7.3.3 has inside a plain text, such as that of
// {hosts: [a:80]}, where the parser sees a key.
func gluedColon(last, t *token.Token) bool {
	if last == nil || last.Type == token.DoubleQuoteType || last.Type == token.SingleQuoteType || t.Next == nil {
		return false
	}
	switch t.Next.Type {
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
		return false
	}
	return t.Next.Position.Line == t.Position.Line && t.Next.Position.Column == t.Position.Column+1
}

// startsBlock says whether t may be the first of a block node: at the start of a line or after - or ? on it.
func startsBlock(last, t *token.Token) bool {
	if last != nil && (last.Type == token.LiteralType || last.Type == token.FoldedType) {
		return false // the text of a block, which has no column
	}
	return last == nil || last.Position.Line != t.Position.Line ||
		last.Type == token.SequenceEntryType || last.Type == token.MappingKeyType
}

// blockLevels are the block nodes that are open, each with its column, which grows.
type blockLevels []struct{ column, keys int }

func (l *blockLevels) enter(column int) {
	for n := len(*l); n > 0 && (*l)[n-1].column > column; n-- {
		*l = (*l)[:n-1]
	}
	if n := len(*l); n == 0 || (*l)[n-1].column < column {
		*l = append(*l, struct{ column, keys int }{column, 0})
	}
}

// addKey counts a key of the innermost mapping.
func (l blockLevels) addKey() int {
	if len(l) == 0 {
		return 0
	}
	l[len(l)-1].keys++
	return l[len(l)-1].keys
}
