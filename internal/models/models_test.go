package models

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/upstream"
)

func read(t *testing.T, yaml string) (c Config, problems string) {
	t.Helper()
	f := config.Parse("m.yaml", ".", []byte(yaml), func(string) (string, bool) { return "", false })
	f.Decode(&c)
	c.CheckUpstreams(f.Root(), func(name string) (string, bool) { return ", the nearest is openai", name == "openai" })
	if p := f.Problems(); p != nil {
		problems = fmt.Sprint(p)
	}
	return c, problems
}

// client is a client of an upstream that nobody asks.
func client(t *testing.T) *upstream.Client {
	t.Helper()
	return clientAt(t, "http://127.0.0.1:1/v1")
}

func clientAt(t *testing.T, base string) *upstream.Client {
	t.Helper()
	var c upstream.Config
	f := config.Parse("u.yaml", ".", []byte("base_url: "+base), func(string) (string, bool) { return "", false })
	f.Decode(&c)
	u, err := upstream.NewClient("openai", &c, upstream.NewMetrics(prometheus.NewRegistry()), func(string, breaker.State) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"{upstream: openai, model: gpt-4o, tools: [\"*\", -a], defaults: {temperature: 0}}", ""},
		{"{routes: [{upstream: openai, model: a, weight: 3}, {upstream: openai}]}", ""},
		{"{tools: []}", "want an upstream, or routes with one each"},
		{"{upstream: openai, routes: [{upstream: openai}]}", "upstream: stands beside routes"},
		{"{model: a, routes: [{upstream: openai}]}", "model: belongs to upstream"},
		{"{upstream: opnai}", "there is no upstream \"opnai\", the nearest is openai"},
		{"{routes: [{upstream: opnai}]}", "routes.0.upstream: there is no upstream \"opnai\""},
		{"{routes: [{model: a}]}", "upstream is missing"},
		{"{routes: [{upstream: openai, weight: -1}]}", "weight"},
		{"{upstream: openai, tools: [\"[\"]}", "tools"},
		{"{upstream: openai, defaults: {stream: true}}", "stream is the client's or the gateway's to set"},
		{"{upstream: openai, tool_calling: prompt, structured: tool}", ""},
		{"{upstream: openai, tool_calling: text}", "tool_calling"},
	} {
		_, problems := read(t, tt.yaml)
		if (tt.want == "") != (problems == "") || !strings.Contains(problems, tt.want) {
			t.Errorf("%s: problems = %q, want %q", tt.yaml, problems, tt.want)
		}
	}
}

func TestNew(t *testing.T) {
	c, problems := read(t, `{upstream: openai, tools: ["a*", -ab], instructions: "Be \"brief\".", defaults: {temperature: 0.20, stop: [x]}, budget: {max_steps: 3}}`)
	if problems != "" {
		t.Fatal(problems)
	}
	base := budget.Default()
	clients := map[string]*upstream.Client{"openai": client(t)}
	m := New("assistant", &c, clients, base)
	if m.Label != "assistant" || m.Limits.Steps != 3 || m.Limits.Time != base.Time {
		t.Errorf("label and limits are %q, %+v", m.Label, m.Limits)
	}
	if got, want := string(m.Instructions), `{"role":"system","content":"Be \"brief\"."}`; got != want {
		t.Errorf("instructions are %s, want %s", got, want)
	}
	if len(m.Defaults) != 2 || m.Defaults[0].Name != "temperature" || string(m.Defaults[0].Value) != "0.20" || string(m.Defaults[1].Value) != `["x"]` {
		t.Errorf("defaults are %s, want them in order with their digits", m.Defaults)
	}
	for name, want := range map[string]bool{"a": true, "ac": true, "ab": false, "b": false} {
		if got := m.Tools.Has(name); got != want {
			t.Errorf("the tool %s is offered: %t, want %t", name, got, want)
		}
	}
	if m := New(Any, &c, clients, base); m.Label != "other" {
		t.Errorf("the label of all other names is %q: a client could make as many as it likes", m.Label)
	}
}

func TestFind(t *testing.T) {
	a, b, rest := &Model{Name: "a"}, &Model{Name: "b"}, &Model{Name: Any}
	for _, tt := range []struct {
		list []*Model
		name string
		want *Model
	}{
		{[]*Model{a, b}, "b", b},
		{[]*Model{a, b}, "c", nil},
		{[]*Model{a, b}, "*", nil},
		{[]*Model{a, b}, "", nil},
		{[]*Model{a, rest}, "a", a},
		{[]*Model{a, rest}, "c", rest},
	} {
		if got := NewTable(tt.list, nil).Find(tt.name); got != tt.want {
			t.Errorf("Find(%q) = %v, want %v", tt.name, got, tt.want)
		}
	}
	if named := NewTable([]*Model{b, rest, a}, nil).Named(); len(named) != 2 || named[0] != b || named[1] != a {
		t.Errorf("Named() = %v, want those with a name, in order", named)
	}
}

func TestTheNameThatAProviderGets(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"assistant", "{upstream: openai, model: gpt-5-mini}", "gpt-5-mini"},
		{"assistant", "{upstream: openai}", "assistant"},
		{"assistant", "{routes: [{upstream: openai, model: gpt-5-mini}]}", "gpt-5-mini"},
		{"assistant", "{routes: [{upstream: openai}]}", "sent"},
		{Any, "{upstream: openai}", "sent"},
		{Any, "{upstream: openai, model: gpt-5-mini}", "gpt-5-mini"},
	} {
		c, problems := read(t, tt.yaml)
		if problems != "" {
			t.Fatal(problems)
		}
		var got string
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var body struct{ Model string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			got = body.Model
		}))
		req, err := chat.ParseRequest([]byte(`{"model":"sent","messages":[1]}`))
		if err != nil {
			t.Fatal(err)
		}
		m := New(tt.name, &c, map[string]*upstream.Client{"openai": clientAt(t, s.URL)}, budget.Default())
		resp, err := m.Routes.Pass(t.Context(), upstream.Pass{Method: http.MethodPost, Request: req})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		s.Close()
		if got != tt.want {
			t.Errorf("%s: %s sends the model %q, want %q", tt.name, tt.yaml, got, tt.want)
		}
	}
}
