package script

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
)

// Rule says what a provider does not take. It has one condition.
type Rule struct {
	Member        string   `yaml:"member" doc:"The request has this member, such as stream_options or stream_options.include_usage."`
	Together      []string `yaml:"together" doc:"It has all of these members."`
	ToolNamesNot  Pattern  `yaml:"tool_names_not" doc:"A name of a tool or call is not of this regular expression (RE2)."`
	CallIDsNot    Pattern  `yaml:"call_ids_not" doc:"An id of a call is not of this regular expression (RE2)."`
	SchemaKeyword string   `yaml:"schema_keyword" doc:"A JSON Schema of the request has this keyword."`
	ContextOver   int      `yaml:"context_over" min:"1" doc:"Messages and tools have more characters, as JSON."`
	Model         Pattern  `yaml:"model" doc:"The rule is for models whose name has this regular expression (RE2). Default all."`
	Status        int      `yaml:"status" min:"400" doc:"HTTP status. Default 400."`
	Message       string   `yaml:"message" doc:"Default what was refused, in OpenAI's words."`
	Code          string   `yaml:"code" doc:"Default OpenAI's code for it."`
}

// SetDefaults sets what the file need not say.
func (r *Rule) SetDefaults() { r.Status = http.StatusBadRequest }

// conditions are the keys of a Rule of which it has one.
var conditions = []string{"member", "together", "tool_names_not", "call_ids_not", "schema_keyword", "context_over"}

// Check reports what can't work.
func (r *Rule) Check(n *config.Node) {
	count := 0
	for _, key := range conditions {
		if n.Get(key) != nil {
			count++
		}
	}
	if count != 1 {
		n.Fail("want one of %s", strings.Join(conditions, ", "))
	}
	if n.Get("together") != nil && len(r.Together) < 2 {
		n.Get("together").Fail("want two members or more")
	}
	if r.Status > 599 {
		n.Get("status").Fail("want a status up to 599")
	}
}

// refusal is an error of a request, in OpenAI's terms.
type refusal struct{ message, param, code string }

// refuse is what the script refuses in a request, nil for nothing, and the number of the rule.
func (s *Script) refuse(req *chat.Request) (*Rule, *refusal, int) {
	for i := range s.Refuse {
		r := &s.Refuse[i]
		if _, meant := r.Model.find(req.Model); !meant {
			continue
		}
		f := r.find(gjson.ParseBytes(req.Raw))
		if f == nil {
			continue
		}
		if r.Message != "" {
			f.message = r.Message
		}
		if r.Code != "" {
			f.code = r.Code
		}
		return r, f, i
	}
	return nil, nil, 0
}

func (r *Rule) find(req gjson.Result) *refusal {
	switch {
	case r.Member != "":
		if req.Get(r.Member).Exists() {
			return &refusal{fmt.Sprintf("Unsupported parameter: '%s' is not supported with this model.", r.Member), r.Member, "unsupported_parameter"}
		}
	case len(r.Together) > 0:
		if !slices.ContainsFunc(r.Together, func(m string) bool { return !req.Get(m).Exists() }) {
			return &refusal{fmt.Sprintf("'%s' can't be used together.", strings.Join(r.Together, "' and '")), r.Together[0], "invalid_value"}
		}
	case r.ToolNamesNot.re != nil:
		return unlike(r.ToolNamesNot, named(req, "tools.#.function.name", "messages.#.tool_calls.#.function.name"))
	case r.CallIDsNot.re != nil:
		return unlike(r.CallIDsNot, named(req, "messages.#.tool_calls.#.id", "messages.#.tool_call_id"))
	case r.SchemaKeyword != "":
		return r.inSchemas(req)
	case r.ContextOver > 0:
		count := utf8.RuneCountInString(req.Get("messages").Raw) + utf8.RuneCountInString(req.Get("tools").Raw)
		if count > r.ContextOver {
			return &refusal{
				fmt.Sprintf("This model's maximum context length is %d characters. However, your messages resulted in %d characters. Please reduce the length of the messages.", r.ContextOver, count),
				"messages", "context_length_exceeded",
			}
		}
	}
	return nil
}

// unlike is the refusal of the first text that is not of the pattern.
func unlike(p Pattern, texts []place) *refusal {
	for _, t := range texts {
		if _, ok := p.find(t.text); !ok {
			return &refusal{
				fmt.Sprintf("Invalid '%s': string does not match pattern. Expected a string that matches the pattern '%s', but got '%s'.", t.path, p, t.text),
				t.path, "invalid_value",
			}
		}
	}
	return nil
}

// place is a text of the request and where it stands.
type place struct{ path, text string }

// named are the texts at paths in which # is any item, in order.
func named(req gjson.Result, paths ...string) (texts []place) {
	for _, path := range paths {
		collect(req, "", strings.Split(path, "."), &texts)
	}
	return texts
}

func collect(v gjson.Result, at string, path []string, texts *[]place) {
	switch {
	case len(path) == 0:
		if v.Type == gjson.String {
			*texts = append(*texts, place{strings.TrimPrefix(at, "."), v.Str})
		}
	case path[0] == "#":
		for i, item := range v.Array() {
			collect(item, fmt.Sprintf("%s[%d]", at, i), path[1:], texts)
		}
	default:
		if next := v.Get(path[0]); next.Exists() {
			collect(next, at+"."+path[0], path[1:], texts)
		}
	}
}

// inSchemas looks for the keyword in the schemas of tools and of the answer.
func (r *Rule) inSchemas(req gjson.Result) *refusal {
	for i, t := range req.Get("tools").Array() {
		if hasKeyword(t.Get("function.parameters"), r.SchemaKeyword) {
			return &refusal{
				fmt.Sprintf("Invalid schema for function '%s': '%s' is not permitted.", t.Get("function.name"), r.SchemaKeyword),
				fmt.Sprintf("tools[%d].function.parameters", i), "invalid_function_parameters",
			}
		}
	}
	if hasKeyword(req.Get("response_format.json_schema.schema"), r.SchemaKeyword) {
		return &refusal{
			fmt.Sprintf("Invalid schema for response_format: '%s' is not permitted.", r.SchemaKeyword), "response_format", "invalid_value",
		}
	}
	return nil
}

// hasKeyword says whether a schema, or one inside it, has the keyword. Names of properties are none, and values that
// are given as such are not looked into. The depth is bounded by that of the JSON that was read.
func hasKeyword(schema gjson.Result, keyword string) (found bool) {
	inner := func(_, v gjson.Result) bool {
		found = found || hasKeyword(v, keyword)
		return !found
	}
	if schema.IsArray() {
		schema.ForEach(inner)
	}
	if !schema.IsObject() {
		return found
	}
	schema.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case keyword:
			found = true
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			v.ForEach(inner)
		case "enum", "const", "default", "examples":
		default:
			found = hasKeyword(v, keyword)
		}
		return !found
	})
	return found
}
