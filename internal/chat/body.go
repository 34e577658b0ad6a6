package chat

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/toolgate/toolgate/internal/plainjson"
)

// Edits is what the gateway changes in a request on its way to a provider. All values are JSON texts. The zero value
// changes nothing.
type Edits struct {
	Set     []Pair   // replaces a member's value, or adds the member at the end
	Default []Pair   // adds a member that the client did not send
	Drop    []string // takes a member out
	Tools   []byte   // tools, joined by commas, that go behind the client's
	// Messages is a JSON list that goes in place of the client's messages; nil leaves them.
	Messages json.RawMessage
	Before   json.RawMessage   // a message that goes before the client's
	After    []json.RawMessage // messages that go behind the client's
}

// Pair is a name and its value, a JSON text.
type Pair struct {
	Name  string
	Value json.RawMessage
}

// Body is a request body in pieces, which share the bytes of the client's request and are never joined. It can be
// read any number of times.
type Body struct {
	parts [][]byte
	size  int64
}

// RawBody is a body of bytes as they are.
func RawBody(b []byte) Body { return Body{parts: [][]byte{b}, size: int64(len(b))} }

// Len is the length in bytes.
func (b Body) Len() int64 { return b.size }

// Bytes is the whole body as one copy.
func (b Body) Bytes() []byte { return bytes.Join(b.parts, nil) }

// joined is up to which size a body is copied into one piece: http.Transport sends that together with the header, in one
// write, while a reader that it does not know costs a write for the header alone.
const joined = 16 << 10

// Joined is the same body, in one piece if it is small.
func (b Body) Joined() Body {
	if len(b.parts) < 2 || b.size > joined {
		return b
	}
	return RawBody(b.Bytes())
}

// Reader reads the body from its start. Readers of one body do not disturb each other.
func (b Body) Reader() io.ReadCloser {
	if len(b.parts) == 1 {
		return io.NopCloser(bytes.NewReader(b.parts[0]))
	}
	return &bodyReader{parts: b.parts}
}

type bodyReader struct {
	parts [][]byte
	at    int // in parts[0]
}

func (r *bodyReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && len(r.parts) > 0 {
		c := copy(p[n:], r.parts[0][r.at:])
		n += c
		if r.at += c; r.at == len(r.parts[0]) {
			r.parts, r.at = r.parts[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *bodyReader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for len(r.parts) > 0 {
		n, err := w.Write(r.parts[0][r.at:])
		total += int64(n)
		if r.at += n; err != nil {
			return total, err
		}
		r.parts, r.at = r.parts[1:], 0
	}
	return total, nil
}

// Rest is what was not read yet, without a copy; from then on it counts as read.
func (r *bodyReader) Rest() [][]byte {
	if len(r.parts) == 0 {
		return nil
	}
	rest := slices.Clone(r.parts)
	rest[0] = rest[0][r.at:]
	r.parts, r.at = nil, 0
	return rest
}

func (*bodyReader) Close() error { return nil }

// Body is the request with edits applied. Untouched members keep their bytes, blanks between them included.
func (r *Request) Body(e Edits) Body {
	w := &splicer{src: r.Raw, parts: make([][]byte, 0, 8+2*len(e.After))}
	w.bytes(objectStart)
	for _, m := range r.members {
		r.splice(w, m, e)
	}
	for _, p := range e.Default {
		if r.Member(p.Name) == nil {
			w.pair(p)
		}
	}
	for _, p := range e.Set {
		if r.Member(p.Name) == nil {
			w.pair(p)
		}
	}
	if len(e.Tools) > 0 && r.Member("tools") == nil && !slices.Contains(e.Drop, "tools") {
		w.separate()
		w.bytes(toolsStart)
		w.bytes(e.Tools)
		w.bytes(listEnd)
	}
	w.bytes(objectEnd)
	return w.body()
}

// splice writes one member of the client's.
func (r *Request) splice(w *splicer, m Member, e Edits) {
	if slices.Contains(e.Drop, m.Name) {
		return
	}
	for _, p := range e.Set {
		if p.Name == m.Name {
			w.member(Span{m.Key, m.Value.Start})
			w.bytes(p.Value)
			return
		}
	}
	switch {
	case m.Name == "messages" && (e.Messages != nil || e.Before != nil || len(e.After) > 0):
		spliceMessages(w, m, e)
	case m.Name == "tools" && len(e.Tools) > 0:
		r.spliceTools(w, m, e.Tools)
	default:
		w.member(Span{m.Key, m.Value.End})
	}
}

func spliceMessages(w *splicer, m Member, e Edits) {
	w.member(Span{m.Key, m.Value.Start + 1})
	if e.Before != nil {
		w.bytes(e.Before)
		w.bytes(comma)
	}
	if e.Messages == nil {
		w.span(Span{m.Value.Start + 1, m.Value.End - 1})
	} else {
		w.bytes(e.Messages[1 : len(e.Messages)-1])
	}
	for _, message := range e.After {
		w.bytes(comma)
		w.bytes(message)
	}
	w.bytes(listEnd)
}

func (r *Request) spliceTools(w *splicer, m Member, tools []byte) {
	v := m.Value.of(r.Raw)
	if v[0] != '[' { // null
		w.member(Span{m.Key, m.Value.Start})
		w.bytes(listStart)
	} else {
		w.member(Span{m.Key, m.Value.End - 1})
		if len(bytes.TrimSpace(v[1:len(v)-1])) > 0 {
			w.bytes(comma)
		}
	}
	w.bytes(tools)
	w.bytes(listEnd)
}

// What stands between pieces of a body. Nobody writes to a piece.
var (
	objectStart, objectEnd = []byte("{"), []byte("}")
	listStart, listEnd     = []byte("["), []byte("]")
	toolsStart             = []byte(`"tools":[`)
	comma                  = []byte(",")
)

// splicer collects the pieces of a body. Neighbouring ranges of the source become one piece.
type splicer struct {
	src   []byte
	parts [][]byte
	last  Span // of the source, when the newest piece is one
	some  bool // a member has been written
}

func (w *splicer) bytes(b []byte) {
	if len(b) > 0 {
		w.parts, w.last = append(w.parts, b), Span{}
	}
}

func (w *splicer) span(s Span) {
	w.bytes(s.of(w.src))
	w.last = s
}

// member writes a member of the source, or its beginning. Where the member before it was untouched, the source's own
// separator is kept.
func (w *splicer) member(s Span) {
	if w.some && w.last.End > 0 && onlySeparator(w.src[w.last.End:s.Start]) {
		s.Start = w.last.Start
		w.parts = w.parts[:len(w.parts)-1]
	} else {
		w.separate()
	}
	w.some = true
	w.span(s)
}

func onlySeparator(b []byte) bool { return string(bytes.TrimSpace(b)) == "," }

func (w *splicer) separate() {
	if w.some {
		w.bytes(comma)
	}
	w.some = true
}

func (w *splicer) pair(p Pair) {
	w.separate()
	w.bytes(append(Quote(p.Name), ':'))
	w.bytes(p.Value)
}

func (w *splicer) body() Body {
	b := Body{parts: w.parts}
	for _, p := range w.parts {
		b.size += int64(len(p))
	}
	return b
}

// Quote is s as a JSON string. Characters that JSON allows stay as they are; invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	return plainjson.AppendQuoted(make([]byte, 0, len(s)+2), s)
}

// Empty says that the edits change nothing.
func (e Edits) Empty() bool {
	return len(e.Set)+len(e.Default)+len(e.Drop)+len(e.Tools)+len(e.Messages)+len(e.Before)+len(e.After) == 0
}
