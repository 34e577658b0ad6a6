package upstream

import (
	"compress/gzip"
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

func TestNamesGoOutAndComeBack(t *testing.T) {
	for _, pattern := range []string{openAINames, `[a-zA-Z_][a-zA-Z0-9_.-]{0,63}`, `[a-z0-9]{1,10}`, `t[0-9a-f]{8}`} {
		d := dialectOf(t, "{tool_names: '"+pattern+"'}")
		rapid.Check(t, func(t *rapid.T) {
			declared := rapid.SliceOfNDistinct(rapid.OneOf(rapid.StringN(1, 80, 100), rapid.SampledFrom([]string{"a.b", "a_b", "a-b", "t_a_b", "9"})), 1, 8, rapid.ID).Draw(t, "names")
			var tools []string
			for _, name := range declared {
				quoted, _ := json.Marshal(name)
				tools = append(tools, `{"type":"function","function":{"name":`+string(quoted)+`}}`)
			}
			at := rapid.IntRange(0, len(tools)).Draw(t, "ours from")
			body := `{"model":"m","messages":[` + hi + `],"tools":[` + strings.Join(tools[:at], ",") + `]}`
			req, err := chat.ParseRequest([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			e, names := d.apply(req, chat.Edits{Tools: []byte(strings.Join(tools[at:], ","))})
			sent := gjson.GetBytes(req.Body(e).Bytes(), "tools.#.function.name").Array()
			if len(sent) != len(declared) {
				t.Fatalf("%d names are sent of %d", len(sent), len(declared))
			}
			seen := map[string]bool{}
			for i, v := range sent {
				name := strings.ToValidUTF8(declared[i], "\ufffd")
				if !d.names.MatchString(v.Str) || seen[v.Str] {
					t.Fatalf("%q is sent as %q, which does not fit or stands twice", name, v.Str)
				}
				seen[v.Str] = true
				if d.names.MatchString(name) && v.Str != name {
					t.Fatalf("%q fits and is sent as %q", name, v.Str)
				}
				turn := &chat.Turn{Message: json.RawMessage(`{}`), Calls: []chat.Call{{Name: v.Str, Raw: json.RawMessage(`{"function":{}}`)}}}
				if err := names.restore(turn); err != nil || turn.Calls[0].Name != name {
					t.Fatalf("%q is sent as %q and comes back as %q, %v", name, v.Str, turn.Calls[0].Name, err)
				}
			}
		})
	}
}

// provider answers with a reply, and keeps the request's body.
func provider(t *testing.T, kind, reply string) (base string, body *string) {
	t.Helper()
	body = new(string)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		*body = string(b)
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, reply)
	})
	return s.URL, body
}

const named9 = `"tools":[{"type":"function","function":{"name":"9-lives"}}]`

func TestNamesInTheTurn(t *testing.T) {
	want := chat.Call{ID: "c", Name: "9-lives", Arguments: json.RawMessage(`"{}"`)}
	for _, tt := range []struct{ name, body, kind, reply string }{
		{"of a reply", m(hi, named9), "application/json", `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"t_9-lives","arguments":"{}"}}],"x":1}}]}`},
		{"of a stream", m(hi, named9, `"stream":true`), "text/event-stream", `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"t_9-lives","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"},
		{"of a stream that gives it in pieces", m(hi, named9, `"stream":true`), "text/event-stream", `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"t_9"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"-lives"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"},
		{"of a stream that repeats it", m(hi, named9, `"stream":true`), "text/event-stream", `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"t_9-lives","arguments":"{"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"t_9-lives","arguments":"}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"},
		{"of the form before tools", m(hi, named9), "application/json", `{"choices":[{"message":{"role":"assistant","content":null,"function_call":{"name":"t_9-lives","arguments":"{}"}}}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, body := provider(t, tt.kind, tt.reply)
			reply, err := NewRoutes(NewRoute(configuredAt(t, base, "profile: gemini\nstream_usage: false\n"), "", 0)).Ask(t.Context(), ask(t, tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(tt.body, `"9-lives"`, `"t_9-lives"`, 1); *body != want {
				t.Errorf("the provider gets %s, want %s", *body, want)
			}
			got := reply.Turn.Calls[0]
			if got.Name != want.Name || string(got.Arguments) != string(want.Arguments) || gjson.GetBytes(got.Raw, "function.name").Str != want.Name {
				t.Errorf("call %s of %s, want one of %s", got.Name, got.Raw, want.Name)
			}
			for what, text := range map[string]json.RawMessage{"message": reply.Turn.Message, "reply": reply.Turn.Reply} {
				if strings.Contains(string(text), "t_9-lives") {
					t.Errorf("the turn's %s is %s", what, text)
				}
			}
			if gjson.GetBytes(reply.Turn.Message, "tool_calls.0.function.name").Str != want.Name {
				t.Errorf("the turn's message is %s", reply.Turn.Message)
			}
		})
	}
}

func TestNamesInWhatIsPassedThrough(t *testing.T) {
	chunk := `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"NAME","arguments":""}}]}}]}`
	for _, tt := range []struct{ name, kind, reply string }{
		{"a reply", "application/json", `{ "choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"NAME"}}]}},{"message":{"tool_calls":[{"id":"d","function":{"name":"NAME"}}]}}]}`},
		{"a stream", "text/event-stream; charset=utf-8", ": hi\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"t_9-lives\"}}]}\n\nevent: x\ndata:" + chunk + "\r\n\r\ndata: [DONE]\n\n"},
		{"a reply that is no JSON", "text/html", `<html>"tool_calls"`},
		{"a stream that is cut off", "text/event-stream", "data: " + chunk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, _ := provider(t, tt.kind, strings.ReplaceAll(tt.reply, "NAME", "t_9-lives"))
			p := Pass{Method: http.MethodPost, Header: http.Header{"Accept-Encoding": {"gzip"}}, Request: request(t, m(hi, named9))}
			resp, err := NewRoutes(NewRoute(configuredAt(t, base, "profile: gemini\n"), "", 0)).Pass(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(tt.reply, "NAME", "9-lives"), string(got)); diff != "" {
				t.Errorf("the client gets (-want +got):\n%s", diff)
			}
			if p.Header.Get("Accept-Encoding") == "" || resp.Header.Get("Content-Length") != "" {
				t.Error("the caller's header was changed, or a length stands that is not the body's")
			}
		})
	}
}

func TestNamesInACompressedReply(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"choices":[{"message":{"tool_calls":[{"function":{"name":"t_9-lives"}}]}}]}`)
		_ = z.Close()
	})
	resp, err := NewRoutes(NewRoute(configuredAt(t, s.URL, "profile: gemini\n"), "", 0)).Pass(t.Context(), Pass{Method: http.MethodPost, Request: request(t, m(hi, named9))})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || gjson.GetBytes(got, "choices.0.message.tool_calls.0.function.name").Str != "9-lives" || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("the client gets %s with %v, %v", got, resp.Header, err)
	}
}
