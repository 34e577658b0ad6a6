package openapi

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// Survey is what a document holds for an entry, for one who is about to write it.
type Survey struct {
	Title      string
	Server     string // what the entry gets without base_url; "" where it has to name one
	Servers    int    // how many the document names
	OwnServers bool   // an operation or path names servers of its own, which base_url takes the place of
	Operations []Surveyed
	Schemes    []Scheme // that operations with a tool ask for, each once
}

// Surveyed is an operation of a document.
type Surveyed struct {
	Operation string // GET /pets/{id}
	Pattern   string // what include takes for this one alone
	Tool      string // the name of its tool
	Summary   string // the first line that the model reads of it; "" where the document says nothing
	Write     bool
	Left      string // why there is no tool of it; "" where there is one
	NotChosen bool   // that is because include and exclude do not choose it
}

// Scheme is a way to sign in.
type Scheme struct {
	Key    string // in the document
	Type   string // apiKey, http, oauth2, openIdConnect, mutualTLS; "" where the document does not say what it is
	Scheme string // of http, in small letters: bearer, basic
	In     string // of apiKey: header, query, cookie
	Name   string // of apiKey
}

// unknownServer stands for the service of a document that names none.
const unknownServer = "https://service.invalid"

// Look surveys the document of an entry. It is nil after a problem, which is reported to n's file.
func Look(name string, n *config.Node) *Survey {
	c := read(n)
	if c == nil {
		return nil
	}
	doc := readDocument(n, c.Spec)
	if doc == nil {
		return nil
	}
	s := &Survey{Title: strings.TrimSpace(text(doc.root.Get("info").Get("title"))), Server: doc.server(), Servers: len(items(doc.root.Get("servers")))}
	if u, err := url.Parse(s.Server); err != nil || outbound.Special(u.Hostname()) {
		s.Server = ""
	}
	if s.Server == "" && c.BaseURL == "" {
		c.BaseURL = unknownServer
	}
	m := newMaker(name, c, n, doc)
	if m == nil {
		return nil
	}
	s.look(m)
	m.warnings.report(n.Get("spec"), c.Spec)
	return s
}

var (
	errDeprecated = errors.New("deprecated: one that is wanted all the same must be named under include, without *")
	errNotChosen  = errors.New("not chosen by include and exclude")
)

func (s *Survey) look(m *maker) {
	operations := m.doc.operations(&m.warnings)
	nameOperations(operations, m.prefix, &m.warnings)
	m.choose(operations)
	meant := map[string]int{} // how many operations a name of the file would mean
	for _, o := range operations {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(o.names()))) {
			meant[name]++
		}
	}
	for _, o := range operations {
		s.OwnServers = s.OwnServers || len(items(o.value.Get("servers"))) > 0 || len(items(o.item.Get("servers"))) > 0
		summary, _, _ := strings.Cut(o.description(m.clean.scrub), "\n")
		if summary == o.unsaid(m.clean.scrub) {
			summary = ""
		}
		found := Surveyed{Operation: o.String(), Pattern: o.pattern(meant), Tool: o.tool, Summary: summary, Write: o.method != "GET" && o.method != "HEAD"}
		if err := m.possible(o); err != nil {
			found.Left, found.NotChosen = err.Error(), errors.Is(err, errNotChosen)
		} else {
			s.addSchemes(m.doc, o)
		}
		s.Operations = append(s.Operations, found)
	}
}

// possible says why there is no tool of an operation.
func (m *maker) possible(o *operation) error {
	switch {
	case o.chosen:
		_, err := m.tool(o)
		return err
	case isTrue(o.value.Get("deprecated")) && m.config.Include == nil:
		return errDeprecated
	}
	return errNotChosen
}

// pattern is the text in include that means this operation and no other: its operationId where people write one.
func (o *operation) pattern(meant map[string]int) string {
	if o.id != "" && toolName(o.id) == o.id && meant[o.id] == 1 {
		return o.id
	}
	return o.String()
}

// addSchemes adds what an operation asks for: the first of its alternatives that is known well enough to be sent.
func (s *Survey) addSchemes(doc *document, o *operation) {
	if doc.scheme(o) == "" {
		return
	}
	wanted := o.value.Get("security")
	if wanted == nil {
		wanted = doc.root.Get("security")
	}
	alternatives := items(wanted)
	chosen := alternatives[0]
	if i := slices.IndexFunc(alternatives, func(v *jsontree.Value) bool {
		return !slices.ContainsFunc(members(v), func(m jsontree.Member) bool { return !doc.securityScheme(m.Key).sendable() })
	}); i >= 0 {
		chosen = alternatives[i]
	}
	for _, m := range members(chosen) {
		if scheme := doc.securityScheme(m.Key); !slices.Contains(s.Schemes, scheme) {
			s.Schemes = append(s.Schemes, scheme)
		}
	}
}

func (d *document) securityScheme(key string) Scheme {
	s := Scheme{Key: key}
	v, err := d.follow(d.root.Get("components").Get("securitySchemes").Get(key))
	if err != nil || !v.Is(jsontree.Object) {
		return s
	}
	s.Type = text(v.Get("type"))
	switch s.Type {
	case "http":
		s.Scheme = strings.ToLower(text(v.Get("scheme")))
	case "apiKey":
		s.In, s.Name = text(v.Get("in")), text(v.Get("name"))
	}
	return s
}

// sendable says whether the scheme is a text that a request can carry as it is.
func (s Scheme) sendable() bool {
	return s.Type == "apiKey" && s.Name != "" || s.Type == "http" && (s.Scheme == "bearer" || s.Scheme == "basic")
}
