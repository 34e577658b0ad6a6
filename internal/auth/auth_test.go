package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

func parseAuth(t testing.TB, yaml string) (*Config, config.Problems) {
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
	k := NewKeys(c, nil)
	web, err := k.Caller(t.Context(), "key-web")
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
	if app, err := k.Caller(t.Context(), "key-app"); err != nil || !app.Models.Has("anything") || !app.Tools.Has("anything") {
		t.Errorf("a key without lists: %+v, %v", app, err)
	}
	for _, token := range []string{"", "key-wrong", hash("key-web"), "key-web "} {
		if _, err := k.Caller(t.Context(), token); !errors.Is(err, ErrUnknown) {
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
		k := NewKeys(c, nil)
		if caller, err := k.Caller(t.Context(), "whatever"); err != nil || caller.Name != "" {
			t.Errorf("%s: Caller() = %+v, %v", yaml, caller, err)
		}
		if caller, _ := k.Caller(t.Context(), "key-web"); len(c.Keys) > 0 && caller.Name != "web" {
			t.Errorf("%s: a known key is not known", yaml)
		}
	}
}

// Runs may hold what users wrote: others' are seen by a key that was given that, and where there is nobody to tell apart.
func TestWhoSeesTheRunsOfOthers(t *testing.T) {
	keys := fmt.Sprintf("keys: [{name: web, sha256: %q}, {name: own, sha256: %q, runs: own}, {name: boss, sha256: %q, runs: all}]", hash("web"), hash("own"), hash("boss"))
	for _, tt := range []struct {
		yaml, token string
		want        bool
	}{
		{keys, "web", false},
		{keys, "own", false},
		{keys, "boss", true},
		{keys + "\nopen: true", "", false},
		{"open: true", "", true},
		{"{}", "", true},
	} {
		c, problems := parseAuth(t, tt.yaml)
		if problems != nil {
			t.Fatal(problems)
		}
		if caller, err := NewKeys(c, nil).Caller(t.Context(), tt.token); err != nil || caller.SeesAll != tt.want {
			t.Errorf("%s: %q: %+v, %v; want %v", tt.yaml, tt.token, caller, err, tt.want)
		}
	}
	if _, problems := parseAuth(t, fmt.Sprintf("keys: [{name: web, sha256: %q, runs: every}]", hash("web"))); !strings.Contains(fmt.Sprint(problems), "want one of own, all") {
		t.Errorf("%v", problems)
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
		{"two of a hash in other letters", "keys: [{name: a, sha256: " + sum + "}, {name: b, sha256: " + strings.ToUpper(sum) + "}]", "the same sha256"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := parseAuth(t, tt.yaml)
			if problems == nil || !strings.Contains(problems.Error(), tt.want) {
				t.Errorf("problems = %v, want %q", problems, tt.want)
			}
		})
	}
}

// inFile is the section with these keys in a file of their own, and the folder of both.
func inFile(t *testing.T, section, keys string) (*Config, config.Problems, config.Problems) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keys.yaml"), []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Config{}
	f := config.Parse("a.yaml", dir, []byte(section), func(name string) (string, bool) { return hash(name), name == "APP" })
	f.Decode(c)
	return c, f.Problems(), f.Warnings()
}

func TestKeysOfAFileAreKeysLikeOthers(t *testing.T) {
	c, problems, _ := inFile(t, "keys: [{name: web, sha256: "+hash("key-web")+"}]\nkeys_file: keys.yaml\n",
		"# of the customers\n- {name: app, sha256: '${APP}', tools: [lookup], caller: {level: 2}, approve: false}\n")
	if problems != nil {
		t.Fatal(problems)
	}
	k := NewKeys(c, nil)
	app, err := k.Caller(t.Context(), "APP")
	if err != nil || app.Name != "app" || app.Approves || !app.Tools.Has("lookup") || app.Tools.Has("pay") || app.Fields["level"] != json.Number("2") {
		t.Errorf("Caller() = %+v, %v", app, err)
	}
	if web, err := k.Caller(t.Context(), "key-web"); err != nil || web.Name != "web" {
		t.Errorf("Caller() = %+v, %v", web, err)
	}
	if diff := cmp.Diff([]string{"web", "app"}, k.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestFaultsOfAKeysFileHaveTheirPlaceInIt(t *testing.T) {
	sum := hash("x")
	for _, tt := range []struct{ name, keys, want string }{
		{"a name of the main file", "\n- {name: web, sha256: " + sum + "}", `keys.yaml:2:4: 0.name: another key has the name "web"`},
		{"a hash of the main file", "- {name: b, sha256: " + strings.ToUpper(hash("key-web")) + "}", `keys.yaml:1:13: 0.sha256: another key has the same sha256`},
		{"two of a name", "- {name: b, sha256: " + sum + "}\n- {name: b, sha256: " + hash("y") + "}", `keys.yaml:2:4: 1.name: another key has the name "b"`},
		{"a hash that is none", "- {name: b, sha256: short}", "keys.yaml:1:13: 0.sha256: want the SHA-256"},
		{"a key that nobody knows", "- {name: b, sha256: " + sum + ", modles: []}", `keys.yaml:1:87: 0.modles: unknown key "modles": did you mean "models"?`},
		{"no YAML", "- {", "keys.yaml:1:"},
		{"a mapping", "keys: []", "keys.yaml:1:1: want a list of keys"},
		{"an empty file, which may be half written", "", "keys.yaml:1:1: want a list of keys, as under auth.keys; for none write []"},
		{"an item that is none", "- web", "keys.yaml:1:3: 0: want a mapping"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems, _ := inFile(t, "keys: [{name: web, sha256: "+hash("key-web")+"}]\nkeys_file: keys.yaml\n", tt.keys)
			if problems == nil || !strings.Contains(problems.Error(), tt.want) {
				t.Errorf("problems = %v, want %q", problems, tt.want)
			}
		})
	}
	if _, problems, _ := inFile(t, "keys_file: other.yaml", ""); problems == nil || !strings.Contains(problems.Error(), "a.yaml:1:12: keys_file: the file ") {
		t.Errorf("a file that is not there: %v", problems)
	}
}

// Without a key in the file, which has been emptied, everybody was let in.
func TestEmptyKeysFileLetsNobodyIn(t *testing.T) {
	c, problems, warnings := inFile(t, "keys_file: keys.yaml", "[]")
	if problems != nil || len(warnings) != 1 || !strings.Contains(warnings.Error(), "nobody can call") {
		t.Fatalf("problems %v, warnings %v", problems, warnings)
	}
	k := NewKeys(c, nil)
	if caller, err := k.Caller(t.Context(), ""); k.Open() || !errors.Is(err, ErrUnknown) {
		t.Errorf("Open %v, Caller() = %+v, %v", k.Open(), caller, err)
	}
}

// What a request pays for its key: about 100 ns, with one key or ten thousand.
func BenchmarkCaller(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		c := &Config{}
		for i := range n {
			c.Keys = append(c.Keys, KeyConfig{Name: fmt.Sprint("key-", i), SHA256: hash(fmt.Sprint("secret-", i))})
		}
		k := NewKeys(c, nil)
		for _, token := range []string{fmt.Sprint("secret-", n-1), "unknown"} {
			b.Run(fmt.Sprintf("keys=%d/%s", n, strings.Split(token, "-")[0]), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _ = k.Caller(b.Context(), token)
				}
			})
		}
	}
}

// How long a file of ten thousand keys takes to read and check.
func BenchmarkKeysFile(b *testing.B) {
	var yaml, asJSON strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&yaml, "- {name: key-%d, sha256: %s, caller: {id: %d}}\n", i, hash(fmt.Sprint(i)), i)
		fmt.Fprintf(&asJSON, ",{\"name\":\"key-%d\",\"sha256\":\"%s\",\"caller\":{\"id\":%d}}", i, hash(fmt.Sprint(i)), i)
	}
	for name, text := range map[string]string{"YAML": yaml.String(), "JSON": "[" + asJSON.String()[1:] + "]"} {
		b.Run(name, func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "keys")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				c := &Config{}
				f := config.Parse("a.yaml", ".", []byte("keys_file: "+file), nil)
				f.Decode(c)
				if p := f.Problems(); p != nil || len(c.Keys) != 10_000 {
					b.Fatal(p, len(c.Keys))
				}
			}
		})
	}
}
