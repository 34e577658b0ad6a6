// Package jwks owns the public keys of an identity provider: it reads its JSON Web Key Set (RFC 7517), keeps it fresh,
// and finds the keys that may have signed a token. It knows no token.
package jwks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

// What bounds a set. Providers publish some ten keys in a few KiB.
const (
	maxBytes = 1 << 20
	maxKeys  = 100

	leastRSA = 2048 // bits (RFC 7518, section 3.3)
	mostRSA  = 8192 // a larger one only costs time
)

// Algorithms are those that a key may have signed with: asymmetric ones alone. A public key taken for the secret of an
// HMAC would let everybody sign.
func Algorithms() []string { return slices.Concat(rsaAlgorithms, ecAlgorithms, edAlgorithms) }

var (
	rsaAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	ecAlgorithms  = []string{"ES256", "ES384", "ES512"}
	edAlgorithms  = []string{"EdDSA"}
)

// Keys are the keys of a set that can be used. Immutable.
type Keys struct {
	list []key
	sum  [sha256.Size]byte
}

type key struct {
	id         string
	algorithms []string // what its type allows, or what it says itself
	public     crypto.PublicKey
}

// Len is how many there are.
func (k *Keys) Len() int { return len(k.list) }

// Find gives the keys that may have made a signature with that algorithm, by their id; "" is for a signature that names
// none, of which each key may be the maker.
func (k *Keys) Find(id, algorithm string) []crypto.PublicKey {
	var found []crypto.PublicKey
	for _, key := range k.list {
		if (id == "" || key.id == id) && slices.Contains(key.algorithms, algorithm) {
			found = append(found, key.public)
		}
	}
	return found
}

// Parse reads a set. A key that can't be used is left out, and skipped says why: a provider that publishes a new sort of
// key must not take the others away. Only what is no set is an error.
func Parse(data []byte) (keys *Keys, skipped []string, err error) {
	var set struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if len(data) > maxBytes {
		return nil, nil, fmt.Errorf("the key set is larger than %d bytes", maxBytes)
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, nil, fmt.Errorf("the key set is no JSON object with a list of keys: %w", err)
	}
	switch {
	case set.Keys == nil:
		return nil, nil, errors.New(`the key set has no list "keys"`)
	case len(*set.Keys) > maxKeys:
		return nil, nil, fmt.Errorf("the key set has %d keys, more than %d", len(*set.Keys), maxKeys)
	}
	keys = &Keys{sum: sha256.Sum256(data)}
	for i, raw := range *set.Keys {
		k, err := parseKey(raw)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("key %d (kid %.64q): %s", i, k.id, err))
			continue
		}
		keys.list = append(keys.list, k)
	}
	return keys, skipped, nil
}

func parseKey(raw json.RawMessage) (k key, err error) {
	var m jwkset.JWKMarshal
	if err := json.Unmarshal(raw, &m); err != nil {
		return k, errors.New("it is no JSON Web Key")
	}
	k.id = m.KID
	switch {
	case m.USE != "" && m.USE != jwkset.UseSig:
		return k, errors.New("its use is not sig")
	case len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify):
		return k, errors.New("verify is not among its key_ops")
	case m.D != "" || m.K != "":
		return k, errors.New("it is a secret that has been published: whoever reads the set can sign with it")
	}
	// Certificates say nothing that the set does not, and their addresses are not looked up.
	m.X5U, m.X5C, m.X5T, m.X5TS256 = "", nil, "", ""
	parsed, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return k, err
	}
	if err := k.fit(parsed.Key()); err != nil {
		return k, err
	}
	if own := m.ALG.String(); own != "" {
		if !slices.Contains(k.algorithms, own) {
			return k, fmt.Errorf("its alg %.20q does not fit its type", own)
		}
		k.algorithms = []string{own}
	}
	return k, nil
}

// fit takes a key of a type that signs, with the algorithms that go with it: an EC key has one, by its curve (RFC 7518,
// section 3.4).
func (k *key) fit(public any) error {
	k.public = public
	switch p := public.(type) {
	case *rsa.PublicKey:
		if bits := p.N.BitLen(); bits < leastRSA || bits > mostRSA {
			return fmt.Errorf("it has %d bits, want %d to %d", bits, leastRSA, mostRSA)
		}
		k.algorithms = rsaAlgorithms
	case *ecdsa.PublicKey:
		at := slices.Index([]int{256, 384, 521}, p.Curve.Params().BitSize)
		if at < 0 {
			return errors.New("its curve is not known")
		}
		k.algorithms = ecAlgorithms[at : at+1]
	case ed25519.PublicKey:
		k.algorithms = edAlgorithms
	default:
		return errors.New("keys of its type do not sign")
	}
	return nil
}
