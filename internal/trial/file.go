// Package trial runs scripted conversations against an operator's own tools: what the model says is given, and what it
// would read and what the user would get is checked. It is for `gateway test`.
package trial

import (
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/script"
)

// File is a file of cases.
type File struct {
	Cases []Case `yaml:"cases" doc:"The conversations."`
}

// Case is one conversation.
type Case struct {
	Name   string           `yaml:"name" doc:"What the case shows."`
	Model  string           `yaml:"model" doc:"The model whose tools and budget hold; without it the first one."`
	Caller *config.Node     `yaml:"caller" doc:"Fields of the caller that tools bind."`
	Ask    string           `yaml:"ask" doc:"What the user says."`
	Tools  config.Map[Stub] `yaml:"tools" doc:"Tools that do not run but answer so; others are the real ones."`
	Turns  []Turn           `yaml:"turns" doc:"What the model says each time that it is asked."`
	Answer *Want            `yaml:"answer" doc:"The text that the user gets."`
	Error  string           `yaml:"error" doc:"The code of the error that the user gets in place of an answer."`
	Stop   string           `yaml:"stop" doc:"Why the run ends."`
}

// Turn is one turn of the model, and what it reads of its calls.
type Turn struct {
	Text     string        `yaml:"text" doc:"The text."`
	Calls    []script.Call `yaml:"calls" doc:"The tool calls."`
	Finish   string        `yaml:"finish_reason" doc:"Default stop, or tool_calls where there are calls."`
	Observed []Want        `yaml:"observed" doc:"What the model reads of each call, in order."`
}

// Stub is how a tool answers in place of running.
type Stub struct {
	Status  int                `yaml:"status" min:"100" doc:"Of an http tool: the status of the service's reply. Default 200."`
	Body    string             `yaml:"body" doc:"Of an http tool: the body of the service's reply, which the tool trims as it would."`
	Headers config.Map[string] `yaml:"headers" doc:"Of an http tool: headers of the service's reply."`
	Result  *string            `yaml:"result" doc:"Of any tool: its result, as it is."`
	Fails   string             `yaml:"fails" enum:"timeout,unavailable" doc:"Of any tool: it fails so."`
}

// SetDefaults sets what the file need not say.
func (s *Stub) SetDefaults() { s.Status = 200 }

// Check reports what can't work.
func (s *Stub) Check(n *config.Node) {
	if s.Result != nil && (s.Body != "" || s.Fails != "") || s.Body != "" && s.Fails != "" {
		n.Fail("want one of body, result and fails")
	}
}

// Want is a text that is wanted: as it is, or by parts or a pattern.
type Want struct {
	equals   *string
	contains []string
	lacks    []string
	matches  *regexp.Regexp
}

// wantFields is the long form of a Want.
type wantFields struct {
	Contains []string `yaml:"contains"`
	Lacks    []string `yaml:"lacks"`
	Matches  string   `yaml:"matches"`
}

// DecodeNode reads a text, or a mapping of contains, lacks and matches.
func (w *Want) DecodeNode(n *config.Node) {
	if n.Kind() != config.Mapping {
		text := n.Text()
		w.equals = &text
		return
	}
	var f wantFields
	n.Decode(&f)
	w.contains, w.lacks = f.Contains, f.Lacks
	if f.Matches == "" {
		return
	}
	var err error
	if w.matches, err = regexp.Compile(f.Matches); err != nil {
		n.Get("matches").Fail("is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
}

// fault says what of got is not as wanted, "" for nothing.
func (w Want) fault(got string) string {
	switch {
	case w.equals != nil && *w.equals != got:
		return "want " + *w.equals + "\n got " + got
	case w.matches != nil && !w.matches.MatchString(got):
		return "want a match of " + w.matches.String() + "\n got " + got
	}
	for _, part := range w.contains {
		if !strings.Contains(got, part) {
			return "want it to contain " + part + "\n got " + got
		}
	}
	for _, part := range w.lacks {
		if strings.Contains(got, part) {
			return "want it not to contain " + part + "\n got " + got
		}
	}
	return ""
}

// Check reports what can't work.
func (f *File) Check(n *config.Node) {
	if len(f.Cases) == 0 {
		n.Fail("cases is missing: want a list of conversations")
	}
}

// Check reports what can't work.
func (c *Case) Check(n *config.Node) {
	if c.Name == "" {
		n.Fail("name is missing: want what the case shows")
	}
	if len(c.Turns) == 0 {
		n.Fail("turns is missing: want what the model says")
	}
	for i, t := range c.Turns {
		if len(t.Observed) > len(t.Calls) {
			n.Get("turns").Items()[i].FailKey("observed", "has more entries than the turn has calls")
		}
	}
}

// Load reads a file of cases. Its error has all faults with their lines.
func Load(path string) (*File, error) {
	doc := config.Load(path, func(string) (string, bool) { return "", false })
	f := &File{}
	doc.Decode(f)
	if p := doc.Problems(); len(p) > 0 {
		return nil, p
	}
	return f, nil
}
