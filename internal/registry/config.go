// Package registry owns the tools: what a model sees of them, the check of its arguments, the call itself, and what
// the model reads of the outcome. It knows no kind of tool and nothing of the loop.
package registry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/retry"
	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/tool"
)

// Config is what every kind of tool may say of itself, one entry under `tools` without the key of its kind.
type Config struct {
	Description  string                 `yaml:"description" doc:"What the tool does and when to use it, for the model."`
	Parameters   *config.Node           `yaml:"parameters" doc:"Arguments: the short form, a JSON Schema, text, or a reference to one."`
	Effect       string                 `yaml:"effect" enum:"read,write" doc:"What the tool does to the world. Default by kind."`
	Final        bool                   `yaml:"final" doc:"A good result is the run's answer."`
	Timeout      config.Duration        `yaml:"timeout" min:"1ms" doc:"Of one attempt, to the last byte."`
	Retry        retry.Config           `yaml:"retry" doc:"Further attempts after timeout or unavailable."`
	Idempotent   bool                   `yaml:"idempotent" doc:"The service behind a write tool honours the idempotency key."`
	Cache        config.Duration        `yaml:"cache" doc:"How long a result of a read serves equal calls of the same caller."`
	MaxOutput    int                    `yaml:"max_output" min:"1" doc:"Characters of a result; more is cut."`
	Bind         config.Map[Binding]    `yaml:"bind" doc:"Arguments that the gateway fills, unseen by the model: caller.NAME or a 'text'."`
	Confirm      Confirm                `yaml:"confirm" doc:"Who confirms a call before it runs, each call once: user (the model asks, and calls again after the user's next message) or approval (somebody decides at /gateway/approvals). {by: approval, after: untrusted}: only once an untrusted tool has answered in the conversation."`
	Untrusted    bool                   `yaml:"untrusted" doc:"What it returns may be written by strangers, such as pages and mails: tools that are confirmed after untrusted are so from then on."`
	Errors       config.Map[ErrorEntry] `yaml:"errors" doc:"What the model reads of a failure, by status, class (4xx), timeout, unavailable, invalid_result, failed or default."`
	ExposeErrors bool                   `yaml:"expose_errors" doc:"Development only: gives the model the masked text of an unexpected failure."`
	Concurrency  int                    `yaml:"concurrency" min:"0" doc:"Calls at once over the whole gateway; 0 is no limit."`
	Breaker      breaker.Config         `yaml:"breaker" doc:"Calls in a row that ended in timeout or unavailable open it."`
	Coerce       bool                   `yaml:"coerce" doc:"Turn \"5\" into 5 where the schema wants a number, and the like."`
}

// SetDefaults sets what the file need not say.
func (c *Config) SetDefaults() {
	c.Timeout = config.Duration(15 * time.Second)
	c.MaxOutput = 16000
	c.Confirm.By = ConfirmNone
	c.Coerce = true
	c.Breaker.SetDefaults()
}

// Confirm is who confirms a call, and from when on.
type Confirm struct {
	By    string `yaml:"by" enum:"none,user,approval"`
	After string `yaml:"after" enum:"untrusted"` // "" for always
}

// afterUntrusted is the After of what is confirmed only once an untrusted tool has answered.
const afterUntrusted = "untrusted"

// DecodeNode reads who confirms, or a mapping that says from when on too.
func (c *Confirm) DecodeNode(n *config.Node) {
	switch text := n.Text(); {
	case n.Kind() == config.Mapping:
		n.Decode(c)
	case text == ConfirmNone, text == ConfirmUser, text == ConfirmApproval:
		*c = Confirm{By: text}
	default:
		n.Fail("want none, user, approval, or a mapping such as {by: approval, after: untrusted}")
	}
}

// Check reports what can't go together.
func (c *Confirm) Check(n *config.Node) {
	if c.After != "" && c.By == ConfirmNone {
		n.Fail("after says when somebody confirms, and nobody does: want by: user or by: approval")
	}
}

// ConfigSchema is the JSON Schema of both forms.
func (Confirm) ConfigSchema() any {
	one := func(doc string, of ...string) map[string]any { // or a text from the environment
		return map[string]any{"type": "string", "description": doc, "anyOf": []any{map[string]any{"enum": of}, map[string]any{"pattern": `\$\{`}}}
	}
	by := one("who confirms", ConfirmNone, ConfirmUser, ConfirmApproval)
	return map[string]any{"anyOf": []any{
		by,
		map[string]any{
			"type":                 "object",
			"properties":           map[string]any{"by": by, "after": one("from when on: once an untrusted tool has answered; without it always", afterUntrusted)},
			"required":             []string{"by"},
			"additionalProperties": false,
		},
	}}
}

// Binding is the source of one bound argument.
type Binding struct {
	caller string // a field of the caller
	value  any    // else a fixed value
}

// DecodeNode reads caller.NAME, a text in single quotes, a number, true or false.
func (b *Binding) DecodeNode(n *config.Node) {
	text := n.Text()
	field, isCaller := strings.CutPrefix(text, "caller.")
	switch k := n.Kind(); {
	case k == config.Number || k == config.Bool:
		b.value = decodeJSON(n.JSON())
	case k == config.String && isCaller && fieldName.MatchString(field):
		b.caller = field
	case k == config.String && len(text) >= 2 && text[0] == '\'' && text[len(text)-1] == '\'':
		b.value = text[1 : len(text)-1]
	default:
		n.Fail("want caller.NAME, a text in single quotes such as \"'chat'\", a number, true or false")
	}
}

// ConfigSchema is the JSON Schema of a binding.
func (Binding) ConfigSchema() any {
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}

var (
	fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	toolName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// FitName says whether the name of a tool is one that providers take.
func FitName(name string) bool { return toolName.MatchString(name) }

// ErrorEntry is what the model reads of one kind of failure.
type ErrorEntry struct {
	code      string
	message   *placeholder.Template
	retryable *bool
	result    []byte // data in place of an error, a JSON text
}

// errorFields is the long form of an ErrorEntry.
type errorFields struct {
	Code      string       `yaml:"code"`
	Message   string       `yaml:"message"`
	Retryable *bool        `yaml:"retryable"`
	Result    *config.Node `yaml:"result"`
}

// DecodeNode reads a message, or a mapping of code, message and retryable, or of result.
func (e *ErrorEntry) DecodeNode(n *config.Node) {
	var f errorFields
	at := n
	if n.Kind() == config.Mapping {
		n.Decode(&f)
		at = n.Get("message")
	} else {
		f.Message = n.Text()
	}
	e.code, e.retryable = f.Code, f.Retryable
	switch {
	case f.Result != nil && (f.Message != "" || f.Code != ""):
		n.FailKey("result", "stands in place of an error: take code and message away, or the result")
	case f.Result != nil:
		e.result = f.Result.JSON()
		return
	case f.Message == "":
		n.Fail("want a message for the model")
		return
	}
	if f.Code != "" && !codeName.MatchString(f.Code) {
		n.Get("code").Fail("want a short code of a-z, 0-9 and _, such as not_found")
	}
	var err error
	if e.message, err = placeholder.Parse(f.Message); err != nil {
		at.Fail("%s", err)
	}
}

// ConfigSchema is the JSON Schema of an entry.
func (ErrorEntry) ConfigSchema() any {
	text := func(doc string) any { return map[string]any{"type": "string", "description": doc} }
	return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{
			"code": text("the code that the model reads"), "message": text("the message that the model reads, with placeholders"),
			"retryable": map[string]any{"type": "boolean", "description": "whether the model reads that the same call may succeed later"},
			"result":    map[string]any{"description": "data that the model reads in place of an error"},
		},
	}}}
}

var (
	codeName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	errorKeys = []string{"timeout", "unavailable", "invalid_result", "failed", "default"}
	statusKey = regexp.MustCompile(`^([0-9]{1,3}|[345]xx)$`)
)

// checkErrors reports entries that no failure can have, and placeholders that name nothing.
func (c *Config) checkErrors(params map[string]tool.Param) {
	for key, entry := range c.Errors.All() {
		n := c.Errors.Node(key)
		if !statusKey.MatchString(key) && !slices.Contains(errorKeys, key) {
			n.Fail("want a status such as 404, a class such as 5xx, or one of %s", strings.Join(errorKeys, ", "))
		}
		if entry.message == nil {
			continue
		}
		at := n
		if m := n.Get("message"); m != nil {
			at = m
		}
		for _, text := range entry.message.Check(func(name string) bool {
			_, known := params[name]
			return known || name == "status"
		}) {
			at.Fail("%s", text)
		}
	}
}

// checkBind reports bound arguments that are no parameters.
func (c *Config) checkBind(params map[string]tool.Param) {
	for name := range c.Bind.All() {
		if _, known := params[name]; !known {
			c.Bind.Node(name).Fail("%q is no parameter of the tool%s", name, didYouMean(name, params))
		}
	}
}

func didYouMean(name string, params map[string]tool.Param) string {
	names := make([]string, 0, len(params))
	for p := range params {
		names = append(names, p)
	}
	slices.Sort(names)
	if near := suggest.Nearest(name, names, 1); len(near) > 0 {
		return fmt.Sprintf(": did you mean %q?", near[0])
	}
	return ""
}
