package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/tool"
)

// Code is what a failed observation is called, for the model, the trace and metrics.
type Code string

// The codes of the gateway's own; others come from the file's errors entries.
const (
	InvalidArguments Code = "invalid_arguments"
	UnknownTool      Code = "unknown_tool"
	NotAllowed       Code = "not_allowed" // a tool that caller and model may use, and that the request has left out
	Interrupted      Code = "interrupted"
	LimitReached     Code = "limit_reached"
	RepeatedCall     Code = "repeated_call"
	Skipped          Code = "skipped"

	ConfirmationRequired Code = "confirmation_required" // by the user, or by an approval
	Denied               Code = "denied"                // an approval
)

// Observation is what the model reads of one call.
type Observation struct {
	Text  string
	Code  Code   // "" of a good result
	Empty bool   // a good result without content
	Class string // outcome for metrics: "ok", or a code from a closed list

	Waits *Approval // of a call that was not made: what it waits for; nil of every other
}

// OK says whether the call went well.
func (o Observation) OK() bool { return o.Code == "" }

// noContent is what the model reads in place of nothing: providers refuse empty tool messages, and models are confused
// by them.
const noContent = "(the call succeeded; it returned no content)"

// good is the observation of a result.
func (t *Tool) good(r tool.Result) Observation {
	text := strings.ToValidUTF8(r.Text, "\uFFFD")
	o := Observation{Text: Cut(text, t.config.MaxOutput), Class: "ok"}
	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == "null" {
		o.Text, o.Empty = noContent, true
	}
	return o
}

// Cut shortens s to limit characters (runes, not bytes) and adds a last line that says how many are missing. It never
// splits a character: valid UTF-8 stays valid.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	total := utf8.RuneCountInString(s)
	if total <= limit {
		return s
	}
	at := 0
	for range limit {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return fmt.Sprintf("%s\n[truncated: the last %d of %d characters are missing]", s[:at], total-limit, total)
}

// failed is the observation of a failure, in the words of the file where it has some.
func (t *Tool) failed(s *Set, e *tool.Error, c tool.Call) Observation {
	class := string(e.Class)
	if entry, ok := t.entryFor(e); ok {
		if entry.result != nil {
			return t.good(tool.Result{Text: string(entry.result)})
		}
		code := Code(entry.code)
		if code == "" {
			code = defaultCode(e)
		}
		retryable := e.Transient()
		if entry.retryable != nil {
			retryable = *entry.retryable
		}
		if e.Class == tool.Failed || e.Class == tool.ExitError {
			class = string(tool.Business) // the file knows this failure: it is an answer of the service
		}
		return s.failure(code, entry.text(c, e.Status), retryable, class)
	}
	switch {
	case e.Class == tool.Business && e.Message != "":
		return s.failure(Code(tool.Business), Cut(e.Message, t.config.MaxOutput), false, class)
	case e.Class == tool.Business:
		return s.failure(Code(tool.Business), "the service reported a failure", false, class)
	}
	message := "tool failed: " + e.Type
	if t.config.ExposeErrors {
		message += ": " + Cut(s.opts.Mask.Text(strings.ToValidUTF8(e.Error(), "\uFFFD")), 2000)
	}
	return s.failure(Code(e.Class), message, e.Transient(), class)
}

// defaultCode is that of an entry without a code: the general one for what happened to the transport, else that of a
// failure which the service reports.
func defaultCode(e *tool.Error) Code {
	switch e.Class {
	case tool.Timeout, tool.Unavailable, tool.InvalidResult, tool.ExitError:
		return Code(e.Class)
	case tool.Failed, tool.Business:
	}
	return Code(tool.Business)
}

// entryFor finds the file's entry for a failure: exact status, class, what happened, default.
func (t *Tool) entryFor(e *tool.Error) (ErrorEntry, bool) {
	var keys []string
	if e.Status != 0 && e.Class != tool.Business {
		keys = append(keys, strconv.Itoa(e.Status))
		if e.Status >= 100 && e.Class != tool.ExitError {
			keys = append(keys, strconv.Itoa(e.Status/100)+"xx")
		}
	}
	switch e.Class {
	case tool.Business:
		keys = append(keys, "failed")
	case tool.Timeout, tool.Unavailable, tool.InvalidResult:
		keys = append(keys, string(e.Class), "default")
	case tool.Failed, tool.ExitError:
		keys = append(keys, "default")
	}
	for _, key := range keys {
		if entry, ok := t.config.Errors.Get(key); ok {
			return entry, true
		}
	}
	return ErrorEntry{}, false
}

// text is the entry's message with arguments and status filled in.
func (e ErrorEntry) text(c tool.Call, status int) string {
	args := make(map[string]any, len(c.Args)+1)
	args["status"] = json.Number(strconv.Itoa(status))
	maps.Copy(args, c.Args)
	c.Args = args
	text, _ := e.message.Expand(c, func(s string) string { return Cut(s, 200) })
	return text
}

// failure is a failed observation.
func (s *Set) failure(code Code, message string, retryable bool, class string) Observation {
	o := Observation{Code: code, Class: class, Text: message}
	if s.opts.TextErrors {
		return o
	}
	b := append([]byte(`{"ok":false,"error":{"code":`), chat.Quote(string(code))...)
	b = append(append(b, `,"message":`...), chat.Quote(message)...)
	b = append(append(b, `,"retryable":`...), strconv.FormatBool(retryable)...)
	o.Text = string(append(b, '}', '}'))
	return o
}

// Refuse is the observation of a call that the gateway does not run.
func (v *View) Refuse(code Code, message string) Observation {
	return v.set.failure(code, message, code == Interrupted, string(code))
}
