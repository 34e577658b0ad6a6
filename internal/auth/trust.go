package auth

import (
	"fmt"
	"maps"
	"net/netip"
	"net/textproto"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/config"
)

// Trust is who is believed what a request says of its caller: which proxies, and in which headers. The zero value
// believes nobody. Immutable.
type Trust struct {
	proxies []Network
	headers []callerHeader
}

// callerHeader is one entry of `auth.trusted_headers`.
type callerHeader struct{ field, name string }

// NewTrust makes the Trust of a checked configuration. headers are the names of headers by fields of the caller.
func NewTrust(proxies []Network, headers config.Map[string]) Trust {
	t := Trust{proxies: proxies}
	for field, name := range headers.All() {
		t.headers = append(t.headers, callerHeader{field, textproto.CanonicalMIMEHeaderKey(name)})
	}
	return t
}

// Proxy says whether a peer is a trusted proxy.
func (t *Trust) Proxy(peer netip.Addr) bool { return has(t.proxies, plain(peer)) }

// Names says whether a header tells a field of the caller. A name with underscores in place of hyphens is the same one:
// so it is for servers that make variables of headers (RFC 3875, section 4.1.18), one of which may stand behind us.
func (t *Trust) Names(header string) bool {
	for _, h := range t.headers {
		if header == h.name || strings.EqualFold(strings.ReplaceAll(header, "_", "-"), h.name) {
			return true
		}
	}
	return false
}

// BadHeader is a header of a trusted proxy that can't be taken for a field of the caller.
type BadHeader struct{ Name, Reason string }

// Error is for the proxy's operator. It does not repeat the value.
func (e *BadHeader) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Reason) }

// Fields are the caller's fields in the headers of a request from a trusted proxy; values are texts. An empty header is
// as none. One that stands twice is a *BadHeader: a proxy that adds its header to the client's own, in place of
// replacing it, leaves nobody to tell which is whose.
func (t *Trust) Fields(header map[string][]string) (map[string]any, error) {
	var fields map[string]any
	for _, h := range t.headers {
		values := header[h.name]
		switch {
		case len(values) > 1:
			return nil, &BadHeader{h.name, "this header tells who calls and stands here more than once; the proxy must replace the client's own"}
		case len(values) == 0 || values[0] == "":
		case !utf8.ValidString(values[0]):
			return nil, &BadHeader{h.name, "this header tells who calls and is not valid UTF-8"}
		default:
			if fields == nil {
				fields = map[string]any{}
			}
			fields[h.field] = values[0]
		}
	}
	return fields, nil
}

// With is the caller with further fields, for one request. A field that the key sets stays as the key has it.
func (c *Caller) With(fields map[string]any) *Caller {
	if len(fields) == 0 {
		return c
	}
	with := *c
	with.Passing = true
	with.Fields = maps.Clone(fields)
	maps.Copy(with.Fields, c.Fields)
	return &with
}

// fieldName is what tools can name a field.
var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// ownMeaning are headers that say something else, or are a credential that no tool may get.
var ownMeaning = regexp.MustCompile(`^(?i:accept(-.*)?|api-key|authorization|connection|content-.*|cookie|expect|forwarded|host|idempotency-key|keep-alive|proxy-.*|te|traceparent|tracestate|trailer|transfer-encoding|upgrade|via|x-api-key|x-forwarded-(for|host|port|prefix|proto)|x-gateway-.*|x-request-id|x-stainless-.*)$`)

// checkHeaders reports trusted headers that can't work.
func checkHeaders(n *config.Node, headers config.Map[string]) {
	seen := map[string]string{}
	for field, header := range headers.All() {
		at, name := headers.Node(field), textproto.CanonicalMIMEHeaderKey(header)
		switch {
		case !fieldName.MatchString(field):
			n.FailKey(field, "%q is no name of a field: want letters, digits, _ and -, such as id", field)
		case !httpguts.ValidHeaderFieldName(header):
			at.Fail("this is no name of a header: want one such as X-User-Id")
		case strings.Contains(header, "_"):
			at.Fail("some proxies and servers take _ for - in a header's name, and others drop it: want a name without, such as X-User-Id")
		case ownMeaning.MatchString(header):
			at.Fail("this header has a meaning of its own: want one that only the proxy sets, such as X-User-Id")
		case seen[name] != "":
			at.Fail("the field %s is taken from this header already", seen[name])
		}
		seen[name] = field
	}
}
