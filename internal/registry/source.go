package registry

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/tool"
)

// Found is a tool that a source, such as an MCP server, brings while the gateway runs.
type Found struct {
	Name        string // as models call it
	ID          string // as it is permitted
	Kind        string
	Description string
	Schema      *schema.Schema
	Effect      tool.Effect
	Idempotent  bool
	Untrusted   bool         // as long as Set does not say otherwise
	Set         *config.Node // keys of Config that the file sets for it; nil without
	Tool        tool.Tool
	Breaker     string   // shared by all tools of the source
	Fields      []string // of the caller, without which it is not offered
}

// DefaultEffect is the effect that the source told.
func (f Found) DefaultEffect() tool.Effect { return f.Effect }

// Check has nothing to report: the tool is made already.
func (f Found) Check(*config.Node, tool.Spec) {}

// Hosts are none, as for Check.
func (f Found) Hosts() []string { return nil }

// Build is the tool that the source made.
func (f Found) Build(tool.Spec, tool.Env) (tool.Tool, error) { return f.Tool, nil }

// CallerFields are the fields of the caller that the source needs.
func (f Found) CallerFields() []string { return f.Fields }

// SharedBreaker is the source's breaker.
func (f Found) SharedBreaker() string { return f.Breaker }

// CheckOverrides reports what can't work of the keys that a file sets for a tool that is found later.
func CheckOverrides(n *config.Node) {
	var c Config
	n.Decode(&c)
	if c.Parameters != nil {
		n.FailKey("parameters", "are the tool's own and can't be set")
	}
	if c.Cache > 0 && c.Effect == string(tool.Write) {
		n.FailKey("cache", cacheWrite)
	}
	if c.Retry.Policy().Attempts > 1 && c.Effect == string(tool.Write) && !c.Idempotent {
		n.FailKey("retry", writeRetry)
	}
	if c.Confirm.After != "" && c.Effect == string(tool.Read) {
		n.FailKey("confirm", readAfter)
	}
}

// Replace puts the tools that a source has now in the place of those that it had. Requests under way keep what they
// saw. A tool that can't be offered is left out, and logged.
func (s *Set) Replace(source string, list []Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tools []*Tool
	for _, f := range list {
		t, err := s.foundTool(f)
		if err != nil {
			s.opts.Logger.Warn("tool is left out", slog.String("source", source), slog.String("tool", f.ID), slog.Any("err", err))
			continue
		}
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b *Tool) int { return strings.Compare(a.Name, b.Name) })
	s.sources[source] = tools
	s.publish()
}

func (s *Set) foundTool(f Found) (*Tool, error) {
	if !FitName(f.Name) {
		return nil, fmt.Errorf("%q is no name for a tool", f.Name)
	}
	def := &definition{kind: f.Kind, config: f, schema: f.Schema}
	def.common.SetDefaults()
	def.common.Untrusted = f.Untrusted
	if f.Set != nil {
		f.Set.Decode(&def.common) // CheckOverrides has found no fault
	}
	if def.common.Description == "" {
		def.common.Description = f.Description
	}
	if def.common.Description == "" {
		def.common.Description = f.ID // some servers describe nothing, and providers want a text
	}
	def.spec = tool.Spec{Name: f.Name, Effect: tool.Effect(def.common.Effect), Idempotent: def.common.Idempotent || f.Idempotent}
	if def.spec.Effect == "" {
		def.spec.Effect = f.Effect
	}
	def.spec.Params = def.params()
	for name := range def.common.Bind.All() {
		if !def.spec.Has(name) {
			return nil, fmt.Errorf("bind: %q is no parameter of the tool", name)
		}
	}
	if def.common.Cache > 0 && def.spec.Effect == tool.Write {
		return nil, errors.New(cacheWrite)
	}
	if def.common.Retry.Policy().Attempts > 1 && def.spec.Effect == tool.Write && !def.spec.Idempotent {
		return nil, errors.New(writeRetry)
	}
	t, err := s.newTool(def)
	if err != nil {
		return nil, err
	}
	t.ID = f.ID
	return t, nil
}
