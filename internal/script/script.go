// Package script is a scripted OpenAI-compatible provider: tests, the demo and `gateway mock` talk to it in place of a
// model. A script also orders what real providers do to their clients: odd replies, refusals, faults of the connection.
package script

import (
	"encoding/base64"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/config"
)

// Script says what the provider answers. Either Conversations or Replies is there.
type Script struct {
	Model         string         `yaml:"model" doc:"The name that GET /v1/models lists. Default mock."`
	Conversations []Conversation `yaml:"conversations" doc:"Answers by what the user asked: the first one whose patterns are found."`
	Replies       []Turn         `yaml:"replies" doc:"Answers in order, whatever is asked."`
	Repeat        bool           `yaml:"repeat" doc:"Begin again after the last of replies; else further requests get an error."`
	Refuse        []Rule         `yaml:"refuse" doc:"Requests that are refused; they take no reply."`
}

// Conversation is what the model says to a user's message: a turn for each time that it is asked, counted by its own
// turns since that message.
type Conversation struct {
	When  Pattern `yaml:"when" doc:"Regular expression (RE2) over the user's last message; its named groups stand in texts and arguments as {name}. Default any message."`
	Model Pattern `yaml:"model" doc:"Regular expression (RE2) over the model's name. Default any model."`
	Turns []Turn  `yaml:"turns" doc:"One for each time the model is asked; the last one repeats."`
}

// Turn is one reply: a message that is put into OpenAI's form, a Body in place of one, or an error.
type Turn struct {
	Text       string             `yaml:"text" doc:"The text. {tool} is the newest tool result, {user} the user's last message."`
	Reasoning  string             `yaml:"reasoning" doc:"Reasoning, sent as reasoning_content."`
	Calls      []Call             `yaml:"calls" doc:"Tool calls."`
	Finish     string             `yaml:"finish_reason" doc:"Any text. Default stop, or tool_calls where there are calls."`
	Usage      Usage              `yaml:"usage" doc:"Token counts. Default 10 and 5."`
	Status     int                `yaml:"status" min:"200" doc:"HTTP status. Default 200."`
	Error      string             `yaml:"error" doc:"Message of an error reply, for a status from 400."`
	Code       string             `yaml:"code" doc:"Code of an error reply. Default null."`
	ErrorType  string             `yaml:"error_type" doc:"Type of an error reply. Default mock_error."`
	ErrorShape string             `yaml:"error_shape" enum:"openai,string,detail,list,text,inside_200" doc:"openai; string: {\"error\": MESSAGE}; detail: {\"detail\": MESSAGE}; list: OpenAI's shape in a list; text: the message alone; inside_200: OpenAI's shape under status 200, of a stream as an event behind the text and calls. Default openai."`
	Headers    config.Map[string] `yaml:"headers" doc:"Headers of the reply, such as Retry-After."`
	Delay      config.Duration    `yaml:"delay" doc:"Wait before the reply. Default 0."`
	Between    config.Duration    `yaml:"between" doc:"Wait between the pieces of a stream. Default 0."`
	Times      int                `yaml:"times" min:"1" doc:"Among replies: give it so often, then the next. Default 1. Among turns: give it so often in all ahead of the next turn, without counting it as one; a conversation with no turn left is passed over. Default always."`

	Body   `yaml:",inline"`
	Shape  `yaml:",inline"`
	Wire   `yaml:",inline"`
	Quirks Quirks `yaml:"quirks" doc:"What providers do to text and calls."`
}

// Body is what is sent in place of a message, at most one of JSON, Events, Raw and RawBase64. Names in braces stay as
// they are in it.
type Body struct {
	JSON        *config.Node   `yaml:"json" doc:"The whole body, also where a stream was asked for: JSON as YAML, keys in their order, or a text that is sent as it is."`
	Events      []*config.Node `yaml:"events" doc:"The events of a stream, also where none was asked for: each JSON as YAML, or a text."`
	Raw         *string        `yaml:"raw" doc:"The exact body."`
	RawBase64   *string        `yaml:"raw_base64" doc:"The exact body in base64, for bytes that are no text."`
	ContentType string         `yaml:"content_type" doc:"Default application/json, or text/event-stream for events and where a stream was asked for."`

	raw []byte // of Raw or RawBase64
}

// Call is one tool call of a turn.
type Call struct {
	ID        string       `yaml:"id" doc:"Default call_REQUEST_NUMBER."`
	Name      string       `yaml:"name" doc:"The tool's name."`
	Arguments *config.Node `yaml:"arguments" doc:"A mapping, or a text that is sent as it is. Default {}."`
}

// Usage is the token counts of a turn.
type Usage struct {
	Prompt     int `yaml:"prompt_tokens" min:"0" doc:"Default 10."`
	Completion int `yaml:"completion_tokens" min:"0" doc:"Default 5."`
}

// SetDefaults sets what the file need not say.
func (s *Script) SetDefaults() { s.Model = "mock" }

// SetDefaults sets what the file need not say.
func (t *Turn) SetDefaults() {
	t.Usage = Usage{Prompt: 10, Completion: 5}
	t.Status = 200
}

// Check reports what can't work.
func (s *Script) Check(n *config.Node) {
	if (len(s.Conversations) == 0) == (len(s.Replies) == 0) {
		n.Fail("want either conversations or replies")
	}
}

// Check reports what can't work.
func (c *Conversation) Check(n *config.Node) {
	if len(c.Turns) == 0 {
		n.Fail("turns is missing: want at least one")
	}
}

// Check reports what can't work.
func (t *Turn) Check(n *config.Node) {
	switch key := t.inPlace(); {
	case key != "":
		for _, other := range append([]string{"text", "reasoning", "calls", "error"}, unused[key]...) {
			if n.Get(other) != nil {
				n.FailKey(other, "has no effect beside %s", key)
			}
		}
	case t.Status >= 400 && (t.Text != "" || len(t.Calls) > 0):
		n.Fail("a status from 400 goes with error, not with text or calls")
	}
	if t.Status > 599 {
		n.Get("status").Fail("want a status up to 599")
	}
	t.checkError(n)
	for name, v := range t.Headers.All() {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
			t.Headers.Node(name).Fail("is no header of HTTP")
		}
	}
}

func (t *Turn) checkError(n *config.Node) {
	inside := t.ErrorShape == shapeInside200
	switch {
	case t.Error != "" && t.Status < 400 && !inside:
		n.FailKey("error", "goes with a status from 400, or with error_shape: inside_200")
	case inside && t.Status >= 400:
		n.FailKey("error_shape", "inside_200 goes with a status below 400")
	case t.ErrorShape != "" && t.Error == "":
		n.FailKey("error_shape", "goes with error")
	}
}

// unused are the keys that say nothing beside a Body.
var unused = map[string][]string{
	"json":       {"finish_reason", "usage", "between", "quirks", "pieces", "argument_pieces", "done", "line_end", "comments"},
	"events":     {"finish_reason", "usage", "quirks", "pieces", "argument_pieces"},
	"raw":        {"finish_reason", "usage", "between", "quirks", "pieces", "argument_pieces", "done", "line_end", "comments"},
	"raw_base64": {"finish_reason", "usage", "between", "quirks", "pieces", "argument_pieces", "done", "line_end", "comments"},
}

// inPlace is the key of what is sent in place of a message, "" for nothing.
func (b *Body) inPlace() string {
	switch {
	case b.JSON != nil:
		return "json"
	case b.Events != nil:
		return "events"
	case b.Raw != nil:
		return "raw"
	case b.RawBase64 != nil:
		return "raw_base64"
	}
	return ""
}

// Check reports what can't work.
func (b *Body) Check(n *config.Node) {
	key := b.inPlace()
	for _, other := range []string{"events", "raw", "raw_base64"} {
		if other != key && n.Get(other) != nil {
			n.FailKey(other, "stands beside %s: want one of json, events, raw and raw_base64", key)
		}
	}
	switch {
	case b.Raw != nil:
		b.raw = []byte(*b.Raw)
	case b.RawBase64 != nil:
		var err error
		if b.raw, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(*b.RawBase64), "")); err != nil {
			n.Get("raw_base64").Fail("is no base64")
		}
	}
	if !httpguts.ValidHeaderFieldValue(b.ContentType) {
		n.Get("content_type").Fail("is no value of a header")
	}
}

// Check reports what can't work.
func (c *Call) Check(n *config.Node) {
	if c.Name == "" {
		n.Fail("name is missing")
	}
}

// Pattern is a regular expression of a script. The zero value finds everything.
type Pattern struct{ re *regexp.Regexp }

// DecodeNode reads the expression.
func (p *Pattern) DecodeNode(n *config.Node) {
	var text string
	n.Decode(&text)
	var err error
	if p.re, err = regexp.Compile(text); err != nil {
		n.Fail("is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
}

// ConfigSchema says that the file has a text.
func (*Pattern) ConfigSchema() any { return map[string]string{"type": "string"} }

func (p Pattern) String() string {
	if p.re == nil {
		return ""
	}
	return p.re.String()
}

// find says whether the pattern is in s, and gives what its named groups caught.
func (p Pattern) find(s string) (groups map[string]string, found bool) {
	if p.re == nil {
		return nil, true
	}
	m := p.re.FindStringSubmatch(s)
	groups = map[string]string{}
	for i, name := range p.re.SubexpNames() {
		if name != "" && m != nil {
			groups[name] = m[i]
		}
	}
	return groups, m != nil
}

// Load reads a script file. Its error has all faults with their lines.
func Load(path string) (*Script, error) { return read(config.Load(path, noEnvironment)) }

// Parse reads a script of bytes.
func Parse(name string, data []byte) (*Script, error) {
	return read(config.Parse(name, ".", data, noEnvironment))
}

func noEnvironment(string) (string, bool) { return "", false }

func read(f *config.File) (*Script, error) {
	s := &Script{}
	f.Decode(s)
	if p := f.Problems(); len(p) > 0 {
		return nil, p
	}
	return s, nil
}
