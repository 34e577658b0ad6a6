package jwks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// jwk is a public key as a set has it, with more members or others in place of its own.
func jwk(t testing.TB, id string, public crypto.PublicKey, more map[string]any) map[string]any {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	m := map[string]any{"kid": id}
	switch p := public.(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", encode(p.N.Bytes()), encode(big.NewInt(int64(p.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		half := (len(point) - 1) / 2
		m["kty"], m["crv"], m["x"], m["y"] = "EC", p.Curve.Params().Name, encode(point[1:1+half]), encode(point[1+half:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", encode(p)
	}
	maps.Copy(m, more)
	return m
}

func set(t testing.TB, keys ...map[string]any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newRSA(t testing.TB, bits int) *rsa.PublicKey {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return &k.PublicKey
}

func newEC(t testing.TB, c elliptic.Curve) *ecdsa.PublicKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &k.PublicKey
}

func newEd(t testing.TB) ed25519.PublicKey {
	t.Helper()
	k, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// algorithmsOf are those with which the key of that id is found.
func algorithmsOf(k *Keys, id string) string {
	var found []string
	for _, a := range append(Algorithms(), "HS256", "HS512", "none", "", "ES256K") {
		if len(k.Find(id, a)) > 0 {
			found = append(found, a)
		}
	}
	return strings.Join(found, " ")
}

func TestAKeyIsFoundWithTheAlgorithmsOfItsTypeAlone(t *testing.T) {
	r, p256, p384, p521, ed := newRSA(t, 2048), newEC(t, elliptic.P256()), newEC(t, elliptic.P384()), newEC(t, elliptic.P521()), newEd(t)
	const ofRSA = "RS256 RS384 RS512 PS256 PS384 PS512"
	for _, tt := range []struct {
		name   string
		public crypto.PublicKey
		more   map[string]any
		want   string // "" for one that is left out
		why    string
	}{
		{"RSA", r, nil, ofRSA, ""},
		{"RSA for signatures", r, map[string]any{"use": "sig", "key_ops": []string{"verify"}}, ofRSA, ""},
		{"RSA that names its algorithm", r, map[string]any{"alg": "PS256"}, "PS256", ""},
		{"P-256", p256, nil, "ES256", ""},
		{"P-384", p384, map[string]any{"alg": "ES384"}, "ES384", ""},
		{"P-521", p521, nil, "ES512", ""},
		{"Ed25519", ed, map[string]any{"alg": "EdDSA"}, "EdDSA", ""},
		{"certificates that are none are not looked at", r, map[string]any{"x5c": []string{"!"}, "x5u": "https://127.0.0.1:1/x", "x5t": "!"}, ofRSA, ""},
		{"RSA for encryption", r, map[string]any{"use": "enc"}, "", "use is not sig"},
		{"RSA with an algorithm of encryption", r, map[string]any{"alg": "RSA-OAEP"}, "", "does not fit its type"},
		{"RSA that says it signs by HMAC", r, map[string]any{"alg": "HS256"}, "", "does not fit its type"},
		{"RSA that says it is none", r, map[string]any{"alg": "none"}, "", "does not fit its type"},
		{"EC with another curve's algorithm", p256, map[string]any{"alg": "ES384"}, "", "does not fit its type"},
		{"key_ops without verify", r, map[string]any{"key_ops": []string{"encrypt"}}, "", "key_ops"},
		{"RSA of 1024 bits", newRSA(t, 1024), nil, "", "1024 bits"},
		{"a point that is not on its curve", p256, map[string]any{"y": base64.RawURLEncoding.EncodeToString(make([]byte, 32))}, "", "invalid"},
		{"another curve's point", p384, map[string]any{"crv": "P-256"}, "", "invalid"},
		{"a curve that is not known", p256, map[string]any{"crv": "secp256k1"}, "", "curve"},
		{"a secret for HMAC", nil, map[string]any{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQ", "alg": "HS256"}, "", "a secret that has been published"},
		{"a private key", p256, map[string]any{"d": base64.RawURLEncoding.EncodeToString(make([]byte, 32))}, "", "a secret that has been published"},
		{"an Ed25519 key that is too short", ed, map[string]any{"x": "AAAA"}, "", "32 bytes"},
		{"X25519", ed, map[string]any{"crv": "X25519"}, "", "do not sign"},
		{"a type of tomorrow", nil, map[string]any{"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA"}, "", "unsupported"},
		{"an exponent of 64 bits and more", r, map[string]any{"e": "AQAAAAAAAAAAAQAB"}, "", "E in marshal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, skipped, err := Parse(set(t, jwk(t, "other", newEd(t), nil), jwk(t, "it", tt.public, tt.more)))
			if err != nil {
				t.Fatal(err)
			}
			if got := algorithmsOf(k, "it"); got != tt.want {
				t.Errorf("found with %q, want %q", got, tt.want)
			}
			if got := algorithmsOf(k, "other"); got != "EdDSA" {
				t.Errorf("the key beside it is found with %q", got)
			}
			if got := fmt.Sprint(skipped); (tt.why == "") != (skipped == nil) || !strings.Contains(got, tt.why) {
				t.Errorf("skipped = %s, want %q", got, tt.why)
			}
		})
	}
}

func TestWithoutAnIDEveryKeyThatFitsMayHaveSigned(t *testing.T) {
	k, _, err := Parse(set(t, jwk(t, "a", newEC(t, elliptic.P256()), nil), jwk(t, "b", newEC(t, elliptic.P256()), nil), jwk(t, "", newEd(t), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if got := []int{len(k.Find("", "ES256")), len(k.Find("a", "ES256")), len(k.Find("", "EdDSA")), len(k.Find("", "RS256"))}; fmt.Sprint(got) != "[2 1 1 0]" {
		t.Errorf("found %v", got)
	}
}

func TestWhatIsNoSetIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no object": "[]", "no keys": "{}", "keys that are no list": `{"keys":{}}`, "no keys, by null": `{"keys":null}`,
		"a page": "<html>", "half": `{"keys":[`, "too many": `{"keys":[` + strings.Repeat(`{},`, maxKeys) + `{}]}`,
		"too long": `{"keys":[]}` + strings.Repeat(" ", maxBytes),
	} {
		if k, _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: %d keys, want an error", name, k.Len())
		}
	}
	if k, skipped, err := Parse([]byte(`{"keys":[]}`)); err != nil || k.Len() != 0 || skipped != nil {
		t.Errorf("an empty set: %v, %v", skipped, err)
	}
}

// Whatever a provider publishes: what is found is a public key of a type that goes with its algorithm.
func FuzzParse(f *testing.F) {
	ed := newEd(f)
	f.Add(set(f, jwk(f, "a", newEC(f, elliptic.P256()), nil), jwk(f, "b", ed, map[string]any{"alg": "EdDSA"})))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"oct","k":"AA"},{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, _, err := Parse(data)
		if err != nil {
			return
		}
		for _, a := range Algorithms() {
			for _, public := range k.Find("", a) {
				ok := false
				switch p := public.(type) {
				case *rsa.PublicKey:
					ok = strings.HasPrefix(a, "RS") || strings.HasPrefix(a, "PS")
				case *ecdsa.PublicKey:
					_, err := p.ECDH() // fails off the curve
					ok = strings.HasPrefix(a, "ES") && err == nil
				case ed25519.PublicKey:
					ok = a == "EdDSA" && len(p) == ed25519.PublicKeySize
				}
				if !ok {
					t.Errorf("%s finds %T", a, public)
				}
			}
		}
	})
}
