package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/chat"
)

// dialectOf is the dialect of an upstream's configuration.
func dialectOf(t interface {
	Helper()
	Fatal(args ...any)
}, yaml string,
) *dialect {
	t.Helper()
	c := decode(yaml)
	d, err := newDialect(&c.Switches)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// put is the body that a provider gets.
func put(t *testing.T, yaml, body string, e chat.Edits) string {
	t.Helper()
	e, _ = dialectOf(t, yaml).apply(request(t, body), e)
	return string(request(t, body).Body(e).Bytes())
}

func request(t *testing.T, body string) *chat.Request {
	t.Helper()
	req, err := chat.ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// m is a request with messages, and more behind them.
func m(messages string, more ...string) string {
	return `{"model":"m","messages":[` + messages + `]` + strings.Join(append([]string{""}, more...), ",") + `}`
}

const (
	hi      = `{"role":"user","content":"Hi."}`
	sys     = `{"role":"system","content":"A"}`
	sys2    = `{"role":"system","content":"B"}`
	devel   = `{"role":"developer","content":"A"}`
	partsOf = `{"role":"system","content":[{"type":"text","text":"A","cache_control":{"type":"ephemeral"}}]}`
	calling = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_abc123","type":"function","function":{"name":"a","arguments":"{}"}}]}`
	result  = `{"role":"tool","tool_call_id":"call_abc123","content":"1"}`
)

var instructions = chat.Edits{Before: json.RawMessage(`{"role":"system","content":"I"}`)}

func TestDialect(t *testing.T) {
	id := madeID("call_abc123", 0)
	for _, tt := range []struct {
		name, yaml, body string
		edits            chat.Edits
		want             string
	}{
		{"no profile changes nothing", "{}", m(devel+","+calling, `"max_tokens":1.0`, `"parallel_tool_calls":true`), chat.Edits{}, m(devel+","+calling, `"max_tokens":1.0`, `"parallel_tool_calls":true`)},

		{"the token limit is renamed", "{max_tokens_field: max_completion_tokens}", m(hi, `"max_tokens":1e2`, `"x":1`), chat.Edits{}, m(hi, `"x":1`, `"max_completion_tokens":1e2`)},
		{"back too", "{max_tokens_field: max_tokens}", m(hi, `"max_completion_tokens":5`), chat.Edits{}, m(hi, `"max_tokens":5`)},
		{"of two token limits the one that is refused goes", "{max_tokens_field: max_tokens}", m(hi, `"max_completion_tokens":5`, `"max_tokens":6`), chat.Edits{}, m(hi, `"max_tokens":6`)},
		{"a token limit by the right name stays", "{max_tokens_field: max_tokens}", m(hi, `"max_tokens":6`), chat.Edits{}, m(hi, `"max_tokens":6`)},
		{"a default token limit is renamed", "{max_tokens_field: max_tokens}", m(hi), chat.Edits{Default: []chat.Pair{{Name: "max_completion_tokens", Value: json.RawMessage("7")}}}, m(hi, `"max_tokens":7`)},
		{"the client's token limit goes before a default of the other name", "{max_tokens_field: max_tokens}", m(hi, `"max_completion_tokens":5`), chat.Edits{Default: []chat.Pair{{Name: "max_tokens", Value: json.RawMessage("7")}}}, m(hi, `"max_tokens":5`)},
		{"the same with the names turned", "{max_tokens_field: max_tokens}", m(hi, `"max_tokens":5`), chat.Edits{Default: []chat.Pair{{Name: "max_completion_tokens", Value: json.RawMessage("7")}}}, m(hi, `"max_tokens":5`)},

		{"parallel_tool_calls is taken out", "{parallel_tool_calls: false}", m(hi, `"parallel_tool_calls":false`, `"x":1`), chat.Edits{}, m(hi, `"x":1`)},
		{
			"members are taken out, wherever they came from", "{drop: [user, seed, top_k, n]}", m(hi, `"user":"u"`, `"x":1`),
			chat.Edits{Set: []chat.Pair{{Name: "seed", Value: json.RawMessage("1")}}, Default: []chat.Pair{{Name: "top_k", Value: json.RawMessage("2")}}},
			m(hi, `"x":1`),
		},

		{"fields of messages are taken out", "{drop_message_fields: [reasoning_content, refusal]}", m(`{"role":"assistant","reasoning_content":"r","content":"a" ,"refusal":null},` + hi), chat.Edits{}, m(`{"role":"assistant","content":"a" },` + hi)},
		{"fields of turns of this run too", "{drop_message_fields: [reasoning_content]}", m(hi), chat.Edits{After: []json.RawMessage{json.RawMessage(`{"role":"assistant","content":"","reasoning_content":"r"}`)}}, m(hi + `,{"role":"assistant","content":""}`)},
		{"a refusal becomes the content that it was", "{drop_message_fields: [refusal]}", m(`{"role":"assistant","content":null,"refusal":"No."},` + hi), chat.Edits{}, m(`{"role":"assistant","content":"No."},` + hi)},
		{"the name of a function's message stays", "{drop_message_fields: [name]}", m(`{"role":"function","name":"f","content":"1"},{"role":"user","name":"u","content":"a"}`), chat.Edits{}, m(`{"role":"function","name":"f","content":"1"},{"role":"user","content":"a"}`)},

		{"ids that are refused are mapped, in call and result alike", "{call_ids: '[a-zA-Z0-9]{9}'}", m(hi + "," + calling + "," + result), chat.Edits{}, m(hi + "," + strings.ReplaceAll(calling+","+result, "call_abc123", id))},
		{"ids of this run's turns with them", "{call_ids: '[a-zA-Z0-9]{9}'}", m(hi), chat.Edits{After: []json.RawMessage{json.RawMessage(calling), json.RawMessage(result)}}, m(hi + "," + strings.ReplaceAll(calling+","+result, "call_abc123", id))},
		{"ids that fit stay", "{call_ids: '[a-zA-Z0-9]{9}'}", m(strings.ReplaceAll(calling+" , "+result, "call_abc123", "aB3456789")), chat.Edits{}, m(strings.ReplaceAll(calling+","+result, "call_abc123", "aB3456789"))},

		{"a developer is the system", "{developer_role: false}", m(hi + "," + devel), chat.Edits{}, m(hi + "," + sys)},

		{"merged: one system message at the beginning stays", "{system: merged}", m(sys + " , " + hi), chat.Edits{}, m(sys + "," + hi)},
		{"merged: instructions alone stay a message", "{system: merged}", m(hi), instructions, m(`{"role":"system","content":"I"},` + hi)},
		{"merged: instructions go in front", "{system: merged}", m(sys + "," + hi), instructions, m(`{"role":"system","content":"I\n\nA"},` + hi)},
		{"merged: instructions go before a developer's", "{system: merged}", m(devel + "," + hi), instructions, m(`{"role":"developer","content":"I\n\nA"},` + hi)},
		{"merged: several become one", "{system: merged}", m(sys + "," + hi + "," + sys2 + "," + hi), chat.Edits{}, m(`{"role":"system","content":"A\n\nB"},` + hi + "," + hi)},
		{"merged: a late one becomes the first", "{system: merged}", m(hi + "," + sys), chat.Edits{}, m(sys + "," + hi)},
		{"merged: parts stay parts", "{system: merged}", m(partsOf + "," + sys2 + "," + hi), instructions, m(`{"role":"system","content":[{"type":"text","text":"I"},{"type":"text","text":"A","cache_control":{"type":"ephemeral"}},{"type":"text","text":"B"}]},` + hi)},
		{"user: instructions go into the user's message", "{system: user}", m(hi), instructions, m(`{"role":"user","content":"I\n\nHi."}`)},
		{"user: with the client's own", "{system: user}", m(sys + "," + hi + "," + hi), instructions, m(`{"role":"user","content":"I\n\nA\n\nHi."},` + hi)},
		{"user: into parts", "{system: user}", m(sys + `,{"role":"user","content":[{"type":"text","text":"Hi."}]}`), chat.Edits{}, m(`{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"Hi."}]}`)},
		{"user: a message of its own where there is none", "{system: user}", m(sys), chat.Edits{}, m(`{"role":"user","content":"A"}`)},

		{"an empty content in place of null", "{empty_content: true}", m(calling + "," + result), chat.Edits{}, m(strings.Replace(calling, "null", `""`, 1) + "," + result)},
		{"an empty content in place of none", "{empty_content: true}", m(`{"role":"assistant","tool_calls":[]},{"role":"assistant"}`), chat.Edits{}, m(`{"role":"assistant","tool_calls":[],"content":""},{"role":"assistant"}`)},

		{
			"names in the client's tools, its choice and its history", "{tool_names: '[a-z_]{1,20}|t[0-9a-f]{8}'}",
			m(strings.ReplaceAll(calling, `"name":"a"`, `"name":"a.b"`)+`,{"role":"tool","tool_call_id":"call_abc123","name":"a.b","content":"1"}`, `"tools":[{"type":"function","function":{"name":"a.b"}},{"type":"custom","custom":{"name":"c d"}}]`, `"tool_choice":{"type":"function","function":{"name":"a.b"}}`),
			chat.Edits{Tools: []byte(`{"type":"function","function":{"name":"ours"}}`)},
			m(strings.ReplaceAll(calling, `"name":"a"`, `"name":"a_b"`)+`,{"role":"tool","tool_call_id":"call_abc123","name":"a_b","content":"1"}`, `"tools":[{"type":"function","function":{"name":"a_b"}},{"type":"custom","custom":{"name":"c_d"}},{"type":"function","function":{"name":"ours"}}]`, `"tool_choice":{"type":"function","function":{"name":"a_b"}}`),
		},
		{
			"names of the gateway's tools alone", "{tool_names: '[a-z_][a-z0-9_]*'}", m(hi, `"tools":[ {"type":"function","function":{"name":"a"}} ]`),
			chat.Edits{Tools: []byte(`{"function":{"name":"9a"}},{"function":{"name":"b"}}`)},
			m(hi, `"tools":[ {"type":"function","function":{"name":"a"}} ,{"function":{"name":"t_9a"}},{"function":{"name":"b"}}]`),
		},
		{
			"names never meet", "{tool_names: '[a-z_]{1,20}|t[0-9a-f]{8}'}", m(hi, `"tools":[{"function":{"name":"a.b"}},{"function":{"name":"a_b"}},{"function":{"name":"a-b"}}]`),
			chat.Edits{},
			m(hi, `"tools":[{"function":{"name":"t_a_b"}},{"function":{"name":"a_b"}},{"function":{"name":"`+hashedName("a-b", 0)+`"}}]`),
		},
		{
			"names in a list of allowed tools", "{tool_names: '[a-z_]*|t[0-9a-f]{8}'}", m(hi, `"tools":[{"function":{"name":"a.b"}}]`, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"a.b"}}]}}`),
			chat.Edits{},
			m(hi, `"tools":[{"function":{"name":"a_b"}}]`, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"a_b"}}]}}`),
		},

		{"messages that an edit gave are rewritten too", "{developer_role: false}", m(hi), chat.Edits{Messages: json.RawMessage("[" + devel + "]")}, m(sys)},
		{"a request without tools for its last step keeps none", "{tool_names: '[a-z_]*|t[0-9a-f]{8}'}", m(hi, `"tools":[{"function":{"name":"a.b"}}]`), chat.Edits{Drop: []string{"tools", "tool_choice"}}, m(hi)},
		{"what is no message is the provider's to refuse", "{developer_role: false, empty_content: true}", m(`"developer",1,null,["tool_calls"]`), chat.Edits{}, m(`"developer",1,null,["tool_calls"]`)},
		{"what is no JSON is the provider's to refuse", "{developer_role: false}", m(`{"role":"developer" x}`), chat.Edits{}, m(`{"role":"developer" x}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := put(t, tt.yaml, tt.body, tt.edits)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the provider gets (-want +got):\n%s", diff)
			}
		})
	}
}

// Edits are shared by the steps of a run and by its routes.
func TestDialectLeavesItsEditsAlone(t *testing.T) {
	e := chat.Edits{
		Set:     make([]chat.Pair, 1, 4),
		Default: []chat.Pair{{Name: "max_tokens", Value: json.RawMessage("1")}, {Name: "seed", Value: json.RawMessage("1")}},
		Drop:    make([]string, 0, 4),
		Tools:   []byte(`{"function":{"name":"9","parameters":{"type":"object","$schema":"x"}}}`),
		Before:  instructions.Before,
		After:   []json.RawMessage{json.RawMessage(calling), json.RawMessage(result)},
	}
	e.Set[0] = chat.Pair{Name: "tool_choice", Value: json.RawMessage(`{"function":{"name":"9"}}`)}
	copied, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	d := dialectOf(t, "{max_tokens_field: max_completion_tokens, drop: [seed, user], call_ids: '[a-zA-Z0-9]{9}', tool_names: '[a-z_][a-z_0-9]*', schema_drop: [$schema], system: merged, empty_content: true}")
	body := m(sys+","+hi, `"user":"u"`)
	var first string
	for i := range 2 {
		changed, _ := d.apply(request(t, body), e)
		got := string(request(t, body).Body(changed).Bytes())
		if i == 0 {
			first = got
		} else if got != first {
			t.Errorf("the same request gives\n%s\nand then\n%s", first, got)
		}
	}
	after, _ := json.Marshal(e)
	if string(after) != string(copied) || e.Set[:2][1].Name != "" || e.Drop[:1][0] != "" {
		t.Errorf("the edits are\n%s\nand were\n%s", after, copied)
	}
}

// profiled is a conversation that every provider takes as it is.
func profiled(t *rapid.T) string {
	var list []string
	if rapid.Bool().Draw(t, "system") {
		list = append(list, sys)
	}
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		list = append(list, hi)
		if rapid.Bool().Draw(t, "calls") {
			id := rapid.StringMatching(`[a-zA-Z0-9]{9}`).Draw(t, "id")
			name := rapid.StringMatching(`[a-z_][a-zA-Z0-9_-]{0,20}`).Draw(t, "name")
			list = append(list, `{"role":"assistant","content":"", "tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"`+name+`","arguments":"{\"a\":1.0}"}}]}`,
				`{"role":"tool","tool_call_id":"`+id+`","content":"r"}`)
		}
		list = append(list, `{"content":"ok","role":"assistant"}`)
	}
	return `{"model":"m" , "temperature":0.10,"messages":[` + strings.Join(list, ",") + `],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","additionalProperties":false}}}]}`
}

func TestEveryProfileKeepsTheBytesOfARequestThatNeedsNothing(t *testing.T) {
	for name := range profiles {
		d := dialectOf(t, "{profile: "+name+"}")
		rapid.Check(t, func(t *rapid.T) {
			body := profiled(t)
			req, err := chat.ParseRequest([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			e, names := d.apply(req, chat.Edits{})
			if got := string(req.Body(e).Bytes()); got != body || names != nil {
				t.Fatalf("%s: the provider gets\n%s\nof\n%s", name, got, body)
			}
		})
	}
}

// awkward is what a client of OpenAI's may send, with a turn of another provider in it.
const awkward = `{"model":"m","max_completion_tokens":9,"store":false,"seed":1,"parallel_tool_calls":false,"messages":[` +
	`{"role":"developer","content":"A"},` +
	`{"role":"user","content":"Hi.","name":"ann"},` +
	`{"role":"assistant","content":null,"refusal":null,"reasoning_content":"r","reasoning":"r","tool_calls":[{"id":"functions.find:0123456789012345678901234567890","type":"function","function":{"name":"9.find","arguments":"{}"}}]},` +
	`{"role":"tool","tool_call_id":"functions.find:0123456789012345678901234567890","content":"1"}]` +
	`,"tools":[{"type":"function","function":{"name":"9.find","parameters":{"type":"object","additionalProperties":false}}}]}`

func TestWhatEachProfileSends(t *testing.T) {
	const (
		ours     = `{"type":"function","function":{"name":"ours","parameters":{"type":"object","additionalProperties":false}}}`
		longID   = "functions.find:0123456789012345678901234567890"
		noFields = `"refusal":null,"reasoning_content":"r","reasoning":"r",`
	)
	type change [2]string
	var (
		id        = change{longID, madeID(longID, 0)}
		asSystem  = change{`"role":"developer"`, `"role":"system"`}
		oneSystem = change{`{"role":"developer","content":"A"}`, `{"role":"system","content":"I\n\nA"}`}
		first     = change{`{"role":"system","content":"I"},`, ``}
		limit     = change{`"max_completion_tokens":9,`, ``}
		end       = change{`}}}]}`, `}}}],"max_tokens":9}`}
		noName    = change{`,"name":"ann"`, ``}
		reasons   = change{noFields, `"refusal":null,`}
	)
	for name, changes := range map[string][]change{
		"openai":     {id, {`"9.find"`, `"9_find"`}, reasons},
		"azure":      {id, {`"9.find"`, `"9_find"`}, reasons},
		"gemini":     {{`"9.find"`, `"t_9_find"`}, {`"ours","parameters":{"type":"object","additionalProperties":false}`, `"ours","parameters":{"type":"object"}`}},
		"mistral":    {id, first, oneSystem, limit, end, {`"store":false,"seed":1,`, ``}, noName, {noFields, ``}},
		"deepseek":   {asSystem, limit, end},
		"groq":       {noName, {noFields, `"reasoning":"r",`}},
		"openrouter": {asSystem},
		"ollama":     {asSystem, limit, end},
		"vllm":       {first, oneSystem},
		"llamacpp":   {first, oneSystem, limit, end, {`"content":null`, `"content":""`}},
		"lmstudio":   {first, oneSystem, limit, end},
	} {
		t.Run(name, func(t *testing.T) {
			want := strings.Replace(awkward, `"messages":[`, `"messages":[{"role":"system","content":"I"},`, 1)
			want = strings.Replace(want, `}}}]}`, `}}},`+ours+`]}`, 1)
			for _, c := range changes {
				if !strings.Contains(want, c[0]) {
					t.Errorf("%s is not in %s", c[0], want)
				}
				want = strings.ReplaceAll(want, c[0], c[1])
			}
			got := put(t, "{profile: "+name+"}", awkward, chat.Edits{Before: instructions.Before, Tools: []byte(ours)})
			if diff := cmp.Diff(sorted(t, want), sorted(t, got)); diff != "" {
				t.Errorf("the provider gets (-want +got):\n%s", diff)
			}
		})
	}
	for name := range profiles {
		if d := dialectOf(t, "{profile: "+name+"}"); d == nil {
			t.Errorf("the profile %s changes nothing", name)
		}
	}
}

// sorted is a request with its members in order of their names, as a renamed one goes to the end.
func sorted(t *testing.T, body string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(members, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A request that needs nothing is passed through without being put together again.
func TestPassWithAProfile(t *testing.T) {
	base, got := listens(t)
	u := configuredAt(t, base+"/v1", "profile: mistral\n")
	for _, tt := range []struct{ path, body, want string }{
		{"", ` {"model":"m", "messages":[ ` + hi + ` ] } `, ` {"model":"m", "messages":[ ` + hi + ` ] } `},
		{"", m(devel+","+hi, `"max_completion_tokens":5`), m(sys+","+hi, `"max_tokens":5`)},
		{"completions", `{"model":"m","messages":[],"user":"u","max_completion_tokens":5}`, `{"model":"m","messages":[],"user":"u","max_completion_tokens":5}`},
	} {
		*got = nil
		req, err := chat.ParseObject([]byte(tt.body))
		if tt.path == "" {
			req, err = chat.ParseRequest([]byte(tt.body))
		}
		if err != nil {
			t.Fatal(err)
		}
		resp, err := NewRoutes(NewRoute(u, "", 0)).Pass(t.Context(), Pass{Method: http.MethodPost, Path: tt.path, Request: req})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if diff := cmp.Diff(tt.want, (*got)[0].body); diff != "" {
			t.Errorf("the provider gets (-want +got):\n%s", diff)
		}
	}
}

// A fallback in the middle of a run, from a provider with ids and fields of its own to a strict one.
func TestRouteAfterAnotherProvidersTurn(t *testing.T) {
	down, _ := script(t, status(503, ""))
	base, got := listens(t)
	once := "retry: {attempts: 1}\n"
	routes := NewRoutes(
		NewRoute(configuredAt(t, down.URL, once), "deepseek-chat", 0),
		NewRoute(configuredAt(t, base, once+"profile: mistral\n"), "mistral-small", 0),
	)
	a := ask(t, m(hi))
	a.Edits.After = []json.RawMessage{
		json.RawMessage(`{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"call_abc123","type":"function","function":{"name":"a","arguments":"{}"}}]}`),
		json.RawMessage(result),
	}
	if _, err := routes.Ask(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	id := madeID("call_abc123", 0)
	want := `{"model":"mistral-small","messages":[` + hi + `,{"role":"assistant","content":"","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"1"}]}`
	if diff := cmp.Diff(want, (*got)[0].body); diff != "" {
		t.Errorf("the provider gets (-want +got):\n%s", diff)
	}
}

// The law of what strangers write: JSON stays JSON, no message is lost unless it is a system message that moved into
// another, and one without anything to change keeps its bytes.
func FuzzDialect(f *testing.F) {
	for _, seed := range []string{sys + "," + hi, calling + "," + result, devel, partsOf, `{"role":"assistant","tool_calls":{"id":""}}`, `{"role":"tool","tool_call_id":1,"name":"a.b"}`, `{"role":"system"}`, `{}`, `1`, `{"role":"assistant","tool_calls":[{"id":"a","id":"b","function":{"name":"x y"}}],"refusal":"r","name":"n"}`} {
		f.Add(seed)
	}
	all := "tool_names: '[a-z_]{1,20}|t[0-9a-f]{8}', call_ids: '[a-zA-Z0-9]{9}', drop_message_fields: [name, refusal, reasoning_content], developer_role: false, empty_content: true"
	forms := map[string]*dialect{}
	for _, form := range []string{systemSeparate, systemMerged, systemUser} {
		forms[form] = dialectOf(f, "{"+all+", system: "+form+"}")
	}
	f.Fuzz(func(t *testing.T, messages string) {
		body := []byte(`{"model":"m","messages":[` + messages + `]}`)
		req, err := chat.ParseRequest(body)
		if err != nil || !json.Valid(body) {
			return
		}
		before := gjson.GetBytes(body, "messages").Array()
		for form, d := range forms {
			e, _ := d.apply(req, chat.Edits{Before: instructions.Before})
			got := req.Body(e).Bytes()
			if !json.Valid(got) {
				t.Fatalf("%s: %s becomes %s, which is no JSON", form, body, got)
			}
			after := gjson.GetBytes(got, "messages").Array()
			if form != systemSeparate {
				systems := 0
				for i, m := range after {
					if role := m.Get("role").Str; role == roleSystem || role == roleDeveloper {
						systems++
						if form == systemUser || i > 0 || systems > 1 {
							t.Fatalf("%s: %s has system messages left: %s", form, body, got)
						}
					}
				}
				continue
			}
			if len(after) != len(before)+1 {
				t.Fatalf("%d messages become %d", len(before), len(after)-1)
			}
			for i, m := range before {
				if now := after[i+1]; !d.touches([]byte(m.Raw)) && now.Raw != m.Raw {
					t.Fatalf("%s becomes %s", m.Raw, now.Raw)
				}
			}
		}
	})
}
