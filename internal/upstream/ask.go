package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/sse"
)

// Header is the header of a provider's reply.
type Header = http.Header

// Ask is one model call: a client's request with the edits of its run. The route adds its model's name, and whether
// the stream brings usage.
type Ask struct {
	Request   *chat.Request
	Edits     chat.Edits
	Header    Header // the client's, without what is the gateway's own business
	ClientKey string // the client's bearer token
	// ByTool, if it is not nil, is in place of Edits for a route that does not take response_format by a schema beside
	// tools. A route that turns out to be one is remembered.
	ByTool   *chat.Edits
	OnHeader func(Header)
	Shown    func() bool             // whether the client has seen any of the stream; nil: with its first chunk
	OnWait   func()                  // of a stream, before more of it is waited for
	OnChunk  func(*chat.Chunk) error // of a stream, in order, from the goroutine that called, valid until the next; an error ends the call
}

// Answer is the model's turn and who gave it.
type Answer struct {
	Turn     *chat.Turn
	Upstream string
	Header   Header
	ByTool   bool // the route was asked with Ask.ByTool
}

// maxReply bounds a reply that is not streamed, and what a stream's turn may hold.
const maxReply = 64 << 20

// ask makes the model call on one route.
func (r Route) ask(ctx context.Context, a *Ask) (*Answer, error) {
	for {
		without := r.client.noOptions.Load()
		now, byTool := a, a.ByTool != nil && r.learned.byTool.Load()
		if byTool {
			other := *a
			other.Edits = *a.ByTool
			now = &other
		}
		answer, err := r.askWith(ctx, now, without)
		switch {
		case !without && refusesStreamOptions(a, err):
			r.client.noOptions.Store(true)
			continue
		case !byTool && a.ByTool != nil && refusesFormat(err):
			r.learned.byTool.Store(true)
			continue
		}
		if answer != nil {
			answer.ByTool = byTool
		}
		return answer, err
	}
}

// refusesStreamOptions tells a provider that does not know stream_options by its 400 or 422 that names it.
func refusesStreamOptions(a *Ask, err error) bool {
	var e *Error
	return a.Request.Stream && errors.As(err, &e) && e.Kind == Refused &&
		(e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity) &&
		strings.Contains(string(e.Body), "stream_options")
}

func (r Route) askWith(ctx context.Context, a *Ask, noOptions bool) (*Answer, error) {
	ctx, traced := r.modelCall(ctx, "", a.Request)
	answer, err := r.askTraced(ctx, a, noOptions)
	tellTurn(traced, answer, err)
	return answer, err
}

func (r Route) askTraced(ctx context.Context, a *Ask, noOptions bool) (*Answer, error) {
	edits := a.Edits
	edits.Set = r.withModel(a.Request, edits.Set)
	if a.Request.Stream {
		var err error
		if edits, err = r.withStreamOptions(a.Request, edits, noOptions); err != nil {
			return nil, &Error{Upstream: r.client.name, Kind: Refused, Status: http.StatusBadRequest, Err: err}
		}
	}
	edits, names := r.client.dialect.apply(a.Request, edits)
	resp, err := r.client.do(ctx, call{
		breaker: r.breaker,
		method:  http.MethodPost,
		url:     r.client.at.chatFor(r.target(a.Request)),
		header:  a.Header,
		key:     a.ClientKey,
		body:    r.bodyOf(a.Request, edits),
	})
	if err != nil {
		return nil, err
	}
	if a.OnHeader != nil {
		a.OnHeader(resp.Header)
	}
	answer := &Answer{Upstream: r.client.name, Header: resp.Header}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" || a.Request.Stream && !strings.Contains(kind, "json") {
		answer.Turn, err = r.readStream(ctx, resp, a)
	} else {
		answer.Turn, err = r.readReply(ctx, resp.Response, a.OnChunk)
	}
	resp.end.is(outcome(err))
	if err != nil {
		return nil, err
	}
	if err := names.restore(answer.Turn); err != nil {
		return nil, r.unreadable(resp.Response, err)
	}
	return answer, nil
}

// bodyOf is the body of a request. One over TLS is in one piece where it is small: http.Transport would send the header of
// any other by itself. The reply to one that streams may take long, and what it was asked with is kept for as long: the
// pieces share the bytes of the client's request and of the declarations, a copy of them would be its own.
func (r Route) bodyOf(req *chat.Request, e chat.Edits) chat.Body {
	if req.Stream || !r.client.secure {
		return req.Body(e)
	}
	return req.Body(e).Joined()
}

// withModel sets the route's model, unless the client's name is the one.
func (r Route) withModel(req *chat.Request, set []chat.Pair) []chat.Pair {
	if r.model == "" || r.model == req.Model {
		return set
	}
	return append(slices.Clip(set), chat.Pair{Name: "model", Value: chat.Quote(r.model)})
}

// withStreamOptions asks for usage in the stream, or takes the option out for a provider that has refused it.
func (r Route) withStreamOptions(req *chat.Request, e chat.Edits, refused bool) (chat.Edits, error) {
	options := req.Member("stream_options")
	switch {
	case refused && options != nil:
		e.Drop = append(slices.Clip(e.Drop), "stream_options")
	case refused, req.IncludeUsage, !r.client.streamUsage:
	default:
		value := []byte(`{"include_usage":true}`)
		if len(options) > 0 && options[0] == '{' {
			var err error
			if value, err = sjson.SetRawBytes(options, "include_usage", []byte("true")); err != nil {
				return e, fmt.Errorf("stream_options: %w", err)
			}
		}
		e.Set = append(slices.Clip(e.Set), chat.Pair{Name: "stream_options", Value: value})
	}
	return e, nil
}

// readReply reads a reply that is one JSON object, also where a stream was asked for.
func (r Route) readReply(ctx context.Context, resp *http.Response, onChunk func(*chat.Chunk) error) (*chat.Turn, error) {
	body, err := readAll(resp, maxReply)
	if err != nil {
		return nil, r.client.failure(ctx, err)
	}
	return r.wholeReply(resp, body, onChunk)
}

func (r Route) wholeReply(resp *http.Response, body []byte, onChunk func(*chat.Chunk) error) (*chat.Turn, error) {
	turn, err := chat.ReadReply(body)
	if err != nil {
		return nil, r.unreadable(resp, err)
	}
	if onChunk != nil {
		chunk, err := chat.ReadChunk(body)
		if err != nil {
			return nil, r.unreadable(resp, err)
		}
		if err := onChunk(chunk); err != nil {
			return nil, &Error{Upstream: r.client.name, Kind: Canceled, Began: true, Err: err}
		}
	}
	return turn, nil
}

// unreadable is the failure of a reply that came in order but is no chat completion.
func (r Route) unreadable(resp *http.Response, err error) *Error {
	e := &Error{Upstream: r.client.name, Kind: Broken, Status: resp.StatusCode, Header: resp.Header, Err: err}
	if reply, ok := errors.AsType[*chat.ErrorReply](err); ok {
		e.Message = reply.Message()
	}
	return e
}

// readStream reads a stream to its end, and hands each chunk on as it comes.
func (r Route) readStream(ctx context.Context, from reply, a *Ask) (*chat.Turn, error) {
	resp := from.Response
	defer resp.Body.Close()
	in, err := decoded(resp)
	if err != nil {
		return nil, r.client.failure(ctx, err)
	}
	s := &stream{reader: sse.NewReader(in, 0), onChunk: a.OnChunk, began: from.end.began}
	s.reader.BeforeRead = a.OnWait
	s.span = span.From(ctx)
	first, err := s.reader.First()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, r.streamFailure(ctx, resp, err)
	}
	if first == '{' { // no field of an event begins so: it is JSON, whatever it calls itself
		var body bytes.Buffer
		if err := fill(&body, s.reader.Rest(), maxReply); err != nil {
			return nil, r.client.failure(ctx, err)
		}
		return r.wholeReply(resp, body.Bytes(), a.OnChunk)
	}
	if err := s.read(); err != nil {
		e := r.streamFailure(ctx, resp, err)
		e.Began = s.assembler.Chunks() > 0 && (a.OnChunk == nil || a.Shown == nil || a.Shown())
		return nil, e
	}
	drain(resp.Body)
	return s.assembler.Turn(), nil
}

func (r Route) streamFailure(ctx context.Context, resp *http.Response, err error) *Error {
	var fault *chat.Fault
	var reply *chat.ErrorReply
	var client *clientError
	switch {
	case errors.As(err, &fault), errors.As(err, &reply):
		return r.unreadable(resp, err)
	case errors.Is(err, errNothing) && !isStream(resp):
		return r.unreadable(resp, errors.New("the reply is neither a stream nor JSON"))
	case errors.Is(err, errNothing):
		return &Error{Upstream: r.client.name, Kind: Empty, Status: resp.StatusCode, Header: resp.Header, Err: err}
	case errors.As(err, &client):
		return &Error{Upstream: r.client.name, Kind: Canceled, Err: client.err}
	}
	return r.client.failure(ctx, err)
}

// isStream says whether a reply calls itself an event stream, or nothing at all.
func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "" || kind == "text/event-stream"
}

// clientError is a failure of whoever takes the chunks.
type clientError struct{ err error }

func (e *clientError) Error() string { return e.err.Error() }

var (
	errNothing = errors.New("the stream had no data")
	errCut     = errors.New("the stream ended before its finish_reason")
)

// stream is one streamed reply being read.
type stream struct {
	reader    *sse.Reader
	onChunk   func(*chat.Chunk) error
	began     func()
	span      *span.Span // of the model call
	chunks    chat.ChunkReader
	assembler chat.Assembler
	size      int
}

// read reads to [DONE], or to an orderly end after a finish reason: some providers leave [DONE] out.
func (s *stream) read() error {
	for {
		data, err := s.reader.Next()
		if errors.Is(err, io.EOF) && s.assembler.Finished() || err == nil && string(bytes.TrimSpace(data)) == sse.Done {
			break
		}
		if errors.Is(err, io.EOF) {
			err = errCut
		}
		if err != nil {
			if s.assembler.Chunks() == 0 && errors.Is(err, errCut) {
				return errNothing
			}
			return err
		}
		if err := s.take(data); err != nil {
			return err
		}
	}
	if s.assembler.Chunks() == 0 {
		return errNothing
	}
	return nil
}

func (s *stream) take(data []byte) error {
	if s.size += len(data); s.size > maxReply {
		return errTooLarge
	}
	chunk, err := s.chunks.Read(data)
	if err != nil || chunk == nil {
		return err
	}
	if s.assembler.Chunks() == 0 {
		s.span.Elapsed("gen_ai.response.time_to_first_chunk")
	}
	s.assembler.Add(chunk)
	s.began()
	if s.onChunk == nil {
		return nil
	}
	if err := s.onChunk(chunk); err != nil {
		return &clientError{err}
	}
	return nil
}

// drain reads the little that follows [DONE], so that the connection can be used again. It does not wait for a
// provider that leaves its stream open.
func drain(body io.ReadCloser) {
	if b, ok := body.(*idleBody); ok {
		b.limit = 20 * time.Millisecond
	}
	_, _ = io.CopyN(io.Discard, body, 4096) // whatever it was, the turn is complete
}
