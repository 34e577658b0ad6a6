package httptool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/toolgate/toolgate/internal/retry"
	"github.com/toolgate/toolgate/internal/tool"
)

// client is the tool.
type client struct {
	plan      *plan
	transport http.RoundTripper
	replay    bool // the transport may send a request again by itself
}

// Call sends one request and reads its reply to the last byte. The transport is used as it is: no redirect is followed
// but by the plan, no cookie is kept, and a proxy is the transport's business.
func (t *client) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	out, err := t.plan.request(c)
	if err != nil {
		return tool.Result{}, unsendable(err)
	}
	reply, err := t.send(ctx, out)
	if err != nil {
		e := broken(ctx, err)
		_, e.NotDone = errors.AsType[*unreached](err)
		return tool.Result{}, e
	}
	defer reply.Body.Close()
	if reply.StatusCode < 200 || reply.StatusCode > 299 {
		return tool.Result{}, refused(reply, out)
	}
	data, err := readAll(out.method, reply)
	if err != nil {
		return tool.Result{}, broken(ctx, err)
	}
	text, err := t.plan.text(ctx, reply.Header.Get("Content-Type"), data)
	if err != nil {
		return tool.Result{}, broken(ctx, err)
	}
	return tool.Result{Text: text}, nil
}

// refusal is a value that can't stand where it would have to.
type refusal struct {
	arguments string // that the model knows; "" where the gateway itself has filled the value in
	why       error
}

func (r *refusal) Error() string { return "argument " + r.arguments + ": " + r.why.Error() }
func (r *refusal) Unwrap() error { return r.why }

// unsendable is the failure of arguments that make no request. The model reads which of its own are at fault.
func unsendable(err error) *tool.Error {
	if r, ok := errors.AsType[*refusal](err); ok && r.arguments != "" {
		return &tool.Error{Class: tool.Business, Message: r.Error(), Err: err}
	}
	return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
}

// unreadable is a reply that came whole but is of no use.
type unreadable struct{ err error }

func (e *unreadable) Error() string { return "reply: " + e.err.Error() }
func (e *unreadable) Unwrap() error { return e.err }

// unreached is a request of which nothing was sent.
type unreached struct{ err error }

func (e *unreached) Error() string { return e.err.Error() }
func (e *unreached) Unwrap() error { return e.err }

// dialing says whether a request failed for want of a connection to send it on.
func dialing(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// errFailWhen is a reply that fail_when takes for a failure.
var errFailWhen = errors.New("fail_when holds for the reply")

// broken says what kind of failure an error is that is no reply of the service. Where ctx is done that is the reason,
// whatever the error says.
func broken(ctx context.Context, err error) *tool.Error {
	var e *tool.Error
	var bad *unreadable
	switch {
	case errors.As(err, &e):
		return e
	case expired(ctx, err):
		return &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout, Err: because(ctx, err)}
	case ctx.Err() != nil:
		return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: because(ctx, err)}
	case errors.Is(err, errFailWhen):
		return &tool.Error{Class: tool.Business, Err: err}
	case errors.As(err, &bad):
		return &tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode, Err: err}
	}
	return &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, Err: err}
}

// expired says whether the deadline of ctx has passed. A dialer keeps to the deadline by a timer of its own and can be
// ahead of that of ctx by a little.
func expired(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return true
	}
	var timeout net.Error
	deadline, ok := ctx.Deadline()
	return ok && ctx.Err() == nil && !time.Now().Before(deadline) &&
		(errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout())
}

func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// refused is the failure that a status other than 2xx is. What the service said is for the log.
func refused(reply *http.Response, out *outgoing) *tool.Error {
	e := &tool.Error{
		Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: reply.StatusCode,
		Err: fmt.Errorf("%s %s: %s", out.method, out.url.Host, excerpt(reply)),
	}
	switch s := reply.StatusCode; {
	case s >= 500, s == http.StatusRequestTimeout, s == http.StatusTooManyRequests:
		e.Class = tool.Unavailable
		e.NotDone = s == http.StatusTooManyRequests
		e.RetryAfter = retry.ParseRetryAfter(reply.Header.Get("Retry-After"), time.Now())
	}
	return e
}
