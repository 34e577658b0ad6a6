package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// bodyTimeout bounds how long a client may take to send its body.
const bodyTimeout = 60 * time.Second

// readBody reads a request's body whole, up to limit bytes. It is read before anything is asked of a provider: net/http
// closes a body that is still being read once the reply begins.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // without support, as in tests, there is none
	in := http.MaxBytesReader(w, r.Body, limit)
	var body []byte
	var err error
	if r.ContentLength >= 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(in, body)
	} else {
		body, err = io.ReadAll(in)
	}
	_ = rc.SetReadDeadline(time.Time{})
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Message: "the body could not be read to its end", Err: err}
	}
	return body, nil
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
	if given := r.Header.Get("Content-Type"); given != "" && !isJSON(given) {
		return &Error{
			Status: http.StatusUnsupportedMediaType, Type: invalidRequest, Code: "unsupported_media_type",
			Message: "want Content-Type: application/json",
		}
	}
	return nil
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}
