package chat

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// view is a JSON object whose members have been found by one pass, for who looks at many of them: gjson goes over the
// whole object for each.
type view struct {
	all     []byte // what it stands in; nil where there is no object
	same    string // all as a string: what is read of it are parts of it
	at      Span
	members []Member
}

// level is one of the objects that a pass goes into. The first is what it begins with.
type level struct {
	under string // the member of the level before that it is
	item  bool   // or whose first item it is
	to    *view
}

// viewOf is the view of an object of valid JSON; of anything else it is empty.
func viewOf(raw []byte) view {
	var v view
	viewsOf(raw, level{to: &v})
	return v
}

// viewsOf makes the views of an object of valid JSON and of those in it that are asked for, by one pass. Of anything else
// they are empty.
func viewsOf(raw []byte, levels ...level) {
	s := scanner{b: raw, same: string(raw)}
	s.blanks()
	if s.i < len(raw) && raw[s.i] == '{' && s.open(levels) == nil && len(bytes.TrimLeft(raw[s.i:], " \t\r\n")) == 0 {
		return
	}
	for _, l := range levels {
		*l.to = view{}
	}
}

// open reads the object that begins at the scanner's place, and those in it. Of two members of a name the first counts.
func (s *scanner) open(levels []level) error {
	v := view{all: s.b, same: s.same, at: Span{Start: s.i}, members: make([]Member, 0, 8)}
	inner := levels[1:]
	err := s.members(func(name string) error {
		if len(inner) == 0 || name != inner[0].under {
			return s.value()
		}
		into := inner
		inner = nil
		return s.down(into)
	}, func(m Member) { v.members = append(v.members, m) })
	v.at.End = s.i
	*levels[0].to = v
	return err
}

// down reads the value at the scanner's place, which is to hold the first of the levels.
func (s *scanner) down(levels []level) error {
	switch {
	case s.i == len(s.b):
	case levels[0].item && s.b[s.i] == '[':
		first := true
		return s.items(func() error {
			wanted := first && s.b[s.i] == '{'
			first = false
			if wanted {
				return s.open(levels)
			}
			return s.value()
		})
	case !levels[0].item && s.b[s.i] == '{':
		return s.open(levels)
	}
	return s.value()
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

// raw is the bytes of the object, nil where there is none.
func (v view) raw() []byte {
	if v.all == nil {
		return nil
	}
	return v.at.of(v.all)
}

// value is the bytes of the first member of that name, nil without one.
func (v view) value(name string) []byte {
	if at, ok := v.find(name); ok {
		return at.of(v.all)
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
	written := at.of(v.all)
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

// each hands on the objects among the items of the list under that name, each with the one that stands in it under inner.
// It says whether there is a list of objects alone.
func (v view) each(name, inner string, f func(item, in view)) bool {
	at, ok := v.find(name)
	if !ok || v.all[at.Start] != '[' {
		return false
	}
	s := scanner{b: v.all[:at.End], same: v.same[:at.End], i: at.Start}
	alone := true
	err := s.items(func() error {
		if s.b[s.i] != '{' {
			alone = false
			return s.value()
		}
		var item, in view
		if err := s.open([]level{{to: &item}, {under: inner, to: &in}}); err != nil {
			return err
		}
		f(item, in)
		return nil
	})
	return alone && err == nil
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
