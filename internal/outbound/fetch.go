package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrTooLarge is a reply over its limit.
var ErrTooLarge = errors.New("the reply is too large")

// Fetch asks for a document, such as a set of keys, and gives its body of up to limit bytes with the header. A redirect
// is not followed, and like everything but a 200 an error. Errors may name the address: they are for the log.
func Fetch(ctx context.Context, by http.RoundTripper, address string, limit int64) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("User-Agent", "toolgate")
	reply, err := by.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answered %s", r.URL.Host, reply.Status)
	}
	if coding := reply.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, nil, fmt.Errorf("%s answered with a content encoding that was not asked for", r.URL.Host)
	}
	data, err := io.ReadAll(io.LimitReader(reply.Body, limit+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(data)) > limit {
		return nil, nil, fmt.Errorf("%s: %w: more than %d bytes", r.URL.Host, ErrTooLarge, limit)
	}
	return data, reply.Header, nil
}
