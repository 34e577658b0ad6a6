package upstream

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
)

// system brings the system messages, the instructions before the client's among them, into the form that the provider
// takes. They keep their order and their words; a blank line parts them.
func (c *conversation) system(form string) {
	isSystem := func(m json.RawMessage) bool {
		role := gjson.GetBytes(m, "role").Str
		return role == roleSystem || role == roleDeveloper
	}
	first := slices.IndexFunc(c.client, isSystem)
	var own []json.RawMessage
	for _, m := range c.client {
		if isSystem(m) {
			own = append(own, m)
		}
	}
	switch {
	case form == systemSeparate, len(own) == 0 && c.before == nil:
		return
	case form == systemMerged && (len(own) == 0 || len(own) == 1 && first == 0 && c.before == nil):
		return // one at the beginning at most
	}
	contents := make([]gjson.Result, 0, len(own)+1)
	if c.before != nil {
		contents = append(contents, gjson.GetBytes(c.before, "content"))
	}
	for _, m := range own {
		contents = append(contents, gjson.GetBytes(m, "content"))
	}
	rest := without(c.client, isSystem)
	c.before = nil
	if form == systemMerged {
		c.client = slices.Insert(slices.Clone(rest), 0, withContent(own[0], contents))
		return
	}
	at := slices.IndexFunc(rest, func(m json.RawMessage) bool { return gjson.GetBytes(m, "role").Str == roleUser })
	if at < 0 {
		c.client = slices.Insert(slices.Clone(rest), 0, withContent(json.RawMessage(`{"role":"user","content":""}`), contents))
		return
	}
	c.client = slices.Clone(rest)
	c.client[at] = withContent(rest[at], append(contents, gjson.GetBytes(rest[at], "content")))
}

// withContent is m with contents in place of its own: as one text, or as parts where any of them is a list.
func withContent(m json.RawMessage, contents []gjson.Result) json.RawMessage {
	asParts := slices.ContainsFunc(contents, func(c gjson.Result) bool { return c.IsArray() })
	var text bytes.Buffer
	var parts []json.RawMessage
	for _, c := range contents {
		switch {
		case c.IsArray():
			c.ForEach(func(_, part gjson.Result) bool {
				parts = append(parts, json.RawMessage(part.Raw))
				return true
			})
		case c.String() == "":
		case asParts:
			parts = append(parts, json.RawMessage(`{"type":"text","text":`+string(chat.Quote(c.String()))+`}`))
		default:
			if text.Len() > 0 {
				text.WriteString("\n\n")
			}
			text.WriteString(c.String())
		}
	}
	if asParts {
		return setRaw(m, "content", chat.List(parts))
	}
	return setRaw(m, "content", chat.Quote(text.String()))
}
