package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/config"
)

// secretsTemplate is a file with a secret at each place where one may stand: of the environment, of a file, or in plain
// words. Every one has SECRET in it, and nothing else has.
const secretsTemplate = `
server: {listen: "127.0.0.1:0"}
log: {level: debug}
trace: {content: true}
auth:
  open: true
  keys: [{name: web, sha256: "${WEB_SHA256}"}]
upstreams:
  env: {base_url: "${UP}/v1", api_key: "${KEY_SECRET_1}", headers: {X-Team: "${KEY_SECRET_2}", X-Plain: plain-SECRET-3}, retry: {attempts: 1}}
  file: {base_url: "${UP}/v1", api_key: "${file:key.txt}"}
  plain: {base_url: "${UP}/v1", api_key: sk-plain-SECRET-5}
models: {m: {upstream: env}, n: {upstream: file}, o: {upstream: plain}}
databases:
  shop: {url: "postgres://u:SECRET-6@127.0.0.1:1/x"}
  bills: {url: "postgres://u:${KEY_SECRET_7}@127.0.0.1:1/x?password=SECRET-8"}
mcp_servers:
  local: {command: /bin/false, env: {MCP_KEY: "${KEY_SECRET_9}", OTHER: plain-SECRET-10}}
  remote: {url: "${UP}/mcp?token=SECRET-11", headers: {Authorization: Bearer SECRET-12, X-Tenant: "${KEY_SECRET_13}"}}
openapi:
  store: {spec: shop.yaml, base_url: "${UP}/store", headers: {X-Api-Key: SECRET-14}, auth: {query: {name: key, value: SECRET-15}}}
tools:
  bearer: {description: One., parameters: {}, http: {url: "${UP}/fail", auth: {bearer: SECRET-16}}}
  basic: {description: One., parameters: {}, http: {url: "${UP}/fail", auth: {basic: {username: u, password: "${KEY_SECRET_17}"}}}}
  header: {description: One., parameters: {}, http: {url: "${UP}/fail", auth: {header: {name: X-Key, value: SECRET-18}}, headers: {Cookie: s=SECRET-19}}}
  query: {description: One., parameters: {}, http: {url: "${UP}/fail?api_key=SECRET-20", query: {access_token: SECRET-21}}}
  userinfo: {description: One., parameters: {}, http: {url: "http://u:SECRET-22@${HOST}/fail"}}
  down: {description: One., parameters: {}, http: {url: "http://u:SECRET-23@127.0.0.1:1/fail?key=SECRET-24"}}
  run: {description: One., parameters: {}, exec: {command: [/bin/sh, -c, "echo failed with $TOOL_KEY $OTHER_TOKEN >&2; exit 3"], env: {TOOL_KEY: "${KEY_SECRET_25}", OTHER_TOKEN: plain-SECRET-26}}}
  desk: {description: One., parameters: {}, handoff: {message: bye, webhook: {url: "${UP}/fail", headers: {X-Desk: SECRET-27}}}}
  sql: {description: One., parameters: {}, sql: {database: shop, query: SELECT 1}}
`

// echoed is a service that repeats all that it was told, as bad ones do.
func echoed(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/chat/completions" {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "refuse") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"not with %s and %s","type":"invalid_request_error"}}`, r.Header.Get("Authorization"), r.Header.Get("X-Team"))
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s %s"}}`, r.Header.Get("Authorization"), r.Header.Get("X-Team"))
		return
	}
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprintf(w, "%s %v", r.RequestURI, r.Header)
}

// everywhere is the file, its folder and environment, and all secrets.
func everywhere(t *testing.T) (text, dir string, env map[string]string, secrets []string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(echoed))
	t.Cleanup(s.Close)
	dir = t.TempDir()
	text = strings.ReplaceAll(secretsTemplate, "${HOST}", strings.TrimPrefix(s.URL, "http://"))
	env = map[string]string{"UP": s.URL, "WEB_SHA256": strings.Repeat("5ec2e7", 11)[:64]}
	for _, m := range regexp.MustCompile(`\$\{(KEY_SECRET_\d+)\}`).FindAllStringSubmatch(secretsTemplate, -1) {
		env[m[1]] = "value-of-" + m[1]
		secrets = append(secrets, env[m[1]])
	}
	for name, text := range map[string]string{"key.txt": "sk-file-SECRET-4\n", "shop.yaml": shopDocument} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secrets = append(secrets, "sk-file-SECRET-4", env["WEB_SHA256"])
	secrets = append(secrets, regexp.MustCompile(`(plain-|sk-plain-)?SECRET-\d+`).FindAllString(secretsTemplate, -1)...)
	if len(secrets) < 27 {
		t.Fatalf("%d secrets", len(secrets))
	}
	return text, dir, env, secrets
}

// wantNone fails where a text holds a secret.
func wantNone(t *testing.T, secrets []string, where, text string) {
	t.Helper()
	for _, s := range secrets {
		if i := strings.Index(text, s); i >= 0 {
			t.Errorf("%s holds %s: %s", where, s, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	if i := strings.Index(text, "SECRET"); i >= 0 && !strings.Contains(text, "${KEY_SECRET") {
		t.Errorf("%s holds a piece of a secret: %s", where, text[max(0, i-40):min(len(text), i+40)])
	}
}

func TestNoSecretIsInThePrintedConfiguration(t *testing.T) {
	yaml, dir, env, secrets := everywhere(t)
	f := config.Parse("gateway.yaml", dir, []byte(yaml), lookupIn(env))
	c, err := check(f)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close() //nolint:errcheck // nothing was opened
	text := string(c.effective(f))
	wantNone(t, secrets, "the configuration", text)
	for _, keep := range []string{env["UP"] + "/v1", "max_steps: 12", "X-Tenant: \"***\"", "connect_timeout: 5s", "api_key: \"***\"", "name: web"} {
		if !strings.Contains(text, keep) {
			t.Errorf("the configuration lacks %q:\n%s", keep, text)
		}
	}
}

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// What is printed can be read again, and is printed the same then. Only a mask may not fit where it stands.
func TestThePrintedConfigurationIsReadAgain(t *testing.T) {
	yaml, dir, env, _ := everywhere(t)
	type file struct{ dir, text string }
	files := map[string]file{"secrets everywhere": {dir, yaml}, "none": {dir, environmentFile}}
	for _, name := range exampleFiles(t) {
		files[strings.TrimPrefix(name, "../../examples/")] = file{filepath.Dir(name), read(t, name)}
	}
	lookup := func(name string) (string, bool) {
		if v, ok := env[name]; ok {
			return v, true
		}
		return documentEnvironment(name)
	}
	for name, of := range files {
		t.Run(name, func(t *testing.T) {
			f := config.Parse("gateway.yaml", of.dir, []byte(of.text), lookup)
			c, err := check(f)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close() //nolint:errcheck // nothing was opened
			printed := c.effective(f)
			again := config.Parse("printed.yaml", of.dir, printed, func(string) (string, bool) { return "", false })
			for _, p := range func() config.Problems { _, _ = check(again); return again.Problems() }() {
				line := strings.Split(string(printed), "\n")[p.Pos.Line-1]
				if !strings.Contains(line, "***") && !strings.Contains(p.Message, "***") {
					t.Errorf("%s\n%s", p, line)
				}
			}
			second := &checked{}
			f2 := config.Parse("printed.yaml", of.dir, printed, func(string) (string, bool) { return "", false })
			f2.Decode(&second.settings)
			second.limits = c.limits
			if diff := cmp.Diff(string(printed), string(second.effective(f2))); diff != "" {
				t.Errorf("the second print differs (-first +second):\n%s", diff)
			}
		})
	}
}

func TestNoSecretLeavesTheGateway(t *testing.T) {
	yaml, dir, env, secrets := everywhere(t)
	g, logs := loggingGateway(t, dir, yaml, env)
	front := httptest.NewServer(g.server.Handler(true))
	defer front.Close()
	ctx := t.Context()
	stop := g.mcp.start(ctx)
	_ = g.mcp.settle(ctx)
	defer stop()
	for _, one := range g.tools.All() {
		wantNone(t, secrets, "what the model reads of "+one.Name, callTool(t, g, one.Name))
		wantNone(t, secrets, "the declaration of "+one.Name, string(one.Declaration()))
	}
	for _, model := range []string{"m", "n", "o"} {
		for _, say := range []string{"hi", "refuse"} {
			body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, say)
			for _, stream := range []string{body, strings.Replace(body, "{", `{"stream":true,`, 1)} {
				_, reply := post(t, front, stream, nil)
				wantNone(t, secrets, "the reply to "+stream, reply)
			}
		}
	}
	for _, path := range []string{"/gateway/tools", "/gateway/approvals", "/metrics", "/readyz", "/v1/models", "/openapi.yaml", "/v1/nothing"} {
		resp, err := front.Client().Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		wantNone(t, secrets, path, string(body)+fmt.Sprint(resp.Header))
	}
	runs := regexp.MustCompile(`run_[0-9A-Z]{26}`).FindAllString(logs.String(), -1)
	if len(runs) == 0 {
		t.Error("the log has no run")
	}
	for _, id := range runs {
		resp, err := front.Client().Get(front.URL + "/gateway/runs/" + id)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the run %s: %d", id, resp.StatusCode)
		}
		wantNone(t, secrets, "the run "+id, string(body))
	}
	text := logs.String()
	if !strings.Contains(text, "tool call failed") || !strings.Contains(text, `"level":"DEBUG"`) {
		t.Errorf("the log is not that of failures from debug up:\n%s", text)
	}
	wantNone(t, secrets, "the log", text)
}

// A program gets what its env says and none of the gateway's own environment, and no secret is in its arguments, which
// everybody on the machine can read.
func TestWhatAProgramIsGiven(t *testing.T) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("no /proc")
	}
	t.Setenv("OPENAI_API_KEY", "sk-of-the-gateway")
	dir := t.TempDir()
	script := "#!/bin/sh\nenv\ntr '\\0' ' ' < /proc/$$/cmdline\n"
	if err := os.WriteFile(filepath.Join(dir, "show"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	g, _ := loggingGateway(t, dir, `
upstreams: {up: {base_url: "http://127.0.0.1:1/v1", api_key: "${OPENAI_API_KEY}"}}
tools: {show: {description: Shows., parameters: {}, exec: {command: [./show, plain, "${HOME}"], env: {TOOL_KEY: "${TOOL_KEY}", PATH: "${PATH}"}}}}
`, map[string]string{"OPENAI_API_KEY": "sk-of-the-gateway", "TOOL_KEY": "key-of-the-tool", "HOME": "/home/of-it", "PATH": os.Getenv("PATH")})
	text := callTool(t, g, "show")
	if strings.Contains(text, "OPENAI") || strings.Contains(text, "sk-of-the-gateway") {
		t.Errorf("the program has the gateway's own environment: %s", text)
	}
	_, arguments, _ := strings.Cut(text, "/bin/sh")
	if !strings.Contains(arguments, "/home/of-it") || strings.Contains(arguments, "key-of-the-tool") {
		t.Errorf("the arguments are %q of %s", arguments, text)
	}
}

func TestSecretsInArgumentsAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key.txt"), []byte("key-of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"HOME": "/home/me", "PWD": "/home/me/gateway", "REGION": "eu-central-1", "SERVICE_URL": "https://service.test", "API_KEY": "key-0123", "GITHUB_TOKEN": "token-0123",
		"DB_PASSWORD": "password-0123", "SORT_KEY": "id", "DATABASE_URL": "postgres://u:pass-0123@db/x", "KEYBOARD": "qwertz-layout",
	}
	for argument, want := range map[string]string{
		"${HOME}/bin/x": "", "${PWD}/x": "", "${REGION}": "", "${SERVICE_URL}": "", "${SORT_KEY}": "", "${KEYBOARD}": "", "${NO_TOKEN:-of-the-file}": "",
		"--key=${API_KEY}": "${API_KEY} is a secret by its name", "${GITHUB_TOKEN}": "${GITHUB_TOKEN} is a secret", "${DB_PASSWORD}": "${DB_PASSWORD} is",
		"${file:key.txt}": "a ${file:...} is a secret", "${DATABASE_URL}": "warning: the address has a password",
	} {
		for _, place := range []string{
			"tools: {a: {description: Says what it is given to say., effect: read, parameters: {}, exec: {command: [/bin/echo, %q]}}}",
			"mcp_servers: {a: {command: [/bin/echo, %q]}}",
			"mcp_servers: {a: {command: /bin/echo, args: [one, %q]}}",
		} {
			f := config.Parse("gateway.yaml", dir, []byte("upstreams: {up: {base_url: http://up.test/v1}}\n"+fmt.Sprintf(place, argument)), lookupIn(env))
			_, _ = check(f)
			var said []string
			for _, p := range f.Problems() {
				said = append(said, p.String())
			}
			for _, p := range f.Warnings() {
				said = append(said, "warning: "+p.Message)
			}
			text := strings.Join(said, "\n")
			switch {
			case want == "" && text != "":
				t.Errorf("%s in %s: %s", argument, place, text)
			case want != "" && (!strings.Contains(text, want) || !strings.Contains(text, "env") || len(said) != 1):
				t.Errorf("%s in %s: %q, want %q and the remedy", argument, place, text, want)
			}
			for _, value := range []string{"key-0123", "token-0123", "password-0123", "key-of-the-file", "pass-0123"} {
				if strings.Contains(text, value) {
					t.Errorf("%s in %s: the message shows %s", argument, place, value)
				}
			}
		}
	}
}

// The gateway itself takes no secret on its command line.
func TestNoFlagIsForASecret(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, m := range regexp.MustCompile(`--(\S+).*`).FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
			switch {
			case m[1] == "key" && strings.Contains(m[0], "by its name"):
			case regexp.MustCompile(`(?i)token|secret|password|key`).MatchString(m[1]):
				t.Errorf("%s %s", cmd.CommandPath(), m[0])
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root())
}
