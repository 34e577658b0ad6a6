package config

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// tokenPos is the place of a token, the start of the text for none.
func (d *document) tokenPos(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{1, 1}
	}
	if p, ok := d.moved[t]; ok {
		return p
	}
	return Pos{max(1, t.Position.Line), max(1, t.Position.Column)}
}

// locate finds the tokens whose column the scanner has wrong: it counts neither tabs nor the ! of a tag, so that the
// tokens after these stand too far left, the first of them on a blank. The columns of the tokens themselves must stay
// as they are, as the parser goes by them.
func (d *document) locate(tokens token.Tokens) {
	d.moved = map[*token.Token]Pos{}
	var (
		line  []rune
		at    = -1
		shift int
		last  token.Type
	)
	for _, t := range tokens {
		if t.Position.Line != at {
			at, line, shift = t.Position.Line, []rune(d.line(t.Position.Line)), 0
		}
		blockText := last == token.LiteralType || last == token.FoldedType // has no column
		if last = t.Type; blockText || t.Type == token.InvalidType {
			continue
		}
		col := t.Position.Column + shift
		for col >= 1 && col <= len(line) && (line[col-1] == ' ' || line[col-1] == '\t') {
			col++
			shift++
		}
		if shift > 0 {
			d.moved[t] = Pos{at, col}
		}
	}
}

// line is the text of a line, without its end.
func (d *document) line(number int) string {
	starts := d.lineStarts()
	if number < 1 || number > len(starts) {
		return ""
	}
	end := len(d.data)
	if number < len(starts) {
		end = starts[number]
	}
	return strings.TrimRight(string(d.data[starts[number-1]:end]), "\r\n")
}

// lineStarts are the offsets of the lines. A line ends with LF, CR or CR LF.
func (d *document) lineStarts() []int {
	if d.starts == nil {
		d.starts = []int{0}
		for i, c := range d.data {
			if c == '\n' || c == '\r' && (i+1 == len(d.data) || d.data[i+1] != '\n') {
				d.starts = append(d.starts, i+1)
			}
		}
	}
	return d.starts
}

// offset is the byte at a place, the end of the text for a place beyond it.
func (d *document) offset(p Pos) int {
	starts := d.lineStarts()
	if p.Line > len(starts) {
		return len(d.data)
	}
	i := starts[p.Line-1]
	for col := 1; col < p.Col && i < len(d.data) && d.data[i] != '\n'; col++ {
		_, size := utf8.DecodeRune(d.data[i:])
		i += size
	}
	return i
}

// posOf is the place of a byte.
func (d *document) posOf(offset int) Pos {
	c := cursor{data: d.data, pos: Pos{1, 1}}
	c.move(offset)
	return c.pos
}

// cursor walks forward through a text and knows the place where it stands.
type cursor struct {
	data []byte
	at   int
	pos  Pos
}

// move goes on to a later offset.
func (c *cursor) move(to int) {
	for c.at < to && c.at < len(c.data) {
		b := c.data[c.at]
		if b == '\n' || b == '\r' && (c.at+1 == len(c.data) || c.data[c.at+1] != '\n') {
			c.pos = Pos{c.pos.Line + 1, 1}
			c.at++
			continue
		}
		_, size := utf8.DecodeRune(c.data[c.at:])
		c.at += size
		c.pos.Col++
	}
}

// find goes on to the next occurrence of part and says whether there is one.
func (c *cursor) find(part string) bool {
	i := bytes.Index(c.data[c.at:], []byte(part))
	if i < 0 {
		return false
	}
	c.move(c.at + i)
	return true
}
