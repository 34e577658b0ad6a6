// Package script is a scripted OpenAI-compatible provider: tests, the demo and `gateway mock` talk to it in place of a
// model.
package script

import (
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
)

// Script says what the provider answers. Either Conversations or Replies is there.
type Script struct {
	Model         string         `yaml:"model" doc:"The name that GET /v1/models lists."`
	Conversations []Conversation `yaml:"conversations" doc:"Answers by what the user asked: the first one whose pattern is found."`
	Replies       []Turn         `yaml:"replies" doc:"Answers in order, whatever is asked."`
	Repeat        bool           `yaml:"repeat" doc:"Begin again after the last of replies; else further requests get an error."`
}

// Conversation is what the model says to a user's message: a turn for each time that it is asked, counted by its own
// turns since that message.
type Conversation struct {
	When  string `yaml:"when" doc:"Regular expression (RE2) over the user's last message; its named groups stand in texts and arguments as {name}. Without it any message."`
	Turns []Turn `yaml:"turns" doc:"One for each time the model is asked; the last one repeats."`

	when *regexp.Regexp
}

// Turn is one reply.
type Turn struct {
	Text      string             `yaml:"text" doc:"The text. {tool} is the newest tool result, {user} the user's last message."`
	Reasoning string             `yaml:"reasoning" doc:"Reasoning, sent as reasoning_content."`
	Calls     []Call             `yaml:"calls" doc:"Tool calls."`
	Finish    string             `yaml:"finish_reason" doc:"Default stop, or tool_calls where there are calls."`
	Usage     Usage              `yaml:"usage" doc:"Token counts."`
	Status    int                `yaml:"status" min:"200" doc:"HTTP status. Default 200."`
	Error     string             `yaml:"error" doc:"Message of an error reply, for a status from 400."`
	Code      string             `yaml:"code" doc:"Code of an error reply."`
	Headers   config.Map[string] `yaml:"headers" doc:"Headers of the reply."`
	Delay     config.Duration    `yaml:"delay" doc:"Wait before the reply."`
	Between   config.Duration    `yaml:"between" doc:"Wait between the pieces of a stream."`
}

// Call is one tool call of a turn.
type Call struct {
	ID        string       `yaml:"id" doc:"Default call_TURN_NUMBER."`
	Name      string       `yaml:"name" doc:"The tool's name."`
	Arguments *config.Node `yaml:"arguments" doc:"A mapping, or a text that is sent as it is."`
}

// Usage is the token counts of a turn.
type Usage struct {
	Prompt     int `yaml:"prompt_tokens" min:"0"`
	Completion int `yaml:"completion_tokens" min:"0"`
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
	var err error
	if c.when, err = regexp.Compile(c.When); err != nil {
		n.Get("when").Fail("is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if len(c.Turns) == 0 {
		n.Fail("turns is missing: want at least one")
	}
}

// Check reports what can't work.
func (t *Turn) Check(n *config.Node) {
	if t.Status >= 400 && (t.Text != "" || len(t.Calls) > 0) {
		n.Fail("a status from 400 goes with error, not with text or calls")
	}
	if t.Status < 400 && t.Error != "" {
		n.FailKey("error", "goes with a status from 400")
	}
}

// Check reports what can't work.
func (c *Call) Check(n *config.Node) {
	if c.Name == "" {
		n.Fail("name is missing")
	}
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
