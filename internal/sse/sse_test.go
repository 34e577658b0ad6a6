package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// readAll is the data of all events, and the error that ended them.
func readAll(r io.Reader, limit int) ([]string, error) {
	in := NewReader(r, limit)
	var events []string
	for {
		data, err := in.Next()
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
}

func TestReader(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []string
	}{
		{"events end with a blank line", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"one blank behind the colon is no data, a second is", "data:a\n\ndata:  b\n\n", []string{"a", " b"}},
		{"CRLF and CR end lines too", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", []string{"a", "b", "c"}},
		{"lines of one event are joined", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"comments and other fields are skipped", ": ping\n\nevent: x\nid: 1\nretry: 5\ndata: a\n\nevent: y\n\n", []string{"a"}},
		{"an event may be empty", "data\n\ndata:\n\n", []string{"", ""}},
		{"the last event needs no blank line", "data: a\n\ndata: b\n", []string{"a", "b"}},
		{"nor a line end", "data: a\n\ndata: b", []string{"a", "b"}},
		{"a byte order mark is skipped", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"names that only begin like data are others", "database: x\ndata: a\n\n", []string{"a"}},
		{"nothing", "", nil},
		{"blank lines", "\n\n\r\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{
				"at once":   strings.NewReader(tt.stream),
				"by a byte": iotest.OneByteReader(strings.NewReader(tt.stream)),
			} {
				got, err := readAll(r, 0)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: error = %v, want io.EOF", kind, err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

func TestReaderHasNoLineLimitBelowItsOwn(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	got, err := readAll(strings.NewReader("data: "+long+"\n\n"), 0)
	if !errors.Is(err, io.EOF) || len(got) != 1 || got[0] != long {
		t.Errorf("got %d events and %v, want one of 300 KiB", len(got), err)
	}
	for name, stream := range map[string]string{
		"one line":   "data: " + long,
		"many lines": strings.Repeat("data: xxxxxxxx\n", 10000),
		"no data":    ":" + long,
	} {
		if _, err := readAll(strings.NewReader(stream), 1000); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: error = %v, want ErrTooLong", name, err)
		}
	}
}

// A connection that breaks is no end: what was in the making is dropped, and the error is the reader's own.
func TestReaderTellsACutFromAnEnd(t *testing.T) {
	broken := errors.New("connection reset")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
	if diff := cmp.Diff([]string{"a"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// FuzzReader: however a stream is cut into pieces, and whatever of LF, CRLF and CR ends its lines, its events are the
// same.
func FuzzReader(f *testing.F) {
	f.Add("data: a\n\n: x\ndata: b\ndata: c\n\n", 3)
	f.Add("data:\n\nevent: e\n\ndata: é", 1)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		if strings.Contains(stream, "\r") || size < 1 {
			return
		}
		want, _ := readAll(strings.NewReader(stream), 0)
		for _, end := range []string{"\n", "\r\n", "\r"} {
			pieces := &pieceReader{[]byte(strings.ReplaceAll(stream, "\n", end)), size}
			got, err := readAll(pieces, 0)
			if !errors.Is(err, io.EOF) {
				t.Fatalf("error = %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("line end %q in pieces of %d (-want +got):\n%s", end, size, diff)
			}
		}
	})
}

type pieceReader struct {
	rest []byte
	size int
}

func (r *pieceReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(r.size, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}

func TestAppendIsReadBack(t *testing.T) {
	b := AppendComment(nil, "keep-alive")
	b = AppendData(b, []byte(`{"a":1}`))
	b = AppendData(b, []byte(Done))
	got, err := readAll(bytes.NewReader(b), 0)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`{"a":1}`, Done}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// BenchmarkReader bounds what reading costs an event of a usual stream.
func BenchmarkReader(b *testing.B) {
	var stream bytes.Buffer
	for range 200 {
		stream.Write(AppendData(nil, []byte(`{"id":"x","choices":[{"index":0,"delta":{"content":"token"},"finish_reason":null}]}`)))
	}
	b.SetBytes(int64(stream.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(stream.Bytes()), 0)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
