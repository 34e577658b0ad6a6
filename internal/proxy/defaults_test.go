package proxy

import (
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A model's defaults and instructions hold for its runs and for what is passed through alike, and give way to the
// client.
func TestDefaultsAreUsedWhereTheClientSentNone(t *testing.T) {
	var got string
	up := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		_, _ = io.WriteString(w, answer)
	}
	const with = `upstream: up, instructions: Be brief., defaults: {temperature: 0.20, tool_choice: auto, stop: [x]}`
	f := newFixture(t, fixtureConfig{models: "m: {" + with + "}\nplain: {" + with + ", tools: []}", tools: lookup}, up, nil)
	const (
		before = `{"role":"system","content":"Be brief."},`
		user   = `{"role":"user","content":"Hi"}`
		tools  = `"tools":[{"type":"function","function":{"name":"lookup","description":"Look up.","parameters":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}}}]`
	)
	for _, tt := range []struct{ name, body, want string }{
		{"a run", `{"model":"m","messages":[` + user + `]}`, `{"model":"m","messages":[` + before + user + `],"temperature":0.20,"tool_choice":"auto","stop":["x"],` + tools + `}`},
		{"a run whose client says otherwise", `{"model":"m","temperature":1.0,"messages":[` + user + `],"stop":null}`, `{"model":"m","temperature":1.0,"messages":[` + before + user + `],"stop":null,"tool_choice":"auto",` + tools + `}`},
		{"passed through", `{"model":"plain","messages":[` + user + `]}`, `{"model":"plain","messages":[` + before + user + `],"temperature":0.20,"stop":["x"]}`},
		{"passed through, and the client says otherwise", `{"model":"plain","temperature":1.0,"messages":[` + user + `],"stop":null}`, `{"model":"plain","temperature":1.0,"messages":[` + before + user + `],"stop":null}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := f.send(t, http.MethodPost, chatPath, tt.body); r.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", r.StatusCode, r.body)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the provider gets (-want +got):\n%s", diff)
			}
		})
	}
}
