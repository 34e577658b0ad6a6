package openapi

import (
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/httptool"
)

// Config is one entry under `openapi`.
type Config struct {
	Spec    string                   `yaml:"spec" doc:"File of the OpenAPI document (3.0 or 3.1, YAML or JSON, up to 8 MiB), relative to this file."`
	BaseURL string                   `yaml:"base_url" doc:"Address that the paths of the document follow, for all operations. By default the first server of the document that has a host."`
	Headers config.Map[string]       `yaml:"headers" doc:"Headers of each request; {caller.x} is a field of the caller. A header parameter of the same name is not shown to the model."`
	Auth    *httptool.Auth           `yaml:"auth" doc:"Credentials; exactly one of bearer, basic, header, query."`
	TLS     *outbound.TLS            `yaml:"tls" doc:"How TLS is spoken, by all operations."`
	Include []string                 `yaml:"include" doc:"Operations that become tools: operationIds, or METHOD and path (GET /pets/{id}, or only the path), with * for any text. All that are not deprecated by default; a deprecated one must be named without *."`
	Exclude []string                 `yaml:"exclude" doc:"Operations that do not, in the form of include."`
	Prefix  *string                  `yaml:"prefix" doc:"Stands before each operationId in the name of its tool. NAME__ by default."`
	Set     config.Map[*config.Node] `yaml:"set" doc:"By operationId or name of the tool: its description, any key that every tool takes, result and fail_when."`
}

// read is the entry, nil after a problem. It looks at a copy first, since a fault would be reported again for each tool.
func read(n *config.Node) *Config {
	if n == nil {
		return nil
	}
	if n.Kind() == config.Null {
		n.FailKey("spec", specMissing)
		return nil
	}
	draft := config.Parse("", n.Dir(), nil, nil)
	draft.Root().Fragment("", n.JSON()).Decode(&Config{})
	c := &Config{}
	n.Decode(c)
	if draft.Problems() != nil {
		return nil
	}
	return c
}

const specMissing = "is required: the file of an OpenAPI document"

// Check reports what can be seen without the document.
func (c *Config) Check(n *config.Node) {
	switch {
	case c.Spec == "":
		n.FailKey("spec", specMissing)
	case strings.Contains(c.Spec, "://"):
		n.Get("spec").Fail("want a file: download the document first")
	}
	c.checkBaseURL(n.Get("base_url"))
	if c.Prefix != nil && !prefixForm.MatchString(*c.Prefix) {
		n.Get("prefix").Fail("want up to 40 of a-z, A-Z, 0-9, _ and -")
	}
	c.checkPatterns(n.Get("include"), c.Include)
	c.checkPatterns(n.Get("exclude"), c.Exclude)
	for name, set := range c.Set.All() {
		checkSet(c.Set.Node(name), set)
	}
	// What holds for all requests is checked as that of one without arguments.
	sample := httptool.Config{URL: c.BaseURL, Headers: c.Headers, Auth: c.Auth}
	if sample.URL == "" {
		sample.URL = "http://service.invalid"
	}
	sample.Check(n, tool.Spec{})
	c.TLS.CheckAddress(n, c.BaseURL)
}

var prefixForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,40}$`)

func (c *Config) checkBaseURL(n *config.Node) {
	if c.BaseURL == "" {
		return
	}
	if (&httptool.Config{URL: c.BaseURL}).Hosts() == nil {
		n.Fail("want an address such as https://api.example.com/v1")
		return
	}
	if strings.ContainsAny(c.BaseURL, "?#") {
		n.Fail("want an address without ? and #: paths are added to it; a query item of each request may be auth.query")
	}
	t, err := placeholder.Parse(c.BaseURL)
	if err != nil {
		n.Fail("%v", err)
		return
	}
	for _, name := range t.Names() {
		n.Fail("{%s} is no argument of every operation: only {caller.FIELD} may stand here", name)
	}
}

func (c *Config) checkPatterns(n *config.Node, patterns []string) {
	for i, p := range patterns {
		if _, err := parsePattern(p); err != nil {
			n.Items()[i].Fail("%v", err)
		}
	}
}

// ownKeys are those of a tool that the document decides.
var ownKeys = []string{"parameters", "http"}

func checkSet(n, set *config.Node) {
	if set.Kind() != config.Mapping {
		n.Fail("want a mapping of what to set, such as {timeout: 5s}")
		return
	}
	for _, key := range ownKeys {
		if set.Get(key) != nil {
			set.FailKey(key, "comes from the document and can't be set")
		}
	}
}
