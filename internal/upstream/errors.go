package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/outbound"
)

// Kind says what may be done about a failure. It is a metric label too.
type Kind string

// The kinds of failure.
const (
	Refused  Kind = "refused"  // a 4xx about the request: it will fail again, anywhere; the client gets it as it is
	Busy     Kind = "busy"     // 429: later may help
	Auth     Kind = "auth"     // 401 or 403: the operator's key
	Broken   Kind = "broken"   // 5xx, no connection, a reset, a reply that can't be read
	Slow     Kind = "slow"     // connect, first-byte or idle timeout
	Open     Kind = "open"     // the breaker lets nothing through
	Empty    Kind = "empty"    // an orderly reply with nothing in it
	Canceled Kind = "canceled" // the caller's context ended
)

// Error is what every failed call of an upstream returns. Err is for the log: it may name hosts and must not reach a
// client.
type Error struct {
	Upstream   string
	Kind       Kind
	Status     int         // the provider's; 0 when no reply arrived
	Header     http.Header // of the reply, when there is one
	Body       []byte      // of a reply that is an error, at most 1 MiB
	Message    string      // the provider's own words, "" where it gave none
	RetryAfter time.Duration
	Began      bool // part of the reply had been handed on before
	Err        error
}

// Error is the whole text, for the log.
func (e *Error) Error() string {
	s := fmt.Sprintf("upstream %s: %s", e.Upstream, e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap is the inner error.
func (e *Error) Unwrap() error { return e.Err }

// Unreached says whether no connection came about: the address is wrong, or nobody is there.
func (e *Error) Unreached() bool {
	dial, ok := errors.AsType[*net.OpError](e.Err)
	return ok && dial.Op == "dial" && e.Kind == Broken
}

// passes says whether the same request may succeed if it is made again here.
func (e *Error) passes() bool {
	if _, refused := errors.AsType[*outbound.RefusedError](e.Err); refused || e.Began {
		return false
	}
	switch e.Kind {
	case Busy, Slow:
		return true
	case Broken:
		switch e.Status {
		case 0, http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
	case Refused, Auth, Open, Empty, Canceled:
	}
	return false
}

// elsewhere says whether another route may succeed.
func (e *Error) elsewhere() bool {
	return !e.Began && e.Kind != Refused && e.Kind != Canceled
}

// badKey is how providers begin to say under a status of 400 that they refuse a key: Gemini (API key not valid), xAI
// (Incorrect API key provided). Further on in a message it may be the client's own text.
var badKey = regexp.MustCompile(`(?i)^(api key not valid|(incorrect|invalid) api key)`)

// refusesKey says whether an error under a status of 400 is about the key. LiteLLM without a database has a type for it:
// it looks there for any key but its own.
func refusesKey(object json.RawMessage, message string) bool {
	if badKey.MatchString(message) {
		return true
	}
	for _, key := range []string{"type", "code"} {
		switch gjson.GetBytes(object, key).String() {
		case "invalid_api_key", "no_db_connection":
			return true
		}
	}
	return false
}

// fromReply is the error that a reply with a status of 400 or more is.
func fromReply(name string, resp *http.Response, body []byte, retryAfter time.Duration) *Error {
	e := &Error{Upstream: name, Status: resp.StatusCode, Header: resp.Header, Body: body, RetryAfter: retryAfter}
	object := errorObject(body)
	if object != nil {
		e.Message = (&chat.ErrorReply{Object: object}).Message()
	}
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden, s == http.StatusBadRequest && refusesKey(object, e.Message):
		e.Kind = Auth
	case s == http.StatusTooManyRequests:
		e.Kind = Busy
	case s == http.StatusRequestTimeout || s >= http.StatusInternalServerError:
		e.Kind = Broken
	default:
		e.Kind = Refused
	}
	return e
}
