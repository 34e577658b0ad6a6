package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Keys knows the keys of a configuration. Immutable.
type Keys struct {
	open   bool
	anyone *Caller
	names  []string                      // in the file's order
	bySum  map[[sha256.Size]byte]*Caller // by the SHA-256 of the key
	byName map[string]*Caller
}

// ErrUnknown is a token that is no known key.
var ErrUnknown = errors.New("no such key")

// NewKeys makes the keys of a checked configuration. Where it configures nobody, nobody is asked for a key.
func NewKeys(c *Config) *Keys {
	k := &Keys{
		open: c.Open || !c.Configured(), anyone: &Caller{Approves: true},
		bySum: make(map[[sha256.Size]byte]*Caller, len(c.Keys)), byName: make(map[string]*Caller, len(c.Keys)),
	}
	for _, kc := range c.Keys {
		caller := &Caller{
			Name: kc.Name, ID: kc.Name, Fields: fields(kc.Caller), Models: parse(kc.Models), Tools: parse(kc.Tools),
			Budget: kc.Budget, Limits: kc.Limits, Approves: kc.Approve == nil || *kc.Approve,
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

// Names are the names of all keys, for metrics.
func (k *Keys) Names() []string { return k.names }

// Named is the caller of the key with that name, nil where there is none.
func (k *Keys) Named(name string) *Caller { return k.byName[name] }

// Caller is who has the token. Its error is ErrUnknown.
//
// The token is looked up by its SHA-256, which takes as long for ten thousand keys as for one. How long a lookup takes
// may say how much of its hash a guess has in common with that of a key. That is of no use to who guesses: nobody can
// make tokens whose hashes come closer to an unknown one, so that each guess is as good as the one before, and a whole
// hash would not be the key. What would leak is the comparison of the tokens themselves, byte by byte.
func (k *Keys) Caller(token string) (*Caller, error) {
	if caller := k.bySum[sha256.Sum256([]byte(token))]; caller != nil {
		return caller, nil
	}
	if k.open {
		return k.anyone, nil
	}
	return nil, ErrUnknown
}
