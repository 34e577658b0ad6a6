//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// job is one chat completion that a client asks for.
type job struct {
	BaseURL    string          `json:"base_url"`
	APIKey     string          `json:"api_key"`
	Model      string          `json:"model"`
	Prompt     string          `json:"prompt"`
	Mode       mode            `json:"mode"`
	MaxRetries *int            `json:"max_retries,omitempty"` // nil: the SDK's own default
	Tools      json.RawMessage `json:"tools,omitempty"`
	Key        string          `json:"key,omitempty"` // sent as Idempotency-Key
}

// mode is how the answer is asked for.
type mode string

const (
	plain  mode = "plain"  // in one piece
	stream mode = "stream" // chunk by chunk
	helper mode = "helper" // chunk by chunk, put together by the SDK itself, which is stricter
)

// result is what a program that uses the SDK got to see.
type result struct {
	Text   string   `json:"text"`
	Finish string   `json:"finish_reason"`
	Calls  []string `json:"calls"` // names of the tool calls in the answer
	Total  int      `json:"total_tokens"`
	Trace  string   `json:"trace"` // the header; "" where the SDK does not show it in that mode
	Error  *failure `json:"error"`
}

// failure is an error as the SDK raises it.
type failure struct {
	Class       string `json:"class"`
	Status      int    `json:"status"`
	Code        string `json:"code"`
	Message     string `json:"message"`
	ShouldRetry string `json:"should_retry"` // header of the reply, "" where the SDK does not show it
	Trace       string `json:"trace"`        // likewise
}

// sdk is a client library, and what is its own.
type sdk struct {
	start   func(*testing.T) func(*testing.T, job) result // makes what does its jobs
	modes   []mode
	classes map[int]string // its classes of errors by status; 500 stands for all from there on, 0 for any other
	repeats bool           // it repeats requests by itself
	headers bool           // its errors have the reply's header
	wrote   int            // the status of a failure after a write: one that it does not repeat; default 422
}

// The official SDKs for Python and Node name their errors alike.
var officialClasses = map[int]string{
	400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 422: "UnprocessableEntityError", 429: "RateLimitError",
	500: "InternalServerError", 0: "APIError",
}

func TestSDKPython(t *testing.T) {
	testSDK(t, sdk{
		start: func(t *testing.T) func(*testing.T, job) result {
			dir := installed(t, "python")
			return startDriver[job, result](t, dir, filepath.Join(dir, "venv", "bin", "python"), absolute(t, filepath.Join("python", "driver.py")))
		},
		modes:   []mode{plain, stream, helper},
		classes: officialClasses,
		repeats: true,
		headers: true,
	})
}

func TestSDKNode(t *testing.T) {
	testSDK(t, sdk{
		start: func(t *testing.T) func(*testing.T, job) result {
			program, err := os.ReadFile(filepath.Join("node", "driver.mjs"))
			if err != nil {
				t.Fatal(err)
			}
			// As an argument it finds the SDK in the working directory; as a file only beside itself.
			return startDriver[job, result](t, installed(t, "node"), "node", "--input-type=module", "--eval", string(program))
		},
		modes:   []mode{plain, stream, helper},
		classes: officialClasses,
		repeats: true,
		headers: true,
		wrote:   http.StatusBadRequest, // LangChain.js, which is built on it, repeats 422
	})
}

func TestSDKOpenAIGo(t *testing.T) {
	testSDK(t, sdk{
		start: func(t *testing.T) func(*testing.T, job) result {
			dir := installed(t, "openaigo")
			return startDriver[job, result](t, dir, filepath.Join(dir, "client"))
		},
		modes:   []mode{plain, stream, helper},
		classes: map[int]string{400: "Error", 401: "Error", 404: "Error", 422: "Error", 429: "Error", 500: "Error", 0: "error"},
		repeats: true,
		headers: true,
	})
}

// installed is the folder of one part of setup.sh, which is run where the part is missing.
func installed(t *testing.T, part string) string {
	t.Helper()
	setup.Lock()
	defer setup.Unlock()
	if out, err := exec.CommandContext(t.Context(), "./setup.sh", "--check", part).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("TOOLGATE_E2E") == "require" {
			t.Fatalf("%s: run internal/e2e/setup.sh first, with the same Go\n%s", err, out)
		}
		if out, err := exec.CommandContext(t.Context(), "./setup.sh", part).CombinedOutput(); err != nil {
			t.Fatalf("setup.sh %s: %s\n%s", part, err, out)
		}
	}
	cache := os.Getenv("TOOLGATE_E2E_CACHE")
	if cache == "" {
		cache = filepath.Join(".cache", "e2e")
	}
	if !filepath.IsAbs(cache) {
		cache = filepath.Join(root(), cache)
	}
	return absolute(t, filepath.Join(cache, part))
}

// setup keeps parts from being installed side by side: each takes all of a small machine.
var setup sync.Mutex

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// environ is the environment without what of the machine's may take a client elsewhere.
func environ() []string {
	return append(os.Environ(), "OPENAI_BASE_URL=", "OPENAI_ORG_ID=", "OPENAI_PROJECT_ID=", "LANGSMITH_TRACING_V2=false", "NO_PROXY=127.0.0.1")
}

// startDriver starts a program in dir that reads a job a line and writes a result a line.
func startDriver[J, R any](t *testing.T, dir, name string, args ...string) func(*testing.T, J) R {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = environ()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() { // ends with the program
		defer close(lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close() // it ends with its input
		for range lines {
		}
		err := cmd.Wait()
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, stderr.String())
		}
	})
	return func(t *testing.T, j J) R {
		t.Helper()
		line, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stdin.Write(append(line, '\n')); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("%s ended at %+v", name, j)
			}
			var r R
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v: %s", name, err, line)
			}
			return r
		case <-time.After(patience):
			cancel()
			t.Fatalf("%s: no result of %+v", name, j)
			panic("unreachable")
		}
	}
}

const (
	clientKey = "a-key-of-the-gateway"
	slowKey   = "a-key-that-may-ask-once-a-minute"
)

const sdkConfig = `
server: {listen: "127.0.0.1:0"}
auth:
  keys:
    - {name: sdk, sha256: "${KEY_SUM}"}
    - {name: slow, sha256: "${SLOW_SUM}", limits: {requests_per_minute: 1}}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 1000}}
  down: {base_url: "${CLOSED}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 1000}}
  resting: {base_url: "${CLOSED}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 1, open_for: 50s}}
models:
  assistant: {upstream: scripted}
  hurried: {upstream: scripted, budget: {max_seconds: 1}}
  thrifty: {upstream: scripted, budget: {max_steps: 2, on_exhausted: error}}
  breaking: {upstream: scripted}
  falling: {upstream: scripted}
  writing: {upstream: scripted}
  down: {upstream: down}
  resting: {upstream: resting}
tools:` + cepTool + `
  save_note:
    description: Keep a note.
    parameters: {note: string}
    http: {method: POST, url: "${SERVICE}/notes", body: json}
`

const sdkScript = `
conversations:
  - when: 'Which city has (?P<cep>\d{8})'
    turns:
      - {text: Let me look., calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]}
      - {text: "The place of {tool}, as the service says."}
  - when: 'Weather of (?P<cep>\d{8})'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}, {name: get_weather, arguments: {place: Picos}}]
  - when: 'never stop'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "10000001"}}]
      - calls: [{name: lookup_cep, arguments: {cep: "10000002"}}]
  - when: 'wait for ever'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "99999999"}}]
  - when: 'note and fall'
    turns:
      - calls: [{name: save_note, arguments: {note: fell}}]
      - {status: 500, error: out of memory}
  - when: 'note (?P<note>\S+) at once'
    turns:
      - calls: [{name: save_note, arguments: {note: "{note}"}}]
      - {text: "Note {note} is {tool}."}
  - when: 'note (?P<note>\S+) and think'
    turns:
      - calls: [{name: save_note, arguments: {note: "{note}"}}]
      - {text: "Note {note} is {tool}.", delay: 500ms}
  - when: 'note (?P<note>\S+) and fall'
    turns:
      - calls: [{name: save_note, arguments: {note: "{note}"}}]
      - {status: 500, error: out of memory}
  - when: 'too long'
    turns: [{status: 400, code: context_length_exceeded, error: the prompt is too long}]
  - when: 'too fast'
    turns: [{status: 429, code: rate_limit_exceeded, error: slow down, headers: {Retry-After: "1"}}]
  - when: 'fall over'
    turns: [{status: 500, error: out of memory}]
  - turns: [{text: Hello.}]
`

// world is a gateway with all that it needs, for one SDK.
type world struct {
	sdk
	*gateway
	model   *provider
	service *cepService
	do      func(*testing.T, job) result
}

// serveSDK starts a gateway with sdkConfig.
func serveSDK(t *testing.T, model *provider, service *cepService) *gateway {
	t.Helper()
	key, slow := sha256.Sum256([]byte(clientKey)), sha256.Sum256([]byte(slowKey))
	return serve(t, sdkConfig, "UPSTREAM="+model.URL, "SERVICE="+service.URL, "CLOSED="+closedAddress(t), "OPERATOR_KEY="+operatorKey,
		"KEY_SUM="+hex.EncodeToString(key[:]), "SLOW_SUM="+hex.EncodeToString(slow[:]))
}

func testSDK(t *testing.T, s sdk) {
	t.Parallel()
	if s.wrote == 0 {
		s.wrote = http.StatusUnprocessableEntity
	}
	w := &world{sdk: s, do: s.start(t), service: newCEPService(t)}
	w.model = newProvider(t, breaksOff(scripted(t, sdkScript)))
	w.gateway = serveSDK(t, w.model, w.service)
	for _, m := range s.modes {
		t.Run(string(m)+": an answer after a tool call", func(t *testing.T) { w.testAnswer(t, m) })
		t.Run(string(m)+": the client's own tool comes back to it alone", func(t *testing.T) { w.testOwnTool(t, m) })
		t.Run(string(m)+": errors are those of the SDK", func(t *testing.T) { w.testErrors(t, m) })
		t.Run(string(m)+": a run that ran a tool is not repeated", func(t *testing.T) { w.testNotRepeated(t, m) })
		if s.repeats {
			t.Run(string(m)+": a request that is cut off is sent again and writes once", func(t *testing.T) { w.testCutOff(t, m) })
			t.Run(string(m)+": a write without a key is not sent again", func(t *testing.T) { w.testWriteNotRepeated(t, m) })
		}
		if m != plain {
			t.Run(string(m)+": a broken stream is an error", func(t *testing.T) { w.testBroken(t, m) })
		}
	}
	if s.repeats { // else not being repeated would prove nothing
		t.Run("a failure before any tool ran is repeated", w.testRepeated)
	}
}

func (w *world) job(m mode, model, prompt string) job {
	return job{BaseURL: w.url + "/v1", APIKey: clientKey, Model: model, Prompt: prompt, Mode: m}
}

func (w *world) testAnswer(t *testing.T, m mode) {
	cep := map[mode]string{plain: "64600001", stream: "64600002", helper: "64600003"}[m]
	prompt := "Which city has " + cep + "?"

	got := w.do(t, w.job(m, "assistant", prompt))

	if got.Error != nil {
		t.Fatalf("error %+v", got.Error)
	}
	if want := "The place of CEP 64600-" + cep[5:] + ": Picos/PI, as the service says."; got.Text != want || got.Finish != "stop" {
		t.Errorf("answer = %q, %s, want %q, stop", got.Text, got.Finish, want)
	}
	if len(got.Calls) > 0 {
		t.Errorf("the client saw calls of %q, want none", got.Calls)
	}
	if got.Total != 30 {
		t.Errorf("total_tokens = %d, want 30, the sum over two steps", got.Total)
	}
	if n := w.service.callsFor(cep); n != 1 {
		t.Errorf("the service was called %d times, want once", n)
	}
	asked := w.model.requests(prompt)
	if len(asked) != 2 {
		t.Fatalf("the model was asked %d times, want 2", len(asked))
	}
	if key := asked[0].header.Get("Authorization"); key != "Bearer "+operatorKey {
		t.Errorf("Authorization upstream = %q, want the operator's key", key)
	}
	w.checkTrace(t, m, got)
}

// checkTrace checks the trace header. In a stream it is only the id, with which the rest can be asked for: an SDK stops
// reading at [DONE], before the trailer.
func (w *world) checkTrace(t *testing.T, m mode, got result) {
	t.Helper()
	if m == helper {
		return
	}
	trace := readTrace(t, got.Trace)
	if m == plain {
		for key, want := range map[string]string{"stop": "completed", "steps": "2", "calls": "1", "failed": "0"} {
			if trace[key] != want {
				t.Errorf("trace = %q, want %s=%s", got.Trace, key, want)
			}
		}
	} else if len(trace) != 1 {
		t.Errorf("trace at the begin of a stream = %q, want the id alone", got.Trace)
	}
	run := get(t, w.url+"/gateway/runs/"+trace["id"], "Authorization", "Bearer "+clientKey)
	if run.status != http.StatusOK || gjson.Get(run.body, "stop").Str != "completed" || gjson.Get(run.body, "calls.#.tool").Raw != `["lookup_cep"]` {
		t.Errorf("GET /gateway/runs/%s = %d %s, want one call of lookup_cep", trace["id"], run.status, run.body)
	}
}

const weatherTool = `[{"type":"function","function":{"name":"get_weather","description":"Weather of a place.","strict":true,` +
	`"parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"],"additionalProperties":false}}}]`

// testOwnTool has the model call a tool of the gateway and one of the client in the same turn.
func (w *world) testOwnTool(t *testing.T, m mode) {
	cep := map[mode]string{plain: "20000001", stream: "20000002", helper: "20000003"}[m]
	j := w.job(m, "assistant", "Weather of "+cep)
	j.Tools = json.RawMessage(weatherTool)

	got := w.do(t, j)

	if got.Error != nil {
		t.Fatalf("error %+v", got.Error)
	}
	if !slices.Equal(got.Calls, []string{"get_weather"}) || got.Finish != "tool_calls" {
		t.Errorf("the client saw calls of %q, %s, want get_weather, tool_calls", got.Calls, got.Finish)
	}
	if n := w.service.callsFor(cep); n != 1 {
		t.Errorf("the gateway's tool ran %d times, want once", n)
	}
	var offered []string
	for _, name := range w.model.requests(j.Prompt)[0].body.Get("tools.#.function.name").Array() {
		offered = append(offered, name.Str)
	}
	if !slices.Equal(offered, []string{"get_weather", "lookup_cep", "save_note"}) {
		t.Errorf("tools upstream = %q, want the client's before the gateway's", offered)
	}
}

func (w *world) testErrors(t *testing.T, m mode) {
	tests := map[string]struct {
		key, model, prompt string
		status             int
		code, message      string
	}{
		"wrong key":             {"another-key", "assistant", "Hello", 401, "invalid_api_key", "no valid API key"},
		"unknown model":         {clientKey, "gpt-17", "Hello", 404, "model_not_found", `"gpt-17" does not exist`},
		"refused by provider":   {clientKey, "assistant", "This is too long", 400, "context_length_exceeded", "the prompt is too long"},
		"provider's rate limit": {clientKey, "assistant", "This is too fast", 429, "rate_limit_exceeded", "slow down"},
		"provider fails":        {clientKey, "assistant", "Please fall over", 502, "upstream_error", "out of memory"},
		"provider is down":      {clientKey, "down", "Hello", 502, "upstream_error", "the upstream could not be reached"},
		"fails after a write":   {clientKey, "assistant", "Take a note and fall", w.wrote, "upstream_error", "out of memory"},
		"budget exhausted":      {clientKey, "thrifty", "Please never stop", 422, "budget_exhausted", "without an answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := w.job(m, tt.model, tt.prompt)
			j.APIKey, j.MaxRetries = tt.key, new(int)

			got := w.do(t, j).Error

			if got == nil {
				t.Fatal("no error")
			}
			if want := w.classes[min(tt.status, 500)]; got.Class != want || got.Status != tt.status || got.Code != tt.code {
				t.Errorf("error = %s %d %q, want %s %d %q", got.Class, got.Status, got.Code, want, tt.status, tt.code)
			}
			if !strings.Contains(got.Message, tt.message) {
				t.Errorf("message = %q, want it to say %q", got.Message, tt.message)
			}
			if w.headers && tt.status != 401 && tt.status != 404 && !strings.Contains(got.Trace, "stop=") {
				t.Errorf("trace of the error = %q, want the whole", got.Trace)
			}
		})
	}
}

// testNotRepeated lets a run's clock end it after a tool has run. SDKs repeat a 504 by themselves, which would run the
// tool again.
func (w *world) testNotRepeated(t *testing.T, m mode) {
	prompt := "Please wait for ever, " + string(m)
	before := w.service.callsFor(hangingCEP)

	got := w.do(t, w.job(m, "hurried", prompt)).Error

	if got == nil || got.Status != http.StatusGatewayTimeout || got.Class != w.classes[500] || got.Code != "timeout" {
		t.Errorf("error = %+v, want 504 timeout", got)
	}
	if w.headers && got != nil && got.ShouldRetry != "false" {
		t.Errorf("X-Should-Retry = %q, want false", got.ShouldRetry)
	}
	if n := len(w.model.requests(prompt)); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
	if n := w.service.callsFor(hangingCEP) - before; n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
}

func (w *world) testRepeated(t *testing.T) {
	const prompt = "Please fall over and over"
	got := w.do(t, w.job(plain, "assistant", prompt)).Error
	if got == nil || got.Status != http.StatusBadGateway {
		t.Errorf("error = %+v, want 502", got)
	}
	if n := len(w.model.requests(prompt)); n != 3 {
		t.Errorf("the model was asked %d times, want 3, by the SDK's own two retries", n)
	}
}

// breaksOff is next but for one question and one model: that answer breaks off after more text than a turn holds back.
func breaksOff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), "Break off") && gjson.GetBytes(body, "model").Str != "breaking" {
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range 40 {
			_, _ = io.WriteString(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",`+
				`"choices":[{"index":0,"delta":{"content":"all work and no play "},"finish_reason":null}]}`+"\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// testBroken asserts that text which came before a provider broke off is no answer, and that nothing repeats it.
func (w *world) testBroken(t *testing.T, m mode) {
	prompt := "Break off, " + string(m)

	got := w.do(t, w.job(m, "assistant", prompt))

	if got.Error == nil || got.Error.Class != w.classes[0] || !strings.Contains(got.Error.Message, "the upstream failed in the middle of its reply") {
		t.Errorf("error = %+v, want %s: the upstream failed in the middle of its reply", got.Error, w.classes[0])
	}
	if m == stream && !strings.HasPrefix(got.Text, "all work and no play all work") {
		t.Errorf("text before the error = %q, want what had come", got.Text)
	}
	if n := len(w.model.requests(prompt)); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
}
