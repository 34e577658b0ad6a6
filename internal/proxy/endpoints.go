package proxy

import (
	"fmt"
	"net/http"
	"strings"
)

// Endpoints are the endpoints below /v1 that are passed through. Immutable.
type Endpoints struct{ list []endpoint }

type endpoint struct {
	method string // "" is any
	path   string
	below  bool // everything below path too, which ends in a slash then
}

// NewEndpoints reads the list `server.passthrough`.
func NewEndpoints(list []string) (*Endpoints, error) {
	e := &Endpoints{}
	for _, text := range list {
		method, p, both := strings.Cut(text, " ")
		if !both {
			method, p = "", text
		}
		p = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(p), "/"), "v1/")
		prefix, below := strings.CutSuffix(p, "*")
		if p == "" || strings.Contains(prefix, "*") || below && !strings.HasSuffix(prefix, "/") || method != strings.ToUpper(method) {
			return nil, fmt.Errorf("%q is no endpoint: want a path below /v1, such as embeddings, files/* or POST responses", text)
		}
		e.list = append(e.list, endpoint{method, prefix, below})
	}
	return e, nil
}

// Has says whether a request is passed through. p is the decoded path below /v1/. One that is not in its shortest form
// is refused: a provider might read it as another endpoint.
func (e *Endpoints) Has(method, p string) bool {
	if method == http.MethodOptions || method == http.MethodTrace || !isShortest(p) {
		return false
	}
	for _, x := range e.list {
		if x.method != "" && x.method != method {
			continue
		}
		if p == x.path || x.below && strings.HasPrefix(p, x.path) && len(p) > len(x.path) {
			return true
		}
	}
	return false
}

// isShortest says whether a decoded path below /v1/ is in its shortest form, also for a server that takes a backslash for
// a slash, or what stands behind a semicolon for parameters of the segment.
func isShortest(p string) bool {
	for segment := range strings.SplitSeq(p, "/") {
		switch segment, _, _ = strings.Cut(segment, ";"); segment {
		case "", ".", "..":
			return false
		}
	}
	return !strings.Contains(p, `\`)
}
