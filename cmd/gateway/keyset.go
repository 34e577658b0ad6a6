package main

import (
	"time"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/jwks"
)

// keySet is the key set of the identity provider. It is kept fresh as long as a generation has it: across reloads, while
// its address and refresh stay as they are.
type keySet struct {
	*jwks.Set
	url     string // "" for one of a file
	refresh time.Duration
}

// newKeySet makes the key set of a checked section, nil for none, or takes over that of old, nil for none. Nothing is
// read.
func newKeySet(c *auth.JWTConfig, old *generation, o jwks.Options) *keySet {
	if c == nil {
		return nil
	}
	s := &keySet{url: c.JWKSURL, refresh: time.Duration(c.Refresh)}
	if old != nil && old.keySet != nil && s.url != "" && old.keySet.url == s.url && old.keySet.refresh == s.refresh {
		return old.keySet
	}
	s.Set = auth.NewSet(c, o)
	return s
}

// tokens knows the callers with tokens, nil without auth.jwt.
func (n *generation) tokens() *auth.Tokens {
	if n.keySet == nil {
		return nil
	}
	return auth.NewTokens(n.config.Auth.JWT, n.keySet.Set, time.Now)
}
