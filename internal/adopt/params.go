package adopt

import (
	"fmt"
	"mime"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

var (
	integer = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})$`) // 01001000 is a text, and so is what a float can't hold
	number  = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}$`)
	digits  = regexp.MustCompile(`^[0-9]+$`)
	uuid    = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	// written is a segment or value that documentation leaves to the reader: {id}, :id, <id>, ${ID}.
	written = regexp.MustCompile(`^(?:\$?\{([A-Za-z_][\w-]*)\}|:([A-Za-z_][\w-]*)|<([A-Za-z_][\w -]*)>)$`)
	botName = regexp.MustCompile(`^bot([0-9]+:[\w-]{20,})$`) // Telegram has its token in the path
	version = regexp.MustCompile(`^(api|v?[0-9]+(\.[0-9]+)*)$`)
	notName = regexp.MustCompile(`[^A-Za-z0-9_]+`)
)

// typed is a value of a query or form in the type that it looks like.
func typed(s string) *yaml.Node {
	n := text(s)
	switch {
	case integer.MatchString(s):
		n.Tag = "!!int"
	case number.MatchString(s):
		n.Tag = "!!float"
	case s == "true" || s == "false":
		n.Tag = "!!bool"
	}
	return n
}

// param adds a parameter, and is its placeholder. A name that is taken gets that of its parent before it, or a number.
func (b *builder) param(name, parent string, sample *yaml.Node) string {
	name = paramName(name)
	taken := func(name string) bool {
		// The first ones are the gateway's own placeholders.
		return slices.Contains([]string{"caller", "run_id", "idempotency_key"}, name) ||
			slices.ContainsFunc(b.params, func(p param) bool { return p.name == name })
	}
	if taken(name) && parent != "" {
		name = paramName(parent + "_" + name)
	}
	for i, first := 2, name; taken(name); i++ {
		name = fmt.Sprintf("%s_%d", first, i)
	}
	p := param{name: name, schema: schemaOf(sample)}
	if !written.MatchString(sample.Value) {
		p.sample = sample.Value
	}
	if sample.Kind != yaml.ScalarNode {
		p.sample = writeJSON(sample)
	}
	b.params = append(b.params, p)
	return "{" + name + "}"
}

func paramName(s string) string {
	s = strings.Trim(notName.ReplaceAllString(s, "_"), "_")
	if s == "" || digits.MatchString(s[:1]) {
		s = "p_" + s
	}
	return s
}

// maxSample is how many characters of a sample are worth their tokens.
const maxSample = 120

// parameters are the tool's, in the short form. A sample is not shown where it would tell the model the host or a secret.
func (b *builder) parameters() *yaml.Node {
	m := mapping(0)
	for _, p := range b.params {
		lower := strings.ToLower(p.sample)
		hidden := p.sample == "" || utf8.RuneCountInString(p.sample) > maxSample || strings.ContainsAny(p.sample, "\n\r") ||
			strings.Contains(p.sample, "${") || strings.Contains(lower, strings.ToLower(b.host)) || secretText(p.sample) ||
			slices.ContainsFunc(b.secrets, func(h hidden) bool { return h.value != "" && strings.Contains(p.sample, h.value) })
		if !hidden {
			p.schema.Content = append(p.schema.Content, text("description"), text("For example "+p.sample))
		}
		m.Content = append(m.Content, text(p.name), p.schema)
	}
	return m
}

// path is the path with placeholders.
func (b *builder) path(path string) string {
	segments := strings.Split(path, "/")
	before := ""
	for i, s := range segments {
		switch m := written.FindStringSubmatch(s); {
		case m != nil:
			segments[i] = b.param(strings.ToLower(m[1]+m[2]+m[3]), "", text(s))
		case botName.MatchString(s):
			segments[i] = "bot" + b.secret("token", s[len("bot"):], "the bot's token in the path")
		case secretText(s) || random(s):
			segments[i] = b.secret("path", s, "a part of the path that looks like a secret; if it is none, make it a parameter")
		case digits.MatchString(s) || uuid.MatchString(s):
			segments[i] = b.param(idOf(before), "", typed(s))
		default:
			segments[i] = b.segment(s)
			b.static = append(b.static, s)
		}
		before = s
	}
	return strings.Join(segments, "/")
}

// segment is one that has names in braces within, such as {id}.json.
func (b *builder) segment(s string) string {
	var out strings.Builder
	start := 0
	for _, m := range inBraces.FindAllStringSubmatchIndex(s, -1) {
		if m[0] > 0 && s[m[0]-1] == '$' {
			continue
		}
		out.WriteString(b.fixed(s[start:m[0]]) + b.param(s[m[2]:m[3]], "", text("")))
		start = m[1]
	}
	return out.String() + b.fixed(s[start:])
}

// idOf names the id that stands behind a segment: user_id behind users.
func idOf(segment string) string {
	segment = strings.Trim(notName.ReplaceAllString(segment, "_"), "_")
	switch {
	case segment == "" || digits.MatchString(segment[:1]) || version.MatchString(segment):
		return "id"
	case strings.HasSuffix(segment, "ies"):
		segment = strings.TrimSuffix(segment, "ies") + "y"
	case !strings.HasSuffix(segment, "ss"):
		segment = strings.TrimSuffix(segment, "s")
	}
	return segment + "_id"
}

// name is a tool's name of the method and the path: get_users.
func (b *builder) name() string {
	parts := []string{strings.ToLower(b.method)}
	for _, s := range b.static {
		if s = strings.ToLower(s); version.MatchString(s) {
			continue
		}
		if s = strings.Trim(notName.ReplaceAllString(s, "_"), "_"); s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 1 {
		parts = append(parts, strings.ToLower(b.prefix))
	}
	name := strings.Join(parts, "_")
	return strings.TrimRight(name[:min(len(name), 64)], "_")
}

const formType = "application/x-www-form-urlencoded"

// body is that of the request, with placeholders; nil for none.
func (b *builder) body() *yaml.Node {
	if !b.hasData {
		b.contentType = "" // of nothing
		return nil
	}
	join := "&"
	if b.json {
		join = ""
	}
	data := strings.TrimSpace(strings.Join(b.data, join))
	media, _, err := mime.ParseMediaType(b.contentType)
	if err != nil {
		media = ""
	}
	tree, err := readJSON(data)
	switch {
	case data == "":
		b.contentType = ""
		return nil
	case err == nil && (tree.Kind != yaml.ScalarNode || b.json || strings.HasSuffix(media, "json")):
		if media == "application/json" || media == formType {
			b.contentType = "" // what a tree is by default
		}
		return b.tree(tree, "", "")
	case media == "" || media == formType:
		b.contentType = formType
		return b.form(data)
	}
	if strings.HasSuffix(media, "json") {
		b.note("the body is no valid JSON: it stands as it is, look at it")
	} else {
		b.note("the body is a text and stands as it is: put {name} where a parameter belongs, and name it under parameters")
	}
	return text(b.fixed(data))
}

var graphQL = regexp.MustCompile(`^\s*(?:\{|(?:query|mutation|subscription|fragment)\b)`)

// tree puts parameters in place of the leaves of a JSON value. A list is one parameter, as a model may want more or fewer
// of its items.
func (b *builder) tree(n *yaml.Node, name, parent string) *yaml.Node {
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			n.Content[i+1] = b.tree(n.Content[i+1], n.Content[i].Value, name)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		n.Style = yaml.FlowStyle
		return n
	case n.Kind == yaml.SequenceNode:
		if name == "" {
			name = "items"
		}
		if secretWithin(n) {
			b.note("the list " + name + " of the body holds a secret: it is a parameter without a sample; write the body by hand if the model must not fill it in")
			n = emptied(n)
		}
		return text(b.param(name, parent, n))
	case n.Tag == "!!null":
		return n
	case n.Tag == "!!str" && (secretName(name, true) || secretText(n.Value)):
		return text(b.secret(name, n.Value, "the body's "+name))
	case name == "query" && parent == "" && graphQL.MatchString(n.Value):
		b.note("the GraphQL query of the body stays as it is: its variables are what a model fills in")
		return text(b.fixed(n.Value))
	}
	if name == "" {
		name = "body"
	}
	return text(b.param(name, parent, n))
}

// secretWithin says whether a value below is a secret.
func secretWithin(n *yaml.Node) bool {
	for i, c := range n.Content {
		named := n.Kind == yaml.MappingNode && i%2 == 1 && c.Tag == "!!str" && secretName(n.Content[i-1].Value, true)
		if named || c.Kind == yaml.ScalarNode && secretText(c.Value) || secretWithin(c) {
			return true
		}
	}
	return false
}

// emptied is a copy without texts, which has the same schema.
func emptied(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = nil
	for i, v := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			c.Content = append(c.Content, v)
			continue
		}
		c.Content = append(c.Content, emptied(v))
	}
	if c.Kind == yaml.ScalarNode && c.Tag == "!!str" {
		c.Value = "${}" // hides the whole sample
	}
	return &c
}

// form puts parameters in place of the values of a form.
func (b *builder) form(data string) *yaml.Node {
	var items []string
	for raw := range strings.SplitSeq(data, "&") {
		name, value, ok := strings.Cut(raw, "=")
		if !ok {
			items = append(items, b.fixed(raw))
			continue
		}
		plain, value := unescape(name), unescape(value)
		if secretName(plain, true) || secretText(value) {
			items = append(items, b.fixed(name)+"="+b.secret(plain, value, "the form's "+plain+", percent-encoded"))
			continue
		}
		items = append(items, b.fixed(name)+"="+b.param(plain, "", typed(value)))
	}
	return text(strings.Join(items, "&"))
}
