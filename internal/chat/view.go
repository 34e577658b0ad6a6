package chat

import "github.com/tidwall/gjson"

// view is a JSON object whose members have been found by one pass, for who looks at many of them: gjson goes over the
// whole object for each.
type view struct {
	raw     []byte // nil where there is no object
	members []Member
}

// viewOf is the view of an object of valid JSON; of anything else it is empty.
func viewOf(raw []byte) view {
	members, err := Scan(raw)
	if err != nil {
		return view{}
	}
	return view{raw, members}
}

// value is the bytes of the first member of that name, nil without one.
func (v view) value(name string) []byte {
	for i := range v.members {
		if v.members[i].Name == name {
			return v.members[i].Value.of(v.raw)
		}
	}
	return nil
}

func (v view) has(name string) bool { return v.value(name) != nil }

// get is the first member of that name, one that does not exist without.
func (v view) get(name string) gjson.Result {
	if b := v.value(name); b != nil {
		return gjson.ParseBytes(b)
	}
	return gjson.Result{}
}

// view is the member of that name as an object.
func (v view) view(name string) view { return viewOf(v.value(name)) }

// first is the first item of the list under that name as an object.
func (v view) first(name string) view {
	list := v.value(name)
	item, _ := firstItem(list)
	return viewOf(item.of(list))
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
