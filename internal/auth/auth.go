// Package auth tells who calls: it turns a bearer token into a Caller, or refuses it, and says whose word on the caller's
// address and fields is taken. It knows no HTTP towards clients.
package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/globs"
	"github.com/toolgate/toolgate/internal/limit"
)

// Caller is who makes a request and what it may use. Immutable; the same pointer for every request of a key, unless
// headers of a trusted proxy say more of who it is, or it comes with a token.
type Caller struct {
	// Name is the key's, for metrics: a few of them, from the file. "" where no key is asked for.
	Name string
	// ID tells one caller from every other: what is kept or counted for one is never another's. It is the key's name. The
	// callers behind one key that a trusted proxy tells apart have the same; their Fields differ.
	ID string
	// Subject is whose token it is; "" for a key.
	Subject string

	Fields map[string]any // what tools may bind; values are strings, booleans or json.Number
	Models globs.List
	Tools  globs.List
	Budget budget.Config // only ever narrows
	Limits limit.Config

	Approves bool // it may decide on calls that wait for an approval
	SeesAll  bool // it may see the runs of others

	Passing bool // made for one request: nothing may be kept under its pointer
}

// Config is the section `auth`.
type Config struct {
	Open           bool               `yaml:"open" doc:"No key is asked for."`
	Keys           []KeyConfig        `yaml:"keys" doc:"The keys that clients may use."`
	KeysFile       string             `yaml:"keys_file" doc:"A file with a list of further keys, each as in auth.keys; relative to this file. A change of it is a change of the configuration."`
	JWT            *JWTConfig         `yaml:"jwt" doc:"Tokens of an identity provider."`
	TrustedHeaders config.Map[string] `yaml:"trusted_headers" doc:"Fields of the caller by headers that tell them, such as id: X-User-Id. They are believed of server.trusted_proxies alone, which must replace the client's own. A field that the key sets stays as the key has it; a key is asked for all the same."`
}

// KeyConfig is one entry of `auth.keys`.
type KeyConfig struct {
	Name   string        `yaml:"name" doc:"Shown in logs, metrics and traces."`
	SHA256 string        `yaml:"sha256" doc:"SHA-256 of the key in hex, as gateway key new prints it."`
	Models *[]string     `yaml:"models" doc:"Models that the key may use: names, globs, -name takes away. Without it all."`
	Tools  *[]string     `yaml:"tools" doc:"Tools that the key may use: names, globs, -name takes away. Without it all."`
	Caller *config.Node  `yaml:"caller" doc:"Fields that tools may bind as caller.NAME."`
	Limits limit.Config  `yaml:"limits" doc:"What the key may have: requests and tokens a minute, cost a day, requests at once."`
	Budget budget.Config `yaml:"budget" doc:"Narrows the model's budget."`

	Approve *bool  `yaml:"approve" doc:"Whether the key may decide on calls that wait for an approval, of other keys too. Default true."`
	Runs    string `yaml:"runs" enum:"own,all" doc:"Whose runs the key may see: its own, or those of all callers, with the arguments and results that trace.content keeps. Default own."`
}

// Check reports what can't work.
func (c *KeyConfig) Check(n *config.Node) {
	if c.Name == "" && !n.Misspelt("name") {
		n.Fail("name is missing: want a short name for logs and metrics")
	}
	if b, err := hex.DecodeString(c.SHA256); err != nil || len(b) != sha256.Size {
		n.FailKey("sha256", "want the SHA-256 of the key as 64 hex digits; gateway key new prints one")
	}
	checkGlobs(n.Get("models"), c.Models)
	checkGlobs(n.Get("tools"), c.Tools)
	for _, field := range c.Caller.Keys() {
		switch v := c.Caller.Get(field); v.Kind() {
		case config.String, config.Number, config.Bool:
		default:
			v.Fail("want a text, a number, true or false")
		}
	}
	if c.Caller != nil && c.Caller.Kind() != config.Mapping {
		c.Caller.Fail("want a mapping of field names to values")
	}
}

func checkGlobs(n *config.Node, patterns *[]string) {
	if patterns == nil {
		return
	}
	if _, err := globs.Parse(*patterns); err != nil {
		n.Fail("%s", err)
	}
}

// Configured says whether the section names anybody who may call, though it may be nobody at the time: a keys file
// that has been emptied lets nobody in, not everybody.
func (c *Config) Configured() bool { return len(c.Keys) > 0 || c.KeysFile != "" || c.JWT != nil }

// Check reports keys that can't be told apart, and what would not hold. It adds the keys of KeysFile to Keys.
func (c *Config) Check(n *config.Node) {
	nodes := n.Get("keys").Items()
	if c.KeysFile != "" {
		file := n.Get("keys_file").Include()
		more := []KeyConfig{}
		if file == nil || file.Kind() == config.List {
			file.Decode(&more)
		} else {
			file.Fail("want a list of keys, as under auth.keys; for none write []")
		}
		c.Keys, nodes = append(c.Keys, more...), append(slices.Clip(nodes), file.Items()...)
		if len(c.Keys) == 0 && c.JWT == nil && !c.Open {
			n.Get("keys_file").Warn("there is no key in it: nobody can call")
		}
	}
	names, sums := map[string]bool{}, map[string]bool{}
	for i, k := range c.Keys {
		at, sum := nodes[i], strings.ToLower(k.SHA256)
		if names[k.Name] && k.Name != "" {
			at.FailKey("name", "another key has the name %q", k.Name)
		}
		if sums[sum] && sum != "" {
			at.FailKey("sha256", "another key has the same sha256")
		}
		names[k.Name], sums[sum] = true, true
		if c.JWT != nil {
			checkNames(k.Name, at)
		}
		if c.Open && k.Limits != (limit.Config{}) {
			at.Get("limits").Warn("auth.open is true: who leaves the key away has no limits")
		}
	}
	if c.Open && c.JWT != nil && c.JWT.Limits != (limit.Config{}) {
		n.Get("jwt").Get("limits").Warn("auth.open is true: who leaves the token away has no limits")
	}
	checkHeaders(n.Get("trusted_headers"), c.TrustedHeaders)
}

func parse(patterns *[]string) globs.List {
	if patterns == nil {
		return globs.List{}
	}
	l, err := globs.Parse(*patterns)
	if err != nil { // Check has refused it
		return globs.List{}
	}
	return l
}

// fields are the caller's fields, with the numbers as they are written.
func fields(n *config.Node) map[string]any {
	out := map[string]any{}
	if n == nil {
		return out
	}
	d := json.NewDecoder(bytes.NewReader(n.JSON()))
	d.UseNumber()
	if err := d.Decode(&out); err != nil { // Check has refused anything but a mapping
		return map[string]any{}
	}
	return out
}
