package chat

import (
	"encoding/json"

	"github.com/tidwall/sjson"
)

// Rename gives the turn's calls the names that f says, in all that the turn holds of them. A turn whose names stay
// keeps its bytes.
func (t *Turn) Rename(f func(name string) string) error {
	calls := make([]Call, len(t.Calls))
	raws := make([][]byte, len(t.Calls))
	changed := false
	for i, c := range t.Calls {
		if name := f(c.Name); name != c.Name {
			path := "function.name"
			if c.Custom {
				path = "custom.name"
			}
			raw, err := sjson.SetRawBytes(c.Raw, path, Quote(name))
			if err != nil {
				return err
			}
			c.Name, c.Raw, changed = name, json.RawMessage(raw), true
		}
		calls[i], raws[i] = c, c.Raw
	}
	if !changed {
		return nil
	}
	message, err := sjson.SetRawBytes(t.Message, "tool_calls", List(raws))
	if err == nil {
		message, err = sjson.DeleteBytes(message, "function_call") // the form before tools, now under tool_calls
	}
	if err == nil && t.Reply != nil {
		t.Reply, err = sjson.SetRawBytes(t.Reply, "choices.0.message", message)
	}
	if err == nil {
		t.Calls, t.Message = calls, message
	}
	return err
}
