//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// commandBlock is a block of commands of a document, known by its first line. Either run runs it, or why says what keeps it
// from that.
type commandBlock struct {
	document, first string
	run             func(t *testing.T, block string)
	why             string
}

// commands are all blocks of commands but those of the quick start, which TestQuickStart runs one after the other, as they
// build upon each other.
var commands = []commandBlock{
	{document: "README.md", first: "go build -o gateway ./cmd/gateway", run: testFirstScreen},
	{document: "README.md", first: "go run ./cmd/gateway demo", run: testDemoBlock},
	{document: "docs/mock.md", first: "gateway mock script.yaml --listen 127.0.0.1:9000 --requests asked.jsonl", run: testMockBlock},
	{document: "docs/outbound.md", first: "gateway validate --print-config", run: testPrintConfigBlock},
	{document: "docs/runs.md", first: "gateway runs --tool lookup_cep --since 15m", run: testRunsBlock},
	{document: "docs/tools.md", first: "gateway validate --connect -c gateway.yaml", run: testToolsBlock},
	{document: "docs/tools.md", first: firstImport, run: testImportBlock},
	{document: "docs/tools.md", first: "gateway tools import openapi tracker.yaml > entry.yaml", run: testImportOpenAPIBlock},
	{document: "docs/deploy.md", first: "curl http://127.0.0.1:8080/v1/chat/completions -H 'Authorization: Bearer key-for-trying' -H 'Content-Type: application/json' \\", run: testComposeKeyBlock},

	{document: "docs/quickstart.md", first: "export OPENAI_BASE_URL=https://api.openai.com/v1", why: "it is for a provider's real key; the test gives those variables another value"},
	{document: "docs/clients.md", first: "export OPENAI_BASE_URL=http://127.0.0.1:8080/v1   # the gateway's, with /v1", why: "it is for the gateway that one has; TestClients gives every program those variables"},
	{document: "docs/reliability.md", first: "make soak                # 100,000 runs; SOAK_RUNS=1000000 make soak for more", why: "it takes minutes; TestSoak is what it runs, with fewer runs"},
	{document: "docs/performance.md", first: "make compare                     # all rows, five rounds of 2 s each: about ten minutes", why: "it takes half an hour in all; TestCompare makes one short round of some rows"},
	{document: "docs/release.md", first: "sha256sum --check --ignore-missing SHA256SUMS", why: "it is for files that somebody downloaded; TestARelease in deploy/check makes a release, checks its checksums, unpacks it and asks for its version"},
	{document: "docs/release.md", first: "git tag -a v0.1.0 -m v0.1.0", why: "it tags this clone and builds for six platforms; TestARelease in deploy/check makes one for this platform, in another clone"},
	{document: "docs/deploy.md", first: "make image        # of bin/gateway, for this architecture, with docker, podman or buildah", why: "it wants Docker with network; TestTheImage in deploy/check builds the image and starts it"},
	{document: "docs/deploy.md", first: "cd deploy/compose", why: "it wants Docker with network; TestComposeTakesTheFile in deploy/check reads the file as Compose does, and starts its gateway"},
	{document: "docs/deploy.md", first: "kubectl apply -k deploy/kubernetes/example", why: "it wants a cluster; TestKubernetesTakesTheManifests in deploy/check builds and checks the same folder, and a gateway comes up from it"},
}

// shellBlock is a block of commands.
var shellBlock = regexp.MustCompile("(?ms)^```(sh|bash|shell|console)\n(.*?)^```$")

func firstLine(block string) string {
	line, _, _ := strings.Cut(block, "\n")
	return line
}

// excused says why a block is not run, "" for one that is.
func excused(document, block string) string {
	for _, c := range commands {
		if c.document == document && c.first == firstLine(block) {
			return c.why
		}
	}
	return ""
}

// TestCommandsOfDocuments runs every block of commands in the documents, or knows why not.
func TestCommandsOfDocuments(t *testing.T) {
	used := map[int]bool{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		files, err := filepath.Glob(filepath.Join(root(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			document, err := filepath.Rel(root(), file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range shellBlock.FindAllStringSubmatch(readFile(t, file), -1) {
				known := document == "docs/quickstart.md"
				for i, c := range commands {
					if c.document != document || c.first != firstLine(m[2]) {
						continue
					}
					if used[i] {
						t.Errorf("%s has two blocks that begin with %q", document, c.first)
					}
					known, used[i] = true, true
					if (c.run == nil) == (c.why == "") {
						t.Errorf("%s: %q is either run or not", document, c.first)
					}
					if c.run != nil {
						t.Run(document+": "+c.first, func(t *testing.T) { c.run(t, m[2]) })
					}
				}
				if !known {
					t.Errorf("%s: no test runs this block, and nothing says why:\n%s", document, m[2])
				}
			}
		}
	}
	for i, c := range commands {
		if !used[i] {
			t.Errorf("%s has no block that begins with %q", c.document, c.first)
		}
	}
}

// blocksOf are a document's blocks of one language.
func blocksOf(t *testing.T, document, language string) []string {
	t.Helper()
	var list []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(readFile(t, filepath.Join(root(), document)), -1) {
		list = append(list, m[1])
	}
	return list
}

// desk is where somebody types what a document says: a folder, with the gateway in the path.
type desk struct {
	dir string
	env []string
}

func newDesk(t *testing.T, env ...string) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir()}
	bin := t.TempDir()
	if err := os.Symlink(absolute(t, binary), filepath.Join(bin, "gateway")); err != nil {
		t.Fatal(err)
	}
	d.env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=50", "OPENAI_BASE_URL=", "NO_PROXY=127.0.0.1"), env...)
	return d
}

func (d *desk) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) command(ctx context.Context, t *testing.T, script string) *exec.Cmd {
	t.Helper()
	// The binary that all tests have is built already.
	script = strings.ReplaceAll(script, "go build -o gateway ./cmd/gateway", "cp '"+absolute(t, binary)+"' gateway")
	script = strings.ReplaceAll(script, "go run ./cmd/gateway", "gateway")
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = d.dir, d.env
	return cmd
}

// runs runs a block to its end, and gives what it printed.
func (d *desk) runs(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := d.command(ctx, t, script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// serves runs a block that does not end until it is told to, and waits until url answers.
func (d *desk) serves(t *testing.T, script, url string) *output {
	t.Helper()
	if resp, err := http.DefaultClient.Do(newRequest(t, http.MethodGet, url, nil)); err == nil {
		_ = resp.Body.Close()
		t.Fatalf("somebody else serves %s", url)
	}
	cmd := d.command(context.Background(), t, script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // all that the block starts ends together
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the block
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			t.Error("the block did not end after SIGTERM")
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
	await(t, url+" answers", func() bool {
		select {
		case <-ended:
			t.Fatalf("the block ended:\n%s", out)
		default:
		}
		resp, err := http.DefaultClient.Do(newRequest(t, http.MethodGet, url, nil))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return out
}

const atGateway = "http://127.0.0.1:8080"

// postalCodes answers as the service of the README does.
func postalCodes(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "01001000") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"cep":"01001-000","localidade":"São Paulo","uf":"SP"}`))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const postalScript = `
conversations:
  - when: '(?P<first>\d{5})-?(?P<last>\d{3})'
    turns: [{calls: [{name: lookup_cep, arguments: {cep: "{first}{last}"}}]}, {text: "The postal code {first}-{last} is in {tool}."}]
  - when: files
    turns: [{calls: [{name: files__list_directory, arguments: {path: "."}}]}, {text: "These: {tool}"}]
  - turns: [{text: Hello!}]
`

// testFirstScreen is somebody who has a clone, a key and the README: its file, its commands, its client, its answer.
// The provider and the service that the file names are others.
func testFirstScreen(t *testing.T, block string) {
	up := newProvider(t, scripted(t, postalScript))
	yaml := blocksOf(t, "README.md", "yaml")
	files := strings.NewReplacer("https://api.openai.com/v1", up.URL+"/v1", "https://viacep.com.br", postalCodes(t))
	d := newDesk(t)
	d.write(t, "gateway.yaml", files.Replace(yaml[0]))
	out := d.serves(t, block, atGateway+"/healthz")
	if strings.Contains(out.String(), `"warning"`) {
		t.Errorf("the gateway warns of the file:\n%s", out)
	}

	python := filepath.Join(installed(t, "python"), "venv", "bin", "python")
	d.write(t, "client.py", blocksOf(t, "README.md", "python")[0])
	got := d.runs(t, "'"+python+"' client.py")
	if want := blocksOf(t, "README.md", "text")[0]; masked(got) != masked(want) {
		t.Errorf("the client prints\n%s\nthe document says\n%s", got, want)
	}
	if key := up.requests("Which city has the postal code 01001-000?")[0].header.Get("Authorization"); key != "Bearer sk-..." {
		t.Errorf("the provider's key is %q, want that of the environment", key)
	}

	d.write(t, "gateway.yaml", files.Replace(yaml[0])+yaml[1]) // the running gateway takes it in
	await(t, "the MCP server's tools are offered", func() bool { return strings.Contains(get(t, atGateway+"/gateway/tools").body, "files__") })
	r := send(t, http.DefaultClient, newRequest(t, http.MethodPost, atGateway+"/v1/chat/completions", strings.NewReader(question("gpt-5-mini", "Which files are there?", false)), "Content-Type", "application/json"))
	if r.status != http.StatusOK || !strings.Contains(r.body, "client.py") {
		t.Errorf("the files: %d %s", r.status, r.body)
	}
}

// masked is a text without the parts that differ between two runs.
func masked(text string) string {
	text = regexp.MustCompile(`run_[0-9A-Z]{26}`).ReplaceAllString(text, "run_ID")
	return strings.TrimSpace(regexp.MustCompile(`ms=\d+`).ReplaceAllString(text, "ms=N"))
}

func testDemoBlock(t *testing.T, block string) {
	out := newDesk(t).serves(t, block, atGateway+"/healthz")
	await(t, "the demo shows its answer", func() bool { return strings.Contains(out.String(), "São Paulo/SP") })
}

func testMockBlock(t *testing.T, block string) {
	d := newDesk(t)
	d.write(t, "script.yaml", blocksOf(t, "docs/mock.md", "yaml")[0])
	out := d.serves(t, block, "http://127.0.0.1:9000/v1/models")
	// As the document goes on: the gateway in front of it.
	g := serve(t, "server: {listen: \"127.0.0.1:0\"}\n"+blocksOf(t, "docs/mock.md", "yaml")[1])
	if r := g.ask(t, question("gpt-5", "Where?", false)); gjson.Get(r.body, "choices.0.message.content").Str != "Which postal code?" {
		t.Errorf("the answer is %d %s", r.status, r.body)
	}
	if line := regexp.MustCompile(`(?m)^request \d+: model "gpt-5", messages 1, tools 0 -> 200, conversations\.1\.turns\.0$`); !line.MatchString(out.String()) {
		t.Errorf("the mock says\n%s\nwant a line %s", out, line)
	}
	if asked := readFile(t, filepath.Join(d.dir, "asked.jsonl")); strings.Count(asked, "\n") != 1 || !strings.Contains(asked, `"gpt-5"`) {
		t.Errorf("asked.jsonl has %s", asked)
	}
}

func testPrintConfigBlock(t *testing.T, block string) {
	d := newDesk(t, "OPENAI_API_KEY="+operatorKey)
	d.write(t, "gateway.yaml", blocksOf(t, "README.md", "yaml")[0])
	out := d.runs(t, block)
	if strings.Contains(out, operatorKey) || !strings.Contains(out, "***") || !strings.Contains(out, "lookup_cep") {
		t.Errorf("the configuration is printed as\n%s", out)
	}
}

func testRunsBlock(t *testing.T, block string) {
	up := newProvider(t, scripted(t, postalScript))
	yaml := strings.NewReplacer("https://api.openai.com/v1", up.URL+"/v1", "https://viacep.com.br", postalCodes(t)).Replace(blocksOf(t, "README.md", "yaml")[0])
	g := serve(t, "server: {listen: \"127.0.0.1:0\"}\ntrace: {content: true}\n"+yaml, "OPENAI_API_KEY="+operatorKey)
	run := readTrace(t, g.ask(t, question("gpt-5-mini", "Where is 01001-000?", false)).header.Get(traceHeader))["id"]
	const documents = "run_01M8NEGZYB1ZG8SQ151NKKQVTY"
	if !strings.Contains(block, documents) {
		t.Fatalf("the block has no %s", documents)
	}
	out := newDesk(t, "GATEWAY_URL="+g.url).runs(t, strings.ReplaceAll(block, documents, run))
	if strings.Count(out, run) < 2 {
		t.Errorf("the run is not in the list and shown:\n%s", out)
	}
	for _, want := range []string{"lookup_cep", "model call 1", "model call 2", "tool_calls", `arguments {"cep":"01001000"}`} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func testToolsBlock(t *testing.T, block string) {
	sum := sha256.Sum256([]byte(clientKey))
	d := newDesk(t, "OPENAI_API_KEY="+operatorKey, "SHOP_URL=https://shop.example.com", "SHOP_KEY=key-of-the-shop")
	yaml := strings.ReplaceAll(blocksOf(t, "README.md", "yaml")[0], "https://viacep.com.br", postalCodes(t))
	d.write(t, "gateway.yaml", yaml+"models: {assistant: {upstream: openai, model: gpt-5-mini}}\nauth: {keys: [{name: web, sha256: "+hex.EncodeToString(sum[:])+"}]}\n")
	if err := os.Symlink(absolute(t, filepath.Join(root(), "examples")), filepath.Join(d.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	out := d.runs(t, block)
	for _, want := range []string{"lookup_cep", "São Paulo/SP", "4 passed, 0 failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

const firstImport = `gateway tools import curl 'curl -H "Authorization: Bearer a-real-token" "https://api.example.com/users/42/orders?state=open&limit=10"'`

// printsWhatIsShown holds an output against the block of docs/tools.md that has a mark.
func printsWhatIsShown(t *testing.T, out, mark string) {
	t.Helper()
	shown := ""
	for _, b := range blocksOf(t, "docs/tools.md", "text") {
		if strings.Contains(b, mark) {
			shown = b
		}
	}
	if shown == "" || !strings.Contains(out, shown) {
		t.Errorf("the document shows\n%s\nand the output is\n%s", shown, out)
	}
}

// testImportBlock makes tools of curl commands: the first is the one that the document shows.
func testImportBlock(t *testing.T, block string) {
	d := newDesk(t)
	d.write(t, "command.txt", "curl https://api.example.com/orders/4711\n")
	out := d.runs(t, block)
	printsWhatIsShown(t, out, "get_users_orders:")
	for _, want := range []string{"find_orders:", "export EXAMPLE_TOKEN=...", "todo: say under tools.find_orders"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// testImportOpenAPIBlock makes entries of a document: the second is the one that docs/tools.md shows.
func testImportOpenAPIBlock(t *testing.T, block string) {
	d := newDesk(t)
	d.write(t, "tracker.yaml", `openapi: 3.1.0
info: {title: Tracker, version: "1"}
servers: [{url: https://tracker.example.com/api}]
security: [{token: []}]
components: {securitySchemes: {token: {type: http, scheme: bearer}}}
paths:
  /issues:
    get: {operationId: list_issues, summary: List issues by state.}
    post: {operationId: create_issue, summary: Open an issue.}
  /users:
    get: {operationId: list_users_admin, summary: List all users.}
    post: {operationId: add_user, summary: Add a user.}
`)
	out := d.runs(t, block)
	printsWhatIsShown(t, out, "spec: tracker.yaml")
	for _, want := range []string{"tracker__create_issue", "in each request", "export TRACKER_TOKEN=..."} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if entry := d.runs(t, "cat entry.yaml"); !strings.Contains(entry, "- add_user") {
		t.Errorf("entry.yaml has not every operation:\n%s", entry)
	}
}

// testComposeKeyBlock asks as the key of the Compose setup: the gateway has its file of keys.
func testComposeKeyBlock(t *testing.T, block string) {
	up := newProvider(t, scripted(t, postalScript))
	keys := absolute(t, filepath.Join(root(), "deploy", "compose", "gateway", "keys.yaml"))
	d := newDesk(t)
	d.write(t, "gateway.yaml", strings.NewReplacer("https://api.openai.com/v1", up.URL+"/v1", "https://viacep.com.br", postalCodes(t)).Replace(blocksOf(t, "README.md", "yaml")[0])+"auth: {keys_file: "+keys+"}\n")
	d.serves(t, "OPENAI_API_KEY=sk-x gateway serve", atGateway+"/healthz")
	if out := d.runs(t, block); !strings.Contains(out, "01001-000 is in São Paulo/SP") {
		t.Errorf("the answer is %s", out)
	}
}
