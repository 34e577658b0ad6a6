package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/jwks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is an identity provider with a key of each sort, each published under its name.
type issuer struct {
	t    testing.TB
	rsa  *rsa.PrivateKey
	ec   map[string]*ecdsa.PrivateKey // by algorithm
	ed   ed25519.PrivateKey
	all  map[string]any // published
	URL  string
	down atomic.Bool

	mu    sync.Mutex
	reads int
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{t: t, ec: map[string]*ecdsa.PrivateKey{}, all: map[string]any{}}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	i.publish("rsa", &i.rsa.PublicKey)
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		if i.ec[alg], err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
			t.Fatal(err)
		}
		i.publish(alg, &i.ec[alg].PublicKey)
	}
	i.ed = i.newEd("ed")
	return i
}

// newEd is a new key, published under a name.
func (i *issuer) newEd(name string) ed25519.PrivateKey {
	i.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.publish(name, public)
	return private
}

func (i *issuer) publish(name string, public crypto.PublicKey) {
	i.t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	m := map[string]any{"kid": name}
	switch p := public.(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", encode(p.N.Bytes()), encode(big.NewInt(int64(p.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			i.t.Fatal(err)
		}
		half := (len(point) - 1) / 2
		m["kty"], m["crv"], m["x"], m["y"] = "EC", p.Curve.Params().Name, encode(point[1:1+half]), encode(point[1+half:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", encode(p)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all[name] = m
}

func (i *issuer) withdraw(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.all, name)
}

// set is the key set as it is published.
func (i *issuer) set() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := []any{}
	for _, k := range i.all {
		keys = append(keys, k)
	}
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		i.t.Fatal(err)
	}
	return b
}

// serve serves the set over HTTP.
func (i *issuer) serve() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		i.reads++
		i.mu.Unlock()
		if i.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(i.set())
	}))
	i.t.Cleanup(server.Close)
	i.URL = server.URL
}

const theIssuer = "https://login.example.com"

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// claims are those of a good token, with others in the place of some; nil takes one away.
func claims(others map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": theIssuer, "aud": "toolgate", "sub": "ann", "exp": epoch.Add(time.Hour).Unix(), "iat": epoch.Unix(), "nbf": epoch.Unix()}
	for name, v := range others {
		c[name] = v
		if v == nil {
			delete(c, name)
		}
	}
	return c
}

// sign is a token; header says more of it, nil takes something away.
func sign(t testing.TB, method jwt.SigningMethod, key any, c jwt.MapClaims, header map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	for name, v := range header {
		token.Header[name] = v
		if v == nil {
			delete(token.Header, name)
		}
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ann is a token of the issuer's Ed25519 key.
func (i *issuer) ann(others map[string]any) string {
	return sign(i.t, jwt.SigningMethodEdDSA, i.ed, claims(others), map[string]any{"kid": "ed"})
}

const jwtSection = "jwt: {issuer: " + theIssuer + ", audience: toolgate, jwks_url: https://login.example.com/jwks, caller: {id: sub, level: access.level}}\n"

// tokensOf looks at tokens of the issuer by a section, with its keys as they are now.
func tokensOf(t testing.TB, section string, i *issuer, now func() time.Time) *Tokens {
	t.Helper()
	keys, skipped, err := jwks.Parse(i.set())
	if err != nil || skipped != nil {
		t.Fatal(skipped, err)
	}
	return NewTokens(jwtConfig(t, section), jwks.Fixed(keys), now)
}

func jwtConfig(t testing.TB, section string) *JWTConfig {
	t.Helper()
	c, problems := parseAuth(t, section)
	if problems != nil {
		t.Fatal(problems)
	}
	return c.JWT
}

func atEpoch() time.Time { return epoch.Add(time.Minute) }

// reason is why a token is refused, "" for one that is not.
func reason(t testing.TB, tokens *Tokens, token string) string {
	t.Helper()
	caller, err := tokens.Caller(context.Background(), token)
	if err == nil {
		if caller == nil {
			t.Fatal("neither caller nor error")
		}
		return ""
	}
	refused, ok := errors.AsType[*Refused](err)
	if !ok || caller != nil {
		t.Fatalf("Caller() = %+v, %v, want a *Refused", caller, err)
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 10 && strings.Contains(refused.Reason+fmt.Sprint(refused.Err), part) {
			t.Errorf("the error repeats the token: %v", refused.Err)
		}
	}
	return refused.Reason
}

func TestGoodTokensAreTaken(t *testing.T) {
	i := newIssuer(t)
	tokens := tokensOf(t, jwtSection, i, atEpoch)
	for _, tt := range []struct {
		name   string
		method jwt.SigningMethod
		key    any
		kid    any
		others map[string]any
	}{
		{"RS256", jwt.SigningMethodRS256, i.rsa, "rsa", nil},
		{"RS512", jwt.SigningMethodRS512, i.rsa, "rsa", nil},
		{"PS256", jwt.SigningMethodPS256, i.rsa, "rsa", nil},
		{"PS384", jwt.SigningMethodPS384, i.rsa, "rsa", nil},
		{"ES256", jwt.SigningMethodES256, i.ec["ES256"], "ES256", nil},
		{"ES384", jwt.SigningMethodES384, i.ec["ES384"], "ES384", nil},
		{"ES512", jwt.SigningMethodES512, i.ec["ES512"], "ES512", nil},
		{"EdDSA", jwt.SigningMethodEdDSA, i.ed, "ed", nil},
		{"without a kid", jwt.SigningMethodES384, i.ec["ES384"], nil, nil},
		{"a list of audiences", jwt.SigningMethodEdDSA, i.ed, "ed", map[string]any{"aud": []string{"shop", "toolgate"}}},
		{"without nbf and iat", jwt.SigningMethodEdDSA, i.ed, "ed", map[string]any{"nbf": nil, "iat": nil}},
		{"times with fractions", jwt.SigningMethodEdDSA, i.ed, "ed", map[string]any{"exp": float64(epoch.Unix()) + 3600.5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			token := sign(t, tt.method, tt.key, claims(tt.others), map[string]any{"kid": tt.kid})
			for range 2 { // looked at, and remembered
				if got := reason(t, tokens, token); got != "" {
					t.Error(got)
				}
			}
		})
	}
}

func TestBadTokensAreRefused(t *testing.T) {
	i := newIssuer(t)
	tokens := tokensOf(t, jwtSection, i, atEpoch)
	stranger := newIssuer(t)
	der, err := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := i.ann(nil)
	part := strings.Split(good, ".")
	b64 := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	ed := func(others, header map[string]any) string {
		h := map[string]any{"kid": "ed"}
		maps.Copy(h, header)
		return sign(t, jwt.SigningMethodEdDSA, i.ed, claims(others), h)
	}
	strangers := func(header map[string]any) string {
		h := map[string]any{"kid": "ed"}
		maps.Copy(h, header)
		return sign(t, jwt.SigningMethodEdDSA, stranger.ed, claims(nil), h)
	}
	own := stranger.all["ed"]
	for _, tt := range []struct{ name, token, want string }{
		{"alg none", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil), map[string]any{"kid": "ed"}), badAlgorithm},
		{"alg None", b64(`{"alg":"None","kid":"ed"}`) + "." + part[1] + ".", badAlgorithm},
		{"alg none without a kid", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil), nil), badAlgorithm},
		{"alg none with the signature of a good one", b64(`{"alg":"none","kid":"ed"}`) + "." + part[1] + "." + part[2], badAlgorithm},
		{"HS256 with the public key's PEM as the secret", sign(t, jwt.SigningMethodHS256, asPEM, claims(nil), map[string]any{"kid": "rsa"}), badAlgorithm},
		{"HS256 with the public key's DER", sign(t, jwt.SigningMethodHS256, der, claims(nil), map[string]any{"kid": "rsa"}), badAlgorithm},
		{"HS256 with the modulus", sign(t, jwt.SigningMethodHS256, i.rsa.N.Bytes(), claims(nil), map[string]any{"kid": "rsa"}), badAlgorithm},
		{"HS512 with the Ed25519 key", sign(t, jwt.SigningMethodHS512, []byte(i.ed.Public().(ed25519.PublicKey)), claims(nil), map[string]any{"kid": "ed"}), badAlgorithm},
		{"HS256 with an empty secret", sign(t, jwt.SigningMethodHS256, []byte{}, claims(nil), nil), badAlgorithm},
		{"an EC key under the kid of the RSA key", sign(t, jwt.SigningMethodES256, i.ec["ES256"], claims(nil), map[string]any{"kid": "rsa"}), unknownKey},
		{"the RSA key under the kid of an EC key", sign(t, jwt.SigningMethodRS256, i.rsa, claims(nil), map[string]any{"kid": "ES256"}), unknownKey},
		{"ES384 that says it is of the P-256 key", sign(t, jwt.SigningMethodES384, i.ec["ES384"], claims(nil), map[string]any{"kid": "ES256"}), unknownKey},
		{"another's key under a known kid", strangers(nil), badSignature},
		{"another's key without a kid", strangers(map[string]any{"kid": nil}), badSignature},
		{"another's key, brought along as jwk", strangers(map[string]any{"jwk": own}), badSignature},
		{"another's key, brought along as jwk without a kid", strangers(map[string]any{"kid": nil, "jwk": own}), badSignature},
		{"another's key, at an address (jku)", strangers(map[string]any{"jku": "https://evil.example.com/jwks", "kid": "evil"}), unknownKey},
		{"another's key, as a certificate at an address (x5u)", strangers(map[string]any{"x5u": "https://evil.example.com/cert"}), badSignature},
		{"another's key, as a certificate (x5c)", strangers(map[string]any{"x5c": []string{base64.StdEncoding.EncodeToString(der)}}), badSignature},
		{"an unknown kid", ed(nil, map[string]any{"kid": "none"}), unknownKey},
		{"a kid that is a path", ed(nil, map[string]any{"kid": "../../etc/passwd"}), unknownKey},
		{"a kid that is SQL", ed(nil, map[string]any{"kid": "x' OR 1=1 --"}), unknownKey},
		{"a kid that is a number", ed(nil, map[string]any{"kid": 1}), malformed},
		{"a kid that is a list", ed(nil, map[string]any{"kid": []string{"ed"}}), malformed},
		{"an empty kid", ed(nil, map[string]any{"kid": ""}), malformed},
		{"an extension that must be understood", ed(nil, map[string]any{"crit": []string{"b64"}, "b64": false}), criticalExt},
		{"an empty crit", ed(nil, map[string]any{"crit": []string{}}), criticalExt},
		{"without an alg", b64(`{"kid":"ed"}`) + "." + part[1] + "." + part[2], badAlgorithm},
		{"an alg that is a number", b64(`{"alg":1}`) + "." + part[1] + "." + part[2], badAlgorithm},
		{"an alg that nobody knows", b64(`{"alg":"XS1"}`) + "." + part[1] + "." + part[2], badAlgorithm},
		{"expired", ed(map[string]any{"exp": epoch.Add(-time.Hour).Unix()}, nil), expired},
		{"without exp", ed(map[string]any{"exp": nil}, nil), claimMissing},
		{"an exp that is a text", ed(map[string]any{"exp": "tomorrow"}, nil), badClaims},
		{"an exp beyond all times", ed(map[string]any{"exp": json.Number("1e400")}, nil), expired},
		{"an exp that wraps around", ed(map[string]any{"exp": json.Number("-1e30")}, nil), expired},
		{"an exp of 0", ed(map[string]any{"exp": 0}, nil), expired},
		{"not valid yet", ed(map[string]any{"nbf": epoch.Add(time.Hour).Unix()}, nil), notYet},
		{"issued tomorrow", ed(map[string]any{"iat": epoch.Add(24 * time.Hour).Unix()}, nil), notYet},
		{"another issuer", ed(map[string]any{"iss": "https://login.example.com.evil.com"}, nil), wrongIssuer},
		{"the issuer with a slash", ed(map[string]any{"iss": theIssuer + "/"}, nil), wrongIssuer},
		{"without an issuer", ed(map[string]any{"iss": nil}, nil), claimMissing},
		{"an issuer that is a list", ed(map[string]any{"iss": []string{theIssuer}}, nil), badClaims},
		{"another audience", ed(map[string]any{"aud": "shop"}, nil), wrongAudience},
		{"a list of other audiences", ed(map[string]any{"aud": []string{"shop", "toolgate2", ""}}, nil), wrongAudience},
		{"an empty list of audiences", ed(map[string]any{"aud": []string{}}, nil), claimMissing},
		{"without an audience", ed(map[string]any{"aud": nil}, nil), claimMissing},
		{"an audience that is a number", ed(map[string]any{"aud": 1}, nil), claimMissing},
		{"without a subject", ed(map[string]any{"sub": nil}, nil), claimMissing},
		{"an empty subject", ed(map[string]any{"sub": ""}, nil), claimMissing},
		{"a subject that is a list", ed(map[string]any{"sub": []string{"ann"}}, nil), claimMissing},
		{"other claims under the same signature", part[0] + "." + b64(`{"sub":"admin"}`) + "." + part[2], badSignature},
		{"another header under the same signature", b64(`{"kid":"ed","alg":"EdDSA"}`) + "." + part[1] + "." + part[2], badSignature},
		{"without a signature", part[0] + "." + part[1] + ".", badSignature},
		{"half a signature", good[:len(good)-len(part[2])] + b64("half a signature"), badSignature},
		{"the signature in another spelling", part[0] + "." + part[1] + "." + spelledOtherwise(part[2]), malformed},
		{"the signature with padding", good + "==", malformed},
		{"a line end in the signature", part[0] + "." + part[1] + "." + part[2][:10] + "\n" + part[2][10:], malformed},
		{"a blank", good + " ", malformed},
		{"no JSON", "a.b.c", malformed},
		{"nothing but dots", "..", malformed},
		{"a header that is null", b64("null") + "." + part[1] + "." + part[2], badAlgorithm},
		{"claims that are null", sign(t, jwt.SigningMethodEdDSA, i.ed, nil, map[string]any{"kid": "ed"}), claimMissing},
		{"too long", ed(map[string]any{"more": strings.Repeat("x", maxToken)}, nil), tooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				if got := reason(t, tokens, tt.token); got != tt.want {
					t.Errorf("refused as %q, want %q", got, tt.want)
				}
			}
		})
	}
	if got := reason(t, tokens, good); got != "" {
		t.Errorf("the good token that they are made of: %s", got)
	}
}

// spelledOtherwise is base64 with the unused bits of its last character set, which decodes to the same bytes.
func spelledOtherwise(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, text[len(text)-1])
	return text[:len(text)-1] + string(alphabet[last|1])
}

func TestClocksMayDifferByTheLeeway(t *testing.T) {
	i := newIssuer(t)
	now := epoch
	clock := func() time.Time { return now }
	for leeway, section := range map[time.Duration]string{
		30 * time.Second: jwtSection, 0: strings.Replace(jwtSection, "jwks_url", "leeway: 0s, jwks_url", 1), 5 * time.Minute: strings.Replace(jwtSection, "jwks_url", "leeway: 5m, jwks_url", 1),
	} {
		tokens := tokensOf(t, section, i, clock)
		token := i.ann(map[string]any{"nbf": epoch.Unix(), "iat": epoch.Unix(), "exp": epoch.Add(time.Hour).Unix()})
		for _, at := range []struct {
			after time.Duration
			want  string
		}{
			{-leeway - time.Second, notYet},
			{-leeway, ""},
			{time.Hour + leeway - time.Second, ""}, // it is remembered by now
			{time.Hour + leeway, expired},
		} {
			now = epoch.Add(at.after)
			if got := reason(t, tokens, token); got != at.want {
				t.Errorf("leeway %s, %s after its begin: %q, want %q", leeway, at.after, got, at.want)
			}
		}
	}
}

func TestCallersOfTokens(t *testing.T) {
	i := newIssuer(t)
	const section = `jwt:
  issuer: https://login.example.com
  audience: [shop, toolgate]
  jwks_url: https://login.example.com/jwks
  caller: {id: sub, level: access.level, beta: beta, far: "a.b.c", plan: "https://example.com/plan", deep: "https://example.com/app.plan", list: roles, none: none}
  models: [gpt-*]
  tools: ["*", "-refund_*"]
  limits: {concurrent: 2}
  budget: {max_steps: 3}
`
	tokens := tokensOf(t, section, i, atEpoch)
	ann, err := tokens.Caller(t.Context(), i.ann(map[string]any{
		"access": map[string]any{"level": json.Number("2.50")}, "beta": true, "a": map[string]any{"b": map[string]any{"c": "deep"}},
		"https://example.com/plan": "gold", "https://example.com/app": map[string]any{"plan": "inner"}, "roles": []string{"admin"}, "none": nil,
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": "ann", "level": json.Number("2.50"), "beta": true, "far": "deep", "plan": "gold", "deep": "inner"}
	if diff := cmp.Diff(want, ann.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if ann.Name != "jwt" || ann.Subject != "ann" || ann.ID != "jwt:https://login.example.com ann" || !ann.Passing || ann.Approves {
		t.Errorf("caller = %+v", ann)
	}
	if !ann.Models.Has("gpt-5") || ann.Models.Has("other") || ann.Tools.Has("refund_x") || ann.Limits.Concurrent != 2 || *ann.Budget.MaxSteps != 3 {
		t.Errorf("caller = %+v", ann)
	}
	bob, err := tokens.Caller(t.Context(), i.ann(map[string]any{"sub": "bob"}))
	if err != nil || bob.ID == ann.ID || bob.Fields["level"] != nil {
		t.Errorf("another subject: %+v, %v", bob, err)
	}
	other := tokensOf(t, strings.Replace(jwtSection, "jwks_url", "subject: user.no, jwks_url", 1), i, atEpoch)
	if c, err := other.Caller(t.Context(), i.ann(map[string]any{"user": map[string]any{"no": json.Number("7")}})); err != nil || c.Subject != "7" {
		t.Errorf("a subject by another claim: %+v, %v", c, err)
	}
}

// What a trusted proxy says adds to a token's fields and changes neither them nor who it is.
func TestWhatTheTokenSaysStays(t *testing.T) {
	i := newIssuer(t)
	ann, err := tokensOf(t, jwtSection, i, atEpoch).Caller(t.Context(), i.ann(nil))
	if err != nil {
		t.Fatal(err)
	}
	with := ann.With(map[string]any{"id": "admin", "team": "red"})
	if diff := cmp.Diff(map[string]any{"id": "ann", "team": "red"}, with.Fields); diff != "" || with.ID != ann.ID || len(ann.Fields) != 1 {
		t.Errorf("With() = %+v of %+v (-want +got):\n%s", with, ann, diff)
	}
}

func TestKeysAndTokensSideBySide(t *testing.T) {
	i := newIssuer(t)
	const dotted = "key.with.dots"
	for _, open := range []bool{false, true} {
		c, problems := parseAuth(t, fmt.Sprintf("open: %v\nkeys: [{name: web, sha256: %s}]\n", open, hash(dotted))+jwtSection)
		if problems != nil {
			t.Fatal(problems)
		}
		k := NewKeys(c, tokensOf(t, jwtSection, i, atEpoch))
		if web, err := k.Caller(t.Context(), dotted); err != nil || web.Name != "web" {
			t.Errorf("a key that looks like a token: %+v, %v", web, err)
		}
		if ann, err := k.Caller(t.Context(), i.ann(nil)); err != nil || ann.Subject != "ann" {
			t.Errorf("a token: %+v, %v", ann, err)
		}
		if caller, err := k.Caller(t.Context(), i.ann(map[string]any{"aud": "shop"})); err == nil {
			t.Errorf("open %v: a token that is refused is %+v's", open, caller)
		}
		if caller, err := k.Caller(t.Context(), "unknown"); open != (err == nil) || k.Open() != open {
			t.Errorf("open %v: what is neither: %+v, %v", open, caller, err)
		}
		if diff := cmp.Diff([]string{"web", "jwt"}, k.Names()); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	}
}

func TestTokensAloneAreAskedFor(t *testing.T) {
	c, problems := parseAuth(t, jwtSection)
	if problems != nil {
		t.Fatal(problems)
	}
	if k := NewKeys(c, tokensOf(t, jwtSection, newIssuer(t), atEpoch)); k.Open() || !c.Configured() {
		t.Error("without keys everybody is let in")
	}
}

// served looks at tokens of an issuer whose keys are read over HTTP, as often as refresh says.
func served(t *testing.T, i *issuer, refresh time.Duration) *Tokens {
	t.Helper()
	i.serve()
	set := jwks.New(jwks.HTTP(i.URL), jwks.Options{Refresh: refresh})
	t.Cleanup(set.Start(t.Context()))
	return NewTokens(jwtConfig(t, jwtSection), set, atEpoch)
}

func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestANewKeyIsFoundAtOnce(t *testing.T) {
	i := newIssuer(t)
	tokens := served(t, i, time.Hour)
	if got := reason(t, tokens, i.ann(nil)); got != "" { // the very first one waits for the first reading
		t.Fatal(got)
	}
	next := i.newEd("next")
	if got := reason(t, tokens, sign(t, jwt.SigningMethodEdDSA, next, claims(nil), map[string]any{"kid": "next"})); got != "" {
		t.Errorf("a token of the new key: %s", got)
	}
	if got := reason(t, tokens, i.ann(nil)); got != "" {
		t.Errorf("a token of the old one: %s", got)
	}
}

// A token that had been found good was remembered after its key was gone.
func TestAKeyThatIsWithdrawnEndsItsTokens(t *testing.T) {
	i := newIssuer(t)
	tokens := served(t, i, 20*time.Millisecond)
	token, other := i.ann(nil), sign(t, jwt.SigningMethodRS256, i.rsa, claims(nil), map[string]any{"kid": "rsa"})
	if a, b := reason(t, tokens, token), reason(t, tokens, other); a+b != "" {
		t.Fatal(a, b)
	}
	i.withdraw("ed")
	await(t, "the token is refused", func() bool { return reason(t, tokens, token) == unknownKey })
	if got := reason(t, tokens, other); got != "" {
		t.Errorf("a token of a key that stays: %s", got)
	}
}

func TestAFloodOfUnknownKeysAsksTheIssuerSeldom(t *testing.T) {
	i := newIssuer(t)
	tokens := served(t, i, time.Hour)
	for n := range 300 {
		_ = reason(t, tokens, sign(t, jwt.SigningMethodEdDSA, i.ed, claims(nil), map[string]any{"kid": fmt.Sprint("k", n)}))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reads > 6 {
		t.Errorf("%d readings", i.reads)
	}
}

func TestWithoutAnyKeysTokensCannotBeChecked(t *testing.T) {
	i := newIssuer(t)
	i.down.Store(true)
	tokens := served(t, i, time.Hour)
	if caller, err := tokens.Caller(t.Context(), i.ann(nil)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Caller() = %+v, %v, want ErrUnavailable", caller, err)
	}
	i.down.Store(false)
	await(t, "tokens are taken once the keys can be read", func() bool {
		_, err := tokens.Caller(t.Context(), i.ann(nil))
		return err == nil
	})
	i.down.Store(true)
	if got := reason(t, tokens, i.ann(map[string]any{"sub": "bob"})); got != "" {
		t.Errorf("with keys that were read before: %s", got)
	}
}

// What a client can write is never taken but for the one token that was signed, and never panics.
func FuzzToken(f *testing.F) {
	i := newIssuer(f)
	tokens := tokensOf(f, jwtSection, i, atEpoch)
	good := i.ann(nil)
	f.Add(good)
	f.Add(sign(f, jwt.SigningMethodRS256, i.rsa, claims(map[string]any{"exp": 1}), map[string]any{"kid": "rsa"}))
	f.Add(sign(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil), nil))
	f.Add(sign(f, jwt.SigningMethodHS256, []byte("secret"), claims(nil), map[string]any{"kid": "ES256", "crit": nil}))
	f.Add("..")
	f.Add("eyJhbGciOiJFUzI1NiJ9.e30.AAAA")
	f.Fuzz(func(t *testing.T, token string) {
		caller, err := tokens.Caller(context.Background(), token)
		if err == nil && token != good {
			t.Errorf("taken: %q of %+v", token, caller)
		}
		if err != nil && !errors.As(err, new(*Refused)) {
			t.Errorf("error = %v, want a *Refused", err)
		}
	})
}

// What a request pays for its token: the first one for a signature, others about 1 µs for its hash.
func BenchmarkToken(b *testing.B) {
	i := newIssuer(b)
	token := sign(b, jwt.SigningMethodRS256, i.rsa, claims(nil), map[string]any{"kid": "rsa"})
	b.Run("known", func(b *testing.B) {
		tokens := tokensOf(b, jwtSection, i, atEpoch)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tokens.Caller(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		tokens := tokensOf(b, jwtSection, i, atEpoch)
		keys, _ := tokens.set.Keys()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tokens.verify(token, keys); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("forged", func(b *testing.B) {
		tokens := tokensOf(b, jwtSection, i, atEpoch)
		forged := token[:len(token)-8] + string(bytes.Repeat([]byte("A"), 8))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tokens.Caller(b.Context(), forged); err == nil {
				b.Fatal("taken")
			}
		}
	})
}
