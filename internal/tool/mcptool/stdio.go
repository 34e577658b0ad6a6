package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdio is the connection to a process: one JSON-RPC message a line on its standard input and output.
//
// The SDK has one too, whose session ends with the first line that is no message. Many programs print a banner or a log
// line there; this one skips what is no message. It also keeps to the context where a program does not read, and says
// how the program ended and what it wrote to stderr.
type stdio struct {
	process  *process
	log      *slog.Logger
	incoming chan jsonrpc.Message
	outgoing chan outgoing
	ended    chan struct{} // closed when all that the program wrote is in incoming; reason is set then
	reason   error
}

// outgoing is a message on its way to the program.
type outgoing struct {
	text []byte
	err  chan error // has room for one
}

// stdioTransport starts the program of a server. It is for one connection.
type stdioTransport struct {
	config *ServerConfig
	log    *slog.Logger
	conn   *stdio // set by Connect
}

// Connect is for the SDK.
func (t *stdioTransport) Connect(context.Context) (mcp.Connection, error) {
	p, err := startProcess(t.config, t.log)
	if err != nil {
		return nil, startError(err)
	}
	t.conn = &stdio{
		process: p, log: t.log,
		incoming: make(chan jsonrpc.Message), outgoing: make(chan outgoing), ended: make(chan struct{}),
	}
	go func() {
		defer p.users.Done()
		t.conn.read()
	}()
	p.users.Go(t.conn.write)
	return t.conn, nil
}

// mostMessage is how long one message of a server may be.
const mostMessage = 16 << 20

// read gives the program's messages to Read until its output is at its end.
func (c *stdio) read() {
	lines := newLines(c.process.stdout, mostMessage)
	for {
		l, err := lines.next()
		for _, m := range c.messages(l) {
			select {
			case c.incoming <- m:
			case <-c.process.stopping: // nobody reads on
			}
		}
		if err != nil {
			break
		}
	}
	c.reason = c.process.ending()
	close(c.ended)
}

// messages are those of a line: none, one, or many where an old server (2025-03-26) sends a batch.
func (c *stdio) messages(l line) []jsonrpc.Message {
	text := bytes.TrimSpace(l.head)
	switch {
	case len(text) == 0:
		return nil
	case !l.whole():
		c.log.Warn("mcp server wrote a line that is too long", slog.Int("bytes", len(l.head)+len(l.end)+l.skipped))
		return tooLong(l)
	case text[0] == '{':
		if m, err := jsonrpc.DecodeMessage(text); err == nil {
			return []jsonrpc.Message{m}
		}
	case text[0] == '[':
		var batch []json.RawMessage
		var list []jsonrpc.Message
		if json.Unmarshal(text, &batch) == nil {
			for _, one := range batch {
				if m, err := jsonrpc.DecodeMessage(one); err == nil {
					list = append(list, m)
				}
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	c.log.Debug("mcp server wrote to stdout what is no message", slog.String("text", string(text[:min(len(text), 500)])))
	return nil
}

// A response has its id before its result or after it, as the server's library has it.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,`)
	idLast  = regexp.MustCompile(`[,}\]]\s*"id"\s*:\s*(\d{1,15})\s*}\s*$`)
)

// codeTooLong marks the response that stands in for one that is over mostMessage.
const codeTooLong = -32099

func errTooLong() *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeTooLong, Message: fmt.Sprintf("the reply is over %d MiB", mostMessage>>20)}
}

// tooLong is a response in place of one that was not read, so that its caller need not wait in vain.
func tooLong(l line) []jsonrpc.Message {
	found := idFirst.FindSubmatch(l.head)
	if found == nil {
		found = idLast.FindSubmatch(l.end)
	}
	if found == nil {
		return nil
	}
	n, _ := strconv.ParseFloat(string(found[1]), 64)
	id, err := jsonrpc.MakeID(n)
	if err != nil {
		return nil
	}
	return []jsonrpc.Message{&jsonrpc.Response{ID: id, Error: errTooLong()}}
}

// write writes one message after the other. Only here may a program that does not read hold somebody up.
func (c *stdio) write() {
	for {
		select {
		case m := <-c.outgoing:
			_, err := c.process.stdin.Write(m.text)
			m.err <- err
		case <-c.process.stopping:
			return
		}
	}
}

// Read is the program's next message, or how it ended.
func (c *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.incoming:
		return m, nil
	case <-c.ended:
		return nil, c.reason
	case <-c.process.stopping:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message. Where ctx ends while it is being written, all of it is written all the same: half a line would
// be the end of the session.
func (c *stdio) Write(ctx context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	out := outgoing{append(text, '\n'), make(chan error, 1)}
	select {
	case c.outgoing <- out:
	case <-c.ended:
		return c.reason
	case <-c.process.stopping:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err = <-out.err:
		return c.because(err)
	case <-c.process.stopping:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// because is a failed write in words: a program that has ended is the better reason.
func (c *stdio) because(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.ended:
		return c.reason
	case <-c.process.exited:
		return c.process.ending()
	default:
		return err
	}
}

// Close lets the program end. It does not wait until it has.
func (c *stdio) Close() error {
	c.process.stop()
	return nil
}

// SessionID is empty: a process is its session.
func (c *stdio) SessionID() string { return "" }
