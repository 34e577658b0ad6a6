package mcptool

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/globs"
	"github.com/toolgate/toolgate/internal/outbound"
)

// ServerConfig is one entry under `mcp_servers`: a program that speaks MCP on its standard streams, or the address of a
// server. A block of the `mcpServers` JSON that other programs use fits as it is.
type ServerConfig struct {
	Command     Command            `yaml:"command"`
	Args        []string           `yaml:"args" doc:"arguments of the program"`
	Env         config.Map[string] `yaml:"env" doc:"environment of the program; beside it only PATH and HOME of the gateway reach it"`
	Cwd         string             `yaml:"cwd" doc:"folder that the program runs in, and that a program such as ./server.sh is looked for in; the file's own by default"`
	URL         string             `yaml:"url" doc:"address of a server that speaks streamable HTTP, or SSE as old ones do"`
	Headers     config.Map[string] `yaml:"headers" doc:"headers of every request; {caller.x} is a field of the caller, who then has a session of their own"`
	TLS         *outbound.TLS      `yaml:"tls" doc:"how TLS is spoken to a server at a url"`
	Type        Wire               `yaml:"type" enum:"stdio,http,streamable-http,streamable_http,streamableHttp,sse" doc:"how the server speaks; needed for none but SSE servers that refuse the question"`
	Transport   Wire               `yaml:"transport" enum:"stdio,http,streamable-http,streamable_http,streamableHttp,sse" doc:"the same as type"`
	Prefix      *string            `yaml:"prefix" doc:"before the name of each tool; NAME__ by default"`
	Tools       Choice             `yaml:"tools" doc:"which of its tools are offered, and how"`
	Forward     []string           `yaml:"forward" doc:"headers of the client that go along to the server; who sends other values has a session of their own"`
	Untrusted   bool               `yaml:"untrusted" doc:"what its tools return may be written by strangers; tools.set says otherwise of one"`
	Required    bool               `yaml:"required" doc:"the gateway is not ready without this server"`
	ListTimeout config.Duration    `yaml:"list_timeout" min:"1ms" doc:"time for the start of a session and for a list of its tools; 30s by default for npx, uvx and others that may have to download the server first"`

	headers []header // made by Check
	dir     string   // that relative paths start from
}

// Choice is which tools of a server are offered, and how.
type Choice struct {
	Include []string                 `yaml:"include" doc:"names or globs of the tools to offer, as the server calls them; all by default"`
	Exclude []string                 `yaml:"exclude" doc:"names or globs of tools that are not offered"`
	Set     config.Map[*config.Node] `yaml:"set" doc:"settings of single tools, by the name that the server calls them"`
}

// Wire is how a server is spoken to, in one of the words that others use for it.
type Wire string

// SetDefaults sets what the file need not say.
func (c *ServerConfig) SetDefaults() { c.ListTimeout = config.Duration(10 * time.Second) }

// Strangers says whether what some of its tools return may be written by strangers.
func (c *ServerConfig) Strangers() bool {
	if c.Untrusted {
		return true
	}
	for _, set := range c.Tools.Set.All() {
		if n := set.Get("untrusted"); n.Kind() == config.Bool && strings.EqualFold(n.Text(), "true") {
			return true
		}
	}
	return false
}

// downloads are programs that fetch the server when they are started for the first time.
var downloads = map[string]bool{
	"npx": true, "npm": true, "pnpm": true, "yarn": true, "bunx": true, "deno": true, "uvx": true, "uv": true, "pipx": true, "docker": true, "podman": true,
}

const downloadTimeout = 30 * time.Second

// Command is a program, or a program and its arguments.
type Command []string

// DecodeNode reads a text or a list of texts.
func (c *Command) DecodeNode(n *config.Node) {
	if n.Kind() != config.List {
		if n.Text() == "" {
			n.Fail("want a program, or a list of a program and its arguments")
			return
		}
		*c = Command{n.Text()}
		return
	}
	var list []string
	n.Decode(&list)
	if len(list) == 0 || list[0] == "" {
		n.Fail("want a program, and its arguments after it")
	}
	*c = list
}

// ConfigSchema is the JSON Schema of both forms.
func (Command) ConfigSchema() any {
	text := map[string]any{"type": "string", "minLength": 1}
	return map[string]any{
		"description": "A program, or a list of a program and its arguments.",
		"anyOf":       []any{text, map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "minItems": 1}},
	}
}

// The ways to speak to a server.
const (
	wireStdio      = "stdio"
	wireStreamable = "http"
	wireSSE        = "sse"
)

// wire is the way that the file names, "" where it names none.
func (c *ServerConfig) wire() string {
	w := c.Type
	if w == "" {
		w = c.Transport
	}
	switch w {
	case wireStdio, wireSSE:
		return string(w)
	case "http", "streamable-http", "streamable_http", "streamableHttp":
		return wireStreamable
	}
	return ""
}

// personal says whether sessions belong to identities.
func (c *ServerConfig) personal() bool { return len(c.Forward) > 0 || len(c.CallerFields()) > 0 }

// CallerFields are the fields of the caller that the headers are made of, in order. They are known after Check.
func (c *ServerConfig) CallerFields() []string {
	var fields []string
	for _, h := range c.headers {
		fields = append(fields, h.value.CallerFields()...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// Check reports what can't work.
func (c *ServerConfig) Check(n *config.Node) {
	c.dir = n.Dir()
	if len(c.Command) > 0 && n.Get("list_timeout") == nil && downloads[filepath.Base(c.Command[0])] {
		c.ListTimeout = config.Duration(downloadTimeout)
	}
	switch remote := c.URL != ""; {
	case remote && len(c.Command) > 0:
		n.Fail("want exactly one of command, url")
	case remote:
		c.checkRemote(n)
	case n.Get("url") != nil && n.Get("url").Kind() != config.Null:
		n.Get("url").Fail("is empty")
	case len(c.Command) == 0:
		n.Fail("want exactly one of command, url")
	default:
		c.checkLocal(n)
	}
	if c.Type != "" && c.Transport != "" {
		n.FailKey("transport", "says the same as type: want one of the two")
	}
	if c.Prefix != nil && !prefixText.MatchString(*c.Prefix) {
		n.Get("prefix").Fail("want at most 40 of a-z, A-Z, 0-9, _ and -")
	}
	tools := n.Get("tools")
	checkPatterns(tools.Get("include"), c.Tools.Include)
	checkPatterns(tools.Get("exclude"), c.Tools.Exclude)
	for name, set := range c.Tools.Set.All() {
		if set.Kind() != config.Mapping {
			c.Tools.Set.Node(name).Fail("want a mapping of settings, such as {timeout: 30s}")
		}
	}
}

var prefixText = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,40}$`)

func checkPatterns(n *config.Node, patterns []string) {
	for i, p := range patterns {
		if _, err := globs.Parse([]string{p}); err != nil {
			n.Items()[i].Fail("%v", err)
		}
	}
}

// checkLocal checks a server that is a program.
func (c *ServerConfig) checkLocal(n *config.Node) {
	for _, key := range []string{"headers", "forward"} {
		if n.Get(key) != nil {
			n.FailKey(key, "a program has no headers: this is for a server with a url")
		}
	}
	if n.Get("tls") != nil {
		n.FailKey("tls", "this is for a server with a url")
	}
	if w := c.wire(); w != "" && w != wireStdio {
		n.Fail("a command is spoken to by stdio: want a url, or another type")
	}
	if n.Get("command").Kind() != config.List && len(c.Args) == 0 && strings.Contains(c.Command[0], " ") {
		n.Get("command").Warn("is taken as the name of one program, blanks and all: write arguments under args")
	}
	for name := range c.Env.All() {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			n.Get("env").FailKey(name, "%q is no name of an environment variable", name)
		}
	}
	n.Get("command").FailSecrets(openArguments)
	n.Get("args").FailSecrets(openArguments)
	for _, text := range append(slices.Clone([]string(c.Command)), c.Args...) {
		if strings.ContainsRune(text, 0) {
			n.FailKey("args", "an argument can't hold a NUL character")
		}
	}
}

const openArguments = "everybody on the machine can read the arguments of a program (ps); set it under env, where the program reads it"

// checkRemote checks a server at an address.
func (c *ServerConfig) checkRemote(n *config.Node) {
	for _, key := range []string{"args", "env", "cwd"} {
		if n.Get(key) != nil {
			n.FailKey(key, "this is for a server that is a command")
		}
	}
	if c.wire() == wireStdio {
		n.Fail("a url is not spoken to by stdio: want a command, or another type")
	}
	// What url.Parse says is left out: it repeats the address, which may hold a password.
	switch u, err := url.Parse(c.URL); {
	case strings.ContainsAny(c.URL, "{}"):
		n.Get("url").Fail("no placeholder can stand in the url: headers may have {caller.x}")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		n.Get("url").Fail("want an address that begins with http:// or https://")
	case u.Fragment != "":
		n.Get("url").Fail("a part after # is never sent to a server: write %%23 for the character")
	}
	c.TLS.CheckAddress(n, c.URL)
	c.headers = readHeaders(n.Get("headers"), c.Headers)
	checkForward(n.Get("forward"), c.Forward, c.headers)
}

// offers says whether the file chooses the tool that the server calls id.
func (c *Choice) offers(id string) bool {
	// A pattern that can't be read is reported by Check, and chooses nothing.
	include, err := globs.Parse(c.Include)
	if err != nil {
		return false
	}
	if len(c.Include) == 0 {
		include = globs.List{}
	}
	exclude, err := globs.Parse(append([]string{}, c.Exclude...))
	return err == nil && include.Has(id) && !exclude.Has(id)
}
