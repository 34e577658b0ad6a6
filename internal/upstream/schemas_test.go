package upstream

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/chat"
)

func TestSchemaDrop(t *testing.T) {
	const drop = "{schema_drop: [$schema, additionalProperties, const, pattern]}"
	tool := func(parameters string) string {
		return `{"type":"function","function":{"name":"a","parameters":` + parameters + `}}`
	}
	for _, tt := range []struct{ name, in, want string }{
		{"at the top, the order of keys kept", `{"$schema":"x","type":"object","additionalProperties":false,"required":["b"],"properties":{"b":{"type":"string"}}}`, `{"type":"object","required":["b"],"properties":{"b":{"type":"string"}}}`},
		{"at every level", `{"type":"object","properties":{"a":{"anyOf":[{"const":1},{"items":{"not":{"pattern":"x"}}}]}},"$defs":{"d":{"additionalProperties":{}}},"items":[{"const":1}]}`, `{"type":"object","properties":{"a":{"anyOf":[{},{"items":{"not":{}}}]}},"$defs":{"d":{}},"items":[{}]}`},
		{"but no properties that are called so", `{"type":"object","properties":{"pattern":{"type":"string","pattern":"x"},"const":{"const":1}},"required":["pattern"]}`, `{"type":"object","properties":{"pattern":{"type":"string"},"const":{}},"required":["pattern"]}`},
		{"nor data", `{"enum":[{"const":1}],"default":{"pattern":1},"examples":[{"$schema":1}]}`, `{"enum":[{"const":1}],"default":{"pattern":1},"examples":[{"$schema":1}]}`},
		{"nor numbers", `{"minimum":1.10,"maximum":123456789012345678901}`, `{"minimum":1.10,"maximum":123456789012345678901}`},
		{"nor parameters that are none", `true`, `true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			own := `"tools":[` + tool(`{"$schema":"of the client"}`) + `]`
			got := put(t, drop, m(hi, own), chat.Edits{Tools: []byte(tool(tt.in) + "," + tool(tt.in))})
			want := m(hi, own[:len(own)-1]+","+tool(tt.want)+","+tool(tt.want)+"]")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the provider gets (-want +got):\n%s", diff)
			}
		})
	}
	if got := put(t, drop, m(hi), chat.Edits{Tools: []byte(tool(`{"a":1,"a":2,"const":1}`))}); got != m(hi, `"tools":[`+tool(`{"a":1,"a":2,"const":1}`)+`]`) {
		t.Errorf("tools that can't be read become %s", got)
	}
}

func TestToolsCacheIsBounded(t *testing.T) {
	c := newToolsCache([]string{"const"})
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for i := range 100 {
				name := fmt.Sprint("t", part, "_", i)
				tools := []byte(`{"function":{"name":"` + name + `","parameters":{"const":1}}}`)
				for range 2 {
					if p := c.prepared(tools); len(p.names) != 1 || p.names[0] != name || string(p.tools) != `{"function":{"name":"`+name+`","parameters":{}}}` {
						t.Errorf("%s becomes %s, %q", tools, p.tools, p.names)
					}
				}
			}
		})
	}
	wg.Wait()
	if len(c.made) > maxPrepared {
		t.Errorf("%d tools are kept, want %d at most", len(c.made), maxPrepared)
	}
}
