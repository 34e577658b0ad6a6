package chat

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// ClientMessage is one of a client's messages, with the places of what tells it from others. A member that it lacks is nil.
type ClientMessage struct {
	Raw     json.RawMessage
	Role    string
	Content json.RawMessage
	CallID  json.RawMessage // tool_call_id
	Calls   json.RawMessage // tool_calls
}

// Messages reads a list of messages by one pass over it, in which no value is decoded. It is as far as the list is
// JSON: a provider refuses what is none.
func Messages(list json.RawMessage) []ClientMessage {
	s := scanner{b: list}
	s.blanks()
	if s.i == len(list) || list[s.i] != '[' {
		return nil
	}
	var all []ClientMessage
	_ = s.items(func() error { // with an error there are those before it
		start := s.i
		var m ClientMessage
		var err error
		if list[s.i] == '{' {
			err = s.message(&m)
		} else {
			err = s.value()
		}
		if err != nil {
			return err
		}
		m.Raw = list[start:s.i]
		all = append(all, m)
		return nil
	})
	return all
}

// message reads the object that begins at the scanner's place.
func (s *scanner) message(m *ClientMessage) error {
	return s.each(func(Span) error { return s.value() }, func(key, value Span) {
		m.take(s.b[key.Start+1:key.End-1], value.of(s.b))
	})
}

// take takes in a member. Of two with the same name the first one counts.
func (m *ClientMessage) take(name, value []byte) {
	var to *json.RawMessage
	switch string(name) {
	case "role":
		if m.Role == "" {
			m.Role = string(AppendText(nil, value))
		}
		return
	case "content":
		to = &m.Content
	case "tool_call_id":
		to = &m.CallID
	case "tool_calls":
		to = &m.Calls
	default:
		return
	}
	if *to == nil {
		*to = value
	}
}

// HasCalls says whether the message calls tools.
func (m *ClientMessage) HasCalls() bool {
	return len(m.Calls) > 0 && m.Calls[0] == '[' && len(bytes.TrimSpace(m.Calls[1:len(m.Calls)-1])) > 0
}

// Text is the text of the content: of a list, that of its parts.
func (m *ClientMessage) Text() string { return string(m.AppendText(nil)) }

// AppendText appends the text of the content to b.
func (m *ClientMessage) AppendText(b []byte) []byte {
	if len(m.Content) > 0 && m.Content[0] == '"' {
		return AppendText(b, m.Content)
	}
	return append(b, ContentText(gjson.ParseBytes(m.Content))...)
}

// AppendText appends the text of a JSON string to b; of anything else nothing. Half of a surrogate pair becomes U+FFFD.
func AppendText(b, value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return b
	}
	value = value[1 : len(value)-1]
	for {
		at := bytes.IndexByte(value, '\\')
		if at < 0 || at+1 == len(value) {
			return append(b, value...)
		}
		b = append(b, value[:at]...)
		b, value = appendEscaped(b, value[at+1:])
	}
}

// appendEscaped appends what stands behind a backslash, and gives what follows it.
func appendEscaped(b, value []byte) (_, rest []byte) {
	c := value[0]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, n := rune(utf8.RuneError), min(5, len(value))
		if unit, ok := hex4(value[1:]); ok {
			r = unit
			if utf16.IsSurrogate(r) {
				r = utf8.RuneError
				if len(value) > 6 && value[5] == '\\' && value[6] == 'u' {
					if low, ok := hex4(value[7:]); ok {
						if pair := utf16.DecodeRune(unit, low); pair != utf8.RuneError {
							r, n = pair, 11
						}
					}
				}
			}
		}
		return utf8.AppendRune(b, r), value[n:]
	}
	return append(b, c), value[1:]
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n), err == nil //nolint:gosec // four digits
}
