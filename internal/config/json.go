package config

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// readJSON makes the tree of a text that is valid JSON.
func (b *builder) readJSON(data []byte) *Node {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	r := &jsonReader{builder: b, decoder: d, cursor: cursor{data: data, pos: Pos{1, 1}}}
	return r.value(nil, "", Pos{}, 0)
}

type jsonReader struct {
	*builder
	decoder *json.Decoder
	cursor  cursor
}

// next is the next token and its place. The text is valid, so there is one.
func (r *jsonReader) next() (json.Token, Pos) {
	for at := r.cursor.at; ; at++ {
		if at >= len(r.cursor.data) || bytes.IndexByte([]byte(" \t\r\n,:"), r.cursor.data[at]) < 0 {
			r.cursor.move(at)
			break
		}
	}
	at := r.cursor.pos
	t, _ := r.decoder.Token()
	r.cursor.move(int(r.decoder.InputOffset()))
	return t, at
}

func (r *jsonReader) value(parent *Node, key string, keyPos Pos, depth int) *Node {
	t, at := r.next()
	n := r.node(parent, key, at, Null)
	if keyPos != (Pos{}) {
		n.keyPos = keyPos
	}
	if depth > maxDepth {
		r.stop(at, errDepth)
	}
	switch t := t.(type) {
	case bool:
		n.kind, n.text = Bool, strconv.FormatBool(t)
	case json.Number:
		n.kind, n.text = Number, t.String()
	case string:
		n.kind = String
		r.setText(n, t)
	case json.Delim:
		if r.stopped {
			return n
		}
		if t == '[' {
			n.kind = List
			for i := 0; r.decoder.More() && !r.stopped; i++ {
				n.put(r.value(n, strconv.Itoa(i), Pos{}, depth+1))
			}
		} else {
			n.kind, n.index = Mapping, map[string]*Node{}
			r.entries(n, depth)
		}
		if !r.stopped {
			r.next() // the bracket
		}
	}
	return n
}

func (r *jsonReader) entries(n *Node, depth int) {
	for r.decoder.More() && !r.stopped {
		t, at := r.next()
		key, _ := t.(string)
		c := r.value(n, key, at, depth+1)
		if before := n.index[key]; before != nil {
			r.badKey(n, key, at, "duplicate key: it is set already at line %d", before.keyPos.Line)
			continue
		}
		n.put(c)
	}
}
