package httptool

import (
	"errors"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// header is a header of the request; an absent argument in its value drops it.
type header struct {
	name    string // canonical
	value   *placeholder.Template
	visible string // the arguments in value that the model knows
}

func (b *builder) headers(m config.Map[string]) []header {
	var headers []header
	seen := map[string]bool{}
	for key, text := range m.All() {
		n := m.Node(key)
		name := http.CanonicalHeaderKey(key)
		switch {
		case !httpguts.ValidHeaderFieldName(key):
			b.n.Get("headers").FailKey(key, "this is no name of a header")
			continue
		case placeholder.FramingHeader(name):
			b.n.Get("headers").FailKey(key, "this header is the connection's own and can't be set")
			continue
		case seen[name]:
			b.n.Get("headers").FailKey(key, "this header is set twice: names differ only in their case")
			continue
		}
		seen[name] = true
		t := b.template(n, text)
		plain, static := fixed(t)
		switch {
		case static && !placeholder.HeaderValue(plain):
			n.Fail("a header can't hold a line break or another control character")
		case name == "Host" && !static:
			n.Fail("a placeholder can't stand in the host")
		case name == "Host" && !httpguts.ValidHostHeader(plain):
			n.Fail("this is no name of a host")
		}
		headers = append(headers, header{name, t, b.visible(t)})
	}
	return headers
}

var errControl = errors.New("must not hold a line break or another control character")

// add sets the header for a call.
func (h header) add(to http.Header, c tool.Call) error {
	text, missing := h.value.Expand(c, nil)
	if missing {
		return nil
	}
	if !placeholder.HeaderValue(text) {
		return &refusal{h.visible, errControl}
	}
	to[h.name] = []string{strings.TrimSpace(text)}
	return nil
}
