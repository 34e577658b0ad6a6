//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/script"
)

// Frameworks run the tools that the program gives them and send the results back by themselves, in their own words:
// what they make of a message is not byte for byte what they got.

// talk is what a framework is to ask, one prompt after the other's answer.
type talk struct {
	BaseURL string   `json:"base_url"`
	APIKey  string   `json:"api_key"`
	Model   string   `json:"model"`
	Mode    mode     `json:"mode"` // plain or stream
	Prompts []string `json:"prompts"`
}

// heard is what a program that uses the framework got to see.
type heard struct {
	Texts []string `json:"texts"` // the answers
	Calls []string `json:"calls"` // names of the tool calls in all messages
	Ran   []string `json:"ran"`   // places that its own tool ran for
}

func TestFrameworkOpenAIAgents(t *testing.T) {
	testFramework(t, pythonFramework("frameworks", "openai-agents"))
}

func TestFrameworkLangChain(t *testing.T) {
	testFramework(t, pythonFramework("frameworks", "langchain"))
}

func TestFrameworkPydanticAI(t *testing.T) {
	testFramework(t, pythonFramework("frameworks", "pydantic-ai"))
}

func TestFrameworkLlamaIndex(t *testing.T) {
	testFramework(t, pythonFramework("openai2", "llama-index"))
}

func TestFrameworkAISDK(t *testing.T) { testFramework(t, nodeFramework("ai-sdk")) }

func TestFrameworkLangChainJS(t *testing.T) { testFramework(t, nodeFramework("langchain")) }

// pythonFramework is one that a part of setup.sh has.
func pythonFramework(part, name string) func(*testing.T) func(*testing.T, talk) heard {
	return func(t *testing.T) func(*testing.T, talk) heard {
		dir := installed(t, part)
		return startDriver[talk, heard](t, dir, filepath.Join(dir, "venv", "bin", "python"), absolute(t, filepath.Join("frameworks", "driver.py")), name)
	}
}

func nodeFramework(name string) func(*testing.T) func(*testing.T, talk) heard {
	return func(t *testing.T) func(*testing.T, talk) heard {
		program, err := os.ReadFile(filepath.Join("frameworks", "driver.mjs"))
		if err != nil {
			t.Fatal(err)
		}
		return startDriver[talk, heard](t, installed(t, "frameworks"), "node", "--input-type=module", "--eval", string(program), name)
	}
}

// The model calls a tool of the gateway and one of the client in the same turn, and says what it read of both.
const frameworkScript = `
conversations:
  - when: 'Place, then weather of (?P<cep>\d{8})'
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}, {name: get_weather, arguments: {place: Picos}}]
  - when: 'Weather, then place of (?P<cep>\d{8})'
    turns:
      - {text: Let me look., calls: [{name: get_weather, arguments: {place: Picos}}, {name: lookup_cep, arguments: {cep: "{cep}"}}]}
  - when: 'First a note, then place and weather of (?P<cep>\d{8})'
    turns:
      - {text: I take a note., calls: [{name: save_note, arguments: {note: "note-{cep}"}}]}
      - calls: [{name: lookup_cep, arguments: {cep: "{cep}"}}, {name: get_weather, arguments: {place: Picos}}]
  - when: 'Thank you'
    turns: [{text: Any time.}]
`

func testFramework(t *testing.T, start func(*testing.T) func(*testing.T, talk) heard) {
	t.Parallel()
	do, service := start(t), newCEPService(t)
	model := newProvider(t, readsBoth(t, scripted(t, frameworkScript)))
	g := serveSDK(t, model, service)
	tests := []struct {
		ask, cep string
		calls    []string // of the turn that has both
		note     bool     // the turn before it has one of the gateway's alone
	}{
		{ask: "Place, then weather of ", cep: "3000000", calls: []string{"lookup_cep", "get_weather"}},
		{ask: "Weather, then place of ", cep: "4000000", calls: []string{"get_weather", "lookup_cep"}},
		{ask: "First a note, then place and weather of ", cep: "5000000", calls: []string{"lookup_cep", "get_weather"}, note: true},
	}
	for _, m := range []mode{plain, stream} {
		for _, tt := range tests {
			cep := tt.cep + map[mode]string{plain: "1", stream: "2"}[m]
			t.Run(string(m)+": "+tt.ask+cep, func(t *testing.T) {
				prompt, thanks := tt.ask+cep, "Thank you for "+cep
				var results []string
				for _, call := range tt.calls {
					results = append(results, map[string]string{
						"lookup_cep": "CEP " + cep[:5] + "-" + cep[5:] + ": Picos/PI", "get_weather": "31 degrees in Picos",
					}[call])
				}

				got := do(t, talk{g.url + "/v1", clientKey, "assistant", m, []string{prompt, thanks}})

				if want := []string{"I read: " + results[0] + "; " + results[1], "Any time."}; !cmp.Equal(got.Texts, want) {
					t.Errorf("answers = %q, want %q", got.Texts, want)
				}
				if !cmp.Equal(got.Ran, []string{"Picos"}) {
					t.Errorf("the client's tool ran for %q, want once, for Picos", got.Ran)
				}
				if !cmp.Equal(got.Calls, []string{"get_weather"}) {
					t.Errorf("the client saw calls of %q, want get_weather alone", got.Calls)
				}
				if n := service.callsFor(cep); n != 1 {
					t.Errorf("the gateway's tool ran %d times, want once", n)
				}
				want, turns := read{Roles: []string{"user"}}, 2
				if tt.note {
					want, turns = read{[]string{"user", "assistant", "tool"}, []string{"save_note"}, []string{"kept"}}, 3
					if n := service.callsFor("note-" + cep); n != 1 {
						t.Errorf("the note was kept %d times, want once", n)
					}
				}
				want.Roles = append(want.Roles, "assistant", "tool", "tool")
				want.Calls = append(want.Calls, tt.calls...)
				want.Results = append(want.Results, results...)
				asked, later := model.requests(prompt), model.requests(thanks)
				if len(asked) != turns || len(later) != 1 {
					t.Fatalf("the model was asked %d times and then %d times, want %d and once", len(asked), len(later), turns)
				}
				asked[turns-1].checkConversation(t, want)

				// The framework has sent all of it again, in its own words.
				want.Roles = append(want.Roles, "assistant", "user")
				later[0].checkConversation(t, want)
			})
		}
	}
}

// readsBoth is next, but says what it read in two results where the conversation ends with them.
func readsBoth(t *testing.T, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		messages := gjson.GetBytes(body, "messages").Array()
		n := len(messages)
		if n < 2 || messages[n-2].Get("role").Str != "tool" || messages[n-1].Get("role").Str != "tool" {
			next.ServeHTTP(w, r)
			return
		}
		text, err := json.Marshal("I read: " + messages[n-2].Get("content").Str + "; " + messages[n-1].Get("content").Str)
		if err != nil {
			t.Error(err)
			return
		}
		s, err := script.Parse("script.yaml", []byte(`replies: [{text: `+string(text)+`}]`))
		if err != nil {
			t.Error(err)
			return
		}
		script.NewServer(s).ServeHTTP(w, r)
	})
}

// read is a conversation as a model reads it, but for the texts of users and assistants.
type read struct {
	Roles, Calls, Results []string
}

// checkConversation checks what the model read. Each call has an id of its own, and its result stands in its place.
func (a asked) checkConversation(t *testing.T, want read) {
	t.Helper()
	var got read
	var called, answered []string
	for _, m := range a.body.Get("messages").Array() {
		got.Roles = append(got.Roles, m.Get("role").Str)
		for _, call := range m.Get("tool_calls").Array() {
			if id := call.Get("id").Str; id == "" || slices.Contains(called, id) {
				t.Errorf("call id %q is empty or stands twice", id)
			}
			called, got.Calls = append(called, call.Get("id").Str), append(got.Calls, call.Get("function.name").Str)
		}
		if id := m.Get("tool_call_id"); id.Exists() {
			answered, got.Results = append(answered, id.Str), append(got.Results, m.Get("content").Str)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the conversation that the model read (-want +got):\n%s%s", diff, a.body.Get("messages").Raw)
	}
	if !slices.Equal(called, answered) {
		t.Errorf("results of %q, want one of each call, in the order of %q", answered, called)
	}
}
