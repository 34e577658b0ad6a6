package mcptool

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
)

func TestBlocksOfOtherProgramsFit(t *testing.T) {
	tests := []struct{ name, yaml, wire string }{
		{"Claude Desktop", `{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {"KEY": "v"}}`, ""},
		{"a type", `{"type": "stdio", "command": "uvx", "args": ["mcp-server-time"]}`, "stdio"},
		{"VS Code", `{"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer x"}}`, "http"},
		{"streamableHttp", `{"type": "streamableHttp", "url": "https://mcp.example.com/mcp"}`, "http"},
		{"LangChain", `{"transport": "streamable_http", "url": "http://localhost:8000/mcp/"}`, "http"},
		{"an old one", `{"type": "sse", "url": "http://localhost:8000/sse"}`, "sse"},
		{"the URL alone", `{"url": "http://[::1]:8000/mcp"}`, ""},
		{"a list", `{command: [python, -m, server]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := load(t, tt.yaml)
			if got := c.wire(); got != tt.wire {
				t.Errorf("wire() = %q, want %q", got, tt.wire)
			}
		})
	}
}

func TestFaultsOfTheFile(t *testing.T) {
	u := "url: 'http://h/mcp'"
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{"nothing", `{}`, []string{"want exactly one of command, url"}},
		{"both", `{command: a, ` + u + `}`, []string{"want exactly one of command, url"}},
		{"an empty command", `{command: ''}`, []string{"want a program", "want exactly one"}},
		{"an empty list", `{command: []}`, []string{"want a program", "want exactly one"}},
		{"an empty url", `{url: ''}`, []string{"url: is empty"}},
		{"another scheme", `{url: 'ftp://u:pa/ss@h/x'}`, []string{"url: want an address that begins with http:// or https://"}},
		{"a placeholder in the url", `{url: 'http://{caller.id}/'}`, []string{"no placeholder can stand in the url"}},
		{"a fragment", `{url: 'http://h/#x'}`, []string{"a part after #"}},
		{"headers of a command", `{command: a, headers: {X: y}, forward: [X]}`, []string{"headers: a program has no headers", "forward: a program has no headers"}},
		{"env of a url", `{` + u + `, env: {A: b}, args: [x], cwd: /}`, []string{"env: this is for", "args: this is for", "cwd: this is for"}},
		{"a type that does not fit a command", `{command: a, type: sse}`, []string{"a command is spoken to by stdio"}},
		{"a type that does not fit a url", `{` + u + `, type: stdio}`, []string{"a url is not spoken to by stdio"}},
		{"two types", `{command: a, type: stdio, transport: stdio}`, []string{"transport: says the same as type"}},
		{"an unknown type", `{command: a, type: pipe}`, []string{"type: want one of"}},
		{"a bad prefix", `{command: a, prefix: 'a.b'}`, []string{"prefix: want at most 40"}},
		{"bad globs", `{command: a, tools: {include: ['[a'], exclude: ['']}}`, []string{"tools.include.0: ", "tools.exclude.0: "}},
		{"settings that are none", `{command: a, tools: {set: {x: 5}}}`, []string{"tools.set.x: want a mapping"}},
		{"a variable that is none", `{command: a, env: {'A=B': c}}`, []string{`"A=B" is no name of an environment variable`}},
		{"headers that are none", `{` + u + `, headers: {'a b': x, Host: h, mcp-session-id: y, X-A: "a\nb"}}`, []string{"no name of a header", "connection's own", "connection's own", "control character"}},
		{"a header twice", `{` + u + `, headers: {X-A: x, x-a: y}}`, []string{"set twice"}},
		{"placeholders of a call", `{` + u + `, headers: {X-A: '{id}', X-B: '{run_id}', X-C: '{idempotency_key}', X-D: '{caller.run_id}'}}`, []string{"only {caller.x}", "only {caller.x}", "only {caller.x}"}},
		{"a caller without a field", `{` + u + `, headers: {X-A: '{caller}'}}`, []string{"want {caller.FIELD}"}},
		{"forwarding what can't be", `{` + u + `, headers: {X-A: x}, forward: ['a b', Content-Type, Idempotency-Key, x-a, X-B, x-b]}`, []string{"no name of a header", "can't go along", "can't go along", "headers has X-A as well", "stands here twice"}},
		{"no time", `{command: a, list_timeout: 0}`, []string{"list_timeout: want 1ms or more"}},
		{"an unknown key", `{comand: a}`, []string{`did you mean "command"?`, "want exactly one"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := config.Parse("f.yaml", "", []byte(tt.yaml), os.LookupEnv)
			f.Decode(&ServerConfig{})
			var got []string
			for _, p := range f.Problems() {
				got = append(got, p.String())
			}
			for _, want := range tt.want {
				i := slices.IndexFunc(got, func(g string) bool { return strings.Contains(g, want) })
				if i < 0 {
					t.Errorf("problems\n%s\nwant %q among them", strings.Join(got, "\n"), want)
					continue
				}
				got = slices.Delete(got, i, i+1)
			}
			if len(got) > 0 {
				t.Errorf("more problems than wanted:\n%s", strings.Join(got, "\n"))
			}
			if strings.Contains(f.Problems().Error(), "pa/ss") {
				t.Error("a problem repeats a password")
			}
		})
	}
}

func TestACommandLineIsWarnedOf(t *testing.T) {
	f := config.Parse("f.yaml", "", []byte("{command: npx -y server}"), os.LookupEnv)
	f.Decode(&ServerConfig{})
	if f.Problems() != nil || !strings.Contains(f.Warnings().Error(), "write arguments under args") {
		t.Errorf("problems %v, warnings %v", f.Problems(), f.Warnings())
	}
}

func TestHeadersOfASession(t *testing.T) {
	c := load(t, `{url: 'http://h', headers: {X-Fixed: ' f ', X-User: 'u-{caller.id}', X-Level: '{caller.level}{caller.id}'}, forward: [authorization, X-Tenant]}`)
	if diff := cmp.Diff([]string{"id", "level"}, c.CallerFields()); diff != "" {
		t.Errorf("CallerFields() (-want +got)\n%s", diff)
	}
	if !c.personal() {
		t.Error("personal() = false")
	}
	tests := []struct {
		name   string
		caller map[string]any
		want   map[string][]string
	}{
		{"of nobody", nil, map[string][]string{"X-Fixed": {"f"}}},
		{"of somebody", map[string]any{"id": "ann", "level": 2, "header:Authorization": "Bearer x"}, map[string][]string{
			"X-Fixed": {"f"}, "X-User": {"u-ann"}, "X-Level": {"2ann"}, "Authorization": {"Bearer x"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.headersFor(asCall(tt.caller))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, map[string][]string(got)); diff != "" {
				t.Errorf("headersFor() (-want +got)\n%s", diff)
			}
		})
	}
	for _, field := range []string{"id", "header:X-Tenant"} {
		if _, err := c.headersFor(asCall(map[string]any{field: "a\r\nX-Admin: 1"})); err == nil {
			t.Errorf("a line break in %s is let through", field)
		}
	}
}

func TestIdentitiesThatLookAlikeDiffer(t *testing.T) {
	c := load(t, `{url: 'http://h', forward: [X-A, X-B]}`)
	of := func(a, b string) string {
		h, err := c.headersFor(asCall(map[string]any{"header:X-A": a, "header:X-B": b}))
		if err != nil {
			t.Fatal(err)
		}
		return identity(h)
	}
	seen := map[string]bool{}
	for _, pair := range [][2]string{{"", ""}, {"x", ""}, {"", "x"}, {`x""X-B""y`, ""}, {"x", "y"}, {"y", "x"}} {
		key := of(pair[0], pair[1])
		if seen[key] {
			t.Errorf("%q has the identity of another", pair)
		}
		seen[key] = true
		if key != of(pair[0], pair[1]) {
			t.Errorf("%q has two identities", pair)
		}
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	for name, try := range map[string]func() error{
		"a name":      func() error { _, err := New("", &ServerConfig{Command: Command{"a"}}, Options{}); return err },
		"exactly one": func() error { _, err := New("it", &ServerConfig{}, Options{}); return err },
		"transport":   func() error { _, err := New("it", &ServerConfig{URL: "http://h"}, Options{}); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New() = %v, want a word of %s", err, name)
		}
	}
}

func TestTheSchemaOfTheFileKnowsEveryKey(t *testing.T) {
	var s struct {
		Properties map[string]struct {
			Description string           `json:"description"`
			AnyOf       []map[string]any `json:"anyOf"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(config.SchemaOf(ServerConfig{}), &s); err != nil {
		t.Fatal(err)
	}
	for key := range strings.FieldsSeq("command args env cwd url headers type transport prefix tools forward required list_timeout") {
		if _, ok := s.Properties[key]; !ok {
			t.Errorf("no %s", key)
		}
	}
	if len(s.Properties["command"].AnyOf) != 2 {
		t.Errorf("command = %+v", s.Properties["command"])
	}
}

// A program that may have to download the server first has more time for its start, unless the file says how much.
func TestDownloadsHaveMoreTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"{command: npx, args: [-y, x]}":                   30 * time.Second,
		"{command: [/usr/bin/uvx, x]}":                    30 * time.Second,
		"{command: npx, args: [-y, x], list_timeout: 5s}": 5 * time.Second,
		"{command: server}":                               10 * time.Second,
		`{url: "https://mcp.example.com/mcp"}`:            10 * time.Second,
	} {
		f := config.Parse("x.yaml", ".", []byte("s: "+text), func(string) (string, bool) { return "", false })
		var c struct {
			S ServerConfig `yaml:"s"`
		}
		f.Decode(&c)
		if f.Problems() != nil || time.Duration(c.S.ListTimeout) != want {
			t.Errorf("%s: %s, %v, want %s", text, time.Duration(c.S.ListTimeout), f.Problems(), want)
		}
	}
}
