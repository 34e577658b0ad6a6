package mcptool

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// header is a header of every request of a session.
type header struct {
	name  string // canonical
	value *placeholder.Template
}

// ofProtocol are headers that the protocol sets, and the client for it. Idempotency-Key is among them as Go's transport takes
// a POST that has one for safe to repeat: the key of a call goes out in its _meta.
var ofProtocol = map[string]bool{
	"Accept": true, "Content-Type": true, "Host": true, "Idempotency-Key": true, "Last-Event-Id": true,
	"Mcp-Method": true, "Mcp-Name": true, "Mcp-Protocol-Version": true, "Mcp-Session-Id": true,
	"X-Idempotency-Key": true,
}

// reserved says whether a header, by its canonical name, is not for a file to set.
func reserved(name string) bool { return ofProtocol[name] || placeholder.FramingHeader(name) }

// readHeaders reads the mapping at n, and reports what can't be sent.
func readHeaders(n *config.Node, m config.Map[string]) []header {
	var list []header
	for key, text := range m.All() {
		at, name := m.Node(key), http.CanonicalHeaderKey(key)
		switch {
		case !httpguts.ValidHeaderFieldName(key):
			n.FailKey(key, "this is no name of a header")
			continue
		case reserved(name):
			n.FailKey(key, "this header is the connection's own and can't be set")
			continue
		case slices.ContainsFunc(list, func(h header) bool { return h.name == name }):
			n.FailKey(key, "this header is set twice: names differ only in their case")
			continue
		}
		t, err := placeholder.Parse(text)
		if err != nil {
			at.Fail("%v", err)
			continue
		}
		if !ofCaller(t) {
			at.Fail("only {caller.x} can stand here: headers belong to a session, not to one call")
		}
		if plain, _ := t.Expand(tool.Call{}, nil); !placeholder.HeaderValue(plain) {
			at.Fail("a header can't hold a line break or another control character")
		}
		list = append(list, header{name, t})
	}
	return list
}

// ofCaller says whether the template has no placeholders but fields of the caller.
func ofCaller(t *placeholder.Template) bool {
	if len(t.Names()) > 0 {
		return false
	}
	for p := range t.Parts() {
		_, literal := p.Literal()
		if _, ofCall := p.Value(tool.Call{RunID: "x", IdempotencyKey: "x"}); ofCall && !literal {
			return false
		}
	}
	return true
}

func checkForward(n *config.Node, names []string, set []header) {
	seen := map[string]bool{}
	for i, key := range names {
		at, name := n.Items()[i], http.CanonicalHeaderKey(key)
		switch {
		case !httpguts.ValidHeaderFieldName(key):
			at.Fail("this is no name of a header")
		case reserved(name):
			at.Fail("this header is the connection's own and can't go along")
		case seen[name]:
			at.Fail("this header stands here twice")
		case slices.ContainsFunc(set, func(h header) bool { return h.name == name }):
			at.Fail("headers has %s as well: want one of the two", name)
		}
		seen[name] = true
	}
}

// headersFor are the headers of a session for who makes the call: those of the file, and those that go along. One that
// is made of a field that the caller lacks is left out. The zero Call gives those of nobody.
func (c *ServerConfig) headersFor(call tool.Call) (http.Header, error) {
	out := http.Header{}
	for _, h := range c.headers {
		text, missing := h.value.Expand(call, nil)
		if missing {
			continue
		}
		if !placeholder.HeaderValue(text) {
			return nil, fmt.Errorf("header %s: a field of the caller holds a control character", h.name)
		}
		out[h.name] = []string{strings.TrimSpace(text)}
	}
	for _, name := range c.Forward {
		name = http.CanonicalHeaderKey(name)
		text := call.Headers.Get(name)
		switch {
		case text == "":
		case !placeholder.HeaderValue(text):
			return nil, fmt.Errorf("header %s of the client holds a control character", name)
		default:
			out[name] = []string{text}
		}
	}
	return out, nil
}

// identity tells headers of one identity from those of another.
func identity(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		b.WriteString(strconv.Quote(name) + strconv.Quote(h[name][0]))
	}
	return b.String()
}
