package mcptool

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is one session with a server. Whoever has dialled it closes it.
type session struct {
	client *mcp.ClientSession
	join   joiner          // contexts of calls, which end when the session is closed
	end    func(error)     // ends the calls
	cut    func(error)     // ends what carries the session, without a word to the server
	spent  <-chan struct{} // closed when what carried it is gone
	gone   chan struct{}   // closed when the connection has ended
	local  bool            // the server is a child process

	changed chan struct{} // the server's list of tools has changed; has room for one
	suspect chan struct{} // there is reason to look whether the server still answers; has room for one
	lost    chan struct{} // closed when the server is known to have lost the session
	reason  error         // why, set before lost or gone is closed
	once    sync.Once     // of reason

	calls atomic.Int64 // under way
	token atomic.Int64 // of the last call's progress
}

// errClosed is a session that ended without an error.
var errClosed = errors.New("the session was closed")

func newSession(ctx context.Context) *session {
	calls, end := context.WithCancelCause(context.WithoutCancel(ctx)) // ctx is that of the handshake
	return &session{
		join: joined(calls), end: end, gone: make(chan struct{}), lost: make(chan struct{}),
		changed: make(chan struct{}, 1), suspect: make(chan struct{}, 1),
	}
}

// poke tells who waits on c that there is something, if it is not told already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// doubt asks for a look whether the server still answers.
func (x *session) doubt() { poke(x.suspect) }

// lose marks the session as lost. It is closed by who has dialled it.
func (x *session) lose(reason error) {
	x.once.Do(func() {
		x.reason = reason
		close(x.lost)
	})
}

// over says whether the session is known to be of no more use.
func (x *session) over() bool {
	select {
	case <-x.gone:
		return true
	case <-x.lost:
		return true
	default:
		return false
	}
}

// farewell is how long a server may take to hear that its session ends.
const farewell = time.Second

// close ends the calls, then the session, and returns when nothing of it is left.
func (x *session) close(reason error) {
	x.end(reason)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = x.client.Close() // an error says how the server ended, which is known or of no interest
	}()
	select {
	case <-closed:
	case <-time.After(farewell):
	}
	x.cut(reason)
	<-closed
	<-x.gone
	<-x.spent
}

// call calls a tool of the server. The outcome is that of the request over HTTP.
func (x *session) call(ctx context.Context, p *mcp.CallToolParams) (*mcp.CallToolResult, outcome, error) {
	x.calls.Add(1)
	defer x.calls.Add(-1)
	ctx, release := x.join(ctx)
	defer release()
	ctx, seen := watched(ctx)
	p.SetProgressToken(x.token.Add(1))
	result, err := x.client.CallTool(ctx, p)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, seen.read(), err
}

// answers is an error where the server says nothing within the time of ctx. A refusal is an answer too.
func (x *session) answers(ctx context.Context) error {
	ctx, seen := watched(ctx)
	err := x.client.Ping(ctx, nil)
	o := seen.read()
	_, refused := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case o.err != nil, o.status >= http.StatusInternalServerError, o.forgotten(), !refused:
		return err
	}
	return nil
}
