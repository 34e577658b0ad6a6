package httptool

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// address is where a request goes, but for the query.
type address struct {
	scheme, host string // the host with its port
	user         *url.Userinfo
	segments     []segment // of the path, what stands after each "/"; none: "/"
	static       string    // the whole escaped path, when no segment has a placeholder
}

// segment is a piece of the path between two slashes.
type segment struct {
	text    string // escaped, where value is nil
	value   *placeholder.Template
	visible string // the arguments in value that the model knows
}

// split is an address cut into its parts. Only base has been looked at.
type split struct {
	base        *url.URL // scheme, user info and host
	path, query string   // texts of the file, with placeholders
	fragment    bool
}

// The faults of an address. None of them repeats the address, which may hold a password.
var (
	errPlaceholder = errors.New("a placeholder can't stand in the scheme, user info, host or port")
	errScheme      = errors.New("want an address that begins with http:// or https://")
	errHost        = errors.New("the host or port is not valid")
)

func splitAddress(text string) (split, error) {
	start, end := 0, len(text)
	if i := strings.Index(text, "://"); i >= 0 {
		start = i + len("://")
	}
	if i := strings.IndexAny(text[start:], "/?#"); i >= 0 {
		end = start + i
	}
	authority, rest := text[:end], text[end:]
	if t, err := placeholder.Parse(authority); err != nil || !t.Static() {
		return split{}, errPlaceholder
	}
	if s := strings.ToLower(authority); !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://") {
		return split{}, errScheme
	}
	// The reason that url.Parse gives is left out: a password with a "/" in it makes a part of it the port.
	base, err := url.Parse(authority)
	if err != nil || base.Hostname() == "" || !validPort(base.Port()) || strings.HasSuffix(base.Host, ":") {
		return split{}, errHost
	}
	a := split{base: base}
	rest, _, a.fragment = strings.Cut(rest, "#")
	a.path, a.query, _ = strings.Cut(rest, "?")
	return a, nil
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	p, err := strconv.Atoi(port)
	return err == nil && 0 < p && p <= 65535
}

// address reads the url of the file; its query comes before that of the `query` key.
func (b *builder) address(n *config.Node, text string) (address, []item) {
	s, err := splitAddress(text)
	if err != nil {
		n.Fail("%v", err)
		return address{}, nil
	}
	if s.fragment {
		n.Fail("a part after # is never sent to a service: write %%23 for the character")
	}
	a := address{scheme: s.base.Scheme, host: s.base.Host, user: s.base.User}
	static := true
	if s.path != "" {
		for text := range strings.SplitSeq(s.path[1:], "/") {
			seg := b.segment(n, text)
			static = static && seg.value == nil
			a.segments = append(a.segments, seg)
		}
	}
	if static {
		a.static, _ = a.path(tool.Call{})
	}
	var items []item
	for text := range strings.SplitSeq(s.query, "&") {
		if text != "" {
			items = append(items, b.urlItem(n, text))
		}
	}
	return a, items
}

func (b *builder) segment(n *config.Node, text string) segment {
	t := b.template(n, text)
	plain, ok := fixed(t)
	if !ok {
		return segment{value: t, visible: b.visible(t)}
	}
	if placeholder.DotSegment(plain) {
		n.Fail("the path has a segment %q: write the path that is meant", plain)
	}
	return segment{text: placeholder.URLText(plain)}
}

// The reasons for which a call's arguments make no path.
var (
	errPathMissing = errors.New("the path needs a value")
	errPathSegment = errors.New(`must not be empty, "." or ".."`)
)

// path is the escaped path for a call. A value never leaves its segment, and a segment with a placeholder is never
// empty: DELETE /items/{id} with an empty id would else be DELETE /items/.
func (a *address) path(c tool.Call) (string, error) {
	if a.static != "" {
		return a.static, nil
	}
	if len(a.segments) == 0 {
		return "/", nil
	}
	var b strings.Builder
	for _, seg := range a.segments {
		b.WriteByte('/')
		if seg.value == nil {
			b.WriteString(seg.text)
			continue
		}
		text, missing := seg.value.Expand(c, placeholder.PathSegment)
		switch {
		case missing:
			return "", &refusal{seg.visible, errPathMissing}
		case text == "" || placeholder.DotSegment(text):
			return "", &refusal{seg.visible, errPathSegment}
		}
		b.WriteString(placeholder.URLText(text))
	}
	return b.String(), nil
}
