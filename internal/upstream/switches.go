package upstream

import (
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
)

// Switches say what a provider wants other than OpenAI's API has it. They change the requests to it, and nothing that
// a client sees.
type Switches struct {
	StreamUsage       bool     `yaml:"stream_usage" doc:"Ask for usage in streams by stream_options.include_usage."`
	MaxTokensField    string   `yaml:"max_tokens_field" enum:"max_tokens,max_completion_tokens" doc:"The one name for the token limit that the provider takes; without it the client's stays."`
	ParallelToolCalls bool     `yaml:"parallel_tool_calls" doc:"Whether the provider takes parallel_tool_calls; else it is taken out of requests."`
	Drop              []string `yaml:"drop" doc:"Members that the provider refuses, taken out of requests."`
	DropMessageFields []string `yaml:"drop_message_fields" doc:"Fields of messages that the provider refuses, taken out of each message."`
	ToolNames         string   `yaml:"tool_names" doc:"A pattern (RE2) of the whole names that the provider takes for tools; others go out under another name."`
	CallIDs           string   `yaml:"call_ids" doc:"A pattern (RE2) of the whole ids that the provider takes for tool calls; others go out as nine letters and digits."`
	SchemaDrop        []string `yaml:"schema_drop" doc:"Keywords of JSON Schema that the provider refuses, taken out of the parameters of the gateway's tools. Arguments are checked by the whole schema all the same."`
	System            string   `yaml:"system" enum:"separate,merged,user" doc:"How system messages go out: separate, as they are; merged, all in one at the beginning; user, in front of the first user message."`
	DeveloperRole     bool     `yaml:"developer_role" doc:"Whether the provider knows the role developer; else it is system."`
	SchemaWithTools   bool     `yaml:"schema_with_tools" doc:"Whether a schema of response_format and tools go together; else structured: auto asks for the answer by a tool from the start."`
	EmptyContent      bool     `yaml:"empty_content" doc:"Give assistant messages with calls and without content an empty one."`
}

// SetDefaults sets what leaves requests as they are.
func (s *Switches) SetDefaults() {
	*s = Switches{StreamUsage: true, ParallelToolCalls: true, System: systemSeparate, DeveloperRole: true, SchemaWithTools: true}
}

// The ways of system messages.
const (
	systemSeparate = "separate"
	systemMerged   = "merged"
	systemUser     = "user"
)

// inherit takes what the file, n, does not say from a profile.
func (s *Switches) inherit(n *config.Node, p Switches) {
	for key, take := range map[string]func(){
		"stream_usage":        func() { s.StreamUsage = p.StreamUsage },
		"max_tokens_field":    func() { s.MaxTokensField = p.MaxTokensField },
		"parallel_tool_calls": func() { s.ParallelToolCalls = p.ParallelToolCalls },
		"drop":                func() { s.Drop = p.Drop },
		"drop_message_fields": func() { s.DropMessageFields = p.DropMessageFields },
		"tool_names":          func() { s.ToolNames = p.ToolNames },
		"call_ids":            func() { s.CallIDs = p.CallIDs },
		"schema_drop":         func() { s.SchemaDrop = p.SchemaDrop },
		"system":              func() { s.System = p.System },
		"developer_role":      func() { s.DeveloperRole = p.DeveloperRole },
		"schema_with_tools":   func() { s.SchemaWithTools = p.SchemaWithTools },
		"empty_content":       func() { s.EmptyContent = p.EmptyContent },
	} {
		if n.Get(key).Kind() == config.Null {
			take()
		}
	}
}

// What no switch takes away: a request is none without it, or a turn would lose its meaning.
var (
	keptMembers  = []string{"model", "messages", "tools", "stream"}
	keptFields   = []string{"role", "content", "tool_calls", "tool_call_id"}
	keptKeywords = []string{"type", "properties", "items", "required"}
)

// fieldName is what a name under drop_message_fields may be.
var fieldName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

func (s *Switches) check(n *config.Node) {
	refuse := func(key string, list, kept []string, form *regexp.Regexp) {
		for i, at := range n.Get(key).Items() {
			switch {
			case slices.Contains(kept, list[i]):
				at.Fail("%s can't be taken out", list[i])
			case form != nil && !form.MatchString(list[i]):
				at.Fail("want the name of a field, such as reasoning_content")
			case list[i] == "":
				at.Fail("want a name")
			}
		}
	}
	refuse("drop", s.Drop, keptMembers, nil)
	refuse("drop_message_fields", s.DropMessageFields, keptFields, fieldName)
	refuse("schema_drop", s.SchemaDrop, keptKeywords, nil)
	checkPattern(n.Get("tool_names"), s.ToolNames, hashedName("x", 0), "names")
	checkPattern(n.Get("call_ids"), s.CallIDs, madeID("x", 0), "ids")
}

// checkPattern looks at a pattern for what the gateway makes; sample is one of those.
func checkPattern(at *config.Node, pattern, sample, what string) {
	if pattern == "" {
		return
	}
	p, err := wholly(pattern)
	switch {
	case err != nil:
		at.Fail("want a pattern (RE2): %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	case !p.MatchString(sample):
		at.Fail("want a pattern that takes %s like %s, which the gateway makes for those that it does not take", what, sample)
	}
}

// wholly is a pattern of whole texts.
func wholly(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err // its text is of the pattern as it stands in the file
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}
