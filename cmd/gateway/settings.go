package main

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/proxy"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/mcptool"
	"github.com/toolgate/toolgate/internal/tool/openapi"
	"github.com/toolgate/toolgate/internal/tool/sqltool"
	"github.com/toolgate/toolgate/internal/upstream"
)

// settings is gateway.yaml as a whole.
type settings struct {
	Server      proxy.Config                       `yaml:"server" doc:"The HTTP server."`
	Upstreams   config.Map[upstream.Config]        `yaml:"upstreams" doc:"Providers of models, by name."`
	Models      config.Map[models.Config]          `yaml:"models" doc:"Names that clients send as model. Without it any name goes unchanged to the only upstream, with all tools."`
	Budget      budget.Config                      `yaml:"budget" doc:"What a run may spend."`
	Streaming   proxy.StreamingConfig              `yaml:"streaming" doc:"How streams are made."`
	Databases   config.Map[sqltool.DatabaseConfig] `yaml:"databases" doc:"Databases for sql tools, by name."`
	MCPServers  config.Map[mcptool.ServerConfig]   `yaml:"mcp_servers" doc:"MCP servers whose tools are attached, by name."`
	OpenAPI     config.Map[openapi.Config]         `yaml:"openapi" doc:"OpenAPI documents whose operations become tools, by name."`
	Tools       *config.Node                       `yaml:"tools" doc:"Tools, by name."`
	Schemas     *config.Node                       `yaml:"schemas" doc:"JSON Schemas that parameters may refer to as #/schemas/NAME."`
	ErrorFormat string                             `yaml:"error_format" enum:"json,text" doc:"How a failed call reads to the model."`
	Memory      string                             `yaml:"memory" enum:"held,off" doc:"Whether tool turns that the client never saw are put back in its next request."`
	Guard       string                             `yaml:"guard" enum:"off,mark" doc:"mark: results of tools stand between marks that no result can feign, and the model is told that they are data and no instructions."`
	Auth        auth.Config                        `yaml:"auth" doc:"Who may call."`
	State       stateConfig                        `yaml:"state" doc:"Where what outlives a request is kept."`
	Trace       traceConfig                        `yaml:"trace" doc:"Records of runs."`
	Log         logConfig                          `yaml:"log" doc:"The log, on stderr."`
}

type logConfig struct {
	Level  string `yaml:"level" enum:"debug,info,warn,error" doc:"Least level that is logged."`
	Format string `yaml:"format" enum:"json,text" doc:"json or text."`
}

// SetDefaults sets what the file need not say.
func (s *settings) SetDefaults() {
	s.Server.SetDefaults()
	s.Streaming.SetDefaults()
	s.ErrorFormat = "json"
	s.Memory = "held"
	s.State.setDefaults()
	s.Guard = "off"
	s.Trace.setDefaults()
	s.Log = logConfig{Level: "info", Format: "json"}
}

// checked is a configuration in which no fault was found.
type checked struct {
	settings
	tools     *registry.Definitions
	databases *sqltool.Databases
	limits    budget.Limits
	secrets   []string
	print     string // of all that tools are made from: two configurations with the same one have the same tools
	warnings  config.Problems
}

// close ends what the configuration's tools have opened.
func (c *checked) close() error { return c.databases.Close() }

// defaultFile is read where neither -c nor GATEWAY_CONFIG names one.
const defaultFile = "gateway.yaml"

// loadSettings reads and checks the configuration that path, GATEWAY_CONFIG or the working directory has. Without a
// file, OPENAI_BASE_URL and OPENAI_API_KEY make one. Its errors are usageErrors.
func loadSettings(path string) (*checked, error) {
	s, err := sourceOf(path)
	if err != nil {
		return nil, err
	}
	return check(s.read())
}

// source is where a configuration is read from: a file, or the environment where it is empty.
type source string

func sourceOf(path string) (source, error) {
	if path == "" {
		path = os.Getenv("GATEWAY_CONFIG")
	}
	if path == "" {
		if _, err := os.Stat(defaultFile); err == nil {
			path = defaultFile
		}
	}
	if path == "" && os.Getenv("OPENAI_BASE_URL") == "" && os.Getenv("OPENAI_API_KEY") == "" {
		return "", usageError{errors.New("no configuration: name a file with -c or GATEWAY_CONFIG, or set OPENAI_BASE_URL and OPENAI_API_KEY for a plain proxy (gateway demo shows one at work)")}
	}
	return source(path), nil
}

func (s source) read() *config.File {
	if s == "" {
		return config.Parse("(environment)", ".", []byte(environmentFile), os.LookupEnv)
	}
	return config.Load(string(s), os.LookupEnv)
}

const environmentFile = `upstreams: {openai: {base_url: "${OPENAI_BASE_URL:-https://api.openai.com/v1}", api_key: "${OPENAI_API_KEY:-}"}}`

// check decodes a file and looks at what holds between its parts.
func check(f *config.File) (*checked, error) {
	c := &checked{limits: budget.Default()}
	f.Decode(&c.settings)
	root := f.Root()
	c.limits = c.Budget.Over(c.limits)
	c.databases = sqltool.NewDatabases(c.Databases)
	c.tools = registry.Read(c.Tools, kinds(c.databases), schema.Named(c.Schemas))
	for name, o := range c.OpenAPI.All() {
		c.tools.Add(openapi.Tools(name, c.OpenAPI.Node(name)), []tool.Kind{openapi.KindWith(o.TLS)}, nil)
	}
	strangers := false // among the tools that are found later
	for _, s := range c.MCPServers.All() {
		strangers = strangers || s.Strangers()
		for name := range s.Tools.Set.All() {
			registry.CheckOverrides(s.Tools.Set.Node(name))
		}
	}
	c.checkModels(root)
	c.checkListen(root)
	c.checkTrust(root)
	c.secrets = f.Secrets()
	c.tools.CheckSecrets(c.secrets)
	if len(f.Problems()) == 0 {
		c.tools.CheckTime(c.limits.Time)
		c.tools.Advise(root, strangers)
		c.adviseLists(root)
	}
	if c.Budget.AnswerReserve != nil && c.limits.Time > 0 && c.limits.Reserve >= c.limits.Time {
		root.Get("budget").FailKey("answer_reserve", "want less than max_seconds (%s), of which it is a part", c.limits.Time)
	}
	c.print = f.Fingerprint("server", "auth", "state", "trace", "log")
	c.warnings = f.Warnings()
	if p := f.Problems(); len(p) > 0 {
		return nil, usageError{p}
	}
	return c, nil
}

func (c *checked) checkModels(root *config.Node) {
	if c.Upstreams.Len() == 0 {
		if root.Misspelt("upstreams") {
			return
		}
		root.Fail("upstreams is missing: want at least one, such as upstreams: {openai: {base_url: https://api.openai.com/v1, api_key: \"${OPENAI_API_KEY}\"}}")
		return
	}
	known := func(name string) (string, bool) {
		if _, ok := c.Upstreams.Get(name); ok {
			return "", true
		}
		if near := suggest.Nearest(name, c.Upstreams.Keys(), 1); len(near) > 0 {
			return fmt.Sprintf(": did you mean %q?", near[0]), false
		}
		return "", false
	}
	for name, m := range c.Models.All() {
		m.CheckUpstreams(c.Models.Node(name), known)
	}
	if c.Models.Len() == 0 && c.Upstreams.Len() > 1 {
		root.FailKey("upstreams", "with more than one upstream want models, which say where a name goes")
	}
}

// unguarded says whether strangers would be served at an address without having meant it.
func (c *checked) unguarded(listen string) bool {
	return !proxy.Loopback(listen) && !c.Auth.Configured() && !c.Auth.Open
}

// checkListen refuses to serve strangers by accident.
func (c *checked) checkListen(root *config.Node) {
	_, _, malformed := net.SplitHostPort(c.Server.Listen) // reported
	if malformed == nil && !meansAuth(root) && c.unguarded(c.Server.Listen) {
		root.Get("server").FailKey("listen", "%s is reached from other machines and no auth is configured: add auth.keys (gateway key new prints one) or auth.keys_file, or set auth.open: true", c.Server.Listen)
	}
	if c.Server.AdminListen != "" && c.Server.AdminListen == c.Server.Listen {
		root.Get("server").FailKey("admin_listen", "want another address than listen, or none")
	}
}

// meansAuth says whether auth is there but written in a way that nobody can be let in by, which has been reported as such.
func meansAuth(root *config.Node) bool {
	auth := root.Get("auth")
	keys, jwt := auth.Get("keys").Kind(), auth.Get("jwt").Kind()
	return keys != config.Null && keys != config.List || jwt != config.Null && jwt != config.Mapping ||
		root.Misspelt("auth") || auth.Misspelt("keys", "keys_file", "jwt", "open")
}

// checkTrust refuses headers that nobody could send.
func (c *checked) checkTrust(root *config.Node) {
	if c.Auth.TrustedHeaders.Len() > 0 && len(c.Server.TrustedProxies) == 0 {
		root.Get("auth").FailKey("trusted_headers", "no header is believed without server.trusted_proxies: name the networks of the proxies that set these")
	}
}
