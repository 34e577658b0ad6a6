package adopt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/toolgate/toolgate/internal/tool/openapi"
)

// Entry is what came of an OpenAPI document.
type Entry struct {
	YAML      []byte // a mapping `openapi` of one entry
	Variables []Variable
	Notes     []string
}

// OpenAPI makes the entry of a document's survey: every operation with a tool is named under include, so that what is not
// wanted is a line to take out, and what a later document adds is no tool by itself. spec is the document's file as the
// configuration is to name it, and baseURL the address that was asked for, "" for the document's own.
func OpenAPI(s *openapi.Survey, name, spec, baseURL string) (Entry, error) {
	e := &entry{survey: s, prefix: variableName(name), headers: mapping(0)}
	address := e.address(baseURL)
	e.credentials()
	include := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, o := range s.Operations {
		if o.Left != "" {
			continue
		}
		item := text(plain(o.Pattern))
		item.LineComment = comment(o)
		include.Content = append(include.Content, item)
	}
	out, err := yaml.Dump(mapping(0, "openapi", mapping(0, name, mapping(0,
		"spec", plain(spec),
		"base_url", address,
		"headers", orNil(e.headers),
		"auth", e.auth,
		"include", include,
	))), yaml.WithV3Defaults(), yaml.WithIndent(2), yaml.WithLineWidth(-1))
	return Entry{YAML: out, Variables: e.variables, Notes: e.notes}, err
}

// entry makes an entry.
type entry struct {
	survey    *openapi.Survey
	prefix    string // of the names of variables
	headers   *yaml.Node
	auth      *yaml.Node
	sent      []string // names of headers that have credentials, in small letters
	variables []Variable
	notes     []string
}

func (e *entry) note(format string, args ...any) {
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

func (e *entry) variable(suffix, what string) string {
	name := e.prefix + "_" + variableName(suffix)
	taken := func(name string) bool {
		return slices.ContainsFunc(e.variables, func(v Variable) bool { return v.Name == name })
	}
	for i, first := 2, name; taken(name); i++ {
		name = fmt.Sprintf("%s_%d", first, i)
	}
	e.variables = append(e.variables, Variable{name, what})
	return "${" + name + "}"
}

// address is base_url, "" where the document's own server is to be taken operation by operation.
func (e *entry) address(given string) string {
	switch s := e.survey; {
	case given != "":
		return plain(given)
	case s.Server == "":
		e.note("the document names no server that can be called: its address is a variable")
		return e.variable("url", "the address that the paths of the document follow")
	case s.OwnServers:
		e.note("base_url is left out, as operations have servers of their own: others than those at %s get no tool", s.Server)
		return ""
	default:
		if s.Servers > 1 {
			e.note("the document names %d servers: base_url is the first that can be called", s.Servers)
		}
		return plain(s.Server)
	}
}

// credentials turns the schemes that operations ask for into what the entry sends with each request. An item of the query
// can stand under auth alone, so that it goes first.
func (e *entry) credentials() {
	schemes := slices.Clone(e.survey.Schemes)
	slices.SortStableFunc(schemes, func(a, b openapi.Scheme) int { return rank(a) - rank(b) })
	for _, s := range schemes {
		e.scheme(s)
	}
}

func rank(s openapi.Scheme) int {
	switch {
	case s.In == "query":
		return 0
	case s.Scheme == "basic":
		return 1
	}
	return 2
}

func (e *entry) scheme(s openapi.Scheme) {
	key, lower := fmt.Sprintf("the scheme %q", cut(s.Key)), strings.ToLower(s.Name)
	sendable := headerName.MatchString(s.Name) && lower != "content-type" && !slices.Contains(dropped, lower)
	switch {
	case s.Type == "apiKey" && s.In == "header" && lower == "authorization":
		e.authorization(key, "", "authorization", "the whole header Authorization")
	case s.Type == "apiKey" && s.In == "header" && sendable && lower != "cookie":
		e.header(s.Name, "", strings.TrimPrefix(lower, "x-"), "the header "+s.Name)
	case s.Type == "apiKey" && s.In == "query" && printable(s.Name):
		if e.auth != nil {
			e.note("%s is left out: an entry sends one item of the query as its credentials, and has one", key)
			return
		}
		e.auth = mapping(0, "query", mapping(yaml.FlowStyle, "name", s.Name, "value", e.variable(s.Name, "the query's "+s.Name)))
	case s.Type == "apiKey" && s.In == "cookie" && headerName.MatchString(s.Name):
		e.header("Cookie", s.Name+"=", s.Name, "the cookie "+s.Name)
	case s.Scheme == "bearer":
		e.authorization(key, "Bearer ", "token", "the bearer token")
	case s.Type == "oauth2", s.Type == "openIdConnect":
		e.note("%s is %s: the gateway asks for no token itself; the one that is exported has to last, or a proxy before the service has to renew it", key, s.Type)
		e.authorization(key, "Bearer ", "token", "the access token")
	case s.Scheme == "basic" && e.auth == nil:
		e.auth = mapping(0, "basic", mapping(yaml.FlowStyle,
			"username", e.variable("user", "the user of basic authentication"),
			"password", e.variable("password", "the password of basic authentication")))
		e.sent = append(e.sent, "authorization")
	case s.Type == "mutualTLS":
		e.note("%s is a certificate of the client: name it under tls, beside spec", key)
	default:
		e.note("%s can't be carried over: look under auth and headers what the service may be sent", key)
	}
}

// header is one that each request gets: under auth where there is nothing yet. One that is sent already serves.
func (e *entry) header(name, before, suffix, what string) {
	lower := strings.ToLower(name)
	switch {
	case slices.Contains(e.sent, lower) && lower != "cookie":
		return
	case slices.Contains(e.sent, lower):
		e.note("%s is left out: one is sent already; write both into headers.Cookie if the service wants them", what)
		return
	}
	e.sent = append(e.sent, lower)
	ref := e.variable(suffix, what)
	if e.auth == nil && before == "" {
		e.auth = mapping(0, "header", mapping(yaml.FlowStyle, "name", name, "value", ref))
		return
	}
	set(e.headers, name, text(before+ref))
}

func (e *entry) authorization(key, before, suffix, what string) {
	switch {
	case slices.Contains(e.sent, "authorization"):
		e.note("%s is left out: each request sends one header Authorization, and has it of another scheme; look whether that serves", key)
	case e.auth == nil && before != "":
		e.sent = append(e.sent, "authorization")
		e.auth = mapping(0, "bearer", e.variable(suffix, what))
	default:
		e.header("Authorization", before, suffix, what)
	}
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// plain is a text of the document where the file replaces ${...}.
func plain(s string) string { return strings.ReplaceAll(s, "${", "$${") }

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == '{' || r == '}' })
}

// comment is what stands beside an operation.
func comment(o openapi.Surveyed) string {
	effect := "read"
	if o.Write {
		effect = "write"
	}
	summary := o.Summary
	if summary == "" {
		summary = "TODO: the document does not say what it does; say it under set"
	}
	if o.Pattern != o.Operation {
		effect += ", " + o.Operation
	}
	return "# " + cut(effect+": "+summary)
}

// cut is a text of others on one line of a comment or note.
func cut(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
	const limit = 120
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

var notInEntry = regexp.MustCompile(`[^a-z0-9]+`)

// EntryName is a name for the entry of a document: its file's, or where that says nothing its title's.
func EntryName(file, title string) string {
	for _, s := range []string{file, title} {
		name := strings.Trim(notInEntry.ReplaceAllString(strings.ToLower(s), "_"), "_")
		if name = strings.Trim(name[:min(len(name), 24)], "_"); name != "" && !slices.Contains(silent, name) {
			return name
		}
	}
	return "api"
}

// silent are names of files that say nothing of the service.
var silent = []string{"openapi", "swagger", "api", "spec", "schema", "openapi_v3", "api_docs", "doc", "docs", "index"}
