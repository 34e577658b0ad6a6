package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// bodyTimeout bounds how long a client may take to send its body.
	bodyTimeout = 60 * time.Second
	// bodyIdle bounds how long it may send nothing of it.
	bodyIdle = 10 * time.Second
	// bodyAtOnce is how much of a body is set aside before it has come. Most are smaller, and take one allocation.
	bodyAtOnce = 1 << 20
)

// inTime bounds the time of a request's body, from its header on: net/http itself has none. It would wait for ever for
// the body of a request that is refused before anybody reads it, and hold the refusal back until it has come.
func (s *Server) inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			now := info(r).start
			b := &timedBody{ReadCloser: r.Body, rc: http.NewResponseController(w), idle: s.bodyIdle, end: now.Add(s.bodyTimeout)}
			b.expect(now)
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody is a body whose connection ends where nothing of it comes for a while, or not all of it in time.
type timedBody struct {
	io.ReadCloser
	rc   *http.ResponseController
	idle time.Duration
	end  time.Time
	set  time.Time // when the deadline was
}

func (b *timedBody) expect(now time.Time) {
	b.set = now
	next := now.Add(b.idle)
	if next.After(b.end) {
		next = b.end
	}
	_ = b.rc.SetReadDeadline(next) // without support, as in tests, there is none
}

func (b *timedBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.set) > b.idle/10 { // pieces come fast, and deadlines are not for nothing
		b.expect(now)
	}
	return b.ReadCloser.Read(p) // at the end net/http takes the deadline away, to see by reading whether the client leaves
}

// readBody reads a request's body whole, up to limit bytes. It is read before anything is asked of a provider: net/http
// closes a body that is still being read once the reply begins.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var body []byte
	var err error
	if r.ContentLength >= 0 { // net/http gives no more of it
		body, err = readSized(r.Body, r.ContentLength)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Error{Status: http.StatusRequestTimeout, Type: invalidRequest, Code: "request_timeout", Message: "the body did not come in time", Err: err}
	case err != nil:
		return nil, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Message: "the body could not be read to its end", Err: err}
	}
	return body, nil
}

// readSized reads a body of that size to its end. Beyond bodyAtOnce, no more memory is taken than twice what has come: a
// size is easily said.
func readSized(in io.Reader, size int64) ([]byte, error) {
	body := make([]byte, min(size, bodyAtOnce))
	for read := 0; ; {
		n, err := io.ReadFull(in, body[read:])
		read += n
		if err != nil {
			return nil, err
		}
		if int64(read) == size {
			return body, nil
		}
		grown := make([]byte, min(size, 2*int64(read)))
		copy(grown, body)
		body = grown
	}
}

// bodyOf is a body that has been read, to be read again.
func bodyOf(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

func tooLarge(limit int64) error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Type: invalidRequest, Code: "request_too_large",
		Message: fmt.Sprintf("the body is larger than the gateway takes, which is %d bytes (server.max_body)", limit),
	}
}

// wantJSON refuses a body that says that it is something else. Without a content type it is taken for JSON.
func wantJSON(r *http.Request) error {
	if given := first(r.Header, "Content-Type"); given != "" && !isJSON(given) {
		return &Error{
			Status: http.StatusUnsupportedMediaType, Type: invalidRequest, Code: "unsupported_media_type",
			Message: "want Content-Type: application/json",
		}
	}
	return nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}
