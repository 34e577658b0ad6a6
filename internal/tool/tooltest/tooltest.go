// Package tooltest makes tools of YAML for the tests of their kinds.
package tooltest

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// Read decodes and checks the configuration of a kind, which is the value of a document of one key, the kind's name. It
// gives the problems that were found.
func Read(t *testing.T, k tool.Kind, yaml string, params ...string) (tool.Config, tool.Spec, config.Problems) {
	t.Helper()
	f := config.Parse("tool.yaml", t.TempDir(), []byte(yaml), func(string) (string, bool) { return "", false })
	s := tool.Spec{Name: "it", Params: map[string]tool.Param{}}
	for _, p := range params {
		name, optional := strings.CutSuffix(p, "?")
		s.Params[name] = tool.Param{Optional: optional}
	}
	c := k.New()
	n := f.Root().Get(k.Name)
	n.Decode(c)
	s.Effect = c.DefaultEffect()
	c.Check(n, s)
	return c, s, f.Problems()
}

// Make makes a tool of a configuration that has no fault.
func Make(t *testing.T, k tool.Kind, env tool.Env, yaml string, params ...string) tool.Tool {
	t.Helper()
	c, s, problems := Read(t, k, yaml, params...)
	if problems != nil {
		t.Fatal(problems)
	}
	made, err := c.Build(s, env)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Refuses is a configuration that can't work, and what its problem says.
type Refuses struct {
	Name, YAML, Want string
	Params           []string
}

// CheckRefuses runs a table of them.
func CheckRefuses(t *testing.T, k tool.Kind, table []Refuses) {
	t.Helper()
	for _, tt := range table {
		t.Run(tt.Name, func(t *testing.T) {
			if _, _, p := Read(t, k, tt.YAML, tt.Params...); p == nil || !strings.Contains(p.Error(), tt.Want) {
				t.Errorf("problems = %v, want %q", p, tt.Want)
			}
		})
	}
}

// WantError fails the test unless err is an error of that class and type.
func WantError(t *testing.T, err error, class tool.Class, kind string) {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) || e.Class != class || e.Type != kind {
		t.Errorf("error = %v, want class %s and type %q", err, class, kind)
	}
}
