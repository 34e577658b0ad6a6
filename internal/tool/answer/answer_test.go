package answer

import (
	"encoding/json"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

func TestTheArgumentsAreTheAnswer(t *testing.T) {
	for _, yaml := range []string{"answer: {}", "answer:"} {
		made := tooltest.Make(t, Kind, tool.Env{}, yaml)
		got, err := made.Call(t.Context(), tool.Call{Args: map[string]any{"tax": json.Number("1.920"), "a": "<b>"}})
		if err != nil || got.Text != `{"a":"<b>","tax":1.920}` {
			t.Errorf("%s: Call() = %q, %v", yaml, got.Text, err)
		}
	}
	if e := Kind.New().(tool.Ender).Ending(); e != tool.Final {
		t.Errorf("Ending() = %q, want final", e)
	}
	tooltest.CheckRefuses(t, Kind, []tooltest.Refuses{{Name: "keys", YAML: "answer: {final: true}", Want: "unknown key"}})
}
