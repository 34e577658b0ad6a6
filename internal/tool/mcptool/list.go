package mcptool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema"
)

// Tool is one tool of a server as it is now.
type Tool struct {
	Server      string         // the name of the server in the file
	ID          string         // what the server calls it; permissions look at this one
	Name        string         // what the model calls it: prefix and ID, at most 64 of a-z, A-Z, 0-9, _ and -
	Description string         // never empty
	Schema      *schema.Schema // of its arguments
	Warnings    []string       // what was left out of it, for people
	ReadOnly    bool           // the server says that it changes nothing
	Idempotent  bool           // the server says that repeating a call changes nothing more
	Set         *config.Node   // its entry under tools.set, nil without one
}

// The limits of what one server can put into every request of a model.
const (
	mostTools       = 1000
	mostDescription = 10_000 // characters
)

var errManyTools = fmt.Errorf("the server has more than %d tools", mostTools)

// list asks for all tools of a server.
func list(ctx context.Context, x *mcp.ClientSession) ([]*mcp.Tool, error) {
	var all []*mcp.Tool
	for t, err := range x.Tools(ctx, nil) {
		var refused *jsonrpc.Error
		switch {
		case errors.As(err, &refused) && refused.Code == jsonrpc.CodeMethodNotFound:
			return nil, nil // a server without tools need not know the question
		case err != nil:
			return nil, fmt.Errorf("list of tools: %w", err)
		case len(all) == mostTools: // a cursor that leads back to the first page never ends
			return nil, errManyTools
		}
		all = append(all, t)
	}
	return all, nil
}

// offered makes of a server's list what the file wants of it, in the order of their IDs. What is left out or odd is told
// in warnings.
func (s *Server) offered(all []*mcp.Tool) (tools []Tool, warnings []string) {
	slices.SortStableFunc(all, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	var ids []string
	known := map[string]bool{}
	for _, t := range all {
		switch {
		case t.Name == "":
			warnings = append(warnings, "a tool without a name is left out")
			continue
		case known[t.Name]:
			warnings = append(warnings, fmt.Sprintf("tool %q stands in the list twice: the first one counts", t.Name))
			continue
		}
		known[t.Name] = true
		if !s.config.Tools.offers(t.Name) {
			continue
		}
		made, err := s.tool(t)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("tool %q is left out: %v", t.Name, err))
			continue
		}
		for _, w := range made.Warnings {
			warnings = append(warnings, fmt.Sprintf("tool %q: %s", t.Name, w))
		}
		ids = append(ids, t.Name)
		tools = append(tools, made)
	}
	taken := map[string]bool{}
	for i, name := range names(s.prefix, ids) {
		tools[i].Name = name
	}
	tools = slices.DeleteFunc(tools, func(t Tool) bool {
		double := taken[t.Name]
		taken[t.Name] = true
		if double { // an ID can be made up to look like the name that another one gets
			warnings = append(warnings, fmt.Sprintf("tool %q is left out: another one is called %s", t.ID, t.Name))
		}
		return double
	})
	for _, id := range s.config.Tools.Set.Keys() {
		if !known[id] {
			warnings = append(warnings, fmt.Sprintf("tools.set has %q, which the server does not", id))
		}
	}
	return tools, warnings
}

func (s *Server) tool(t *mcp.Tool) (Tool, error) {
	parsed, err := schema.Parse(orderedSchema(t.InputSchema))
	if err != nil {
		return Tool{}, fmt.Errorf("its schema: %w", err)
	}
	made := Tool{Server: s.name, ID: t.Name, Schema: parsed, Warnings: slices.Clone(parsed.Warnings())}
	made.Set, _ = s.config.Tools.Set.Get(t.Name)
	made.Description = strings.TrimSpace(t.Description)
	if a := t.Annotations; a != nil {
		made.ReadOnly, made.Idempotent = a.ReadOnlyHint, a.IdempotentHint
		if t.Title == "" {
			t.Title = a.Title
		}
	}
	for _, text := range []string{t.Title, t.Name} {
		if made.Description == "" {
			made.Description = strings.TrimSpace(text)
		}
	}
	if n := utf8.RuneCountInString(made.Description); n > mostDescription {
		made.Description = string([]rune(made.Description)[:mostDescription])
		made.Warnings = append(made.Warnings, fmt.Sprintf("its description has %d characters: it is cut to %d", n, mostDescription))
	}
	return made, nil
}

// sameTools says whether two lists are the same for a model and for a call.
func sameTools(a, b []Tool) bool {
	return slices.EqualFunc(a, b, func(a, b Tool) bool {
		return a.ID == b.ID && a.Name == b.Name && a.Description == b.Description && a.ReadOnly == b.ReadOnly &&
			a.Idempotent == b.Idempotent && string(a.Schema.JSON()) == string(b.Schema.JSON())
	})
}
