//go:build e2e

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// cepTool is the configuration of a tool with an entry for each way in which its service fails.
const cepTool = `
  lookup_cep:
    description: Look up the city and state of a Brazilian postal code (CEP).
    parameters:
      cep: {type: string, pattern: '^\d{8}$', description: "CEP with 8 digits, digits only."}
    http:
      url: ${SERVICE}/cep/{cep}
      result: '"CEP \(.cep): \(.localidade)/\(.uf)"'
    errors:
      404: {code: cep_not_found, message: "CEP {cep} does not exist; check the digits"}
      timeout: the CEP service did not answer in time; try again later
      5xx: {code: cep_unavailable, message: "the CEP service failed (HTTP {status}); try again later", retryable: true}
`

const conversationConfig = `
server: {listen: "127.0.0.1:0"}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}"}
models:
  assistant: {upstream: scripted}
tools:` + cepTool + `    timeout: 300ms
`

// TestPostalCodeConversation is a conversation in which everything goes wrong once, in each of its ways, and the model
// reads of each what it can act on.
func TestPostalCodeConversation(t *testing.T) {
	const user = "Where is 64600-000?"
	codes := []string{"646", unknownCEP, hangingCEP, brokenCEP, "64600000"}
	calls := make([]string, len(codes))
	for i, cep := range codes {
		calls[i] = `{name: lookup_cep, arguments: {cep: "` + cep + `"}}`
	}
	tests := map[string]struct {
		turns string
		steps string
	}{
		"a call a turn":       {"  - calls: [" + strings.Join(calls, "]\n  - calls: [") + "]\n", "6"},
		"all calls in a turn": {"  - calls: [" + strings.Join(calls, ", ") + "]\n", "2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			model := newProvider(t, scripted(t, "replies:\n"+tt.turns+"  - text: It is in Picos, Piauí.\n"))
			service := newCEPService(t)
			g := serve(t, conversationConfig, "UPSTREAM="+model.URL, "SERVICE="+service.URL, "OPERATOR_KEY="+operatorKey)

			got := g.ask(t, question("assistant", user, false))

			if text := gjson.Get(got.body, "choices.0.message.content").Str; got.status != http.StatusOK || text != "It is in Picos, Piauí." {
				t.Fatalf("reply = %d %s", got.status, got.body)
			}
			asked := model.requests(user)
			checkObservations(t, asked[len(asked)-1].observations())
			sent := service.calls()
			slices.Sort(sent) // neighbouring reads run side by side
			if want := []string{unknownCEP, brokenCEP, "64600000", hangingCEP}; !cmp.Equal(sent, want) {
				t.Errorf("the service was asked for %q, want %q: arguments that the schema refuses are never sent", sent, want)
			}
			trace := readTrace(t, got.header.Get(traceHeader))
			for key, want := range map[string]string{"stop": "completed", "steps": tt.steps, "calls": "5", "failed": "4", "offered": "1"} {
				if trace[key] != want {
					t.Errorf("trace: %s = %s, want %s", key, trace[key], want)
				}
			}
			for _, outcome := range []string{";code=invalid_arguments", ";code=cep_not_found", ";code=timeout", ";code=cep_unavailable", ";ok"} {
				if strings.Count(trace["tools"], outcome) != 1 {
					t.Errorf("trace: tools = %s, want one with %s", trace["tools"], outcome)
				}
			}
		})
	}
}

// checkObservations checks what the model read of the five calls.
func checkObservations(t *testing.T, got []string) {
	t.Helper()
	want := []struct {
		code, message string
		retryable     bool
	}{
		{"invalid_arguments", `invalid arguments for lookup_cep: cep: does not match pattern '^\d{8}$'`, false},
		{"cep_not_found", "CEP 00000000 does not exist; check the digits", false},
		{"timeout", "the CEP service did not answer in time; try again later", true},
		{"cep_unavailable", "the CEP service failed (HTTP 503); try again later", true},
	}
	if len(got) != len(want)+1 {
		t.Fatalf("the model read %d results: %q, want %d", len(got), got, len(want)+1)
	}
	for i, w := range want {
		seen := gjson.Parse(got[i])
		e := seen.Get("error")
		if seen.Get("ok").Raw != "false" || e.Get("code").Str != w.code || e.Get("retryable").Bool() != w.retryable {
			t.Errorf("observation %d = %s, want code %s, retryable %t", i+1, got[i], w.code, w.retryable)
		}
		if e.Get("message").Str != w.message {
			t.Errorf("observation %d: message = %q, want %q", i+1, e.Get("message").Str, w.message)
		}
	}
	if good := got[len(want)]; good != "CEP 64600-000: Picos/PI" {
		t.Errorf("the model read %q, want the one line that jq makes of ten fields", good)
	}
}

const hurriedConfig = `
server: {listen: "127.0.0.1:0"}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}"}
models:
  assistant: {upstream: scripted, budget: {max_seconds: 1}}
tools:` + cepTool + `    timeout: 900ms
    retry: {attempts: 5, base: 10ms, max: 20ms}
`

// TestPostalCodeTimeBudget asserts that the run's clock ends a tool at work, attempts and all, and that no SDK will
// begin the run anew by itself.
func TestPostalCodeTimeBudget(t *testing.T) {
	for name, stream := range map[string]bool{"in one piece": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			const user = "Where is 99999-999?"
			model := newProvider(t, scripted(t, `replies: [{calls: [{name: lookup_cep, arguments: {cep: "99999999"}}]}, {text: never said}]`))
			service := newCEPService(t)
			g := serve(t, hurriedConfig, "UPSTREAM="+model.URL, "SERVICE="+service.URL, "OPERATOR_KEY="+operatorKey)

			got := g.ask(t, question("assistant", user, stream))

			e := gjson.Get(got.body, "error")
			if got.status != http.StatusGatewayTimeout || e.Get("code").Str != "timeout" {
				t.Errorf("reply = %d %s, want 504 timeout", got.status, got.body)
			}
			if want := "tool 'lookup_cep' interrupted: the time budget ran out"; e.Get("message").Str != want {
				t.Errorf("message = %q, want %q", e.Get("message").Str, want)
			}
			if retry := got.header.Get("X-Should-Retry"); retry != "false" {
				t.Errorf("X-Should-Retry = %q, want false: a tool has run", retry)
			}
			if n := len(model.requests(user)); n != 1 {
				t.Errorf("the model was asked %d times, want 1", n)
			}
			trace := readTrace(t, got.header.Get(traceHeader))
			if trace["stop"] != "timeout" || trace["calls"] != "1" || trace["failed"] != "1" {
				t.Errorf("trace = %v, want stop=timeout, one call, failed", trace)
			}
		})
	}
}

// TestStreamTrace asserts where a stream's trace stands: its id in the header, the whole in the trailer and in a comment
// before the end.
func TestStreamTrace(t *testing.T) {
	model := newProvider(t, scripted(t, `replies: [{text: Let me look., calls: [{name: lookup_cep, arguments: {cep: "64600000"}}]}, {text: Picos.}]`))
	g := serve(t, conversationConfig, "UPSTREAM="+model.URL, "SERVICE="+newCEPService(t).URL, "OPERATOR_KEY="+operatorKey)

	got := g.ask(t, question("assistant", "Where is 64600-000?", true))

	id := readTrace(t, got.header.Get(traceHeader))
	whole := readTrace(t, got.trailer.Get(traceHeader))
	if len(id) != 1 || id["id"] == "" || id["id"] != whole["id"] {
		t.Errorf("trace in the header = %v, in the trailer %v, want the same id, in the header alone", id, whole)
	}
	for key, want := range map[string]string{"stop": "completed", "steps": "2", "calls": "1", "failed": "0"} {
		if whole[key] != want {
			t.Errorf("trace: %s = %s, want %s", key, whole[key], want)
		}
	}
	if end := ": trace " + got.trailer.Get(traceHeader) + "\n\ndata: [DONE]\n\n"; !strings.HasSuffix(got.body, end) {
		t.Errorf("stream = %s, want it to end with %s", got.body, end)
	}
	if strings.Contains(got.body, "tool_calls") || strings.Contains(got.body, "Let me look") {
		t.Errorf("stream = %s, which shows the turn that called a tool", got.body)
	}
}
