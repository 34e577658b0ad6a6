package placeholder

import (
	"encoding/xml"
	"net/url"
	"strings"

	"github.com/toolgate/toolgate/internal/tool"
)

// PathSegment escapes a value for one segment of a URL's path: no "/", "?", "#" or "%" in it means anything. It can't
// help against a segment that comes out as "", "." or "..", which servers resolve even when escaped (RFC 3986,
// 6.2.2.2): see DotSegment.
func PathSegment(s string) string { return url.PathEscape(s) }

// DotSegment says whether an escaped segment of a path means this or the upper level to a server.
func DotSegment(segment string) bool {
	if len(segment) > len("%2e%2e") {
		return false
	}
	plain, err := url.PathUnescape(segment)
	return err == nil && (plain == "." || plain == "..")
}

// QueryValue escapes a name or a value of a URL's query, or of a form.
func QueryValue(s string) string { return url.QueryEscape(s) }

// HeaderValue says whether s may be the value of a header. A line break or another control character may not: it could
// add headers, or a whole second request.
func HeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// framing are the headers that say how a message is carried (RFC 9110, 7.6.1, and RFC 9112, 6).
var framing = map[string]bool{
	"Connection": true, "Content-Length": true, "Keep-Alive": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// FramingHeader says whether a header, by its canonical name, says how a message is carried. It is the transport's, and a
// wrong one makes two requests of one.
func FramingHeader(name string) bool { return framing[name] }

// JSONString escapes a value for the inside of a JSON string, without the quotes.
func JSONString(s string) string {
	quoted := tool.EncodeJSON(s)
	return string(quoted[1 : len(quoted)-1])
}

// XMLText escapes a value for XML and HTML, as text or inside a quoted attribute.
func XMLText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}

// URLText escapes of literal text of a URL, path or query, what may not stand there as it is: blanks, quotes, braces,
// characters outside ASCII, and a "%" that begins no escape. What is valid stays, so that applying it twice, or to
// escaped values, changes nothing.
func URLText(s string) string {
	for i := range len(s) {
		if !plainInURL(s, i) {
			return urlText(s)
		}
	}
	return s
}

func urlText(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if plainInURL(s, i) {
			b.WriteByte(s[i])
		} else {
			b.WriteString(string([]byte{'%', hex[s[i]>>4], hex[s[i]&15]}))
		}
	}
	return b.String()
}

func plainInURL(s string, i int) bool {
	switch c := s[i]; {
	case c == '%':
		return i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])
	case c <= ' ' || c >= 0x7f:
		return false
	default:
		return !strings.ContainsRune("\"<>\\^`{|}", rune(c))
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
