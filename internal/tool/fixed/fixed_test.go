package fixed

import (
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

func TestTheTextIsTheResult(t *testing.T) {
	for yaml, want := range map[string]string{
		"const: Mon-Fri 9-17":        "Mon-Fri 9-17",
		"const: 5.10":                "5.10",
		"const: {a: [1.0, x]}":       `{"a":[1.0,"x"]}`,
		"const: |\n  two\n  lines\n": "two\nlines\n",
	} {
		got, err := tooltest.Make(t, Kind, tool.Env{}, yaml).Call(t.Context(), tool.Call{})
		if err != nil || got.Text != want {
			t.Errorf("%s: Call() = %q, %v; want %q", yaml, got.Text, err, want)
		}
	}
	tooltest.CheckRefuses(t, Kind, []tooltest.Refuses{{Name: "nothing", YAML: "const: ''", Want: "want the text"}})
}
