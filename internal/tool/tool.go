// Package tool says what a tool is: something with a name that takes checked arguments and gives a text or a
// classified failure. It knows no kind of tool; each kind is a sub-package that imports this one, and cmd/gateway
// lists the kinds.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound"
)

// Effect is what a call does to the world.
type Effect string

// The effects. A Read may be repeated, run beside others and dropped; a Write may not.
const (
	Read  Effect = "read"
	Write Effect = "write"
)

// Tool is what a kind makes of its configuration. Call may be used by many goroutines at once. It obeys ctx, whose
// deadline is that of this one attempt, and fails with an *Error and nothing else.
type Tool interface {
	Call(ctx context.Context, c Call) (Result, error)
}

// Call is one call with arguments that conform to the tool's schema, bound ones included.
type Call struct {
	Args           map[string]any // numbers are json.Number, so that no digit is lost
	Caller         map[string]any // fields of who asks, from the key; never from the model
	RunID          string
	IdempotencyKey string // of a Write; "" for a Read
	// Headers are those of the client's request. A kind sends on only those that its configuration names.
	Headers http.Header
	// Conversation is the run's messages so far as a JSON list, for tools that hand it on; nil outside of a run.
	Conversation func() json.RawMessage
	// Tell is told what goes out, a line each, for a person at a terminal who tries a tool; nil where nobody looks. An
	// HTTP request is told of by the transport.
	Tell func(lines ...string)
}

// JSON is the arguments as one compact JSON object with sorted keys and unescaped characters.
func (c Call) JSON() []byte { return EncodeJSON(c.Args) }

// Result is what a good call brought. Text is what the model reads; it may be empty.
type Result struct {
	Text string
}

// Class groups failures by what may be done about them. It is a metric label and picks the code that the model reads.
type Class string

// The classes of failure. Timeout and Unavailable may pass by themselves; a repetition can help.
const (
	Timeout       Class = "timeout"        // the deadline of the attempt passed
	Unavailable   Class = "unavailable"    // no answer: connection, 5xx, 408, 429, busy, open breaker
	Failed        Class = "tool_failed"    // anything unexpected, other 4xx among it
	InvalidResult Class = "invalid_result" // an answer that can't be read or is too large
	Business      Class = "tool_error"     // the service itself reports a failure
	ExitError     Class = "exit_error"     // a program ended with an exit code other than 0, or by a signal
)

// Error is the failure of a call. Type is from the short closed list of types below and may reach the model; Err is
// for the log alone: it may name hosts.
type Error struct {
	Class      Class
	Type       string
	Status     int           // HTTP status, or a command's exit code; 0 when there is none
	Message    string        // Business only: what the service said, for the model; "" for the usual words
	RetryAfter time.Duration // what the service asked for; 0 when it did not
	NotDone    bool          // it is certain that the call changed nothing, as it did not get to where it would have
	Err        error
}

// The types of failure that a model may read in "tool failed: TYPE".
const (
	TypeHTTPStatus  = "HTTPStatusError"
	TypeTimeout     = "TimeoutError"
	TypeConnect     = "ConnectError"
	TypeCircuitOpen = "CircuitOpenError"
	TypeBusy        = "BusyError"
	TypeDecode      = "DecodeError"
	TypeRedirect    = "RedirectError"
	TypeInternal    = "InternalError"
	TypeExit        = "ExitError"
)

// Error is the whole text, for the log.
func (e *Error) Error() string {
	s := string(e.Class)
	if e.Type != "" {
		s = fmt.Sprintf("%s (%s)", e.Type, e.Class)
	}
	if e.Status != 0 {
		s += fmt.Sprintf(" status %d", e.Status)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap is the inner error.
func (e *Error) Unwrap() error { return e.Err }

// Transient says whether the same call may succeed later.
func (e *Error) Transient() bool { return e.Class == Timeout || e.Class == Unavailable }

// Repeatable says whether the same call may succeed if it is made again at once.
func (e *Error) Repeatable() bool {
	_, refused := errors.AsType[*outbound.RefusedError](e.Err)
	return e.Transient() && e.Type != TypeCircuitOpen && !refused
}

// AsError is err as an *Error. An error of another type, a defect of the tool, becomes a Failed one.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Class: Failed, Type: TypeInternal, Err: err}
}

// Spec is what a kind may know of the tool that it is asked to make.
type Spec struct {
	Name       string
	Params     map[string]Param // by name, bound ones included
	Effect     Effect
	Idempotent bool
}

// Names are the tool's parameters in order.
func (s Spec) Names() []string { return slices.Sorted(maps.Keys(s.Params)) }

// Has says whether the tool has a parameter of that name.
func (s Spec) Has(name string) bool {
	_, ok := s.Params[name]
	return ok
}

// Param is one parameter of a tool.
type Param struct {
	Optional bool // may be absent from a call
	Bound    bool // filled by the gateway, unseen by the model
}

// Config is the checked YAML of one kind.
type Config interface {
	// DefaultEffect is the effect of the tool where the file names none.
	DefaultEffect() Effect
	// Check reports to n what of the configuration can't work for the tool, each fault at its place in the file.
	// n is the node that the Config was decoded from.
	Check(n *config.Node, s Spec)
	// Hosts are the host names that the tool talks to, which its description must not give away.
	Hosts() []string
	// Build makes the tool. It is called once, after Check found no fault.
	Build(s Spec, env Env) (Tool, error)
}

// Ending is how a good result of a tool ends its run.
type Ending string

// The endings. The result is the run's answer to the user.
const (
	NoEnding Ending = ""
	Final    Ending = "final"
	Handoff  Ending = "handoff" // somebody else goes on with the user
)

// What a Config may say of its tool beyond what every one does.
type (
	// CallerNamer names fields of the caller without which the tool is not offered.
	CallerNamer interface{ CallerFields() []string }
	// Ender says that every good result ends the run.
	Ender interface{ Ending() Ending }
	// BreakerSharer names the breaker that the tool shares with others, such as that of their database.
	BreakerSharer interface{ SharedBreaker() string }
)

// Kind is a kind of tool, for the list in cmd/gateway.
type Kind struct {
	Name string        // the key of a tool's YAML that chooses it, such as "http"
	Doc  string        // what it is, for the reference
	New  func() Config // a pointer to an empty configuration, to be decoded into
}

// Env is what tools share.
type Env struct {
	Transport http.RoundTripper // one pool for all HTTP tools; where some have TLS settings, it is one for outbound.For
}
