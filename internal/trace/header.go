package trace

import (
	"strconv"
	"strings"
)

// Header is the name of the header and trailer that hold a run's trace.
const Header = "X-Gateway-Trace"

// maxHeader bounds the header's value. Node refuses replies whose headers are over 16 KiB in all.
const maxHeader = 1024

// maxApproval bounds what it says of approvals: the ids of some choices.
const maxApproval = 256

// IDHeader is the value while the run is under way: its id alone.
func (r *Run) IDHeader() string { return `id="` + r.ID + `"` }

// Dictionary is the record as an RFC 9651 dictionary, at most 1 KiB. A list of calls that does not fit is cut, and
// `more` says by how many.
func (r *Run) Dictionary() string {
	head := make([]byte, 0, 256)
	head = append(head, r.IDHeader()...)
	head = append(head, ", stop="...)
	head = append(head, r.Stop...)
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"steps", int64(len(r.Steps))},
		{"calls", int64(len(r.Calls))},
		{"failed", int64(r.Failed())},
		{"ms", r.Took.Milliseconds()},
		{"upstream_ms", r.UpstreamTime().Milliseconds()},
		{"offered", int64(r.Offered)},
	} {
		head = append(append(append(head, ", "...), n.key...), '=')
		head = strconv.AppendInt(head, n.value, 10)
	}
	if r.Shortened > 0 {
		head = strconv.AppendInt(append(head, ", shortened="...), int64(r.Shortened), 10)
	}
	if r.Lost > 0 {
		head = strconv.AppendInt(append(head, ", lost="...), int64(r.Lost), 10)
	}
	if r.Approval != "" {
		head = append(append(append(head, ", approval=\""...), printable(r.Approval[:min(len(r.Approval), maxApproval)])...), '"')
	}
	if len(r.Calls) == 0 {
		return string(head)
	}
	const more = ", more=1000000"
	list := []byte(", tools=(")
	shown := 0
	for _, c := range r.Calls {
		item := c.item()
		if len(head)+len(list)+len(item)+len(" )")+len(more) > maxHeader {
			break
		}
		if shown > 0 {
			list = append(list, ' ')
		}
		list = append(list, item...)
		shown++
	}
	head = append(append(head, list...), ')')
	if left := len(r.Calls) - shown; left > 0 {
		head = strconv.AppendInt(append(head, ", more="...), int64(left), 10)
	}
	return string(head)
}

// item is a call as an item with parameters: its name, milliseconds, and ok or the code of its failure.
func (c Call) item() string {
	outcome := ";ok"
	if c.Outcome != OK {
		outcome = ";code=" + token(c.Outcome)
	}
	return `"` + printable(c.Name) + `";ms=` + strconv.FormatInt(c.Took.Milliseconds(), 10) + outcome
}

// token is a code as an RFC 9651 token, which begins with a letter; codes of the file are made of a-z, 0-9 and _.
func token(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return "error"
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// printable makes a name that a model wrote fit for a quoted string.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, s)
}
