package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/tool"
)

// TypeMCP is the type of a call that the server answered with an error of the protocol, as the model reads it.
const TypeMCP = "MCPError"

// MetaIdempotencyKey is the key in the _meta of a call under which its idempotency key goes out.
const MetaIdempotencyKey = "toolgate/idempotencyKey"

// metaTraceparent says which trace a call is part of, as W3C's header of that name does (MCP, SEP-414). Over stdio there is
// no header.
const metaTraceparent = "traceparent"

// Caller is the tool that calls t on its server. It may be made and used while the server is not there. Its calls wait
// for an attempt to reach the server that is under way, and fail at once while none is.
func (s *Server) Caller(t Tool) tool.Tool { return &caller{s, t.ID} }

// caller is one tool of a server, by its ID.
type caller struct {
	server *Server
	id     string
}

// Call calls the tool. Where the server turns out to have lost the session, which it says before it runs anything, the
// call is sent once more in a new one.
func (c *caller) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	h, err := c.server.config.headersFor(call)
	if err != nil {
		return tool.Result{}, &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
	}
	if call.Tell != nil {
		call.Tell(fmt.Sprintf("tools/call %s to %s", c.id, c.server.name), string(call.JSON()))
	}
	for again := true; ; again = false {
		result, unsent, err := c.attempt(ctx, h, call)
		if err == nil || !unsent || !again {
			return result, err
		}
	}
}

// attempt is one try of a call. unsent says that the server has not run it and that a new session may help.
func (c *caller) attempt(ctx context.Context, h http.Header, call tool.Call) (r tool.Result, unsent bool, err error) {
	x, leave, err := c.server.acquire(ctx, h)
	if err != nil {
		return tool.Result{}, false, c.failure(ctx, nil, outcome{}, err)
	}
	defer leave()
	result, seen, err := x.call(ctx, c.params(ctx, call))
	switch {
	case err == nil:
		r, err = read(result)
		return r, false, err
	case ctx.Err() != nil:
		x.doubt() // it may be slow, or hang for good
		return tool.Result{}, false, c.failure(ctx, x, seen, err)
	case seen.forgotten() && !invalid(err):
		x.lose(fmt.Errorf("the server has lost the session: %w", err))
		return tool.Result{}, true, c.failure(ctx, x, seen, err)
	case errors.Is(err, mcp.ErrConnectionClosed) && x.ends(ctx, settling):
		return tool.Result{}, true, c.failure(ctx, x, seen, err)
	}
	return tool.Result{}, false, c.failure(ctx, x, seen, err)
}

// settling is how long a connection that refuses calls may take to show that it has ended.
const settling = time.Second

// ends waits at most that long for the session to have ended, as a call hears of it first. A server that answers with the
// error code of a closed connection (the SDK can't tell them apart) has run the call, and its session goes on.
func (x *session) ends(ctx context.Context, within time.Duration) bool {
	if x.over() {
		return true
	}
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-x.gone:
		return true
	case <-x.lost:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

func (c *caller) params(ctx context.Context, call tool.Call) *mcp.CallToolParams {
	p := &mcp.CallToolParams{Name: c.id, Arguments: json.RawMessage("{}"), Meta: mcp.Meta{}}
	if len(call.Args) > 0 {
		p.Arguments = json.RawMessage(call.JSON())
	}
	if call.IdempotencyKey != "" {
		p.Meta[MetaIdempotencyKey] = call.IdempotencyKey
	}
	if parent := span.Traceparent(ctx); parent != "" {
		p.Meta[metaTraceparent] = parent
	}
	return p
}

// invalid says whether err is the server's word that the arguments or the name of the tool are wrong.
func invalid(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code == jsonrpc.CodeInvalidParams
}

// codeRejected is the SDK's mark on a request that its transport did not get through. It never comes from a server.
const codeRejected = -32005

// failure says what kind of failure err is. Where ctx is done that is the reason, whatever the error says. x is nil
// where there was no session.
func (c *caller) failure(ctx context.Context, x *session, seen outcome, err error) *tool.Error {
	err = fmt.Errorf("mcp server %s: tool %q: %w", c.server.name, c.id, err)
	wire, isWire := errors.AsType[*jsonrpc.Error](err)
	refused, isRefused := errors.AsType[*refusedError](err)
	if isRefused {
		seen = outcome{status: refused.status}
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout, Err: err}
	case ctx.Err() != nil:
		return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
	case errors.Is(err, errCrowded):
		return &tool.Error{Class: tool.Unavailable, Type: tool.TypeBusy, NotDone: true, Err: err}
	case x != nil && invalid(err):
		return &tool.Error{Class: tool.Business, Type: TypeMCP, Message: bounded(wire.Message), Err: err}
	case isWire && wire.Code == codeTooLong:
		return &tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode, Err: err}
	case seen.forgotten():
		return &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, Err: err}
	case seen.status >= http.StatusInternalServerError, seen.status == http.StatusRequestTimeout, seen.status == http.StatusTooManyRequests:
		return &tool.Error{Class: tool.Unavailable, Type: tool.TypeHTTPStatus, Status: seen.status, RetryAfter: seen.retryAfter, Err: err}
	case x != nil && isWire && wire.Code != codeRejected, errors.Is(err, mcp.ErrConnectionClosed) && !x.over():
		return &tool.Error{Class: tool.Failed, Type: TypeMCP, Err: err}
	case seen.status >= http.StatusBadRequest:
		return &tool.Error{Class: tool.Failed, Type: tool.TypeHTTPStatus, Status: seen.status, Err: err}
	case errors.Is(err, errOtherHost):
		return &tool.Error{Class: tool.Failed, Type: tool.TypeRedirect, Err: err}
	case x == nil, seen.err != nil, cutOff(err), x.ends(ctx, settling/10):
		return &tool.Error{Class: tool.Unavailable, Type: tool.TypeConnect, Err: err}
	}
	// What is left is a result that the SDK could not decode.
	return &tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode, Err: err}
}

// cutOff says whether a stream ended before the response. The SDK has no other sign of it than these words.
func cutOff(err error) bool {
	return strings.Contains(err.Error(), "request terminated without response")
}
