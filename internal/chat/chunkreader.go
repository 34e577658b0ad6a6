package chat

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"
)

// ChunkReader reads the events of one stream. From one event to the next, mostly nothing but a piece of text differs:
// such an event is compared with an earlier one, and its text alone is looked at. The zero value is ready.
type ChunkReader struct {
	like  *likeness // of an earlier event; nil without
	chunk Chunk     // for an event that is like it
	vain  int       // likenesses made since the last one that was of use
}

// maxVain bounds how many likenesses are made for a stream that has no use for them.
const maxVain = 16

// Read reads the data of one event, as ReadChunk does. The chunk is valid until the next call, and as long as data is.
func (r *ChunkReader) Read(data []byte) (*Chunk, error) {
	if r.like != nil {
		if c := r.like.chunkOf(data, &r.chunk); c != nil {
			r.vain = 0
			return c, nil
		}
	}
	c, err := ReadChunk(slices.Clone(data))
	if err == nil && c != nil && r.vain < maxVain {
		if like := likenessOf(c); like != nil {
			r.like = like
			r.vain++
		}
	}
	return c, err
}

// likeness is an event that others are like: equal to the byte but for the text of their delta and, as OpenAI's API has
// it, for padding that hides the length of the text.
type likeness struct {
	chunk *Chunk
	key   string // of the member of the delta that is the text
	event around

	in      around // the event in the envelope inFor, without a role
	inFor   Envelope
	inReady bool // in is that of inFor
	inSame  bool // it is the event itself
	inFails bool // it has no place for the text
	scratch []byte
}

// paddingKey is the member that OpenAI's API puts behind the choices, with stream_options.include_obfuscation.
const paddingKey = "obfuscation"

// around is what stands before, between and behind the strings that differ.
type around struct {
	before, between, behind []byte
	padded                  bool // between is of use
}

// likenessOf is nil for a chunk that has more to say than its text.
func likenessOf(c *Chunk) *likeness {
	if !c.HasDelta || c.Finish != "" || c.Calls || c.Rest || c.Usage != nil || (c.Text == "") == !c.Reasoning {
		return nil
	}
	key := "content"
	if c.Reasoning {
		key = ""
		for _, k := range reasoningKeys {
			if v := c.delta.Get(k); v.Type == gjson.String && v.Str != "" {
				key = k
			}
		}
	}
	event, ok := aroundText(c.Raw, key)
	if !ok {
		return nil
	}
	return &likeness{chunk: c, key: key, event: event}
}

// aroundText finds what stands around the text in an event. It finds nothing where the delta has another member that
// counts, or anything stands twice.
func aroundText(event []byte, key string) (around, bool) {
	var none around
	root, ok := membersAt(event, Span{0, len(event)})
	if !ok {
		return none, false
	}
	choices, ok := only(root, "choices")
	if !ok {
		return none, false
	}
	choice, alone := firstItem(choices.of(event))
	if !alone {
		return none, false
	}
	choice = Span{choices.Start + choice.Start, choices.Start + choice.End}
	members, ok := membersAt(event, choice)
	if !ok {
		return none, false
	}
	delta, ok := only(members, "delta")
	if !ok {
		return none, false
	}
	fields, ok := membersAt(event, delta)
	if !ok {
		return none, false
	}
	text, ok := only(fields, key)
	if !ok || event[text.Start] != '"' {
		return none, false
	}
	for _, f := range fields {
		if v := string(f.Value.of(event)); f.Name != key && f.Name != "role" && v != "null" && v != `""` {
			return none, false
		}
	}
	padding, padded := only(root, paddingKey)
	if padded = padded && padding.Start > text.End && event[padding.Start] == '"'; padded {
		return around{event[:text.Start+1], event[text.End-1 : padding.Start+1], event[padding.End-1:], true}, true
	}
	return around{before: event[:text.Start+1], behind: event[text.End-1:]}, true
}

// membersAt are the members of the object at a place, with their own places in b.
func membersAt(b []byte, at Span) ([]Member, bool) {
	members, err := Scan(at.of(b))
	if err != nil {
		return nil, false
	}
	for i := range members {
		members[i].Key += at.Start
		members[i].Value.Start += at.Start
		members[i].Value.End += at.Start
	}
	return members, true
}

// only is the value of the one member of that name.
func only(members []Member, name string) (Span, bool) {
	var found Span
	n := 0
	for _, m := range members {
		if m.Name == name {
			found = m.Value
			n++
		}
	}
	return found, n == 1
}

// split finds the text and the padding of an event that is like it, without their quotes. text is nil for one that is
// not, or has no text.
func (a *around) split(event []byte) (text, padding Span, escaped bool) {
	if !bytes.HasPrefix(event, a.before) {
		return Span{}, Span{}, false
	}
	at := len(a.before)
	n, escaped := stringEnd(event[at:])
	if n <= 0 {
		return Span{}, Span{}, false
	}
	text = Span{at, at + n}
	at += n
	if a.padded {
		if !bytes.HasPrefix(event[at:], a.between) {
			return Span{}, Span{}, false
		}
		at += len(a.between)
		n, _ := stringEnd(event[at:])
		if n < 0 {
			return Span{}, Span{}, false
		}
		padding = Span{at, at + n}
		at += n
	}
	if !bytes.Equal(event[at:], a.behind) {
		return Span{}, Span{}, false
	}
	return text, padding, escaped
}

// stringEnd is where the JSON string ends whose opening quote stands before b, -1 where it is none, and whether it has
// escapes.
func stringEnd(b []byte) (end int, escaped bool) {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i, escaped
		case c < ' ':
			return -1, false
		case c != '\\':
			continue
		}
		escaped = true
		if i++; i == len(b) {
			return -1, false
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for range 4 {
				if i++; i == len(b) || !isHex(b[i]) {
					return -1, false
				}
			}
		default:
			return -1, false
		}
	}
	return -1, false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// chunkOf reads an event that is like it into c; nil for any other.
func (l *likeness) chunkOf(event []byte, c *Chunk) *Chunk {
	text, padding, escaped := l.event.split(event)
	if text.End == 0 {
		return nil
	}
	*c = *l.chunk
	c.Raw, c.like, c.textAt, c.paddingAt = event, l, text, padding
	if escaped {
		c.said = gjson.ParseBytes(event[text.Start-1 : text.End+1]).Str
	} else {
		c.said = string(text.of(event))
	}
	if l.key == "content" {
		c.Text = c.said
	}
	return c
}

// Kept is a chunk that is kept for longer than the next call of its ChunkReader. It is small: of an event that is like an
// earlier one, it has what differs.
type Kept struct {
	whole   *Chunk // nil for one that is like another
	like    *likeness
	differs []byte // its text and its padding, as they are written
	text    int    // bytes of the text
}

// Keep keeps a chunk.
func (c *Chunk) Keep() Kept {
	if c.like == nil {
		return Kept{whole: c}
	}
	return Kept{like: c.like, differs: slices.Concat(c.textAt.of(c.Raw), c.paddingAt.of(c.Raw)), text: c.textAt.End - c.textAt.Start}
}

// Chunk is the chunk again.
func (k Kept) Chunk() *Chunk { return k.In(&Chunk{}) }

// In is the chunk again, in a place that was used for another before, or in its own.
func (k Kept) In(place *Chunk) *Chunk {
	if k.whole != nil {
		return k.whole
	}
	a := &k.like.event
	raw := append(append(place.Raw[:0], a.before...), k.differs[:k.text]...)
	if a.padded {
		raw = append(append(raw, a.between...), k.differs[k.text:]...)
	}
	return k.like.chunkOf(append(raw, a.behind...), place)
}

// inEnvelope is the chunk inside the envelope e, without a role. It is valid until the next one. It is nil where it has
// to be made by itself.
func (l *likeness) inEnvelope(c *Chunk, e Envelope) []byte {
	if !l.inReady || l.inFor != e {
		l.inReady, l.inFor = true, e
		raw, err := l.chunk.In(e, false)
		ok := err == nil
		if ok {
			l.in, ok = aroundText(raw, l.key)
		}
		l.inFails = !ok || l.in.padded != l.event.padded
		l.inSame = !l.inFails && bytes.Equal(raw, l.chunk.Raw)
	}
	switch {
	case l.inFails:
		return nil
	case l.inSame:
		return c.Raw
	}
	b := append(l.scratch[:0], l.in.before...)
	b = append(b, c.textAt.of(c.Raw)...)
	if l.in.padded {
		b = append(b, l.in.between...)
		b = append(b, c.paddingAt.of(c.Raw)...)
	}
	l.scratch = append(b, l.in.behind...)
	return l.scratch
}
