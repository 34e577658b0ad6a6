package prompted

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/chat"
)

// Choice is what a model is to do about its tools in its next turn.
type Choice struct {
	None bool   // answer, whatever it would call
	Must bool   // call some tool
	Name string // call that tool
}

// System is the text that tells a model of its tools. tools is their declarations, JSON objects joined by commas, as a
// request's tools have them; without any there is nothing to tell.
func System(tools []byte, c Choice) string {
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("You have tools for the user's question. They are within <tools></tools>, one a line, as JSON:\n<tools>\n")
	gjson.ParseBytes(bytes.Join([][]byte{[]byte("["), tools, []byte("]")}, nil)).ForEach(func(_, t gjson.Result) bool {
		b.WriteString(oneLine(t.Raw))
		b.WriteByte('\n')
		return true
	})
	// The result's tags are not named: small models then write results of their own. Nor do placeholders stand in quotes,
	// which they take for values.
	b.WriteString("</tools>\n\nFor each call, return a JSON object with the tool's name and its arguments within " + tagOpen + tagClose + " tags:\n" +
		tagOpen + "\n" + `{"name": <tool-name>, "arguments": <args-json-object>}` + "\n" + tagClose + "\n\n" +
		"The results are in the next message. Answer in plain text where none of the tools is of use, and once you have the results. Never make up a result.")
	switch {
	case c.None:
		b.WriteString("\nNow call no tool any more: answer with what you have.")
	case c.Name != "":
		b.WriteString("\nNow call the tool " + c.Name + ".")
	case c.Must:
		b.WriteString("\nNow call a tool.")
	}
	return b.String()
}

// oneLine is a JSON text without blanks between its parts.
func oneLine(raw string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) != nil {
		return raw
	}
	return b.String()
}

// CallText is a call as a model writes it.
func CallText(name, arguments string) string {
	if !json.Valid([]byte(arguments)) {
		arguments = "{}"
	}
	return tagOpen + "\n" + `{"name": ` + string(chat.Quote(name)) + `, "arguments": ` + oneLine(arguments) + "}\n" + tagClose
}

// Results is the results of a turn's calls, in the order of the calls, as the user's message in which a model reads them.
// No result can end its own tags.
func Results(results ...string) json.RawMessage {
	texts := make([]string, len(results))
	for i, r := range results {
		texts[i] = responseOpen + "\n" + strings.ReplaceAll(r, responseClose[:len(responseClose)-1], `<\/tool_response`) + "\n" + responseClose
	}
	hint := "Answer my question with this result, or call another tool."
	if len(results) > 1 {
		hint = "Answer my question with these results, or call another tool."
	}
	return chat.Message("user", strings.Join(texts, "\n")+"\n"+hint) // without it small models make the same call again
}

// Turn is an assistant's message with text in place of its content and calls. Its other fields stay.
func Turn(m json.RawMessage, text string) (json.RawMessage, error) {
	out, err := sjson.SetRawBytes(m, "content", chat.Quote(text))
	for _, name := range []string{"tool_calls", "function_call"} {
		if err == nil && gjson.GetBytes(out, name).Exists() {
			out, err = sjson.DeleteBytes(out, name)
		}
	}
	if err == nil && gjson.GetBytes(out, "role").String() != "assistant" {
		out, err = sjson.SetRawBytes(out, "role", []byte(`"assistant"`))
	}
	return out, err
}

// Messages is a conversation as a model without native calls reads it: calls and results as text, messages without them
// byte for byte. before are texts that come first in it, behind each other and together with what the conversation's own
// system message says first.
func Messages(messages json.RawMessage, before, behind string) (json.RawMessage, error) {
	var out []json.RawMessage
	var results []string
	flush := func() {
		if len(results) > 0 {
			out = append(out, Results(results...))
			results = nil
		}
	}
	var failed error
	first := true
	gjson.ParseBytes(messages).ForEach(func(_, m gjson.Result) bool {
		role := m.Get("role").String()
		if role == "tool" || role == "function" {
			results = append(results, chat.ContentText(m.Get("content")))
			first = false
			return true
		}
		flush()
		raw := json.RawMessage(m.Raw)
		switch {
		case first && (role == "system" || role == "developer") && before+behind != "":
			raw, failed = joined(m, before, behind)
			before, behind = "", ""
		case role == "assistant" && (m.Get("tool_calls.0").Exists() || m.Get("function_call").IsObject()):
			raw, failed = asText(m)
		}
		first = false
		out = append(out, raw)
		return failed == nil
	})
	flush()
	if text := texts(before, behind); text != "" {
		out = append([]json.RawMessage{chat.SystemMessage(text)}, out...)
	}
	return chat.List(out), failed
}

// texts joins what is not empty by a blank line.
func texts(all ...string) string {
	var some []string
	for _, t := range all {
		if t != "" {
			some = append(some, t)
		}
	}
	return strings.Join(some, "\n\n")
}

// joined is a system message between what comes before and behind its text. A content of parts keeps them.
func joined(m gjson.Result, before, behind string) (json.RawMessage, error) {
	content := m.Get("content")
	if !content.IsArray() {
		return sjson.SetRawBytes([]byte(m.Raw), "content", chat.Quote(texts(before, content.String(), behind)))
	}
	part := func(text string) string { return `{"type":"text","text":` + string(chat.Quote(text)) + `}` }
	var parts []string
	if before != "" {
		parts = append(parts, part(before))
	}
	content.ForEach(func(_, p gjson.Result) bool {
		parts = append(parts, p.Raw)
		return true
	})
	if behind != "" {
		parts = append(parts, part(behind))
	}
	return sjson.SetRawBytes([]byte(m.Raw), "content", []byte("["+strings.Join(parts, ",")+"]"))
}

// asText is an assistant's message whose calls have become text.
func asText(m gjson.Result) (json.RawMessage, error) {
	all := []string{chat.ContentText(m.Get("content"))}
	m.Get("tool_calls").ForEach(func(_, c gjson.Result) bool {
		if f := c.Get("function"); f.IsObject() {
			all = append(all, CallText(f.Get("name").String(), f.Get("arguments").String()))
		}
		return true
	})
	if f := m.Get("function_call"); f.IsObject() {
		all = append(all, CallText(f.Get("name").String(), f.Get("arguments").String()))
	}
	var some []string
	for _, t := range all {
		if t != "" {
			some = append(some, t)
		}
	}
	return Turn(json.RawMessage(m.Raw), strings.Join(some, "\n"))
}
