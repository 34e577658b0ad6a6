package main

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/suggest"
)

// adviseLists warns of names in the lists of models and keys that are no tool and no model: what such a list means to
// offer is not offered, and nothing else would tell. Globs may wait for what comes.
func (c *checked) adviseLists(root *config.Node) {
	var prefixes []string // of tools that only their servers know
	for name, s := range c.MCPServers.All() {
		prefix := name + "__"
		if s.Prefix != nil {
			prefix = *s.Prefix
		}
		prefixes = append(prefixes, prefix)
	}
	tools := func(list *config.Node) { adviseList(list, "tool", c.tools.Names(), prefixes) }
	for _, name := range c.Models.Keys() {
		tools(c.Models.Node(name).Get("tools"))
	}
	auth := root.Get("auth")
	_, open := c.Models.Get(models.Any)
	for _, who := range append(slices.Clip(auth.Get("keys").Items()), auth.Get("jwt")) {
		tools(who.Get("tools"))
		if !open && c.Models.Len() > 0 {
			adviseList(who.Get("models"), "model", c.Models.Keys(), nil)
		}
	}
}

// adviseList warns of the names of a list that are not known and do not begin with one of the prefixes. Where nothing is
// known, the list is for what comes.
func adviseList(list *config.Node, what string, known, prefixes []string) {
	if len(known) == 0 {
		return
	}
	for _, item := range list.Items() {
		name := strings.TrimPrefix(item.Text(), "-")
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if strings.ContainsAny(name, `*?[\`) || slices.Contains(known, name) || slices.ContainsFunc(prefixes, begins) {
			continue
		}
		hint := ""
		if near := suggest.Nearest(name, known, 1); len(near) > 0 {
			hint = ": did you mean " + near[0] + "?"
		}
		item.Warn("there is no %s %q%s", what, name, hint)
	}
}
