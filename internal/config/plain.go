package config

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
)

// The forms of the core schema of YAML 1.2, §10.3.2, without .inf and .nan.
var (
	formDecimal = regexp.MustCompile(`^[-+]?[0-9]+$`)
	formBased   = regexp.MustCompile(`^(?:0o[0-7]+|0x[0-9a-fA-F]+)$`)
	formFloat   = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
)

// plainKind is what a plain scalar is by the core schema.
func plainKind(text string) Kind {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return Null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return Bool
	}
	if strings.IndexByte("+-.0123456789", text[0]) >= 0 &&
		(formDecimal.MatchString(text) || formFloat.MatchString(text) || formBased.MatchString(text)) {
		return Number
	}
	return String
}

// numberJSON is a number of the core schema as JSON spells it. What JSON can write the same way stays as it is, to the
// last digit: 1.10, 9007199254740993, 1e3. Else: 0123 is 123, +5 is 5, .5 is 0.5, 5. is 5, 0o17 is 15, 0x1F is 31.
func numberJSON(text string) string {
	if formBased.MatchString(text) {
		i, _ := new(big.Int).SetString(text, 0)
		return i.String()
	}
	if !formFloat.MatchString(text) {
		return "0"
	}
	sign := ""
	if text[0] == '-' {
		sign = "-"
	}
	text = strings.TrimLeft(text, "+-")
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent
}

// JSON is the value as compact JSON, nil for an absent one. The order of keys and the spelling of numbers are the
// file's, <, > and & stay as they are, and a scalar in which ${...} was replaced is a string.
func (n *Node) JSON() json.RawMessage {
	if n == nil {
		return nil
	}
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

func (n *Node) writeJSON(b *bytes.Buffer) {
	switch n.kind {
	case Null:
		b.WriteString("null")
	case Bool:
		b.WriteString(strings.ToLower(n.text))
	case Number:
		b.WriteString(numberJSON(n.text))
	case String:
		writeString(b, n.text)
	case List:
		b.WriteByte('[')
		for i, c := range n.children {
			if i > 0 {
				b.WriteByte(',')
			}
			c.writeJSON(b)
		}
		b.WriteByte(']')
	case Mapping:
		b.WriteByte('{')
		for i, c := range n.children {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, c.key)
			b.WriteByte(':')
			c.writeJSON(b)
		}
		b.WriteByte('}')
	}
}

func writeString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	b.Truncate(b.Len() - 1)
}
