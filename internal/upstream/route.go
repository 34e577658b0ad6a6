package upstream

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/chat"
)

// Route is one way to a model: an upstream and the model's name there.
type Route struct {
	client  *Client
	model   string // "" leaves the client's name
	weight  int
	breaker *breaker.Breaker
	learned *learned
}

// learned is what a route's provider has shown of itself.
type learned struct {
	byTool atomic.Bool // it takes no response_format by a schema beside tools
}

// NewRoute makes a route. An empty model leaves the name that the client sent. Among routes with a weight the first
// one to be tried is drawn by it; those without are tried in order, after it.
func NewRoute(c *Client, model string, weight int) Route {
	r := Route{client: c, model: model, weight: weight, breaker: c.breakerOf(model), learned: &learned{}}
	r.learned.byTool.Store(!c.schemaWithTools)
	return r
}

// Routes are the ways to one model, tried until one does not fail. Immutable.
type Routes struct {
	list  []Route
	total int             // of the weights
	draw  func(n int) int // from 0 to n-1
}

// NewRoutes makes the routes of a model; there is at least one.
func NewRoutes(list ...Route) *Routes {
	r := &Routes{list: list, draw: rand.IntN}
	for _, route := range list {
		r.total += route.weight
	}
	return r
}

// ForwardsClientKey says whether any route sends the client's own bearer token.
func (r *Routes) ForwardsClientKey() bool {
	for _, route := range r.list {
		if route.client.ForwardsClientKey() {
			return true
		}
	}
	return false
}

// order is the order in which the routes are tried for one call.
func (r *Routes) order() []Route {
	if len(r.list) == 1 || r.total == 0 {
		return r.list
	}
	at := r.draw(r.total)
	first := 0
	for i, route := range r.list {
		if at -= route.weight; at < 0 {
			first = i
			break
		}
	}
	ordered := append(make([]Route, 0, len(r.list)), r.list[first])
	for i, route := range r.list {
		if i != first {
			ordered = append(ordered, route)
		}
	}
	return ordered
}

// Ask makes a model call, on the next route where one fails before any part of its reply was handed on. Its errors are
// *Error, that of the last route tried.
func (r *Routes) Ask(ctx context.Context, a Ask) (*Answer, error) {
	return try(r, func(route Route) (*Answer, error) { return route.ask(ctx, &a) })
}

// Pass is a request that is passed through as it came.
type Pass struct {
	Method    string
	Path      string // below the upstream's base_url, escaped, such as "files/file-1"; "" is chat/completions
	Query     string // as it came
	Header    http.Header
	ClientKey string
	Request   *chat.Request // of a body that names a model; else nil
	Edits     chat.Edits    // of such a body
	Body      []byte        // of any other
	Once      bool          // never make it twice
}

// Pass makes the request and returns the reply as it is, with a status below 400 or one of 4xx about the request,
// whose body is then that of the *Error. The caller closes the reply's body.
func (r *Routes) Pass(ctx context.Context, p Pass) (*http.Response, error) {
	return try(r, func(route Route) (*http.Response, error) { return route.pass(ctx, p) })
}

func (r Route) pass(ctx context.Context, p Pass) (*http.Response, error) {
	ctx, traced := r.modelCall(ctx, p.Path, p.Request)
	resp, err := r.passTraced(ctx, p)
	tracePassed(traced, resp, err)
	return resp, err
}

func (r Route) passTraced(ctx context.Context, p Pass) (*http.Response, error) {
	c := call{breaker: r.breaker, method: p.Method, header: p.Header, key: p.ClientKey, once: p.Once}
	if p.Path == "" {
		c.url = r.client.at.chatFor(r.target(p.Request))
	} else {
		c.url = r.client.at.below(p.Path, p.Query, r.target(p.Request))
	}
	if p.Request == nil {
		c.body = chat.RawBody(p.Body)
		return r.passOn(ctx, c)
	}
	e := p.Edits
	e.Set = r.withModel(p.Request, e.Set)
	var names *renames
	if p.Path == "" {
		e, names = r.client.dialect.apply(p.Request, e)
	}
	if e.Empty() {
		c.body = chat.RawBody(p.Request.Raw)
	} else {
		c.body = r.bodyOf(p.Request, e)
	}
	if names == nil {
		return r.passOn(ctx, c)
	}
	c.header = maps.Clone(c.header)
	delete(c.header, "Accept-Encoding") // the reply is read
	resp, err := r.passOn(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := names.restorePassed(resp); err != nil {
		_ = resp.Body.Close()
		return nil, r.unreadable(resp, err)
	}
	return resp, nil
}

// passOn makes a call whose reply the caller reads.
func (r Route) passOn(ctx context.Context, c call) (*http.Response, error) {
	resp, err := r.client.do(ctx, c)
	if err != nil {
		return nil, err
	}
	resp.Body = &passedBody{
		ReadCloser: resp.Body,
		end:        resp.end,
		outcome:    func(err error) breaker.Outcome { return outcome(r.client.failure(ctx, err)) },
	}
	return resp.Response, nil
}

// try goes through the routes until one does not fail in a way that another may mend.
func try[T any](r *Routes, f func(Route) (T, error)) (T, error) {
	var result T
	var err error
	for _, route := range r.order() {
		result, err = f(route)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.elsewhere() {
			break
		}
	}
	return result, err
}
