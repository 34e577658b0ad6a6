package loop

import "fmt"

// Kind is what went wrong with a run.
type Kind string

// The kinds of failure.
const (
	Timeout   Kind = "timeout"          // the run's clock
	Exhausted Kind = "budget_exhausted" // a limit, with nothing to answer
	Invalid   Kind = "invalid_answer"   // the answer never fitted the schema that the client asked for
	Empty     Kind = "upstream_empty"   // the model wrote nothing at all
	Upstream  Kind = "upstream"         // Err is an *upstream.Error
	Gone      Kind = "canceled"         // the client left
	Internal  Kind = "internal_error"
)

// Error is what a run that brings no answer ends with. Text is for the client; Err is for the log.
type Error struct {
	Kind Kind
	Text string
	Err  error
}

// Error is the whole text, for the log.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return fmt.Sprintf("%s: %s", e.Text, e.Err)
}

// Unwrap is the inner error.
func (e *Error) Unwrap() error { return e.Err }
