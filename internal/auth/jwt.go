package auth

import (
	"strings"
	"time"
	"unicode"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/jwks"
	"github.com/toolgate/toolgate/internal/limit"
)

// JWTConfig is the section `auth.jwt`.
type JWTConfig struct {
	Issuer   string          `yaml:"issuer" doc:"What the claim iss must be."`
	Audience Audience        `yaml:"audience" doc:"What must be among the claim aud: a text, or a list of which one must be."`
	JWKSURL  string          `yaml:"jwks_url" doc:"Address of the issuer's key set."`
	JWKSFile string          `yaml:"jwks_file" doc:"The key set in a file, in place of jwks_url; relative to this file. A change of it is a change of the configuration."`
	Refresh  config.Duration `yaml:"refresh" min:"10s" doc:"How often the key set is read again. A key that it no longer has is refused from then on."`
	Leeway   config.Duration `yaml:"leeway" min:"0s" doc:"How much the issuer's clock may differ, at most 5m."`

	Subject string             `yaml:"subject" doc:"The claim that tells one caller from another; in a claim's claims with dots."`
	Caller  config.Map[string] `yaml:"caller" doc:"Fields of the caller by the claims that tell them, such as level: realm_access.level. A claim that is no text, number, true or false is none."`

	Models  *[]string     `yaml:"models" doc:"Models that callers with a token may use: names, globs, -name takes away. Without it all."`
	Tools   *[]string     `yaml:"tools" doc:"Tools that callers with a token may use: names, globs, -name takes away. Without it all."`
	Limits  limit.Config  `yaml:"limits" doc:"What each caller may have."`
	Budget  budget.Config `yaml:"budget" doc:"Narrows the model's budget."`
	Approve bool          `yaml:"approve" doc:"Whether callers with a token may decide on calls that wait for an approval, of others too."`

	fixed *jwks.Keys // of JWKSFile
}

// maxLeeway is how much clocks may differ. More would only lengthen the life of tokens.
const maxLeeway = 5 * time.Minute

// SetDefaults sets what the file need not say.
func (c *JWTConfig) SetDefaults() {
	*c = JWTConfig{Refresh: config.Duration(5 * time.Minute), Leeway: config.Duration(30 * time.Second), Subject: "sub"}
}

// Check reports what can't work, and what would let in tokens that are for others.
func (c *JWTConfig) Check(n *config.Node) {
	switch {
	case c.Issuer == "":
		n.FailKey("issuer", "want the issuer of the tokens as their claim iss has it, such as https://login.example.com/realms/shop: a token of another one is not for here")
	case strings.ContainsFunc(c.Issuer, blank):
		n.Get("issuer").Fail("want the issuer as the claim iss has it, without blanks")
	}
	if len(c.Audience) == 0 {
		n.FailKey("audience", "want what the claim aud of tokens for this gateway has, such as toolgate: without it the tokens for any other service of the issuer would be taken")
	}
	switch {
	case c.JWKSURL != "" && c.JWKSFile != "":
		n.FailKey("jwks_file", "want one of jwks_url and jwks_file")
	case c.JWKSURL == "" && c.JWKSFile == "":
		n.FailKey("jwks_url", "want the address of the issuer's key set, its jwks_uri, such as https://login.example.com/realms/shop/protocol/openid-connect/certs; or else jwks_file")
	case c.JWKSURL != "":
		if fault := jwks.CheckURL(c.JWKSURL); fault != "" {
			n.Get("jwks_url").Fail("%s", fault)
		}
	default:
		c.readFile(n.Get("jwks_file"))
	}
	if time.Duration(c.Leeway) > maxLeeway {
		n.Get("leeway").Fail("want at most %s: it lengthens the life of every token", maxLeeway)
	}
	if c.Subject == "" {
		n.Get("subject").Fail("want the name of a claim, such as sub")
	}
	for field, claim := range c.Caller.All() {
		switch {
		case !fieldName.MatchString(field):
			n.Get("caller").FailKey(field, "%q is no name of a field: want letters, digits, _ and -, such as id", field)
		case claim == "":
			c.Caller.Node(field).Fail("want the name of a claim, such as sub or realm_access.level")
		}
	}
	checkGlobs(n.Get("models"), c.Models)
	checkGlobs(n.Get("tools"), c.Tools)
}

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func (c *JWTConfig) readFile(n *config.Node) {
	file := n.Include()
	if file == nil {
		return
	}
	keys, skipped, err := jwks.Parse(file.JSON())
	if err != nil {
		n.Fail("%s", err)
		return
	}
	for _, why := range skipped {
		n.Warn("%s", why)
	}
	if keys.Len() == 0 {
		n.Warn("there is no key in it that can be used: every token is refused")
	}
	c.fixed = keys
}

// Audience is a text or a list of texts.
type Audience []string

// DecodeNode reads either.
func (a *Audience) DecodeNode(n *config.Node) {
	items := []*config.Node{n}
	if n.Kind() == config.List {
		items = n.Items()
	}
	for _, item := range items {
		var text string
		item.Decode(&text)
		switch {
		case text != "":
			*a = append(*a, text)
		case item != n: // an empty text is no audience, of which Check says more
			item.Fail("want a text")
		}
	}
}

// ConfigSchema is the JSON Schema of an Audience.
func (Audience) ConfigSchema() any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string", "minLength": 1},
		map[string]any{"type": "array", "items": map[string]any{"type": "string", "minLength": 1}, "minItems": 1},
	}}
}

// caller is what all callers with a token have in common.
func (c *JWTConfig) caller() Caller {
	return Caller{Name: TokenName, Models: parse(c.Models), Tools: parse(c.Tools), Limits: c.Limits, Budget: c.Budget, Approves: c.Approve, Passing: true}
}
