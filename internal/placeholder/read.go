package placeholder

import (
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// Read parses the text at n for a tool, and reports to n what can't work: a fault of its own, or a name that is no
// parameter of the tool. The template is nil where the text can't be parsed.
func Read(n *config.Node, text string, s tool.Spec) *Template {
	t, err := Parse(text)
	if err != nil {
		n.Fail("%s", err)
		return nil
	}
	for _, fault := range t.Check(s.Has, s.Names()...) {
		n.Fail("%s", fault)
	}
	return t
}
