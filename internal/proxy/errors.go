package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/limit"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/upstream"
)

// Error is an error reply: what a client gets, and for the log what lies behind it.
type Error struct {
	Status     int
	Type       string
	Param      string
	Code       string
	Message    string
	Body       []byte // a provider's own body in place of the fields above
	RetryAfter time.Duration
	NoRetry    bool // tools have run: a blind repetition would run them again
	Err        error
}

// Error is the whole text, for the log.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %s", e.Message, e.Err)
}

// Unwrap is the inner error.
func (e *Error) Unwrap() error { return e.Err }

// The error types of OpenAI's API that the gateway uses, one for what a provider did, and one for
// who is over a limit of the gateway's, which OpenAI's API names after the limit.
const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
	upstreamError  = "upstream_error"
	rateLimitError = "rate_limit_error"
)

// statusClientGone is nginx's status for a client that left before its reply. Only logs and metrics see it.
const statusClientGone = 499

// authRetry is when a token may be tried again that could not be checked: the keys are asked for about as often.
const authRetry = 10 * time.Second

var (
	errUnauthorized = &Error{Status: http.StatusUnauthorized, Type: invalidRequest, Code: "invalid_api_key", Message: "no valid API key: send one of the gateway's keys as Authorization: Bearer KEY"}
	errNoEndpoint   = &Error{Status: http.StatusNotFound, Type: invalidRequest, Code: "unknown_url", Message: "the gateway serves no such endpoint; others than chat completions are named under server.passthrough"}
	errBaseURL      = &Error{Status: http.StatusNotFound, Type: invalidRequest, Code: "unknown_url", Message: "the gateway serves no such endpoint: the base URL of a client ends in /v1, once, so that it asks /v1/chat/completions"}
	errNoMethod     = &Error{Status: http.StatusMethodNotAllowed, Type: invalidRequest, Code: "method_not_allowed", Message: "the endpoint has no such method"}
	errBusy         = &Error{Status: http.StatusServiceUnavailable, Type: serverError, Code: "overloaded", Message: "the gateway has as many requests as it takes at once; try again", RetryAfter: time.Second}
	errCrowded      = &Error{Status: http.StatusServiceUnavailable, Type: serverError, Code: "overloaded", Message: "the gateway has as many connections as it takes at once; try again", RetryAfter: time.Second}
	errInternal     = &Error{Status: http.StatusInternalServerError, Type: serverError, Code: "internal_error", Message: "the gateway failed; its log has the reason under the request's id"}
)

// problem is the one table from failures to error replies.
func problem(err error) *Error {
	var known *Error
	var over *limit.Refused
	var uncounted *limit.Unavailable
	var header *auth.BadHeader
	var token *auth.Refused
	var invalid *chat.Invalid
	var run *loop.Error
	var up *upstream.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &over):
		return limitProblem(over)
	case errors.As(err, &uncounted):
		return &Error{
			Status: http.StatusServiceUnavailable, Type: serverError, Code: "limits_unavailable", RetryAfter: time.Second, Err: err,
			Message: "the gateway can't tell at present whether this key is within its limits; try again",
		}
	case errors.As(err, &header):
		return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Param: header.Name, Message: header.Error()}
	case errors.Is(err, auth.ErrUnknown):
		return errUnauthorized
	case errors.As(err, &token):
		return &Error{Status: http.StatusUnauthorized, Type: invalidRequest, Code: errUnauthorized.Code, Message: token.Reason, Err: token.Err}
	case errors.Is(err, auth.ErrUnavailable):
		return &Error{Status: http.StatusServiceUnavailable, Type: serverError, Code: "auth_unavailable", Message: "tokens can't be checked at present, as the keys of the identity provider can't be read; try again", RetryAfter: authRetry}
	case errors.As(err, &invalid):
		return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Param: invalid.Param, Message: invalid.Text, Err: err}
	case errors.As(err, &run): // before upstream's, which may be the inner error of a run's end by the clock
		return runProblem(run)
	case errors.As(err, &up):
		return upstreamProblem(up)
	}
	e := *errInternal
	e.Err = err
	return &e
}

// stateProblem is the failure to reach what processes share.
func stateProblem(err error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: serverError, Code: "state_unavailable", RetryAfter: time.Second, Err: err,
		Message: "the gateway can't reach at present what it keeps beyond a request; try again",
	}
}

// limitProblem is a refusal as OpenAI's API has it. What comes back tomorrow is a quota there, which SDKs do not ask for
// again by themselves if they are told so.
func limitProblem(e *limit.Refused) *Error {
	p := &Error{Status: http.StatusTooManyRequests, Type: rateLimitError, Code: "rate_limit_exceeded", Message: e.Error(), RetryAfter: e.Retry}
	if e.Limit == limit.CostPerDay {
		p.Type, p.Code, p.NoRetry = "insufficient_quota", "insufficient_quota", true
	}
	return p
}

func runProblem(e *loop.Error) *Error {
	p := &Error{Type: serverError, Code: string(e.Kind), Message: e.Text, Err: e}
	switch e.Kind {
	case loop.Timeout:
		p.Status, p.Type = http.StatusGatewayTimeout, "timeout_error"
	case loop.Exhausted:
		p.Status, p.Type = http.StatusUnprocessableEntity, "budget_error"
	case loop.Invalid:
		p.Status = http.StatusUnprocessableEntity
	case loop.Empty:
		p.Status, p.Type = http.StatusBadGateway, upstreamError
	case loop.Gone:
		p.Status = statusClientGone
	case loop.Upstream:
		if up, ok := errors.AsType[*upstream.Error](e); ok {
			return upstreamProblem(up)
		}
		p.Status, p.Type, p.Code = http.StatusBadGateway, upstreamError, "upstream_error"
	case loop.Internal:
		p.Status = http.StatusInternalServerError
	}
	return p
}

func upstreamProblem(e *upstream.Error) *Error {
	p := &Error{Status: http.StatusBadGateway, Type: upstreamError, Code: "upstream_error", RetryAfter: e.RetryAfter, Err: e}
	switch e.Kind {
	case upstream.Refused, upstream.Busy:
		p.Status = e.Status
		p.Type, p.Code = invalidRequest, ""
		p.Message = e.Message
		if p.Message == "" {
			p.Message = fmt.Sprintf("the upstream refused the request (HTTP %d)", e.Status)
		}
		if json.Valid(e.Body) && gjson.ParseBytes(e.Body).IsObject() {
			p.Body = e.Body
		}
	case upstream.Auth:
		p.Code, p.Message = "upstream_auth", "the upstream did not accept the gateway's own key; its operator has to mend it"
	case upstream.Slow:
		p.Status, p.Code, p.Message = http.StatusGatewayTimeout, "upstream_timeout", "the upstream did not answer in time"
	case upstream.Open:
		p.Status, p.Code, p.Message = http.StatusServiceUnavailable, "upstream_unavailable", "the upstream has failed repeatedly and is given a pause"
		p.RetryAfter = max(p.RetryAfter, time.Second)
	case upstream.Empty:
		p.Code, p.Message = "upstream_empty", "the upstream's reply was empty"
	case upstream.Canceled:
		p.Status, p.Code, p.Message = statusClientGone, "canceled", "the client left"
	case upstream.Broken:
		switch {
		case e.Unreached():
			p.Message = "the upstream could not be reached"
		case e.Began:
			p.Message = "the upstream failed in the middle of its reply"
		case e.Status >= 300:
			p.Message = fmt.Sprintf("the upstream failed (HTTP %d)", e.Status)
		default:
			p.Message = "the upstream failed"
		}
		if e.Message != "" {
			p.Message += ": " + shorten(e.Message)
		}
	}
	return p
}

// shorten bounds what a provider's message adds to one of the gateway's.
func shorten(s string) string {
	if r := []rune(s); len(r) > 500 {
		return string(r[:500]) + "…"
	}
	return s
}

// afterTools is p as a run that ran tools ends with it. SDKs repeat 408, 409, 429 and 5xx by themselves; that would run
// the tools again, so they are told not to. Where a write has run and no Idempotency-Key of the request guards it, the
// status is one that the client does not repeat.
func (e *Error) afterTools(r *loop.Result, request http.Header) *Error {
	if r == nil || !r.RanTools {
		return e
	}
	p := *e
	p.NoRetry = true
	if !r.RanWrite || request.Get(headerIdempotent) != "" || p.Status == statusClientGone {
		return &p
	}
	// LangChain.js, which can't be told from the SDK for JavaScript that it is built on, repeats 422 as well, and heeds no
	// X-Should-Retry (@langchain/core 1.4.0: six times all but 400 to 407, 409 and 413).
	if js := request.Get("X-Stainless-Lang") == "js"; js && (repeated(p.Status) || p.Status == http.StatusUnprocessableEntity) {
		p.Status = http.StatusBadRequest
	} else if repeated(p.Status) {
		p.Status = http.StatusUnprocessableEntity
	}
	return &p
}

// repeated says whether SDKs repeat a request by themselves that was answered with that status.
func repeated(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500
}

// body is the JSON of the reply, without any configured secret.
func (e *Error) body(m *mask.Masker) []byte {
	if e.Body != nil {
		return []byte(m.Known(string(e.Body)))
	}
	return chat.ErrorBody(m.Text(e.Message), e.Type, e.Param, e.Code)
}

// write sends the error as a reply.
func (e *Error) write(w http.ResponseWriter, m *mask.Masker) {
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if e.NoRetry {
		h.Set("X-Should-Retry", "false")
	}
	body := e.body(m)
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // the client may have left
}

// log notes the error, once: what is the gateway's or an upstream's fault as a warning, what is the client's at debug.
func (e *Error) log(ctx context.Context, l *slog.Logger, info *requestInfo) {
	level := slog.LevelDebug
	if e.Status >= 500 || e.Status == http.StatusUnprocessableEntity {
		level = slog.LevelWarn
	}
	l.LogAttrs(ctx, level, "request failed", slog.String("request_id", info.requestID), slog.String("run_id", info.runID),
		slog.Int("status", e.Status), slog.String("code", e.Code), slog.Any("err", error(e)))
}
