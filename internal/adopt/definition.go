package adopt

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Definition is what came of a command.
type Definition struct {
	Name      string
	YAML      []byte // a mapping `tools` of one tool, without any secret of the command
	Variables []Variable
	Notes     []string // what was left out, and what to do about it
}

// Curl makes the definition of a tool of a curl command. An empty name is made of the method and the path. What a tool
// can't do is an error that names the option.
func Curl(text, name string) (Definition, error) {
	c, err := readCommand(text)
	if err != nil {
		return Definition{}, err
	}
	r, err := readOptions(c)
	if err != nil {
		return Definition{}, err
	}
	b := &builder{request: r, query: mapping(0), headers: mapping(0)}
	return b.definition(name)
}

// builder makes a definition of a request.
type builder struct {
	*request
	host        string // as it stands in the URL
	prefix      string // of the names of variables
	static      []string
	params      []param
	auth        *yaml.Node
	query       *yaml.Node
	headers     *yaml.Node
	contentType string
	variables   []Variable
	secrets     []hidden
}

// hidden is a value of the command that must not show, and the reference in its place.
type hidden struct{ value, ref string }

// telling says whether the value is looked for elsewhere in the command too. PASSWORD or api_key, which documentation puts
// in place of one, would be found everywhere.
func (h hidden) telling() bool {
	return len(h.value) >= 6 && !plainWord.MatchString(h.value)
}

var plainWord = regexp.MustCompile(`^(?:[A-Z_-]{1,20}|[a-z_-]{1,20})$`)

// param is a parameter of the tool, with its sample.
type param struct {
	name   string
	schema *yaml.Node
	sample string
}

func (b *builder) definition(name string) (Definition, error) {
	base, path, query, err := b.split()
	if err != nil {
		return Definition{}, err
	}
	b.credentials()
	address := base + b.path(path)
	bare := b.queryItems(query)
	if len(bare) > 0 {
		address += "?" + strings.Join(bare, "&")
	}
	b.headerItems()
	body := b.body()
	method := b.method
	if body == nil && method == "GET" || body != nil && method == "POST" {
		method = "" // the default
	}
	redirects := ""
	if b.redirect {
		redirects = "same_host"
		b.note("--location: redirects are followed on the same host only (http.redirects)")
	}
	if name == "" {
		name = b.name()
	}
	description := text("TODO")
	description.LineComment = "# what does it do, and when is it of use? The model chooses by this"
	def := mapping(0,
		"description", description,
		"parameters", orNil(b.parameters()),
		"timeout", b.timeout,
		"http", mapping(0,
			"method", method,
			"url", address,
			"query", orNil(b.query),
			"headers", orNil(b.headers),
			"body", body,
			"content_type", b.contentType,
			"auth", b.auth,
			"redirects", redirects,
		))
	out, err := yaml.Dump(mapping(0, "tools", mapping(0, name, def)), yaml.WithV3Defaults(), yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return Definition{}, err
	}
	for _, h := range b.secrets {
		if h.telling() && strings.Contains(anyVariable.ReplaceAllString(string(out), ""), h.value) {
			return Definition{}, fmt.Errorf("the value of %s stands in the command once more, where it would be printed: put another one in its place", h.ref)
		}
	}
	return Definition{Name: name, YAML: out, Variables: b.variables, Notes: b.notes}, nil
}

// split takes the URL apart. Its user becomes that of -u.
func (b *builder) split() (base, path, query string, err error) {
	scheme, rest, ok := strings.Cut(b.url, "://")
	switch scheme = strings.ToLower(scheme); {
	case strings.HasPrefix(b.url, "${"):
		scheme, rest = "", b.url
	case !ok || scheme != "http" && scheme != "https":
		return "", "", "", errors.New("the URL can't be carried over: want http:// or https://")
	}
	rest, fragment, _ := strings.Cut(rest, "#")
	if fragment != "" {
		b.note("the part of the URL after # is left out: it is never sent")
	}
	rest, query, _ = strings.Cut(rest, "?")
	host, path, slash := strings.Cut(rest, "/")
	if slash {
		path = "/" + path
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		if user, err := url.PathUnescape(host[:i]); err == nil && !b.hasUser {
			b.user, b.hasUser = user, true
		}
		host = host[i+1:]
	}
	if strings.ContainsAny(anyVariable.ReplaceAllString(host, ""), "{}<>$ ") || host == "" {
		return "", "", "", errors.New("the host of the URL is no host: write the real one in place of the placeholder")
	}
	b.host = host
	if i := strings.LastIndexByte(host, ':'); i > 0 && !strings.HasSuffix(host, "]") {
		b.host = host[:i]
	}
	b.prefix = prefixOf(b.host)
	if scheme != "" {
		scheme += "://"
	}
	return b.fixed(scheme + host), path, query, nil
}

// variable notes that a variable is used.
func (b *builder) variable(name, what string) string {
	if !slices.ContainsFunc(b.variables, func(v Variable) bool { return v.Name == name }) {
		b.variables = append(b.variables, Variable{name, what})
	}
	return "${" + name + "}"
}

// secret is the reference to a variable in place of a value.
func (b *builder) secret(suffix, value, what string) string {
	if m := shellVariable.FindStringSubmatch(value); m != nil {
		return b.variable(m[1]+m[2], what)
	}
	name := b.prefix + "_" + variableName(suffix)
	taken := func(name string) bool {
		return slices.ContainsFunc(b.variables, func(v Variable) bool { return v.Name == name })
	}
	for i, first := 2, name; taken(name); i++ {
		name = fmt.Sprintf("%s_%d", first, i)
	}
	ref := b.variable(name, what)
	b.secrets = append(b.secrets, hidden{value, ref})
	return ref
}

var inBraces = regexp.MustCompile(`\{([\pL_$][\pL\pN_$.-]*)\}`)

// fixed is a text of the command where the file has placeholders: braces and ${ mean nothing, but for variables of the
// shell, which are the environment's.
func (b *builder) fixed(s string) string {
	for _, h := range b.secrets {
		if h.telling() {
			s = strings.ReplaceAll(s, h.value, h.ref)
		}
	}
	var out strings.Builder
	escape := func(s string) string {
		return strings.ReplaceAll(inBraces.ReplaceAllString(s, "{{$1}}"), "${", "$${")
	}
	start := 0
	for _, m := range anyVariable.FindAllStringSubmatchIndex(s, -1) {
		out.WriteString(escape(s[start:m[0]]) + b.variable(s[m[2]:m[3]], "the command's own variable"))
		start = m[1]
	}
	return out.String() + escape(s[start:])
}

// credentials are those of options and of the Authorization header; only one of them can be.
func (b *builder) credentials() {
	for i := 0; i < len(b.request.headers); {
		h := b.request.headers[i]
		if !strings.EqualFold(h.name, "Authorization") {
			i++
			continue
		}
		b.request.headers = slices.Delete(b.request.headers, i, i+1)
		scheme, value, ok := strings.Cut(h.value, " ")
		value = strings.TrimSpace(value)
		switch pair, isPair := basicPair(value); {
		case strings.EqualFold(scheme, "Bearer") && ok:
			b.bearer = value
		case strings.EqualFold(scheme, "Basic") && isPair:
			b.user, b.hasUser = pair, true
		case ok && !strings.ContainsAny(value, " ,=\"") && authScheme.MatchString(scheme):
			b.setAuth("header", mapping(yaml.FlowStyle, "name", "Authorization", "value", scheme+" "+b.secret("token", value, "the header Authorization, after "+scheme)))
		default:
			b.setAuth("header", mapping(yaml.FlowStyle, "name", "Authorization", "value", b.secret("authorization", h.value, "the whole header Authorization")))
		}
	}
	if b.bearer != "" {
		b.setAuth("bearer", text(b.secret("token", b.bearer, "the bearer token")))
	}
	if b.hasUser {
		name, password, _ := strings.Cut(b.user, ":")
		pair := mapping(yaml.FlowStyle, "username", b.secret("user", name, "the user of basic authentication"))
		secret := text("")
		if password != "" {
			secret = text(b.secret("password", password, "the password of basic authentication"))
		}
		pair.Content = append(pair.Content, text("password"), secret)
		b.setAuth("basic", pair)
	}
}

var authScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z-]*$`)

func (b *builder) setAuth(kind string, v *yaml.Node) {
	if b.auth != nil {
		b.note("the command signs in more than once in the header Authorization: one way is kept, look whether it is the right one")
	}
	b.auth = mapping(0, kind, v)
}

// named is a secret of a header or the query: the tool's credentials, or beside them one more item.
func (b *builder) named(kind string, beside *yaml.Node, name, value string) {
	what := "the header " + name
	if kind == "query" {
		what = "the query's " + name
	}
	ref := b.secret(strings.TrimPrefix(strings.ToLower(name), "x-"), value, what)
	if b.auth == nil {
		b.auth = mapping(0, kind, mapping(yaml.FlowStyle, "name", name, "value", ref))
		return
	}
	set(beside, name, text(ref))
}

// set sets a key of a mapping; a key that is there becomes a list.
func set(m *yaml.Node, name string, v *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value != name {
			continue
		}
		if m.Content[i+1].Kind != yaml.SequenceNode {
			m.Content[i+1] = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle, Content: []*yaml.Node{m.Content[i+1]}}
		}
		m.Content[i+1].Content = append(m.Content[i+1].Content, v)
		return
	}
	m.Content = append(m.Content, text(name), v)
}

// dropped are headers of browsers and of curl's own that say nothing to a service, or that the gateway sends itself.
var dropped = []string{
	"accept-encoding", "accept-language", "connection", "content-length", "host", "origin", "referer", "user-agent", "dnt", "priority",
	"pragma", "cache-control", "te", "transfer-encoding", "upgrade", "upgrade-insecure-requests", "keep-alive", "proxy-connection", "trailer",
}

func (b *builder) headerItems() {
	var left []string
	for _, h := range b.request.headers {
		lower := strings.ToLower(h.name)
		switch {
		case lower == "content-type":
			b.contentType = h.value
		case lower == "cookie":
			b.note("the header Cookie is left out: a tool keeps no session; if the service wants it, set http.headers.cookie to an environment reference")
		case lower == "idempotency-key":
			b.note("the header Idempotency-Key is left out: a write sends one of its own; set `idempotent: true` where the service honours it")
		case slices.Contains(dropped, lower), strings.HasPrefix(lower, "sec-"), strings.HasPrefix(lower, ":"):
			left = append(left, h.name)
		case secretName(h.name, false) || secretText(h.value):
			b.named("header", b.headers, h.name, h.value)
		default:
			b.header(h)
		}
	}
	if len(left) > 0 {
		b.note("headers of the browser or of the connection are left out: " + strings.Join(left, ", "))
	}
	if b.json && !slices.ContainsFunc(b.request.headers, func(h pair) bool { return strings.EqualFold(h.name, "accept") }) {
		set(b.headers, "Accept", text("application/json"))
	}
}

// header sets a header without a secret; one that stands twice is a list in one line.
func (b *builder) header(h pair) {
	for i := 0; i+1 < len(b.headers.Content); i += 2 {
		if strings.EqualFold(b.headers.Content[i].Value, h.name) {
			b.headers.Content[i+1].Value += ", " + b.fixed(h.value)
			return
		}
	}
	set(b.headers, h.name, text(b.fixed(h.value)))
}

// queryItems sets the query, and is what of it has no value and so has to stay in the url.
func (b *builder) queryItems(query string) (bare []string) {
	type item struct {
		name   string
		values []string
	}
	var items []item
	for raw := range strings.SplitSeq(strings.Join(append([]string{query}, b.request.query...), "&"), "&") {
		name, value, ok := strings.Cut(raw, "=")
		switch {
		case raw == "":
			continue
		case !ok:
			bare = append(bare, b.fixed(raw))
			continue
		}
		name, value = unescape(name), unescape(value)
		if i := slices.IndexFunc(items, func(i item) bool { return i.name == name }); i >= 0 {
			items[i].values = append(items[i].values, value)
			continue
		}
		items = append(items, item{name, []string{value}})
	}
	for _, i := range items {
		switch {
		case secretName(i.name, false) || secretText(i.values[0]):
			b.named("query", b.query, i.name, i.values[0])
		case len(i.values) > 1:
			list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
			for _, v := range i.values {
				list.Content = append(list.Content, typed(v))
			}
			set(b.query, b.fixed(i.name), text(b.param(i.name, "", list)))
		default:
			set(b.query, b.fixed(i.name), text(b.param(i.name, "", typed(i.values[0]))))
		}
	}
	return bare
}

func unescape(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}
