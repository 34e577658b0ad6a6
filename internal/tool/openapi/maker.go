package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
	"github.com/toolgate/toolgate/internal/tool/httptool"
)

// maker makes tools of the operations of one document.
type maker struct {
	name        string
	config      *Config
	node        *config.Node // of config
	doc         *document
	prefix      string
	base        string          // what paths follow
	sentHeaders map[string]bool // canonical names of those that each request has from the entry
	clean       *cleaner
	warnings    warnings
	failed      bool // a problem was reported
}

var entryName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)

// newMaker is nil after a problem.
func newMaker(name string, c *Config, n *config.Node, doc *document) *maker {
	m := &maker{name: name, config: c, node: n, doc: doc, base: c.BaseURL, prefix: name + "__"}
	if c.Prefix != nil {
		m.prefix = *c.Prefix
	} else if !entryName.MatchString(name) {
		n.Fail("%q can't stand in the names of tools: want up to 40 of a-z, A-Z, 0-9, _ and -, or a prefix", cut(name, maxName))
		return nil
	}
	if m.base == "" {
		m.base = doc.server()
	}
	if m.base == "" {
		n.FailKey("base_url", "is required: %s names no server with a host", c.Spec)
		return nil
	}
	// What the gateway may dial is the operator's to say, and a document is somebody else's.
	if u, err := url.Parse(m.base); c.BaseURL == "" && (err != nil || outbound.Special(u.Hostname())) {
		n.FailKey("base_url", "is required: the server that %s names is link-local or a metadata service, which only this file may allow", c.Spec)
		return nil
	}
	m.sentHeaders = sentHeaders(c)
	m.clean = &cleaner{doc: doc, named: map[*jsontree.Value]string{}, defs: map[string]*definition{}}
	for _, host := range (&httptool.Config{URL: m.base}).Hosts() {
		m.clean.scrub = newScrubber(host)
	}
	return m
}

func sentHeaders(c *Config) map[string]bool {
	sent := map[string]bool{}
	for _, name := range c.Headers.Keys() {
		sent[http.CanonicalHeaderKey(name)] = true
	}
	if a := c.Auth; a != nil && a.Header != nil {
		sent[http.CanonicalHeaderKey(a.Header.Name)] = true
	}
	return sent
}

// tool is the configuration of an operation's tool. The error says why there can't be one.
func (m *maker) tool(o *operation) (*jsontree.Value, error) {
	params, err := m.parameters(o)
	if err != nil {
		return nil, err
	}
	b, err := m.body(o, params)
	if err != nil {
		return nil, err
	}
	nameAll(params, b)
	args := slices.Concat(params, b.args)
	parameters := objectOf(args)
	if b.defs != nil {
		parameters.Set("$defs", b.defs)
	}
	if parameters, err = m.parse(o, parameters); err != nil {
		return nil, err
	}
	if m.clean.scrub.tells(parameters) {
		return nil, errors.New("its schema has a value with credentials or with the service's own host, which no model may read")
	}
	if slices.ContainsFunc(args, func(a *argument) bool { return holdsPassword(jsontree.Text(a.wire)) }) {
		return nil, errors.New("a name in it holds credentials, which would be taken for a secret of the file")
	}
	fold(parameters, parameters.Get("$defs"))
	request, err := m.request(o, args, b)
	if err != nil {
		return nil, err
	}
	t := newObject()
	t.Set("description", jsontree.Text(o.description(m.clean.scrub)))
	t.Set("parameters", parameters)
	t.Set(Kind.Name, request)
	return t, set(t, request, o.set)
}

// nameAll gives the arguments their names. Those of the body go into it under their own names on the wire, so that no
// other may have one of these.
func nameAll(params []*argument, b *body) {
	taken := map[string]bool{}
	if b.sent != sentWhole {
		for _, a := range b.args {
			taken[a.wire] = true
		}
	}
	nameArguments(params, taken)
	taken = map[string]bool{}
	for _, a := range params {
		taken[a.name] = true
	}
	nameArguments(b.args, taken)
}

// objectOf is the schema of an object with these properties.
func objectOf(args []*argument) *jsontree.Value {
	properties, required := newObject(), &jsontree.Value{Kind: jsontree.List}
	for _, a := range args {
		properties.Set(a.name, a.schema)
		if a.required {
			required.Items = append(required.Items, jsontree.Text(a.name))
		}
	}
	root := newObject()
	root.Set("type", jsontree.Text("object"))
	root.Set("properties", properties)
	if len(required.Items) > 0 {
		root.Set("required", required)
	}
	return root
}

// request is the `http` part of the tool.
func (m *maker) request(o *operation, args []*argument, b *body) (*jsontree.Value, error) {
	address, err := m.url(o, args)
	if err != nil {
		return nil, err
	}
	headers, err := valueOf(m.node.Get("headers"))
	if err != nil {
		return nil, err
	}
	auth, err := valueOf(m.node.Get("auth"))
	if err != nil {
		return nil, err
	}
	query, encode, wire := newObject(), newObject(), newObject()
	for _, a := range args {
		switch a.in {
		case inQuery:
			query.Set(a.wire, jsontree.Text("{"+a.name+"}"))
		case inHeader:
			headers.Set(a.wire, jsontree.Text("{"+a.name+"}"))
		case inBody:
			if a.name != a.wire {
				wire.Set(a.name, jsontree.Text(a.wire))
			}
		default: // the path has its own already, and a whole body its only one
		}
		if a.encode != "" {
			encode.Set(a.name, jsontree.Text(a.encode))
		}
	}
	r := newObject()
	r.Set("method", jsontree.Text(o.method))
	r.Set("url", jsontree.Text(address))
	for _, part := range []jsontree.Member{
		{Key: "query", Value: query},
		{Key: "headers", Value: headers},
		{Key: "auth", Value: auth},
		{Key: "encode", Value: encode},
		{Key: "wire", Value: wire},
	} {
		if len(part.Value.Members) > 0 {
			r.Members = append(r.Members, part)
		}
	}
	r.Set("body", jsontree.Text(b.text()))
	if b.contentType != "" {
		r.Set("content_type", jsontree.Text(b.contentType))
	}
	return r, nil
}

// text is the `body` of the request: the empty text is none.
func (b *body) text() string {
	if b.sent == sentWhole {
		return "{" + b.args[0].name + "}"
	}
	return b.sent
}

// ofRequest are the keys of the `http` part that the file may set.
var ofRequest = []string{"result", "fail_when"}

// set puts what the file says of a tool over what the document does.
func set(t, request *jsontree.Value, from *config.Node) error {
	for _, key := range from.Keys() {
		v, err := valueOf(from.Get(key))
		switch {
		case err != nil:
			return err
		case slices.Contains(ofRequest, key):
			request.Set(key, v)
		default:
			t.Set(key, v)
		}
	}
	return nil
}

// valueOf is a value of the file, an empty object where it is absent.
func valueOf(n *config.Node) (*jsontree.Value, error) {
	if n == nil {
		return newObject(), nil
	}
	v, err := jsontree.Parse(n.JSON())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Path(), err)
	}
	return v, nil
}

func newObject() *jsontree.Value { return &jsontree.Value{Kind: jsontree.Object} }
