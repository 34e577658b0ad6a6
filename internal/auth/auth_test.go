package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/limit"
)

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func parseAuth(t *testing.T, yaml string) (*Config, config.Problems) {
	t.Helper()
	c := &Config{}
	f := config.Parse("a.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	f.Decode(c)
	return c, f.Problems()
}

func TestKeys(t *testing.T) {
	c, problems := parseAuth(t, fmt.Sprintf(`keys:
  - {name: web, sha256: %q, models: [gpt-*], tools: ["*", "-refund_*"], caller: {id: web, level: 2, beta: true}, budget: {max_steps: 4}, limits: {requests_per_minute: 600, concurrent: 5}}
  - {name: app, sha256: %q}
`, hash("key-web"), strings.ToUpper(hash("key-app"))))
	if problems != nil {
		t.Fatal(problems)
	}
	k := NewKeys(c)
	web, err := k.Caller("key-web")
	if err != nil {
		t.Fatal(err)
	}
	if web.Name != "web" || !web.Models.Has("gpt-5") || web.Models.Has("other") || web.Tools.Has("refund_x") || *web.Budget.MaxSteps != 4 {
		t.Errorf("Caller() = %+v", web)
	}
	if diff := cmp.Diff(map[string]any{"id": "web", "level": json.Number("2"), "beta": true}, web.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if want := (limit.Config{RequestsPerMinute: 600, Concurrent: 5}); web.Limits != want {
		t.Errorf("limits = %+v, want %+v", web.Limits, want)
	}
	if app, err := k.Caller("key-app"); err != nil || !app.Models.Has("anything") || !app.Tools.Has("anything") {
		t.Errorf("a key without lists: %+v, %v", app, err)
	}
	for _, token := range []string{"", "key-wrong", hash("key-web"), "key-web "} {
		if _, err := k.Caller(token); !errors.Is(err, ErrUnknown) {
			t.Errorf("Caller(%q) error = %v, want ErrUnknown", token, err)
		}
	}
}

func TestNobodyIsAskedWithoutKeysOrWithOpen(t *testing.T) {
	for _, yaml := range []string{"{}", "{open: true}", fmt.Sprintf("{open: true, keys: [{name: web, sha256: %q}]}", hash("key-web"))} {
		c, problems := parseAuth(t, yaml)
		if problems != nil {
			t.Fatal(problems)
		}
		k := NewKeys(c)
		if caller, err := k.Caller("whatever"); err != nil || caller.Name != "" {
			t.Errorf("%s: Caller() = %+v, %v", yaml, caller, err)
		}
		if caller, _ := k.Caller("key-web"); len(c.Keys) > 0 && caller.Name != "web" {
			t.Errorf("%s: a known key is not known", yaml)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	sum := hash("x")
	for _, tt := range []struct{ name, yaml, want string }{
		{"a key without a name", "keys: [{sha256: " + sum + "}]", "name is missing"},
		{"a hash that is none", "keys: [{name: a, sha256: abc}]", "64 hex digits"},
		{"two of a name", "keys: [{name: a, sha256: " + sum + "}, {name: a, sha256: " + hash("y") + "}]", `another key has the name "a"`},
		{"two of a hash", "keys: [{name: a, sha256: " + sum + "}, {name: b, sha256: " + sum + "}]", "the same sha256"},
		{"a bad glob", "keys: [{name: a, sha256: " + sum + ", tools: ['[x']}]", "no glob"},
		{"a caller field that is a list", "keys: [{name: a, sha256: " + sum + ", caller: {x: [1]}}]", "want a text, a number, true or false"},
		{"tokens, which are not there yet", "jwt: {issuer: x}", "not supported yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := parseAuth(t, tt.yaml)
			if problems == nil || !strings.Contains(problems.Error(), tt.want) {
				t.Errorf("problems = %v, want %q", problems, tt.want)
			}
		})
	}
}
