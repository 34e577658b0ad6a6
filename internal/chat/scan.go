// Package chat is the wire format of chat completions: the JSON that came, typed views of the few fields that the
// gateway reads, and splicing, so that what passes through is never encoded again. It is the vocabulary that proxy,
// loop, registry and upstream share, and knows none of them.
package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Member is one member of a JSON object: its name, where its key begins, and where its value stands.
type Member struct {
	Name  string
	Key   int // offset of the key's opening quote
	Value Span
}

// Span is the half-open range of bytes from Start to End.
type Span struct{ Start, End int }

func (s Span) of(b []byte) []byte { return b[s.Start:s.End] }

// SyntaxError is a fault of a JSON text. Offset counts bytes from 0.
type SyntaxError struct {
	Offset int
	Text   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Text, e.Offset) }

// maxMembers bounds the members of one object; the OpenAI API knows about forty.
const maxMembers = 1000

// Scan finds the members of the object that b is, in one pass and without decoding their values. Nested values are
// skipped by their quotes and brackets alone, so that a fault inside one, such as a missing comma, is left for who
// decodes it. For a text that encoding/json accepts as an object the result is the same as decoding it.
func Scan(b []byte) ([]Member, error) {
	s := scanner{b: b}
	s.blanks()
	if s.i == len(s.b) {
		return nil, s.fault("empty, want a JSON object")
	}
	if s.b[s.i] != '{' {
		return nil, s.fault("want a JSON object")
	}
	members, err := s.object()
	if err != nil {
		return nil, err
	}
	s.blanks()
	if s.i != len(s.b) {
		return nil, s.fault("text after the JSON object")
	}
	return members, nil
}

type scanner struct {
	b    []byte
	same string // b as a string, of which names are then parts; "" where it is not there
	i    int
}

func (s *scanner) fault(text string) error { return &SyntaxError{Offset: s.i, Text: text} }

func (s *scanner) blanks() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// object reads the object that begins at the scanner's place.
func (s *scanner) object() ([]Member, error) {
	members := make([]Member, 0, 8)
	err := s.members(func(string) error { return s.value() }, func(m Member) { members = append(members, m) })
	if err != nil {
		return nil, err
	}
	return members, nil
}

// members hands on each member of the object that begins at the scanner's place. What a value is, value steps over.
func (s *scanner) members(value func(name string) error, f func(Member)) error {
	var name string
	return s.each(func(key Span) error {
		var err error
		if name, err = s.name(key); err != nil {
			return &SyntaxError{Offset: key.Start, Text: "bad key"}
		}
		return value(name)
	}, func(key, value Span) { f(Member{Name: name, Key: key.Start, Value: value}) })
}

// each hands on the key, with its quotes, and the value of each member of the object that begins at the scanner's place.
// It is value that steps over one.
func (s *scanner) each(value func(key Span) error, f func(key, value Span)) error {
	s.i++ // {
	s.blanks()
	if s.i < len(s.b) && s.b[s.i] == '}' {
		s.i++
		return nil
	}
	for n := 1; ; n++ {
		s.blanks()
		key, err := s.key()
		if err != nil {
			return err
		}
		at := Span{Start: s.i}
		if err := value(key); err != nil {
			return err
		}
		at.End = s.i
		f(key, at)
		if n > maxMembers {
			return s.fault("too many members in one object")
		}
		s.blanks()
		if s.i == len(s.b) {
			return s.fault("unexpected end, want a comma or }")
		}
		switch s.b[s.i] {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return s.fault("want a comma or }")
		}
	}
}

// key steps over a key and what stands between it and its value.
func (s *scanner) key() (key Span, err error) {
	key.Start = s.i
	if s.i == len(s.b) || s.b[s.i] != '"' {
		return key, s.fault("want a key in double quotes")
	}
	if err := s.text(); err != nil {
		return key, err
	}
	key.End = s.i
	s.blanks()
	if s.i == len(s.b) || s.b[s.i] != ':' {
		return key, s.fault("want a colon")
	}
	s.i++
	s.blanks()
	return key, nil
}

// items calls value at each item of the list that begins at the scanner's place, which steps over it.
func (s *scanner) items(value func() error) error {
	s.i++ // [
	s.blanks()
	if s.i < len(s.b) && s.b[s.i] == ']' {
		s.i++
		return nil
	}
	for {
		s.blanks()
		if s.i == len(s.b) {
			return s.fault("unexpected end, want an item")
		}
		if err := value(); err != nil {
			return err
		}
		s.blanks()
		if s.i == len(s.b) || s.b[s.i] != ',' && s.b[s.i] != ']' {
			return s.fault("want a comma or ]")
		}
		s.i++
		if s.b[s.i-1] == ']' {
			return nil
		}
	}
}

// value steps over one value.
func (s *scanner) value() error {
	if s.i == len(s.b) {
		return s.fault("unexpected end, want a value")
	}
	switch s.b[s.i] {
	case '"':
		return s.text()
	case '{', '[':
		return s.nested()
	}
	start := s.i
	for s.i < len(s.b) && bytes.IndexByte([]byte(" \t\r\n,]}"), s.b[s.i]) < 0 {
		s.i++
	}
	if !json.Valid(s.b[start:s.i]) {
		s.i = start
		return s.fault("want a JSON value")
	}
	return nil
}

// text steps over a string.
func (s *scanner) text() error {
	start := s.i
	for at := s.i + 1; ; {
		n := bytes.IndexByte(s.b[at:], '"')
		if n < 0 {
			s.i = start
			return s.fault("string without its end")
		}
		at += n
		slashes := at
		for s.b[slashes-1] == '\\' {
			slashes--
		}
		at++
		if (at-1-slashes)%2 == 0 {
			s.i = at
			return nil
		}
	}
}

// maxDepth is that of encoding/json, beyond which it refuses a text.
const maxDepth = 10000

// nested steps over an object or a list.
func (s *scanner) nested() error {
	start := s.i
	open := make([]byte, 0, 32)
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case '"':
			if err := s.text(); err != nil {
				return err
			}
			continue
		case '{', '[':
			if open = append(open, c+2); len(open) > maxDepth { // '{'+2 is '}', '['+2 is ']'
				return s.fault("nested too deeply")
			}
		case '}', ']':
			if open[len(open)-1] != c {
				return s.fault("bracket does not match")
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				s.i++
				return nil
			}
		}
		s.i++
	}
	s.i = start
	return s.fault("bracket without its end")
}

// name decodes a key, quotes included.
func (s *scanner) name(key Span) (string, error) {
	if inner := (Span{key.Start + 1, key.End - 1}); s.same != "" && asItStands(inner.of(s.b)) {
		return s.same[inner.Start:inner.End], nil
	}
	return unquote(key.of(s.b))
}

// unquote decodes a JSON string, quotes included. The usual one costs no decoder.
func unquote(b []byte) (string, error) {
	inner := b[1 : len(b)-1]
	if name, ok := usual[string(inner)]; ok {
		return name, nil
	}
	if asItStands(inner) {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err
}

// usual are the names of members that most requests and replies have, which need no memory of their own.
var usual = func(names ...string) map[string]string {
	m := map[string]string{}
	for _, name := range names {
		m[name] = name
	}
	return m
}(
	"model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "max_tokens",
	"max_completion_tokens", "response_format", "stop", "seed", "user", "metadata", "reasoning_effort",
	"id", "object", "created", "choices", "usage", "system_fingerprint", "service_tier", "index", "message", "delta", "logprobs", "finish_reason",
	"role", "content", "refusal", "annotations", "tool_calls", "tool_call_id", "name",
	"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details", "cached_tokens", "audio_tokens",
	"reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens",
)

// asItStands says whether what stands between quotes is the text itself.
func asItStands(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(b)
}
