//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/sse"
)

// docs/comparison.md says how to run the gateway in front of LiteLLM and behind it. These tests run its files.

const (
	liteKey     = "sk-key-of-litellm"
	providerKey = "sk-key-of-the-provider"
)

const liteScript = `
conversations:
  - when: 'Which city has (?P<cep>\d{8})'
    turns:
      - {text: Let me look., calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]}
      - {text: "The place of {tool}, as the service says."}
  - when: 'Weather of (?P<cep>\d{8})'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}, {name: get_weather, arguments: {place: Picos}}]
      - {text: "Of the weather: {tool}."}
  - when: 'City and state of (?P<cep>\d{8})'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]
      - {text: '{"city": "Picos", "state": "PI"}'}
  - when: 'note and fall'
    turns:
      - calls: [{name: save_note, arguments: {note: "written before the fall"}}]
      - {status: 500, error: out of memory}
  - when: 'look up (?P<cep>\d{8}) and fall'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}]
      - {status: 500, error: out of memory}
  - when: 'too long'
    turns: [{status: 400, code: context_length_exceeded, error: the prompt is too long}]
  - when: 'too fast'
    turns: [{status: 429, code: rate_limit_exceeded, error: slow down, headers: {Retry-After: "7"}}]
  - when: 'locked out'
    turns: [{status: 401, code: invalid_api_key, error: no such key}]
  - when: 'fall over'
    turns: [{status: 500, error: out of memory}]
  - when: 'break off'
    turns: [{text: all work and no play makes a dull day, cut_after: 250}]
  - turns: [{text: Hello.}]
`

// liteWorld is LiteLLM between a gateway in front of it and one behind it.
type liteWorld struct {
	lite, front, behind string // addresses
	model               *provider
	service             *cepService
	do                  func(*testing.T, job) result // the official SDK for Python
}

func TestLiteLLM(t *testing.T) {
	t.Parallel()
	files := blocksOf(t, filepath.Join("docs", "comparison.md"), "yaml")
	if len(files) < 3 || !strings.HasPrefix(files[0], "# config.yaml of LiteLLM\n") {
		t.Fatalf("docs/comparison.md has %d files, want that of LiteLLM and those of the gateway in front of it and behind it first", len(files))
	}
	dir, sdk := installed(t, "litellm"), installed(t, "python")
	w := &liteWorld{service: newCEPService(t), model: newProvider(t, scripted(t, liteScript))}
	w.do = startDriver[job, result](t, sdk, filepath.Join(sdk, "venv", "bin", "python"), absolute(t, filepath.Join("python", "driver.py")))
	w.behind = w.gateway(t, files[2], "profile: openai, ", `profile: openai, base_url: "`+w.model.URL+`/v1", `)
	w.lite = startLiteLLM(t, dir, strings.ReplaceAll(files[0], "http://127.0.0.1:8080", w.behind), w.model.URL)
	w.front = w.gateway(t, files[1], "http://127.0.0.1:4000", w.lite)

	t.Run("in front", func(t *testing.T) {
		w.testSide(t, "a", w.front, clientKey)
		t.Run("errors", w.testErrorsInFront)
		t.Run("a key that LiteLLM does not know", func(t *testing.T) { w.testWrongKey(t, files[1]) })
		t.Run("plain: the trace header", func(t *testing.T) {
			got := w.ask(t, w.front, clientKey, question("assistant", "Which city has 64600100?", false))
			checkLiteTrace(t, got.header.Get(traceHeader))
		})
	})
	t.Run("behind", func(t *testing.T) {
		w.testSide(t, "b", w.lite, liteKey)
		t.Run("errors", w.testErrorsBehind)
		t.Run("repeated by LiteLLM", w.testRepeatedBehind)
		t.Run("plain: the trace header under a name of LiteLLM's", func(t *testing.T) {
			got := w.ask(t, w.lite, liteKey, question("assistant", "Which city has 64600200?", false))
			checkLiteTrace(t, got.header.Get("Llm_provider-"+traceHeader))
		})
		t.Run("stream: the trace's id alone", func(t *testing.T) {
			got := w.ask(t, w.lite, liteKey, question("assistant", "Which city has 64600201?", true))
			trace := readTrace(t, got.header.Get("Llm_provider-"+traceHeader))
			if strings.Contains(got.body, ": trace") || len(trace) != 1 {
				t.Fatalf("trace = %v, stream = %s, want its id alone", trace, got.body)
			}
			run := get(t, w.behind+"/gateway/runs/"+trace["id"], "Authorization", "Bearer "+clientKey)
			if gjson.Get(run.body, "calls.#.tool").Raw != `["lookup_cep"]` {
				t.Errorf("GET /gateway/runs/%s = %d %s, want one call of lookup_cep", trace["id"], run.status, run.body)
			}
		})
	})
}

// gateway starts one with a file of the document, in which old is another text. It makes one attempt, so that tests see
// each reply, has a tool more, and listens anywhere.
func (w *liteWorld) gateway(t *testing.T, file, old, other string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(clientKey))
	for _, must := range []string{old, "https://cep.example.com", `_API_KEY}"}`} {
		if !strings.Contains(file, must) {
			t.Fatalf("docs/comparison.md has a file without %q:\n%s", must, file)
		}
	}
	file = strings.NewReplacer(old, other, "https://cep.example.com", w.service.URL,
		`_API_KEY}"}`, `_API_KEY}", retry: {attempts: 1}, breaker: {failures: 1000}}`).Replace(file)
	if !strings.Contains(file, "\nauth:") && !strings.HasPrefix(file, "auth:") {
		file += "auth:\n  keys: [{name: client, sha256: \"${TOOLGATE_KEY_SHA256}\"}]\n"
	}
	file = strings.Replace(file, "tools:\n", "tools:\n  save_note: {description: Keep a note., parameters: {note: string}, http: {method: POST, url: \""+
		w.service.URL+"/notes\", body: json}}\n", 1)
	return serve(t, "server: {listen: \"127.0.0.1:0\"}\n"+file,
		"LITELLM_API_KEY="+liteKey, "OPENAI_API_KEY="+providerKey, "TOOLGATE_KEY_SHA256="+hex.EncodeToString(sum[:])).url
}

// liteProgram is LiteLLM's command. The server that it runs ends with the signal that it got; this makes it an orderly end.
const liteProgram = `
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
from litellm import run_server
run_server()
`

var liteAddress = regexp.MustCompile(`Uvicorn running on (http://\S+)`)

// startLiteLLM starts the proxy with that file, and the provider as OpenAI.
func startLiteLLM(t *testing.T, dir, config, provider string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(dir, "venv", "bin", "python"), "-c", liteProgram,
		"--config", file, "--host", "127.0.0.1", "--port", "0", "--telemetry", "False")
	cmd.Dir = filepath.Dir(file)
	// A database of the machine's is none of its business, and it would fetch the prices of models.
	cmd.Env = append(slices.DeleteFunc(environ(), func(v string) bool { return strings.HasPrefix(v, "DATABASE_URL=") }),
		"LITELLM_LOCAL_MODEL_COST_MAP=True", "OPENAI_BASE_URL="+provider+"/v1",
		"OPENAI_API_KEY="+providerKey, "TOOLGATE_API_KEY="+clientKey, "LITELLM_API_KEY="+liteKey)
	_, at := launchSlow(t, cmd, 5*patience, func(line string) string {
		if m := liteAddress.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		return ""
	})
	return at
}

func (w *liteWorld) ask(t *testing.T, at, key, body string) reply {
	t.Helper()
	return send(t, http.DefaultClient, newRequest(t, http.MethodPost, at+"/v1/chat/completions", strings.NewReader(body),
		"Content-Type", "application/json", "Authorization", "Bearer "+key))
}

func checkLiteTrace(t *testing.T, header string) {
	t.Helper()
	trace := readTrace(t, header)
	for key, want := range map[string]string{"stop": "completed", "steps": "2", "calls": "1", "failed": "0"} {
		if trace[key] != want {
			t.Errorf("trace = %q, want %s=%s", header, key, want)
		}
	}
}

// testSide asks as clients do, who can't tell where LiteLLM is. side keeps the questions of both sides apart.
func (w *liteWorld) testSide(t *testing.T, side, at, key string) {
	digit := map[string]string{"a": "1", "b": "2"}[side]
	for i, m := range []mode{plain, stream, helper} {
		t.Run(string(m)+": an answer", func(t *testing.T) {
			got := w.do(t, job{BaseURL: at + "/v1", APIKey: key, Model: "assistant", Prompt: "Good day", Mode: m})
			if want := (result{Text: "Hello.", Finish: "stop", Calls: []string{}, Total: 15, Trace: got.Trace}); !cmp.Equal(got, want) {
				t.Errorf("answer = %+v, want %+v", got, want)
			}
		})
		t.Run(string(m)+": a tool of the gateway", func(t *testing.T) {
			cep := "6460" + digit + "01" + string(rune('0'+i))
			got := w.do(t, job{BaseURL: at + "/v1", APIKey: key, Model: "assistant", Prompt: "Which city has " + cep + "?", Mode: m})
			want := result{Text: "The place of Picos/PI, as the service says.", Finish: "stop", Calls: []string{}, Total: 30, Trace: got.Trace}
			if !cmp.Equal(got, want) {
				t.Errorf("answer = %+v, want %+v", got, want)
			}
			if n := w.service.callsFor(cep); n != 1 {
				t.Errorf("the gateway's tool ran %d times, want once", n)
			}
		})
		t.Run(string(m)+": a tool of the client's beside it", func(t *testing.T) {
			cep := "6460" + digit + "02" + string(rune('0'+i))
			got := w.do(t, job{BaseURL: at + "/v1", APIKey: key, Model: "assistant", Prompt: "Weather of " + cep, Mode: m, Tools: json.RawMessage(weatherTool)})
			if got.Error != nil || got.Finish != "tool_calls" || !slices.Equal(got.Calls, []string{"get_weather"}) {
				t.Errorf("answer = %+v, want a call of get_weather alone", got)
			}
		})
	}
	for name, streamed := range map[string]bool{"plain": false, "stream": true} {
		last := map[bool]string{false: "0", true: "1"}[streamed]
		t.Run(name+": the result of the client's own tool", func(t *testing.T) { w.testResult(t, at, key, "6460"+digit+"03"+last, streamed) })
		t.Run(name+": an answer by a schema", func(t *testing.T) {
			cep := "6460" + digit + "04" + last
			body := strings.TrimSuffix(question("assistant", "City and state of "+cep, streamed), "}") +
				`,"response_format":{"type":"json_schema","json_schema":{"name":"place","strict":true,"schema":{"type":"object",` +
				`"properties":{"city":{"type":"string"},"state":{"type":"string"}},"required":["city","state"],"additionalProperties":false}}}}`
			got := message(t, w.ask(t, at, key, body), streamed)
			if text := got.Get("content").Str; text != `{"city": "Picos", "state": "PI"}` || w.service.callsFor(cep) != 1 {
				t.Errorf("answer = %s after %d calls of the tool, want city and state after one", got.Raw, w.service.callsFor(cep))
			}
		})
	}
}

// message is that of an answer. Of a stream it has the whole text and its calls, which come in one chunk.
func message(t *testing.T, r reply, streamed bool) gjson.Result {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("reply = %d %s", r.status, r.body)
	}
	if !streamed {
		return gjson.Get(r.body, "choices.0.message")
	}
	m := map[string]any{"role": "assistant"}
	text := ""
	events := sse.NewReader(strings.NewReader(r.body), 0)
	for {
		data, err := events.Next()
		if err != nil {
			break
		}
		delta := gjson.GetBytes(data, "choices.0.delta")
		text += delta.Get("content").Str
		if calls := delta.Get("tool_calls"); calls.IsArray() {
			m["tool_calls"] = json.RawMessage(calls.Raw)
		}
	}
	m["content"] = text
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(raw)
}

// testResult answers the call that comes back to the client, as a client does that knows nothing of the gateway's.
func (w *liteWorld) testResult(t *testing.T, at, key, cep string, streamed bool) {
	prompt := "Weather of " + cep
	body := strings.TrimSuffix(question("assistant", prompt, streamed), "}") + `,"tools":` + weatherTool + "}"
	turn := message(t, w.ask(t, at, key, body), streamed)
	call := turn.Get("tool_calls.0")
	if call.Get("function.name").Str != "get_weather" || turn.Get("tool_calls.#").Int() != 1 {
		t.Fatalf("message = %s, want a call of get_weather alone", turn.Raw)
	}
	result := `{"role":"tool","tool_call_id":` + call.Get("id").Raw + `,"content":"31 degrees"}`
	body = strings.Replace(body, `}],"model"`, `},`+turn.Raw+`,`+result+`],"model"`, 1)
	got := message(t, w.ask(t, at, key, body), streamed)

	if text := got.Get("content").Str; text != "Of the weather: 31 degrees." {
		t.Errorf("answer = %s, want one of the client's result", got.Raw)
	}
	if n := w.service.callsFor(cep); n != 1 {
		t.Errorf("the gateway's tool ran %d times, want once", n)
	}
	asked := w.model.requests(prompt)
	if len(asked) != 2 {
		t.Fatalf("the model was asked %d times, want twice", len(asked))
	}
	if key, model := asked[0].header.Get("Authorization"), asked[0].body.Get("model").Str; key != "Bearer "+providerKey || model != "gpt-5-mini" {
		t.Errorf("the provider was asked with %q for %q, want its key and its model", key, model)
	}
	asked[1].checkConversation(t, read{
		Roles: []string{"user", "assistant", "tool", "tool"}, Calls: []string{"lookup_cep", "get_weather"}, Results: []string{"Picos/PI", "31 degrees"},
	})
}

// testErrorsInFront asserts what clients of the gateway get of LiteLLM's errors.
func (w *liteWorld) testErrorsInFront(t *testing.T) {
	tests := map[string]struct {
		status                     int
		code, message, retry, body string // body is what the request has beside its question
	}{
		"too long":   {status: 400, code: "400", message: "the prompt is too long"},
		"too fast":   {status: 429, code: "429", message: "slow down", retry: "7"},
		"locked out": {status: 502, code: "upstream_auth", message: "did not accept the gateway's own key"},
		"fall over":  {status: 502, code: "upstream_error", message: "out of memory"},
		"break off":  {status: 502, code: "upstream_error", message: "Connection error"},
		"logprobs":   {status: 400, code: "400", message: "logprobs", body: `,"logprobs":true`},
	}
	for name, tt := range tests {
		for _, streamed := range []bool{false, true} {
			got := w.ask(t, w.front, clientKey, strings.TrimSuffix(question("assistant", name, streamed), "}")+tt.body+"}")
			e := gjson.Get(got.body, "error")
			if got.status != tt.status || e.Get("code").Str != tt.code || !strings.Contains(e.Get("message").Str, tt.message) || got.header.Get("Retry-After") != tt.retry {
				t.Errorf("%s, stream %t: %d, Retry-After %q, %s, want %d, %q, %s: %s", name, streamed, got.status, got.header.Get("Retry-After"), got.body,
					tt.status, tt.retry, tt.code, tt.message)
			}
			if trace := readTrace(t, got.header.Get(traceHeader)); trace["stop"] != "upstream_error" {
				t.Errorf("%s, stream %t: trace = %v, want stop=upstream_error", name, streamed, trace)
			}
		}
	}
}

// testWrongKey is a gateway whose key for LiteLLM is wrong, which LiteLLM refuses with 400.
func (w *liteWorld) testWrongKey(t *testing.T, file string) {
	at := w.gateway(t, strings.Replace(file, "${LITELLM_API_KEY}", "sk-of-nobody ${LITELLM_API_KEY}", 1), "http://127.0.0.1:4000", w.lite)
	got := w.ask(t, at, clientKey, question("assistant", "Good day", false))
	if got.status != http.StatusBadGateway || gjson.Get(got.body, "error.code").Str != "upstream_auth" {
		t.Errorf("reply = %d %s, want 502 upstream_auth", got.status, got.body)
	}
}

// testErrorsBehind asserts what clients of LiteLLM get of the gateway's errors.
func (w *liteWorld) testErrorsBehind(t *testing.T) {
	tests := map[string]struct {
		status               int
		code, message, retry string
	}{
		"too long":   {400, "400", "the prompt is too long", ""},
		"too fast":   {429, "429", "slow down", "7"},
		"locked out": {502, "502", "did not accept the gateway's own key", ""},
		"fall over":  {502, "502", "out of memory", ""},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		tt := tests[name]
		got := w.ask(t, w.lite, liteKey, question("assistant", name, false))
		e := gjson.Get(got.body, "error")
		if got.status != tt.status || e.Get("code").Str != tt.code || !strings.Contains(e.Get("message").Str, tt.message) || got.header.Get("Llm_provider-Retry-After") != tt.retry {
			t.Errorf("%s: %d, %v, %s, want %d, a wait of %q, %s: %s", name, got.status, got.header, got.body, tt.status, tt.retry, tt.code, tt.message)
		}
		if trace := readTrace(t, got.header.Get("Llm_provider-"+traceHeader)); trace["stop"] != "upstream_error" {
			t.Errorf("%s: trace = %v, want stop=upstream_error", name, trace)
		}
	}
}

// testRepeatedBehind has LiteLLM repeat what fails, as it does by default. What has written is not to be repeated.
func (w *liteWorld) testRepeatedBehind(t *testing.T) {
	again := func(prompt string) reply {
		return w.ask(t, w.lite, liteKey, strings.TrimSuffix(question("assistant", prompt, false), "}")+`,"num_retries":1}`)
	}
	got := again("note and fall")
	if n := w.service.callsFor("written before the fall"); n != 1 || got.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s after %d writes, want 422 after one", got.status, got.body, n)
	}
	got = again("look up 64600900 and fall")
	if n := w.service.callsFor("64600900"); n != 2 || got.status != http.StatusBadGateway {
		t.Errorf("%d %s after %d reads, want 502 after two, as LiteLLM heeds no X-Should-Retry", got.status, got.body, n)
	}
}
