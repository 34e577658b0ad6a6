package mcptool

import (
	"bufio"
	"errors"
	"io"
)

// lines cuts a stream into lines, none of which takes more memory than the limit.
type lines struct {
	r     *bufio.Reader
	limit int
}

// line is one line without its end.
type line struct {
	head    []byte // all of it, or the first bytes of one that is over the limit
	end     []byte // the last bytes of one that is over the limit, else nil
	skipped int    // bytes that are in neither
}

// whole says whether nothing is missing.
func (l line) whole() bool { return l.end == nil }

// kept is how much of the head and of the end of a line over the limit is kept.
const kept = 256

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next is the next line. The last one may come with the error that ended the stream. It is the caller's to keep.
func (l *lines) next() (line, error) {
	var out line
	total := 0
	for {
		piece, err := l.r.ReadSlice('\n')
		total += len(piece)
		switch {
		case out.whole() && len(out.head)+len(piece) <= l.limit:
			out.head = append(out.head, piece...)
		case out.whole():
			out.end = lastOf(out.head, piece)
			out.head = append(make([]byte, 0, kept), firstOf(out.head, piece)...)
		default:
			out.end = lastOf(out.end, piece)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		out.skipped = total - len(out.head) - len(out.end)
		return out, err
	}
}

func firstOf(a, b []byte) []byte {
	joined := append(a[:min(len(a), kept):min(len(a), kept)], b[:min(len(b), kept)]...)
	return joined[:min(len(joined), kept)]
}

func lastOf(a, b []byte) []byte {
	joined := append(a[max(0, len(a)-kept):len(a):len(a)], b[max(0, len(b)-kept):]...)
	return append([]byte{}, joined[max(0, len(joined)-kept):]...)
}
