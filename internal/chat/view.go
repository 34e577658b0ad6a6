package chat

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// view is a JSON object whose members have been found by one pass, for who looks at many of them: gjson goes over the
// whole object for each.
type view struct {
	raw     []byte // nil where there is no object
	same    string // raw as a string: what is read of it are parts of it
	members []Member
}

// viewOf is the view of an object of valid JSON; of anything else it is empty.
func viewOf(raw []byte) view { return viewIn(raw, string(raw)) }

// viewIn is viewOf where the bytes are there as text already.
func viewIn(raw []byte, same string) view {
	members, err := scan(scanner{b: raw, same: same})
	if err != nil {
		return view{}
	}
	return view{raw, same, members}
}

// find is where the value of the first member of that name stands.
func (v view) find(name string) (Span, bool) {
	for i := range v.members {
		if v.members[i].Name == name {
			return v.members[i].Value, true
		}
	}
	return Span{}, false
}

func (v view) has(name string) bool {
	_, ok := v.find(name)
	return ok
}

// value is the bytes of the first member of that name, nil without one.
func (v view) value(name string) []byte {
	if at, ok := v.find(name); ok {
		return at.of(v.raw)
	}
	return nil
}

// get is the first member of that name, one that does not exist without.
func (v view) get(name string) gjson.Result {
	if at, ok := v.find(name); ok {
		return gjson.Parse(v.same[at.Start:at.End])
	}
	return gjson.Result{}
}

// text is the ContentText of the member of that name, "" without one. A string without escapes costs no copy.
func (v view) text(name string) string {
	at, ok := v.find(name)
	written := at.of(v.raw)
	switch {
	case !ok:
		return ""
	case written[0] != '"':
		return ContentText(v.get(name))
	case bytes.IndexByte(written, '\\') < 0:
		return v.same[at.Start+1 : at.End-1]
	}
	return string(AppendText(make([]byte, 0, len(written)), written))
}

// view is the member of that name as an object.
func (v view) view(name string) view {
	at, _ := v.find(name)
	return v.in(at)
}

// in is the object that stands there.
func (v view) in(at Span) view { return viewIn(at.of(v.raw), v.same[at.Start:at.End]) }

// first is the first item of the list under that name as an object.
func (v view) first(name string) view {
	list, _ := v.find(name)
	item, _ := firstItem(list.of(v.raw))
	return v.in(Span{list.Start + item.Start, list.Start + item.End})
}

// firstItem is the place of the first item of a list, an empty one where there is none, and whether it is the only one.
func firstItem(list []byte) (item Span, alone bool) {
	if len(list) < 2 || list[0] != '[' {
		return Span{}, false
	}
	s := scanner{b: list[:len(list)-1], i: 1}
	s.blanks()
	start := s.i
	if s.i == len(s.b) || s.value() != nil {
		return Span{}, false
	}
	item = Span{start, s.i}
	s.blanks()
	return item, s.i == len(s.b)
}
