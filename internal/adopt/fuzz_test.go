package adopt_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/toolgate/toolgate/internal/adopt"
)

// FuzzCurl holds two laws for any address and body: what comes out is YAML of one tool, and a bearer token never
// stands in it, wherever else the command repeats it.
func FuzzCurl(f *testing.F) {
	for _, s := range []string{"h/users/1?a=b", "h/{id}?x[]=1&x[]=2", "${B}/x", "h:1/%zz?%zz=%", "u:p@h/", "h/a?b#c", "h/:id/<x y>"} {
		f.Add(s, `{"a":{"b":[1,{"c":null}]}}`)
	}
	f.Add("h/", `a=b&c`)
	f.Add("h/", `["q7-token-of-mine-q7"]`)
	f.Fuzz(func(t *testing.T, address, body string) {
		const token = "q7-token-of-mine-q7"
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
		d, err := adopt.Curl("curl -H 'Authorization: Bearer "+token+"' -H "+quote("X-Key: "+token)+" --data-raw "+quote(body)+" --url "+quote(address), "")
		if err != nil {
			return
		}
		var got struct{ Tools map[string]map[string]any }
		if err := yaml.Load(d.YAML, &got); err != nil || len(got.Tools) != 1 || got.Tools[d.Name]["description"] != "TODO" {
			t.Errorf("Curl(%q, %q): %v\n%s", address, body, err, d.YAML)
		}
		if !strings.Contains(address, token) && strings.Contains(string(d.YAML), token) {
			t.Errorf("Curl(%q, %q) has the token:\n%s", address, body, d.YAML)
		}
	})
}
