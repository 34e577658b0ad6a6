package upstream

import (
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
	"github.com/toolgate/toolgate/internal/retry"
)

// Config is one entry under `upstreams`.
type Config struct {
	Profile          string                    `yaml:"profile" enum:"openai,azure,gemini,mistral,deepseek,groq,openrouter,ollama,vllm,llamacpp,lmstudio" doc:"The provider behind it: gives base_url, kind and the switches below where the file does not. Without it requests go out as they are."`
	BaseURL          string                    `yaml:"base_url" doc:"Address of the provider's API, up to and with its version, such as https://api.openai.com/v1."`
	APIKey           config.Secret             `yaml:"api_key" doc:"The operator's key, sent as bearer token."`
	ForwardClientKey bool                      `yaml:"forward_client_key" doc:"Send the client's own bearer token where there is no api_key."`
	Kind             string                    `yaml:"kind" enum:"openai,azure" doc:"How the provider wants to be addressed: azure has api-key, api-version and deployments in the path."`
	APIVersion       string                    `yaml:"api_version" doc:"With kind azure: the api-version; without it 2024-10-21, and none where base_url ends in /openai/v1."`
	Headers          config.Map[config.Secret] `yaml:"headers" doc:"Headers added to each request."`
	TLS              *outbound.TLS             `yaml:"tls" doc:"How TLS is spoken: authorities, the gateway's own certificate, the server's name."`
	ConnectTimeout   config.Duration           `yaml:"connect_timeout" min:"1ms" doc:"For the connection, TLS included."`
	FirstByteTimeout config.Duration           `yaml:"first_byte_timeout" min:"1ms" doc:"From the request until the reply's header."`
	IdleTimeout      config.Duration           `yaml:"idle_timeout" min:"1ms" doc:"Between two pieces of a reply's body."`
	Retry            RetryConfig               `yaml:"retry" doc:"Further attempts after connect errors, 408, 429, 500, 502, 503 and 504, before any byte reached the client."`
	Breaker          breaker.Config            `yaml:"breaker" doc:"Failures in a row that open the breaker, and for how long."`
	MaxConns         int                       `yaml:"max_conns" min:"0" doc:"Connections at once; 0 is no limit."`
	Switches         `yaml:",inline"`
}

// RetryConfig is the mapping under `retry` of an upstream.
type RetryConfig struct {
	Attempts int             `yaml:"attempts" min:"1" doc:"Attempts in all."`
	Base     config.Duration `yaml:"base" min:"1ms" doc:"First wait; it doubles each time, with jitter."`
	Max      config.Duration `yaml:"max" min:"1ms" doc:"Longest wait, except where the provider's Retry-After says more."`
	Budget   float64         `yaml:"budget" min:"0" doc:"Further attempts as a share of the requests, over all models of the upstream; a few are always left."`
}

// SetDefaults sets what the file need not say.
func (c *RetryConfig) SetDefaults() {
	*c = RetryConfig{Attempts: 3, Base: config.Duration(250 * time.Millisecond), Max: config.Duration(8 * time.Second), Budget: 0.2}
}

// maxBudget is more than any share that means something: a larger one is a percentage by mistake.
const maxBudget = 10

// Check reports what can't work.
func (c *RetryConfig) Check(n *config.Node) {
	if c.Budget > maxBudget {
		n.Get("budget").Fail("want a share of the requests, such as 0.2 for a fifth, got %s", n.Get("budget").Text())
	}
}

func (c *RetryConfig) policy() retry.Policy {
	return retry.Policy{Attempts: c.Attempts, Base: time.Duration(c.Base), Max: time.Duration(c.Max)}
}

// The kinds of addresses.
const (
	kindOpenAI = "openai"
	kindAzure  = "azure"
)

// SetDefaults sets what the file need not say.
func (c *Config) SetDefaults() {
	c.Kind = kindOpenAI
	c.ConnectTimeout = config.Duration(5 * time.Second)
	c.FirstByteTimeout = config.Duration(120 * time.Second)
	c.IdleTimeout = config.Duration(60 * time.Second)
	c.Switches.SetDefaults()
	c.Retry.SetDefaults()
	c.Breaker.SetDefaults()
}

// inherit takes what the file does not say from the profile.
func (c *Config) inherit(n *config.Node) {
	p, ok := profiles[c.Profile]
	if !ok {
		return
	}
	if n.Get("base_url").Kind() == config.Null {
		c.BaseURL = p.base
	}
	if n.Get("kind").Kind() == config.Null {
		c.Kind = p.kind
	}
	c.Switches.inherit(n, p.switches())
}

// Check reports what can't work.
func (c *Config) Check(n *config.Node) {
	c.inherit(n)
	c.check(n)
	if c.BaseURL == "" {
		c.failBase(n)
		return
	}
	at := n.Get("base_url")
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		at.Fail("want an http or https address, such as https://api.openai.com/v1")
	case u.RawQuery != "" || u.Fragment != "":
		at.Fail("want an address without a query")
	case u.User != nil:
		at.Fail("want no user and password in the address: use api_key or headers")
	}
	c.TLS.CheckAddress(n, c.BaseURL)
	if c.APIVersion != "" && c.Kind != kindAzure {
		n.FailKey("api_version", "belongs to kind: azure")
	}
	if c.APIKey.Reveal() != "" && c.ForwardClientKey {
		n.FailKey("forward_client_key", "has no effect beside api_key: take one of them away")
	}
	for name := range c.Headers.All() {
		if strings.ContainsAny(name, " \r\n:") || name == "" {
			c.Headers.Node(name).Fail("%q is no header name", name)
		}
	}
}

// failBase reports that there is no address, unless it would have come from a profile that has a fault.
func (c *Config) failBase(n *config.Node) {
	_, known := profiles[c.Profile]
	switch {
	case c.Kind == kindAzure:
		n.Fail("base_url is missing: want the address of your resource, such as https://NAME.openai.azure.com")
	case c.Profile == "" || known:
		n.Fail("base_url is missing: want the provider's address, such as https://api.openai.com/v1, or a profile that has one")
	}
}
