// Package httptool is the kind of tool that asks an HTTP service: a call fills placeholders in the address, headers
// and body of one request, and what the service replies, perhaps trimmed by jq, is the result.
package httptool

import (
	"errors"
	"net/http"
	"slices"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `http` kind of tool.
var Kind = tool.Kind{Name: "http", Doc: "A request to an HTTP service.", New: func() tool.Config { return &Config{} }}

// Config is the `http` part of a tool.
type Config struct {
	Method      string                   `yaml:"method" enum:"GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS" doc:"GET by default, POST when there is a body"`
	URL         string                   `yaml:"url" doc:"the address; {name} is an argument, {caller.x} a field of the caller, also {run_id} and {idempotency_key}; none in scheme, host or port"`
	Query       config.Map[*config.Node] `yaml:"query" doc:"items added to the address; a list repeats an item, an absent argument drops it"`
	Headers     config.Map[string]       `yaml:"headers" doc:"headers of the request, with placeholders; an absent argument drops the header"`
	Body        *config.Node             `yaml:"body" doc:"json: all arguments that stand nowhere else; form: the same as a form; else a text or a tree with placeholders"`
	ContentType string                   `yaml:"content_type" doc:"of the body; by default what the form of the body says"`
	Result      string                   `yaml:"result" doc:"jq over the JSON reply; what it gives is the result"`
	FailWhen    string                   `yaml:"fail_when" doc:"jq over the JSON reply; true makes the call a failure that the service reports"`
	Auth        *Auth                    `yaml:"auth" doc:"credentials; exactly one of bearer, basic, header, query"`
	TLS         *outbound.TLS            `yaml:"tls" doc:"how TLS is spoken: authorities, the gateway's own certificate, the server's name"`
	Redirects   string                   `yaml:"redirects" enum:"none,same_host" doc:"none by default; same_host follows up to five on the same scheme, host and port"`

	plan *plan // made by Check
}

// method is the method of the request.
func (c *Config) method() string {
	switch {
	case c.Method != "":
		return c.Method
	case c.Body.Kind() != config.Null:
		return http.MethodPost
	}
	return http.MethodGet
}

// DefaultEffect is Read for GET and HEAD.
func (c *Config) DefaultEffect() tool.Effect {
	switch c.method() {
	case http.MethodGet, http.MethodHead:
		return tool.Read
	}
	return tool.Write
}

// Hosts is the host of the address, without its port.
func (c *Config) Hosts() []string {
	a, err := splitAddress(c.URL)
	if err != nil {
		return nil
	}
	return []string{a.base.Hostname()}
}

// CallerFields are the fields of the caller that the request is made with, in order. They are known after Check.
func (c *Config) CallerFields() []string {
	if c.plan == nil {
		return nil
	}
	return c.plan.callerFields
}

// Check compiles all that a call needs and reports what can't work.
func (c *Config) Check(n *config.Node, s tool.Spec) {
	b := newBuilder(n, s)
	p := &plan{method: c.method(), sameHost: c.Redirects == "same_host"}
	if c.URL == "" {
		n.FailKey("url", "is required")
	} else {
		p.address, p.query = b.address(n.Get("url"), c.URL)
	}
	p.query = append(p.query, b.query(c.Query)...)
	p.headers = b.headers(c.Headers)
	b.auth(p, n.Get("auth"), c.Auth)
	c.TLS.CheckAddress(n, c.URL)
	p.body = b.body(c)
	p.result = b.filter("result", c.Result)
	p.failWhen = b.filter("fail_when", c.FailWhen)
	b.warnUnused(p.body)
	slices.Sort(b.callerFields)
	p.callerFields = slices.Compact(b.callerFields)
	c.plan = p
}

// Build makes the tool.
func (c *Config) Build(s tool.Spec, env tool.Env) (tool.Tool, error) {
	switch {
	case c.plan == nil:
		return nil, errors.New("httptool: Build before Check")
	case env.Transport == nil:
		return nil, errors.New("httptool: no transport")
	}
	transport, err := outbound.For(env.Transport, c.TLS)
	if err != nil {
		return nil, err
	}
	return &client{
		plan:      c.plan,
		transport: transport,
		replay:    s.Effect == tool.Read || s.Idempotent,
	}, nil
}
