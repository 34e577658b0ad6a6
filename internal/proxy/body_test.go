package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestReadBodyReadsAllSizes(t *testing.T) {
	for _, size := range []int{0, 1, bodyAtOnce - 1, bodyAtOnce, bodyAtOnce + 1, 5<<20 + 3} {
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for name, in := range map[string]io.Reader{"at once": bytes.NewReader(want), "in pieces": iotest.HalfReader(bytes.NewReader(want)), "with its end": iotest.DataErrReader(bytes.NewReader(want))} {
			r := httptest.NewRequest(http.MethodPost, "/", in)
			r.ContentLength = int64(size)
			got, err := readBody(httptest.NewRecorder(), r, 20<<20)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes %s: got %d, %v", size, name, len(got), err)
			}
		}
	}
}

// A body's size was set aside before any of it had come: 20 MiB for a header.
func TestReadBodyTakesNoMemoryForWhatHasNotCome(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", iotest.DataErrReader(strings.NewReader("x")))
	r.ContentLength = 20 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readBody(httptest.NewRecorder(), r, 20<<20)
	runtime.ReadMemStats(&after)
	if problem, ok := errors.AsType[*Error](err); !ok || problem.Status != http.StatusBadRequest {
		t.Errorf("readBody() = %v, want 400", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > bodyAtOnce+256<<10 {
		t.Errorf("it took %d KiB", took>>10)
	}
}

func BenchmarkReadBody(b *testing.B) {
	for name, size := range map[string]int{"4KiB": 4 << 10, "1MiB": 1 << 20, "8MiB": 8 << 20} {
		data := make([]byte, size)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := &http.Request{Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(size)}
				if _, err := readBody(nil, r, 20<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// net/http waits for the body of a request that was refused unread before it sends the refusal, and had no clock for it:
// a stranger held a connection for as long as it wanted.
func TestBodiesThatDoNotComeEndTheirRequest(t *testing.T) {
	tests := []struct {
		name, head, piece string
		want              string
	}{
		{"of a refused request", "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", "", "HTTP/1.1 404 "},
		{"of a run", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", "", "HTTP/1.1 408 "},
		{"in pieces that never end", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{", " ", "HTTP/1.1 408 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, fixtureConfig{}, nil, nil)
			f.bodyIdle, f.bodyTimeout = 50*time.Millisecond, 200*time.Millisecond
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, tt.head); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			trickled := make(chan struct{})
			go func() { // ends with stop
				defer close(trickled)
				for tt.piece != "" {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
						_, _ = io.WriteString(c, tt.piece) // it has ended by then
					}
				}
			}()
			got := make([]byte, len(tt.want))
			_, err = io.ReadFull(c, got)
			close(stop)
			<-trickled
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// The deadline of a body is over with the body: what is read behind it is how the client's leaving is noticed.
func TestTheDeadlineOfABodyEndsWithIt(t *testing.T) {
	f := newFixture(t, fixtureConfig{}, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, answer)
	}, nil)
	f.bodyIdle, f.bodyTimeout = 50*time.Millisecond, 100*time.Millisecond
	if r := f.send(t, http.MethodPost, chatPath, hi); r.StatusCode != http.StatusOK {
		t.Errorf("an answer that takes longer than a body may: %d %s", r.StatusCode, r.body)
	}
}
