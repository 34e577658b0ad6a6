package httptool

import (
	"encoding/base64"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
)

// Auth is how the gateway shows the service who it is. Exactly one field is set. No placeholder stands in any.
type Auth struct {
	Bearer *config.Secret `yaml:"bearer" doc:"sent as Authorization: Bearer"`
	Basic  *Basic         `yaml:"basic" doc:"sent as Authorization: Basic"`
	Header *Named         `yaml:"header" doc:"sent as a header of this name"`
	Query  *Named         `yaml:"query" doc:"sent as an item of the query"`
}

// Basic is a user's name and password.
type Basic struct {
	Username string        `yaml:"username" doc:"the user's name, without a colon"`
	Password config.Secret `yaml:"password" doc:"the user's password"`
}

// Named is a secret with the name that it is sent under.
type Named struct {
	Name  string        `yaml:"name" doc:"what it is sent as"`
	Value config.Secret `yaml:"value" doc:"the secret"`
}

// Check reports anything but exactly one way.
func (a *Auth) Check(n *config.Node) {
	ways := 0
	for _, set := range []bool{a.Bearer != nil, a.Basic != nil, a.Header != nil, a.Query != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		n.Fail("want exactly one of bearer, basic, header, query")
	}
	if a.Bearer != nil && *a.Bearer == "" {
		n.Get("bearer").Fail("is empty")
	}
}

// Check reports what RFC 7617 does not allow.
func (a *Basic) Check(n *config.Node) {
	switch {
	case a.Username == "":
		n.FailKey("username", "is required")
	case strings.Contains(a.Username, ":"):
		n.Get("username").Fail("can't hold a colon")
	}
}

// Check reports what is missing.
func (a *Named) Check(n *config.Node) {
	if a.Name == "" {
		n.FailKey("name", "is required")
	}
	if a.Value == "" {
		n.FailKey("value", "is required")
	}
}

// auth adds the credentials of the url or of the `auth` key to the plan.
func (b *builder) auth(p *plan, n *config.Node, a *Auth) {
	if p.address.user != nil {
		password, _ := p.address.user.Password()
		if a != nil {
			n.Fail("the url has credentials already: want one of the two")
		}
		a = &Auth{Basic: &Basic{p.address.user.Username(), config.Secret(password)}}
		n = b.n.Get("url")
	}
	switch {
	case a == nil:
	case a.Bearer != nil:
		b.secretHeader(p, n, "Authorization", "Bearer "+a.Bearer.Reveal())
	case a.Basic != nil:
		pair := a.Basic.Username + ":" + a.Basic.Password.Reveal()
		b.secretHeader(p, n, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case a.Header != nil:
		b.secretHeader(p, n.Get("header"), a.Header.Name, a.Header.Value.Reveal())
	case a.Query != nil:
		p.secretQuery = placeholder.QueryValue(a.Query.Name) + "=" + placeholder.QueryValue(a.Query.Value.Reveal())
	}
}

// secretHeader is a header whose value is no template. The zero value is none.
type secretHeader struct{ name, value string }

func (b *builder) secretHeader(p *plan, n *config.Node, name, value string) {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "": // reported by Check
		return
	case !httpguts.ValidHeaderFieldName(name) || placeholder.FramingHeader(canonical) || canonical == "Host":
		n.Fail("credentials can't be sent in a header of this name")
	case !placeholder.HeaderValue(value):
		n.Fail("a header can't hold a line break or another control character")
	}
	for _, h := range p.headers {
		if h.name == canonical {
			n.Fail("headers has %s as well: want one of the two", canonical)
		}
	}
	p.secretHeader = secretHeader{canonical, strings.TrimSpace(value)}
}
