package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// placeInPath is a place for a parameter in a path.
var placeInPath = regexp.MustCompile(`\{([^{}]*)\}`)

// pathNames are the names of the parameters in a path.
func pathNames(path string) (map[string]bool, error) {
	names := map[string]bool{}
	for _, m := range placeInPath.FindAllStringSubmatch(path, -1) {
		names[m[1]] = true
	}
	rest := placeInPath.ReplaceAllString(path, "x")
	if strings.ContainsAny(rest, "{}#") || credentials.MatchString(path) || names[""] {
		return nil, errors.New("its path is not valid")
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return nil, errors.New("its path is not valid")
		}
	}
	return names, nil
}

// url is the address of an operation with placeholders for the arguments in the path.
func (m *maker) url(o *operation, args []*argument) (string, error) {
	base := m.base
	if m.config.BaseURL == "" {
		var err error
		if base, err = m.ownServer(o); err != nil {
			return "", err
		}
	}
	names := map[string]string{}
	for _, a := range args {
		if a.in == inPath {
			names[a.wire] = a.name
		}
	}
	path := placeInPath.ReplaceAllStringFunc(o.path, func(place string) string {
		return "{" + names[place[1:len(place)-1]] + "}"
	})
	return strings.TrimRight(base, "/") + path, nil
}

// ownServer is the address of an operation that may have servers of its own. Another host than that of the document is
// refused: credentials are meant for one service.
func (m *maker) ownServer(o *operation) (string, error) {
	servers := o.value.Get("servers")
	if len(items(servers)) == 0 {
		servers = o.item.Get("servers")
	}
	if len(items(servers)) == 0 {
		return m.base, nil
	}
	main, err := url.Parse(m.base)
	if err != nil {
		return "", err
	}
	for _, s := range items(servers) {
		own, err := url.Parse(serverURL(s))
		if err != nil {
			continue
		}
		if own = main.ResolveReference(own); own.Scheme == main.Scheme && own.Host == main.Host {
			return plainURL(own), nil
		}
	}
	return "", fmt.Errorf("it has a server of its own, and that is not %s: set base_url if it may be used", main.Host)
}

// server is the first server of the document that has a host, "" if there is none.
func (d *document) server() string {
	for _, s := range items(d.root.Get("servers")) {
		u, err := url.Parse(serverURL(s))
		if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" {
			return plainURL(u)
		}
	}
	return ""
}

// serverURL is the address of a server with the defaults of its variables.
func serverURL(s *jsontree.Value) string {
	return placeInPath.ReplaceAllStringFunc(text(s.Get("url")), func(place string) string {
		return text(s.Get("variables").Get(place[1 : len(place)-1]).Get("default"))
	})
}

// plainURL is scheme, host and path alone. What would be a placeholder in it is escaped.
func plainURL(u *url.URL) string {
	return strings.ToLower(u.Scheme) + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
}
