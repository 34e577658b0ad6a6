package upstream

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/chat"
)

// reply is a provider's reply whose header has come. Whoever reads it says how it ended.
type reply struct {
	*http.Response
	end *verdict
}

// verdict tells the breaker of a route how one call ended. A header alone is no success: replies break later too.
type verdict struct {
	done  func(breaker.Outcome)
	once  sync.Once
	probe bool // the breaker let this call through to see
}

func newVerdict(b *breaker.Breaker, done func(breaker.Outcome)) *verdict {
	return &verdict{done: done, probe: b.Probes()}
}

// is says how the call ended. Only the first word counts.
func (v *verdict) is(o breaker.Outcome) { v.once.Do(func() { v.done(o) }) }

// began says that the body has begun. While a breaker waits for the outcome of its probe it lets nobody else through,
// and a stream may take minutes: its first bytes are enough to tell that the provider is back.
func (v *verdict) began() {
	if v.probe {
		v.is(breaker.Success)
	}
}

// outcome is what the end of a call means to the breaker. A caller that left says nothing about the provider, nor does
// a refusal, which is an answer.
func outcome(err error) breaker.Outcome {
	var e *Error
	switch {
	case err == nil:
		return breaker.Success
	case !errors.As(err, &e):
		return breaker.Failure
	}
	switch e.Kind {
	case Canceled:
		return breaker.Ignored
	case Refused, Auth:
		return breaker.Success
	default:
		if refusedInside(e.Err) {
			return breaker.Ignored
		}
		return breaker.Failure
	}
}

// refusedInside says whether an error that came inside a good reply is about the request: OpenRouter puts the status
// of the provider behind it there as code, under status 200, and LiteLLM does as text.
func refusedInside(err error) bool {
	var inside *chat.ErrorReply
	if !errors.As(err, &inside) {
		return false
	}
	status := gjson.GetBytes(inside.Object, "code").Int() // of a text too; 0 where that is no number
	return status >= 400 && status < 500 &&
		status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

// passedBody is the body of a reply that is passed on. It says how the call ended: well at its end, as a failure where
// it breaks, and nothing where it is closed before.
type passedBody struct {
	io.ReadCloser
	end     *verdict
	outcome func(error) breaker.Outcome // of an error of reading
}

func (b *passedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.end.is(breaker.Success)
	case err != nil:
		b.end.is(b.outcome(err))
	case n > 0:
		b.end.began()
	}
	return n, err
}

func (b *passedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end.is(breaker.Ignored)
	return err
}
