package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// nowhere is a client that takes everything at once.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
func (n nowhere) Flush()                      {}

// BenchmarkCopyBody is a stream of 200 events that is passed on.
func BenchmarkCopyBody(b *testing.B) {
	stream := bytes.Repeat([]byte("data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"some \"},\"finish_reason\":null}]}\n\n"), 200)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		resp := &http.Response{ContentLength: -1, Body: io.NopCloser(bytes.NewReader(stream))}
		if err := copyBody(nowhere{http.Header{}}, resp, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// What is passed on lies in buffers that are used again.
func TestAStreamIsPassedOnWithoutABufferOfItsOwn(t *testing.T) {
	stream := bytes.Repeat([]byte("data: {}\n\n"), 20_000)
	body := bytes.NewReader(stream)
	resp := &http.Response{ContentLength: -1, Body: io.NopCloser(body)}
	w := nowhere{http.Header{}}
	got := testing.AllocsPerRun(50, func() {
		body.Reset(stream)
		if err := copyBody(w, resp, nil); err != nil {
			t.Fatal(err)
		}
	})
	if got > 6 {
		t.Errorf("%v allocations, want 6 at most", got)
	}
	recorder := httptest.NewRecorder()
	body.Reset(stream)
	if err := copyBody(recorder, resp, nil); err != nil || !bytes.Equal(recorder.Body.Bytes(), stream) {
		t.Errorf("%d bytes, %v, want %d", recorder.Body.Len(), err, len(stream))
	}
}
