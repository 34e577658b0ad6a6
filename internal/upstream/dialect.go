package upstream

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/toolgate/toolgate/internal/chat"
)

// dialect makes a chat completion one that a provider takes, by its switches. What it takes as it is keeps its bytes.
// It is for use by many goroutines at once.
type dialect struct {
	maxTokens  string // the name of the token limit; "" leaves it
	drop       []string
	dropFields []string
	names      *regexp.Regexp // nil takes all
	ids        *regexp.Regexp // nil takes all
	system     string
	developer  bool // the role is known
	content    bool // assistant messages need one
	tools      *toolsCache

	needles [][]byte // a message that has none of these is taken as it is
}

// newDialect makes the dialect of checked switches, nil for one that changes nothing.
func newDialect(s *Switches) (*dialect, error) {
	t := &dialect{
		maxTokens:  s.MaxTokensField,
		drop:       s.Drop,
		dropFields: s.DropMessageFields,
		system:     s.System,
		developer:  s.DeveloperRole,
		content:    s.EmptyContent,
	}
	if !s.ParallelToolCalls {
		t.drop = append(slices.Clip(t.drop), "parallel_tool_calls")
	}
	var err error
	if s.ToolNames != "" {
		if t.names, err = wholly(s.ToolNames); err != nil {
			return nil, err
		}
	}
	if s.CallIDs != "" {
		if t.ids, err = wholly(s.CallIDs); err != nil {
			return nil, err
		}
	}
	t.tools = newToolsCache(s.SchemaDrop)
	t.needles = t.looksFor()
	if t.maxTokens == "" && len(t.drop) == 0 && len(t.needles) == 0 && len(s.SchemaDrop) == 0 {
		return nil, nil //nolint:nilnil // nil is the dialect that changes nothing
	}
	return t, nil
}

// looksFor is what stands in each message that has to change, but for those that take in a system message.
func (t *dialect) looksFor() [][]byte {
	var words []string
	if t.names != nil || t.ids != nil || t.content {
		words = append(words, "tool_calls", "tool_call_id")
	}
	if !t.developer {
		words = append(words, roleDeveloper)
	}
	if t.system != systemSeparate {
		words = append(words, roleSystem, roleDeveloper)
	}
	needles := make([][]byte, 0, len(words)+len(t.dropFields))
	for _, word := range append(words, t.dropFields...) {
		needles = append(needles, []byte(`"`+word+`"`))
	}
	return needles
}

// touches says whether b may hold a message that has to change.
func (t *dialect) touches(b []byte) bool {
	for _, needle := range t.needles {
		if bytes.Contains(b, needle) {
			return true
		}
	}
	return false
}

// apply is e with what the provider wants otherwise, and the names under which tools go out other than their own.
func (t *dialect) apply(req *chat.Request, e chat.Edits) (chat.Edits, *renames) {
	if t == nil {
		return e, nil
	}
	d := &draft{req: req, edits: e}
	t.tokenLimit(d)
	for _, name := range t.drop {
		if d.value(name) != nil {
			d.drop(name)
		}
	}
	var ours []string
	if t.names != nil || len(t.tools.drop) > 0 {
		p := t.tools.prepared(d.edits.Tools)
		d.edits.Tools, ours = p.tools, p.names
	}
	talk := t.conversation(d)
	names := t.rename(d, ours, talk)
	names.declare(d)
	talk.rewrite(t, names)
	talk.put(d)
	return d.edits, names
}

// The two names of the token limit.
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// tokenLimit gives the token limit the name that the provider takes. The client's own limit goes before a default,
// whatever the names of the two.
func (t *dialect) tokenLimit(d *draft) {
	other := maxTokens
	switch t.maxTokens {
	case "":
		return
	case maxTokens:
		other = maxCompletionTokens
	}
	value := d.value(other)
	if value == nil {
		return
	}
	keeps := d.value(t.maxTokens) != nil && (d.req.Member(t.maxTokens) != nil || d.req.Member(other) == nil)
	d.drop(other)
	if !keeps {
		d.set(t.maxTokens, value)
	}
}
