package script

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

func TestRefusals(t *testing.T) {
	const (
		tools    = `"tools":[{"type":"function","function":{"name":"Get-It","parameters":{"type":"object","properties":{"format":{"type":"string","enum":[{"strict":1}]}},"additionalProperties":false}}}]`
		messages = `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"abcdefghi","function":{"name":"ok"}}]},{"role":"tool","tool_call_id":"abc","content":"y"}]`
		format   = `"response_format":{"type":"json_schema","json_schema":{"schema":{"anyOf":[{"pattern":"x"}]}}}`
	)
	for _, c := range []struct{ rule, body, want string }{
		{`{member: stream_options}`, `"stream_options":{}`, `400 unsupported_parameter stream_options Unsupported parameter: 'stream_options' is not supported with this model.`},
		{`{member: stream_options}`, `"stream":true`, ``},
		{`{member: stream_options.include_usage}`, `"stream_options":{"include_usage":true}`, `400 unsupported_parameter stream_options.include_usage Unsupported parameter: 'stream_options.include_usage' is not supported with this model.`},
		{`{member: max_tokens, status: 422, message: no, code: c}`, `"max_tokens":1`, `422 c max_tokens no`},
		{`{member: max_tokens, model: "^gpt"}`, `"max_tokens":1`, ``},
		{`{member: max_tokens, model: "^m$"}`, `"max_tokens":1`, `400 unsupported_parameter max_tokens Unsupported parameter: 'max_tokens' is not supported with this model.`},
		{`{together: [tools, response_format]}`, tools + "," + format, `400 invalid_value tools 'tools' and 'response_format' can't be used together.`},
		{`{together: [tools, response_format]}`, tools, ``},
		{`{tool_names_not: "^[a-z_]+$"}`, tools, `400 invalid_value tools[0].function.name Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-z_]+$', but got 'Get-It'.`},
		{`{tool_names_not: "^[a-zA-Z-]+$"}`, tools + "," + messages, ``},
		{`{tool_names_not: "^G"}`, tools + "," + messages, `400 invalid_value messages[1].tool_calls[0].function.name Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. Expected a string that matches the pattern '^G', but got 'ok'.`},
		{`{call_ids_not: "^[a-zA-Z0-9]{9}$"}`, messages, `400 invalid_value messages[2].tool_call_id Invalid 'messages[2].tool_call_id': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9]{9}$', but got 'abc'.`},
		{`{call_ids_not: "^[a-c]+"}`, messages, ``},
		{`{schema_keyword: additionalProperties}`, tools, `400 invalid_function_parameters tools[0].function.parameters Invalid schema for function 'Get-It': 'additionalProperties' is not permitted.`},
		{`{schema_keyword: format}`, tools, ``}, // it is a property
		{`{schema_keyword: strict}`, tools, ``}, // it is in a value
		{`{schema_keyword: pattern}`, format, `400 invalid_value response_format Invalid schema for response_format: 'pattern' is not permitted.`},
		{`{context_over: 50}`, `"messages":["` + "ããããããããããããããããããããããããããããããããããããããã" + `"]`, ``},
		{`{context_over: 20}`, messages, `400 context_length_exceeded messages This model's maximum context length is 20 characters. However, your messages resulted in 162 characters. Please reduce the length of the messages.`},
	} {
		body := `{"model":"m",` + c.body
		if !gjson.Get(body+"}", "messages").Exists() {
			body += `,"messages":[1]`
		}
		status, _, reply := post(t, serve(t, `{refuse: [`+c.rule+`], replies: [{text: fine}]}`), body+"}")
		got := ""
		if e := gjson.Get(reply, "error"); e.Exists() {
			got = fmt.Sprint(status, " ", e.Get("code"), " ", e.Get("param"), " ", e.Get("message"))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.rule, c.body, diff)
		}
	}
}

func TestARefusalTakesNoReply(t *testing.T) {
	s := serve(t, `{refuse: [{member: stream_options}], replies: [{text: first}]}`)
	if status, _, _ := post(t, s, `{"model":"m","messages":[1],"stream_options":{}}`); status != 400 {
		t.Errorf("status = %d, want 400", status)
	}
	if _, _, body := post(t, s, asks); gjson.Get(body, "choices.0.message.content").Str != "first" {
		t.Errorf("reply = %s", body)
	}
}
