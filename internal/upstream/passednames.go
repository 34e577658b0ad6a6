package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
)

// restorePassed gives the names of calls in a reply that is passed on back, as the client knows them. What holds none
// of them is passed on as it comes.
func (r *renames) restorePassed(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	in, err := decoded(resp)
	if err != nil {
		return err
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	body := &restoredBody{Closer: resp.Body, names: r, in: bufio.NewReader(in)}
	body.whole = kind != "text/event-stream"
	resp.Body = body
	return nil
}

// restoredBody reads line after line of a stream, or the whole of any other body, and restores the names in each. A
// name that a provider sends in pieces is not seen; none is known to.
type restoredBody struct {
	io.Closer
	names   *renames
	in      *bufio.Reader
	whole   bool
	pending []byte
	err     error
}

func (b *restoredBody) Read(p []byte) (int, error) {
	for len(b.pending) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.whole {
			var all bytes.Buffer
			if b.err = fill(&all, b.in, maxReply); b.err == nil {
				b.err = io.EOF
			}
			b.pending = b.names.inReply(all.Bytes())
			continue
		}
		var line []byte
		line, b.err = b.line()
		b.pending = b.names.inLine(line)
	}
	n := copy(p, b.pending)
	b.pending = b.pending[n:]
	return n, nil
}

// maxLine bounds a line of a stream that is looked at, like an event that is read.
const maxLine = 16 << 20

// line is the next line with its end, or what is left of the body.
func (b *restoredBody) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := b.in.ReadSlice('\n')
		if len(line)+len(piece) > maxLine {
			return nil, errTooLarge
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

var dataField = []byte("data:")

// inLine restores the names in one line of an event stream.
func (r *renames) inLine(line []byte) []byte {
	value, ok := bytes.CutPrefix(line, dataField)
	if !ok {
		return line
	}
	data := bytes.TrimSpace(value)
	now := r.inReply(data)
	if len(data) == 0 || bytes.Equal(now, data) {
		return line
	}
	at := bytes.Index(line, data)
	return append(append(append([]byte{}, line[:at]...), now...), line[at+len(data):]...)
}

// inReply restores the names in a reply or in a chunk of one.
func (r *renames) inReply(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"tool_calls"`)) || !gjson.ValidBytes(body) {
		return body
	}
	now := body
	for i, choice := range gjson.GetBytes(body, "choices").Array() {
		for _, part := range []string{"message", "delta"} {
			eachCallName(choice.Get(part), func(path, name string) {
				if own, ok := r.back[name]; ok {
					now = setRaw(now, "choices."+strconv.Itoa(i)+"."+part+"."+path, chat.Quote(own))
				}
			})
		}
	}
	return now
}
