package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/tool"
)

// errWantsInput is a call that the server wants to go on with only after the user or the model has said something.
var errWantsInput = errors.New("the server asks for input in the middle of a call, which is not offered")

// read is what the model reads of a result.
func read(r *mcp.CallToolResult) (tool.Result, error) {
	if r.NeedsInput() || r.InputRequests != nil {
		return tool.Result{}, &tool.Error{Class: tool.Failed, Type: TypeMCP, Err: errWantsInput}
	}
	text := resultText(r)
	if r.IsError {
		return tool.Result{}, &tool.Error{Class: tool.Business, Type: TypeMCP, Message: bounded(text), Err: errors.New("the server reports a failure")}
	}
	return tool.Result{Text: text}, nil
}

// bounded is the message of a failure for the model. It is the server's own; only its length is not.
func bounded(text string) string {
	const most = 64 << 10
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "\n[truncated]"
	}
	return strings.TrimSpace(text)
}

// resultText is all parts of a result in their order, each on a line of its own, and after them its structured content
// where no part says the same.
func resultText(r *mcp.CallToolResult) string {
	var parts, texts []string
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
		parts = append(parts, contentText(c))
	}
	if r.StructuredContent != nil && !says(texts, r.StructuredContent) {
		parts = append(parts, string(tool.EncodeJSON(r.StructuredContent)))
	}
	return strings.Join(parts, "\n")
}

// contentText is one part of a result as text. Of what a model can't read in a text there is one line that names it.
func contentText(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return mark("image", c.MIMEType, size(len(c.Data)))
	case *mcp.AudioContent:
		return mark("audio", c.MIMEType, size(len(c.Data)))
	case *mcp.ResourceLink:
		length := ""
		if c.Size != nil {
			length = size(int(*c.Size))
		}
		text := mark("resource link", c.Name, c.URI, c.MIMEType, length)
		if c.Description != "" {
			text += " " + c.Description
		}
		return text
	case *mcp.EmbeddedResource:
		switch r := c.Resource; {
		case r == nil:
			return mark("resource")
		case r.Blob != nil:
			return mark("resource", r.URI, r.MIMEType, size(len(r.Blob)))
		default:
			return mark("resource", r.URI, r.MIMEType) + "\n" + r.Text
		}
	}
	return mark("content of another kind")
}

func size(n int) string { return fmt.Sprintf("%d bytes", n) }

// mark is "[kind detail, detail]" with the details that there are.
func mark(kind string, details ...string) string {
	var known []string
	for _, d := range details {
		if d != "" {
			known = append(known, strings.Join(strings.Fields(d), " "))
		}
	}
	return strings.TrimSuffix("["+kind+" "+strings.Join(known, ", "), " ") + "]"
}

// says whether the texts say the same as a structured value: one of them is its JSON, as MCP asks for. A value that is
// no object stands under one key (`result` in servers of FastMCP, `content` in server-filesystem), and a list may have a
// text for each of its items.
func says(texts []string, v any) bool {
	for _, t := range texts {
		if equal(t, v) {
			return true
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			return len(v) == 1 && says(texts, inner)
		}
	case []any:
		if len(v) == 0 || len(texts) != len(v) {
			return false
		}
		for i := range v {
			if !equal(texts[i], v[i]) {
				return false
			}
		}
		return true
	case nil:
		return true
	}
	return false
}

// equal says whether a text is the value's JSON, or the text itself that the value is.
func equal(text string, v any) bool {
	if s, ok := v.(string); ok && s == text {
		return true
	}
	var parsed any
	return json.Unmarshal([]byte(text), &parsed) == nil && reflect.DeepEqual(parsed, v)
}
