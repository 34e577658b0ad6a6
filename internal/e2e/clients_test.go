//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// docs/clients.md shows how to use each client, and these tests run what stands there: a section is a client, its first
// block is the set-up, and each further block is one of features, which its first line names.

// features are what the document shows for every client.
var features = []string{"plain", "stream", "structured", "own tool", "errors", "trace"}

// Further blocks. The set-up of a section stands before the code of each feature; the last is of clients that show
// fields which they do not know.
const (
	setUp       = "set-up"
	streamTrace = "trace of a stream"
)

// program is code that uses a client.
type program struct {
	Code string            `json:"code"`
	Env  map[string]string `json:"env"`
}

// outcome is what a person who runs a program gets to see.
type outcome struct {
	Output string `json:"output"`
	Error  string `json:"error"` // of a program that failed: what its language prints then
}

// runner makes what runs the programs of one section, by the name of their feature.
type runner func(t *testing.T, blocks map[string]string) func(t *testing.T, feature string, env map[string]string) outcome

// documented is a client as one section of the document shows it.
type documented struct {
	run     runner
	classes map[int]string // of its errors, by status
	runs    int            // how often it makes a run by itself that fails after a read, or tooLong
}

// tooLong stands for more runs than a test can wait for: LangChain.js makes 7 in a minute and a half.
const tooLong = -1

var clients = map[string]documented{
	"Python: openai":                         {pythonClient("python"), pythonClasses, 1},
	"Python: langchain-openai":               {pythonClient("frameworks"), langchainClasses, 1},
	"Python: openai-agents":                  {pythonClient("frameworks"), pythonClasses, 1},
	"Python: pydantic-ai":                    {pythonClient("frameworks"), always("ModelHTTPError"), 1},
	"Python: instructor":                     {pythonClient("openai2"), pythonClasses, 1},
	"Python: llama-index":                    {pythonClient("openai2"), pythonClasses, 3},
	"Node: openai":                           {nodeClient("node"), pythonClasses, 1},
	"Node: ai and @ai-sdk/openai-compatible": {nodeClient("frameworks"), always("AI_APICallError"), 3},
	"Node: @langchain/openai":                {nodeClient("frameworks"), pythonClasses, tooLong},
	"Go: openai-go":                          {goClient("openaigo"), always("*apierror.Error"), 1},
	"Go: go-openai":                          {goClient("."), always("*openai.APIError"), 1},
}

var pythonClasses = map[int]string{
	401: "AuthenticationError", 404: "NotFoundError", 422: "UnprocessableEntityError", 429: "RateLimitError", 502: "InternalServerError", 503: "InternalServerError",
}

// LangChain has classes of its own for some, below those of the SDK.
var langchainClasses = map[int]string{
	401: "OpenAIAuthenticationError", 404: "OpenAIModelNotFoundError", 422: "UnprocessableEntityError", 429: "OpenAIRateLimitError", 502: "OpenAIAPIError", 503: "OpenAIAPIError",
}

// always is one class for all errors.
func always(class string) map[int]string {
	return map[int]string{401: class, 404: class, 422: class, 429: class, 502: class, 503: class}
}

const clientsScript = `
conversations:
  - when: 'Which city has (?P<cep>\d{8})'
    model: falling
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]
      - {status: 500, error: out of memory}
  - when: 'Which city has (?P<cep>\d{8})'
    model: writing
    turns:
      - calls: [{name: save_note, arguments: {note: "{cep}"}}]
      - {status: 500, error: out of memory}
  - when: 'Which city has (?P<cep>\d{8})'
    model: thrifty
    turns: [{calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]}]
  - when: 'Which city has (?P<cep>\d{8})'
    turns:
      - {text: Let me look., calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]}
      - {text: "It is in {tool}."}
  - when: 'City and state of (?P<cep>\d{8})'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]
      - {text: '{"city": "Picos", "state": "PI"}'}
  - when: 'Place and weather of (?P<cep>\d{8})'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}, {name: get_weather, arguments: {place: Picos}}]
`

// What the document says runs, with each client, and does what it says there.
func TestClients(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root(), "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := clientSections(t, string(document))
	if got, want := slices.Sorted(maps.Keys(sections)), slices.Sorted(maps.Keys(clients)); !slices.Equal(got, want) {
		t.Fatalf("the document has code for %q, want %q", got, want)
	}
	checkTables(t, string(document))
	for title, c := range clients {
		t.Run(title, func(t *testing.T) { testClient(t, c, sections[title]) })
	}
}

// checkTables holds the document's tables of failures and of repeating against what the tests assert.
func checkTables(t *testing.T, document string) {
	t.Helper()
	for name, f := range failures {
		if row := fmt.Sprintf(" | %d | `%s` | ", f.status, f.code); !strings.Contains(document, row) {
			t.Errorf("%s: the document has no row with %s", name, row)
		}
	}
	for title, c := range clients {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(title) + ` \|.*$`).FindString(document)
		if row == "" || strings.Contains(row, "**yes**") != (c.runs != 1) {
			t.Errorf("the row %q on repeating is not what happens", row)
		}
	}
}

// codeBlock is one of the document: its language, the comment in its first line, and the code below it.
var codeBlock = regexp.MustCompile("(?ms)^```(?:python|js|go)\n(?:#|//) ([^\n]*)\n(.*?)^```$")

// clientSections are the blocks of each section that has any, by what their first line says.
func clientSections(t *testing.T, document string) map[string]map[string]string {
	t.Helper()
	sections := map[string]map[string]string{}
	for _, section := range strings.Split(document, "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		blocks := map[string]string{}
		for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
			if _, ok := blocks[m[1]]; ok {
				t.Errorf("%s has %q twice", title, m[1])
			}
			blocks[m[1]] = m[2]
		}
		if n := strings.Count(text, "\n```") / 2; n != len(blocks) {
			t.Errorf("%s: %d of %d blocks are run: the first line has to name a feature", title, len(blocks), n)
		}
		if len(blocks) > 0 {
			sections[title] = blocks
		}
	}
	return sections
}

func testClient(t *testing.T, c documented, blocks map[string]string) {
	t.Parallel()
	for _, name := range append([]string{setUp}, features...) {
		if _, ok := blocks[name]; !ok {
			t.Fatalf("the section has no %q", name)
		}
	}
	_, shows := blocks[streamTrace]
	if more := len(blocks) - len(features) - 1; more > 1 || shows != (more == 1) {
		t.Fatalf("the section has %q, which nothing runs all of", slices.Sorted(maps.Keys(blocks)))
	}
	w := &clientWorld{run: c.run(t, blocks), classes: c.classes, service: newCEPService(t)}
	w.model = newProvider(t, breaksOff(readsBoth(t, scripted(t, clientsScript))))
	w.gateway = serveSDK(t, w.model, w.service)
	for _, tt := range []struct{ feature, cep, output string }{
		{"plain", "64600001", "It is in CEP 64600-001: Picos/PI."},
		{"stream", "64600002", "It is in CEP 64600-002: Picos/PI."},
		{"structured", "64600003", "Picos PI"},
		{"own tool", "64600004", "I read: CEP 64600-004: Picos/PI; 31 degrees in Picos"},
	} {
		t.Run(tt.feature, func(t *testing.T) {
			if got := strings.TrimSpace(w.do(t, tt.feature).Output); got != tt.output {
				t.Errorf("output = %q, want %q", got, tt.output)
			}
			w.checkAsked(t, tt.feature, tt.cep)
		})
	}
	t.Run("trace", w.testTrace)
	if shows {
		t.Run(streamTrace, func(t *testing.T) {
			if got := strings.TrimSpace(w.do(t, streamTrace).Output); got != "completed lookup_cep" {
				t.Errorf("output = %q, want the stop and the tool", got)
			}
		})
	}
	t.Run("errors", w.testErrors)
	t.Run("stream that breaks off", w.testBroken)
	t.Run("run that fails after a read", func(t *testing.T) { w.testFailedRead(t, c.runs) })
	t.Run("run that fails after a write", w.testFailedWrite)
}

// clientWorld is a gateway with all that it needs, for one client.
type clientWorld struct {
	*gateway
	run     func(t *testing.T, feature string, env map[string]string) outcome
	classes map[int]string
	model   *provider
	service *cepService
}

// env is what a program is given: the environment that the document names.
func (w *clientWorld) env(key, model string) map[string]string {
	return map[string]string{"OPENAI_BASE_URL": w.url + "/v1", "OPENAI_API_KEY": key, "MODEL": model}
}

// do runs a program that has to end well.
func (w *clientWorld) do(t *testing.T, feature string) outcome {
	t.Helper()
	got := w.run(t, feature, w.env(clientKey, "assistant"))
	if got.Error != "" {
		t.Fatalf("the program failed:\n%s\n%s", got.Output, got.Error)
	}
	return got
}

// checkAsked asserts that the gateway's tool ran once, and that the client asked the way that the feature says.
func (w *clientWorld) checkAsked(t *testing.T, feature, cep string) {
	t.Helper()
	if n := w.service.callsFor(cep); n != 1 {
		t.Errorf("the gateway's tool ran %d times, want once", n)
	}
	var requests []asked
	for _, question := range []string{"Which city has ", "City and state of ", "Place and weather of "} {
		requests = append(requests, w.model.requests(question+cep+"?")...)
	}
	if len(requests) != 2 {
		t.Fatalf("the model was asked %d times, want twice", len(requests))
	}
	first := requests[0].body
	// With tools of its own, LlamaIndex streams.
	if streamed := first.Get("stream").Bool(); streamed != (feature == "stream") && feature != "own tool" {
		t.Errorf("stream = %t", streamed)
	}
	if kind := first.Get("response_format.type").Str; (kind == "json_schema") != (feature == "structured") {
		t.Errorf("response_format = %s", first.Get("response_format").Raw)
	}
	if own := first.Get(`tools.#(function.name=="get_weather")`).Exists(); own != (feature == "own tool") {
		t.Errorf("tools = %s", first.Get("tools.#.function.name").Raw)
	}
}

func (w *clientWorld) testTrace(t *testing.T) {
	header, answer, _ := strings.Cut(strings.TrimSpace(w.do(t, "trace").Output), "\n")
	if want := "It is in CEP 64600-006: Picos/PI."; answer != want {
		t.Errorf("answer = %q, want %q", answer, want)
	}
	trace := readTrace(t, header)
	if trace["stop"] != "completed" || trace["calls"] != "1" || !strings.Contains(trace["tools"], `"lookup_cep"`) {
		t.Errorf("the client saw %q, want the trace of a call of lookup_cep", header)
	}
	run := get(t, w.url+"/gateway/runs/"+trace["id"], "Authorization", "Bearer "+clientKey)
	if run.status != http.StatusOK || gjson.Get(run.body, "calls.#.tool").Raw != `["lookup_cep"]` {
		t.Errorf("GET /gateway/runs/%s = %d %s", trace["id"], run.status, run.body)
	}
}

// failures are what a client has to tell apart, with the key and the model that lead there.
var failures = map[string]struct {
	key, model    string
	status        int
	code, message string
}{
	"wrong key":        {"another-key", "assistant", 401, "invalid_api_key", "no valid API key: send one of the gateway's keys as Authorization: Bearer KEY"},
	"unknown model":    {clientKey, "gpt-17", 404, "model_not_found", `the model "gpt-17" does not exist or this key has no access to it; GET /v1/models lists those that it has`},
	"budget ended":     {clientKey, "thrifty", 422, "budget_exhausted", "the run reached its budget (max_steps"},
	"provider is down": {clientKey, "down", 502, "upstream_error", "the upstream could not be reached"},
	"provider rests":   {clientKey, "resting", 503, "upstream_unavailable", "the upstream has failed repeatedly and is given a pause"},
	"rate limit":       {slowKey, "assistant", 429, "rate_limit_exceeded", "this key has used up its limit requests_per_minute (1): try again in "},
}

// waitSeen is the line in which programs print Retry-After.
var waitSeen = regexp.MustCompile(`(?m)^retry after: (\w*)$`)

func (w *clientWorld) testErrors(t *testing.T) {
	for name, tt := range failures {
		t.Run(name, func(t *testing.T) {
			switch tt.status {
			case http.StatusTooManyRequests:
				get(t, w.url+"/v1/models", "Authorization", "Bearer "+slowKey) // all that it has for a minute
			case http.StatusServiceUnavailable:
				w.ask(t, question("resting", "Hello", false), "Authorization", "Bearer "+clientKey) // fails, which opens the breaker
			}
			got := w.run(t, "errors", w.env(tt.key, tt.model))
			if got.Error != "" {
				t.Fatalf("the program did not catch the error:\n%s\n%s", got.Output, got.Error)
			}
			if want := fmt.Sprintf("%s %d %s %s", w.classes[tt.status], tt.status, tt.code, tt.message); !strings.Contains("\n"+got.Output, "\n"+want) {
				t.Errorf("output = %q, want a line that begins with %q", got.Output, want)
			}
			wait := waitSeen.FindStringSubmatch(got.Output)
			if wait == nil {
				t.Fatalf("output = %q, want a line on Retry-After", got.Output)
			}
			later := tt.status == http.StatusTooManyRequests || tt.status == http.StatusServiceUnavailable
			if seconds, _ := strconv.Atoi(wait[1]); later != (seconds > 0 && seconds <= 60) {
				t.Errorf("Retry-After as the client saw it = %q", wait[1])
			}
		})
	}
}

// testBroken asserts that nobody takes a part of an answer for the whole: the program for streams fails, and what it
// prints says why.
func (w *clientWorld) testBroken(t *testing.T) {
	got := w.run(t, "stream", w.env(clientKey, "breaking"))
	if !strings.HasPrefix(got.Output, "all work and no play all work") {
		t.Errorf("output = %q, want what had come", got.Output)
	}
	if !strings.Contains(got.Error, "the upstream failed") {
		t.Errorf("the program said %q, want that the upstream failed", got.Error)
	}
}

// testFailedRead lets the model fail after a tool has read something. Where the client's own repeating is switched off,
// as the block on errors does, the run is made once; else as often as the document says.
func (w *clientWorld) testFailedRead(t *testing.T, runs int) {
	for feature, want := range map[string]int{"errors": 1, "plain": runs} {
		if want == tooLong {
			continue
		}
		before := len(w.service.calls())
		got := w.run(t, feature, w.env(clientKey, "falling"))
		if !strings.Contains(got.Output+got.Error, "502") {
			t.Errorf("%s: the program said %q, %q, want an error of status 502", feature, got.Output, got.Error)
		}
		if n := len(w.service.calls()) - before; n != want {
			t.Errorf("%s: the run was made %d times, want %d", feature, n, want)
		}
	}
}

// testFailedWrite asserts that no client makes a run again by itself that may have changed something. LangChain.js did:
// it repeats 422 too.
func (w *clientWorld) testFailedWrite(t *testing.T) {
	before := len(w.service.calls())
	if got := w.run(t, "plain", w.env(clientKey, "writing")); got.Error == "" {
		t.Errorf("the program said %q, want an error", got.Output)
	}
	if n := len(w.service.calls()) - before; n != 1 {
		t.Errorf("the note was kept %d times, want once", n)
	}
}

// pythonClient runs programs in the venv of a part of setup.sh.
func pythonClient(part string) runner {
	return func(t *testing.T, blocks map[string]string) func(*testing.T, string, map[string]string) outcome {
		dir := installed(t, part)
		run := startDriver[program, outcome](t, dir, filepath.Join(dir, "venv", "bin", "python"), absolute(t, filepath.Join("clients", "run.py")))
		return func(t *testing.T, feature string, env map[string]string) outcome {
			t.Helper()
			return run(t, program{blocks[setUp] + "\n\n" + blocks[feature], env})
		}
	}
}

// nodeClient runs programs with the packages of a part of setup.sh.
func nodeClient(part string) runner {
	return func(t *testing.T, blocks map[string]string) func(*testing.T, string, map[string]string) outcome {
		dir := installed(t, part)
		return func(t *testing.T, feature string, env map[string]string) outcome {
			t.Helper()
			// As an argument it finds the packages in the working directory.
			cmd := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", blocks[setUp]+"\n"+blocks[feature])
			cmd.Dir = dir
			return runProgram(t, cmd, env)
		}
	}
}

// goMain calls the function of one feature, which stands alone in its block.
const goMain = `
func main() {
	if err := map[string]func() error{FUNCTIONS}[os.Args[1]](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

var goFunction = regexp.MustCompile(`(?m)^func (\w+)\(\) error \{$`)

// goClient builds the blocks as one program, in the module in dir.
func goClient(module string) runner {
	return func(t *testing.T, blocks map[string]string) func(*testing.T, string, map[string]string) outcome {
		dir := module
		if module == "openaigo" {
			installed(t, module) // its compiled SDK is in the build cache then
		}
		for name, block := range blocks {
			if tidy, err := format.Source([]byte(block)); err != nil || string(tidy) != block {
				t.Errorf("%s is not as gofmt has it: %v", name, err)
			}
		}
		code, functions := blocks[setUp], ""
		for _, feature := range slices.Sorted(maps.Keys(blocks)) {
			if feature == setUp {
				continue
			}
			block := blocks[feature]
			f := goFunction.FindStringSubmatch(block)
			if f == nil {
				t.Fatalf("%s has no function of the form func NAME() error", feature)
			}
			code += "\n" + block
			functions += strconv.Quote(feature) + ": " + f[1] + ", "
		}
		file, bin := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "client")
		if err := os.WriteFile(file, []byte(code+strings.ReplaceAll(goMain, "FUNCTIONS", functions)), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, file)
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		return func(t *testing.T, feature string, env map[string]string) outcome {
			t.Helper()
			return runProgram(t, exec.CommandContext(t.Context(), bin, feature), env)
		}
	}
}

// runProgram runs a command to its end.
func runProgram(t *testing.T, cmd *exec.Cmd, env map[string]string) outcome {
	t.Helper()
	cmd.Env = environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o := outcome{Output: stdout.String()}
	if err != nil {
		o.Error = err.Error() + "\n" + stderr.String()
	}
	return o
}
