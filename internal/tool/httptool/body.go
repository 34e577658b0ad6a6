package httptool

import (
	"bytes"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// body is what a request carries; the nil body is none.
type body struct {
	contentType string
	rest        bool // it holds all arguments that stand nowhere else
	encode      func(c tool.Call) []byte
}

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
	typeText = "text/plain; charset=utf-8"
)

// body reads the `body` and `content_type` keys. It comes after all other templates, whose arguments it leaves out.
func (b *builder) body(c *Config) *body {
	n := c.Body
	var made *body
	switch n.Kind() {
	case config.Null:
		switch c.method() {
		case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions:
			if c.ContentType != "" {
				b.n.Get("content_type").Fail("there is no body that it could be of")
			}
			return nil
		}
		made = b.restBody(typeJSON, restJSON)
	case config.String:
		switch n.Text() {
		case "json":
			made = b.restBody(typeJSON, restJSON)
		case "form":
			made = b.restBody(typeForm, restForm)
		default:
			made = b.textBody(n, b.bodyType(c))
		}
	default:
		made = &body{contentType: typeJSON, encode: treeBody(b.tree(n))}
	}
	if c.ContentType != "" {
		if _, _, err := mime.ParseMediaType(c.ContentType); err != nil {
			b.n.Get("content_type").Fail("this is no media type: want one such as application/json")
		}
		made.contentType = c.ContentType
	}
	return made
}

// bodyType is the media type that the file names for the body, in lower case and without parameters.
func (b *builder) bodyType(c *Config) string {
	text := c.ContentType
	if text == "" {
		for name, value := range c.Headers.All() {
			if strings.EqualFold(name, "Content-Type") {
				text = value
			}
		}
	}
	return baseType(text)
}

func baseType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

func isJSON(mediaType string) bool {
	return mediaType == typeJSON || strings.HasSuffix(mediaType, "+json")
}

// restBody is a body of the arguments that stand nowhere else, bound ones among them.
func (b *builder) restBody(contentType string, encode func(map[string]any) []byte) *body {
	used := maps.Clone(b.used)
	return &body{contentType: contentType, rest: true, encode: func(c tool.Call) []byte {
		rest := make(map[string]any, len(c.Args))
		for name, v := range c.Args {
			if !used[name] {
				rest[name] = v
			}
		}
		return encode(rest)
	}}
}

func restJSON(args map[string]any) []byte { return tool.EncodeJSON(args) }

// restForm is sorted by name. A list repeats its name, null is left out, an object is JSON.
func restForm(args map[string]any) []byte {
	var b strings.Builder
	add := func(name string, v any) {
		if v == nil {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(placeholder.QueryValue(name) + "=" + placeholder.QueryValue(placeholder.Text(v)))
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if list, ok := args[name].([]any); ok {
			for _, v := range list {
				add(name, v)
			}
			continue
		}
		add(name, args[name])
	}
	return []byte(b.String())
}

// textBody is a template. A value is escaped for the type of the text: in JSON it is a whole value outside of quotes
// and a piece of a string inside; in a form and in XML it can't end the place where it stands; elsewhere it is as it is.
func (b *builder) textBody(n *config.Node, mediaType string) *body {
	t := b.template(n, n.Text())
	escape := func(string) string { return "" }
	switch {
	case isJSON(mediaType), mediaType == "" && looksLikeJSON(t):
		return b.jsonBody(n, t)
	case mediaType == typeForm:
		escape = placeholder.QueryValue
	case strings.HasSuffix(mediaType, "xml"), strings.HasSuffix(mediaType, "html"):
		escape = placeholder.XMLText
	default:
		escape = nil
	}
	return &body{contentType: typeText, encode: func(c tool.Call) []byte {
		text, _ := t.Expand(c, escape)
		return []byte(text)
	}}
}

// looksLikeJSON says whether a text begins like a JSON object or list, or is one placeholder and no more.
func looksLikeJSON(t *placeholder.Template) bool {
	if _, ok := t.Lone(); ok {
		return true
	}
	for p := range t.Parts() {
		text, ok := p.Literal()
		text = strings.TrimLeft(text, " \t\r\n")
		return ok && (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "["))
	}
	return false
}

// jsonBody is a JSON text with placeholders. An absent argument is null outside of quotes and nothing inside; where the
// text is one placeholder and no more, its absence makes the body empty.
func (b *builder) jsonBody(n *config.Node, t *placeholder.Template) *body {
	if p, ok := t.Lone(); ok {
		return &body{contentType: typeJSON, encode: func(c tool.Call) []byte {
			v, ok := p.Value(c)
			if !ok {
				return nil
			}
			return tool.EncodeJSON(v)
		}}
	}
	type piece struct {
		placeholder.Part
		quoted bool
	}
	var pieces []piece
	var sample strings.Builder // the text with something in place of each placeholder
	quoted := false
	for p := range t.Parts() {
		pieces = append(pieces, piece{p, quoted})
		switch text, literal := p.Literal(); {
		case literal:
			sample.WriteString(text)
			quoted = endsQuoted(text, quoted)
		case quoted:
			sample.WriteString("x")
		default:
			sample.WriteString("null")
		}
	}
	if !json.Valid([]byte(sample.String())) {
		n.Fail("this is not valid JSON once its placeholders are filled in")
	}
	return &body{contentType: typeJSON, encode: func(c tool.Call) []byte {
		var out bytes.Buffer
		for _, p := range pieces {
			text, literal := p.Literal()
			v, present := p.Value(c)
			switch {
			case literal:
				out.WriteString(text)
			case p.quoted && present:
				out.WriteString(placeholder.JSONString(placeholder.Text(v)))
			case !p.quoted:
				out.Write(tool.EncodeJSON(v)) // null where it is absent
			}
		}
		return out.Bytes()
	}}
}

// endsQuoted says whether the end of a piece of JSON is inside of quotes, given that for its start.
func endsQuoted(text string, quoted bool) bool {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == '\\' && quoted:
			i++
		}
	}
	return quoted
}
