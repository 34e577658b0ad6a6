package chat

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// ErrorReply is an error object that a provider sent, by whatever status.
type ErrorReply struct {
	Object json.RawMessage // what stood under "error": mostly an object, with some providers a string
}

func (e *ErrorReply) Error() string { return "the provider sent an error: " + e.Message() }

// Message is the provider's own text, "" where it gave none.
func (e *ErrorReply) Message() string {
	v := gjson.ParseBytes(e.Object)
	if v.Type == gjson.String {
		return v.Str
	}
	for _, key := range []string{"message", "detail", "msg"} {
		if m := v.Get(key); m.Type == gjson.String && strings.TrimSpace(m.Str) != "" {
			return m.Str
		}
	}
	return ""
}

// errorIn is the error that a reply or an event holds, nil without one. choice is its choice, which some providers send
// beside the error, or put the error into.
func errorIn(root, choice view) *ErrorReply {
	for _, of := range []view{root, choice} {
		v := of.get("error")
		if !v.Exists() || v.Type == gjson.Null {
			continue
		}
		if e := (&ErrorReply{Object: json.RawMessage(v.Raw)}); choice.all == nil || e.Message() != "" {
			return e
		}
	}
	if root.has("choices") {
		return nil
	}
	if e := (&ErrorReply{Object: json.RawMessage(root.raw())}); e.Message() != "" {
		return e // {"object":"error","message":"..."}, {"detail":"..."}
	}
	return nil
}

// ErrorBody is an error reply in OpenAI's shape. Param and code are null where they are empty.
func ErrorBody(message, kind, param, code string) []byte {
	b := append([]byte(`{"error":{"message":`), Quote(message)...)
	b = append(append(b, `,"type":`...), Quote(kind)...)
	b = append(append(b, `,"param":`...), orNull(param)...)
	b = append(append(b, `,"code":`...), orNull(code)...)
	return append(b, '}', '}')
}

func orNull(s string) []byte {
	if s == "" {
		return []byte("null")
	}
	return Quote(s)
}
