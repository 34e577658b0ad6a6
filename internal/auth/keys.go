package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
)

// Keys knows the keys of a configuration. Immutable.
type Keys struct {
	open   bool
	anyone *Caller
	names  []string                      // in the file's order
	bySum  map[[sha256.Size]byte]*Caller // by the SHA-256 of the key
	byName map[string]*Caller
	tokens *Tokens // nil: there are none
}

// runsAll is what KeyConfig.Runs says where a key sees the runs of others.
const runsAll = "all"

// ErrUnknown is a token that is no known key.
var ErrUnknown = errors.New("no such key")

// NewKeys makes the keys of a checked configuration. Where it configures nobody, nobody is asked for a key. tokens, nil
// for none, knows the callers that have no key.
func NewKeys(c *Config, tokens *Tokens) *Keys {
	k := &Keys{
		tokens: tokens,
		open:   c.Open || !c.Configured(), anyone: &Caller{Approves: true, SeesAll: !c.Configured()},
		bySum: make(map[[sha256.Size]byte]*Caller, len(c.Keys)), byName: make(map[string]*Caller, len(c.Keys)),
	}
	for _, kc := range c.Keys {
		caller := &Caller{
			Name: kc.Name, ID: kc.Name, Fields: fields(kc.Caller), Models: parse(kc.Models), Tools: parse(kc.Tools),
			Budget: kc.Budget, Limits: kc.Limits, Approves: kc.Approve == nil || *kc.Approve, SeesAll: kc.Runs == runsAll,
		}
		k.names = append(k.names, kc.Name)
		k.byName[kc.Name] = caller
		if sum, err := hex.DecodeString(kc.SHA256); err == nil && len(sum) == sha256.Size { // Check has refused any other
			k.bySum[[sha256.Size]byte(sum)] = caller
		}
	}
	return k
}

// Open says whether requests without a key are served.
func (k *Keys) Open() bool { return k.open }

// Names are the names that callers may have, for metrics.
func (k *Keys) Names() []string {
	if k.tokens == nil {
		return k.names
	}
	return append(slices.Clip(k.names), TokenName)
}

// Named is the caller of the key with that name, nil where there is none.
func (k *Keys) Named(name string) *Caller { return k.byName[name] }

// Caller is who has the token: a key, else what looks like a token of an identity provider where there is one. One that
// is refused is nobody's, though no key be asked for: who sends one does not mean to be anybody. Its errors are
// ErrUnknown, *Refused and ErrUnavailable.
//
// The token is looked up by its SHA-256, which takes as long for ten thousand keys as for one. How long a lookup takes
// may say how much of its hash a guess has in common with that of a key. That is of no use to who guesses: nobody can
// make tokens whose hashes come closer to an unknown one, so that each guess is as good as the one before, and a whole
// hash would not be the key. What would leak is the comparison of the tokens themselves, byte by byte.
func (k *Keys) Caller(ctx context.Context, token string) (*Caller, error) {
	if caller := k.bySum[sha256.Sum256([]byte(token))]; caller != nil {
		return caller, nil
	}
	if k.tokens != nil && looksLikeToken(token) {
		return k.tokens.Caller(ctx, token)
	}
	if k.open {
		return k.anyone, nil
	}
	return nil, ErrUnknown
}
