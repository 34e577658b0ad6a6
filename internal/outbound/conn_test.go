package outbound

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// pieced is a body in pieces, as a spliced request is.
type pieced struct{ rest [][]byte }

func (p *pieced) Rest() [][]byte {
	rest := p.rest
	p.rest = nil
	return rest
}

func (p *pieced) Read(b []byte) (int, error) {
	for len(p.rest) > 0 && len(p.rest[0]) == 0 {
		p.rest = p.rest[1:]
	}
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[0])
	p.rest[0] = p.rest[0][n:]
	return n, nil
}

func TestBodiesArriveWhole(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	big := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	pool := NewPools(Dialer{})
	defer pool.CloseIdleConnections()
	for name, tt := range map[string]struct {
		body io.Reader
		size int64 // announced; -1: chunked
		want []byte
	}{
		"one piece in memory":         {bytes.NewReader(big), int64(len(big)), big},
		"small":                       {bytes.NewReader(big[:10]), 10, big[:10]},
		"pieces":                      {&pieced{[][]byte{big[:7], {}, big[7:300_000], big[300_000:]}}, int64(len(big)), big},
		"any other reader":            {io.MultiReader(bytes.NewReader(big[:5]), bytes.NewReader(big[5:])), int64(len(big)), big},
		"of a size that is not known": {&pieced{[][]byte{big[:7], big[7:]}}, -1, big},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = tt.size
			resp, err := pool.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("%d bytes arrived, %v, want %d", len(got), err, len(tt.want))
			}
		})
	}
	t.Run("more than was announced is refused", func(t *testing.T) {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, &pieced{[][]byte{big[:7], big[7:]}})
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 1000
		resp, err := pool.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
			if got, _ := io.ReadAll(resp.Body); len(got) > 1000 {
				t.Errorf("%d bytes arrived, 1000 were announced", len(got))
			}
		}
	})
}
