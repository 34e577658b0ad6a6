package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/jwks"
)

// TokenName is the Name of all callers that come with a token: there is no end of their subjects.
const TokenName = "jwt"

const (
	maxToken    = 16 << 10 // bytes; providers warn of tokens over 8 KiB themselves
	maxVerified = 10_000   // tokens that are remembered as good
)

// Refused is a token that is not taken.
type Refused struct {
	Reason string // for the client; a text of this package that repeats nothing of the token
	Err    error  // for the log; nil where Reason says it all
}

// Error is for the client.
func (e *Refused) Error() string { return e.Reason }

// Unwrap is the inner error.
func (e *Refused) Unwrap() error { return e.Err }

// ErrUnavailable is that no token can be looked at, as the issuer's keys are not known.
var ErrUnavailable = jwks.ErrUnavailable

// Why a token is refused.
const (
	tooLong       = "the token is longer than 16 KiB"
	malformed     = "the token is no signed JWT"
	badAlgorithm  = "the token is not signed with one of the algorithms RS, PS, ES and EdDSA"
	criticalExt   = "the token has extensions that must be understood (crit), and are not"
	unknownKey    = "the token is signed with a key that its issuer does not publish"
	badSignature  = "the token's signature is wrong"
	expired       = "the token has expired"
	notYet        = "the token is not valid yet"
	wrongIssuer   = "the token is of another issuer"
	wrongAudience = "the token is for another audience"
	claimMissing  = "the token lacks a claim that must be there: exp, iss, aud or the one that names its subject"
	badClaims     = "the token's claims can't be read"
)

// refusals say why by the library's errors, the most telling first.
var refusals = []struct {
	err    error
	reason string
}{
	{errCritical, criticalExt},
	{errNoKey, unknownKey},
	{errKeyID, malformed},
	{jwt.ErrTokenMalformed, malformed},
	{jwt.ErrTokenUnverifiable, badAlgorithm},
	{jwt.ErrTokenSignatureInvalid, badSignature},
	{jwt.ErrTokenInvalidIssuer, wrongIssuer},
	{jwt.ErrTokenInvalidAudience, wrongAudience},
	{jwt.ErrTokenExpired, expired},
	{jwt.ErrTokenNotValidYet, notYet},
	{jwt.ErrTokenUsedBeforeIssued, notYet},
	{jwt.ErrTokenRequiredClaimMissing, claimMissing},
}

var (
	errCritical = errors.New("crit")
	errNoKey    = errors.New("no key of the set fits")
	errKeyID    = errors.New("the kid is no text")
)

// Tokens knows the callers that come with a token of an identity provider. It is for many goroutines.
type Tokens struct {
	config *JWTConfig
	set    *jwks.Set
	now    func() time.Time
	parser *jwt.Parser
	common Caller

	// verified are tokens that were found good, by their SHA-256: a signature is looked at once.
	verified *otter.Cache[[sha256.Size]byte, verified]
}

// verified is a token that was found good.
type verified struct {
	caller *Caller
	keys   *jwks.Keys // that were in force: with others it is looked at again, as its own may be gone
	until  time.Time
}

// NewSet makes the key set of a checked configuration.
func NewSet(c *JWTConfig, o jwks.Options) *jwks.Set {
	if c.fixed != nil {
		return jwks.Fixed(c.fixed)
	}
	o.Refresh = time.Duration(c.Refresh)
	return jwks.New(jwks.HTTP(c.JWKSURL), o)
}

// NewTokens looks at tokens by a checked configuration, with the keys of a set that somebody else starts. now is
// time.Now but in tests.
func NewTokens(c *JWTConfig, set *jwks.Set, now func() time.Time) *Tokens {
	return &Tokens{
		config: c, set: set, now: now, common: c.caller(),
		parser: jwt.NewParser(
			jwt.WithValidMethods(jwks.Algorithms()), jwt.WithStrictDecoding(), jwt.WithJSONNumber(),
			jwt.WithIssuer(c.Issuer), jwt.WithAudience(c.Audience...), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
			jwt.WithLeeway(time.Duration(c.Leeway)), jwt.WithTimeFunc(now),
		),
		verified: otter.Must(&otter.Options[[sha256.Size]byte, verified]{MaximumSize: maxVerified}),
	}
}

// plainToken says whether a token has the characters of one alone. The decoder of base64 skips line ends, so that one
// signature could be written in many ways.
func plainToken(token string) bool {
	for i := range len(token) {
		c := token[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// looksLikeToken says whether a bearer token is a JWT by its shape: three parts with dots between them (RFC 7515, section
// 3.1).
func looksLikeToken(token string) bool { return strings.Count(token, ".") == 2 }

// Caller is who has the token. Its errors are *Refused and ErrUnavailable.
func (t *Tokens) Caller(ctx context.Context, token string) (*Caller, error) {
	if len(token) > maxToken {
		return nil, &Refused{Reason: tooLong}
	}
	keys, err := t.set.Keys()
	sum := sha256.Sum256([]byte(token))
	if v, ok := t.verified.GetIfPresent(sum); ok && err == nil && v.keys == keys && t.now().Before(v.until) {
		return v.caller, nil
	}
	if !plainToken(token) {
		return nil, &Refused{Reason: malformed}
	}
	if err != nil {
		if keys, err = t.set.Renew(ctx); err != nil {
			return nil, err
		}
	}
	v, err := t.verify(token, keys)
	if errors.Is(err, errNoKey) { // the issuer may have a new one
		newer, e := t.set.Renew(ctx)
		switch {
		case e != nil:
			return nil, e
		case newer != keys:
			v, err = t.verify(token, newer)
		}
	}
	if err != nil {
		return nil, err
	}
	t.verified.Set(sum, v)
	return v.caller, nil
}

// verify looks at a token with the keys of a set.
func (t *Tokens) verify(token string, keys *jwks.Keys) (verified, error) {
	claims := jwt.MapClaims{}
	parsed, err := t.parser.ParseWithClaims(token, claims, func(token *jwt.Token) (any, error) { return keysFor(token, keys) })
	switch {
	case err != nil && parsed != nil && parsed.Method != nil && !slices.Contains(jwks.Algorithms(), parsed.Method.Alg()):
		return verified{}, &Refused{Reason: badAlgorithm, Err: err}
	case err != nil:
		return verified{}, refuse(err)
	}
	subject, ok := text(claim(claims, t.config.Subject))
	if !ok {
		return verified{}, &Refused{Reason: claimMissing}
	}
	exp, err := claims.GetExpirationTime()
	if err != nil || exp == nil { // the parser has seen it
		return verified{}, &Refused{Reason: badClaims, Err: err}
	}
	return verified{caller: t.caller(subject, claims), keys: keys, until: exp.Add(time.Duration(t.config.Leeway))}, nil
}

// keysFor gives the keys that may have signed a token: of those of its kid, the ones whose type goes with its alg. The
// token can't choose how it is looked at: a public key is never taken for the secret of an HMAC, nor a key of one curve
// for another's, and what the header says of keys of its own (jwk, jku, x5c, x5u) is not read.
func keysFor(token *jwt.Token, keys *jwks.Keys) (any, error) {
	if _, ok := token.Header["crit"]; ok { // RFC 7515, section 4.1.11: whoever does not understand it all must refuse
		return nil, errCritical
	}
	id := ""
	if v, ok := token.Header["kid"]; ok {
		if id, ok = v.(string); !ok || id == "" {
			return nil, errKeyID
		}
	}
	var set jwt.VerificationKeySet
	for _, k := range keys.Find(id, token.Method.Alg()) {
		set.Keys = append(set.Keys, k)
	}
	if len(set.Keys) == 0 {
		return nil, errNoKey
	}
	return set, nil
}

// refuse says in general terms what is wrong with a token.
func refuse(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &Refused{Reason: r.reason, Err: err}
		}
	}
	return &Refused{Reason: badClaims, Err: err}
}

// caller is who a token with these claims is of. The issuer stands in the ID, without blanks, so that no subject of one
// is that of another or has the name of a key.
func (t *Tokens) caller(subject string, claims map[string]any) *Caller {
	c := t.common
	c.Subject = subject
	c.ID = tokenID + t.config.Issuer + " " + subject
	c.Fields = map[string]any{}
	for field, name := range t.config.Caller.All() {
		switch v := claim(claims, name).(type) {
		case string, json.Number, bool:
			c.Fields[field] = v
		}
	}
	return &c
}

// tokenID begins the IDs of callers with a token, and no name of a key.
const tokenID = TokenName + ":"

// claim is the value of a claim, nil where there is none. A name with dots is that of a claim as it is, such as
// https://example.com/level, else the way to one inside of others.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := claims[name[:i]].(map[string]any); ok {
			if v := claim(inner, name[i+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

// text is a claim that names somebody: a text, or a number as some issuers have it.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// checkNames refuses names of keys that callers with a token have.
func checkNames(name string, at *config.Node) {
	if name == TokenName || strings.HasPrefix(name, tokenID) {
		at.FailKey("name", "callers with a token of auth.jwt have this name: want another one")
	}
}
