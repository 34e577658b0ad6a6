// Package sse reads and writes event streams as the HTML standard has them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). Of the fields only data matters to chat
// completions; event, id and retry are skipped.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong is a line or an event longer than the reader's limit.
var ErrTooLong = errors.New("event of the stream is too long")

// Reader reads the data of one event after the other. Lines may end in LF, CRLF or CR and be of any length up to the
// limit.
type Reader struct {
	in     *bufio.Reader
	limit  int
	data   []byte // of the event in the making, lines joined by LF
	some   bool   // the event has a data field, be it an empty one
	line   []byte
	skipLF bool // the last line ended in CR
	first  bool

	// BeforeRead, if it is not nil, is called before the underlying reader is asked for more, which may take a while: what
	// has come so far can be passed on then.
	BeforeRead func()
}

// NewReader reads from r. limit is in bytes and bounds what one event may hold; 0 means 16 MiB.
func NewReader(r io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = 16 << 20
	}
	return &Reader{in: bufio.NewReaderSize(r, 2048), limit: limit, first: true}
}

// Next is the data of the next event, valid until the next call. At an orderly end it returns io.EOF, and before that
// the last event even if its blank line is missing. Any other error is that of the underlying reader, which means that
// the stream was cut, and the event in the making is dropped.
func (r *Reader) Next() ([]byte, error) {
	r.data, r.some = r.data[:0], false
	if data := r.whole(); data != nil {
		return data, nil
	}
	for {
		line, err := r.readLine()
		if err != nil && !(errors.Is(err, io.EOF) && len(line) > 0) {
			if errors.Is(err, io.EOF) && r.some {
				return r.data, nil
			}
			return nil, err
		}
		if len(line) == 0 {
			if r.some {
				return r.data, nil
			}
			continue
		}
		if err := r.field(line); err != nil {
			return nil, err
		}
	}
}

// whole is the data of the next event where it has come whole and is written as most are: one line of data, LF, and a
// blank line. It is given from where it lies. Any other event is nil, and read line by line.
func (r *Reader) whole() []byte {
	const name = "data: "
	if r.first || r.skipLF || r.in.Buffered() < len(name) {
		return nil
	}
	window, _ := r.in.Peek(r.in.Buffered()) // what is buffered can't fail
	if string(window[:len(name)]) != name {
		return nil
	}
	end := bytes.IndexByte(window, '\n')
	if end < len(name) || end+1 == len(window) || window[end+1] != '\n' || end > r.limit {
		return nil
	}
	data := window[len(name):end]
	if bytes.IndexByte(data, '\r') >= 0 {
		return nil
	}
	r.discard(end + 2)
	return data
}

func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if string(name) != "data" {
		return nil
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	if r.some {
		r.data = append(r.data, '\n')
	}
	r.some = true
	if len(r.data)+len(value) > r.limit {
		return ErrTooLong
	}
	r.data = append(r.data, value...)
	return nil
}

// First is the first byte that is not blank of what has come and was not read yet, 0 where there is none. It waits for
// something to come; its errors are those of the underlying reader.
func (r *Reader) First() (byte, error) {
	window, err := r.window()
	if window = bytes.TrimLeft(bytes.TrimPrefix(window, []byte("\xef\xbb\xbf")), " \t\r\n"); err != nil || len(window) == 0 {
		return 0, err
	}
	return window[0], nil
}

// Rest is what was not read yet, for a body that turns out to be no event stream.
func (r *Reader) Rest() io.Reader { return r.in }

// readLine is the next line without its end.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		window, err := r.window()
		if err != nil {
			return r.line, err
		}
		if r.skipLF {
			r.skipLF = false
			if window[0] == '\n' {
				window = window[1:]
				r.discard(1)
				if len(window) == 0 {
					continue
				}
			}
		}
		end := lineEnd(window)
		if end < 0 {
			if err := r.take(window); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.take(window[:end]); err != nil {
			return nil, err
		}
		r.skipLF = window[end] == '\r'
		r.discard(1)
		if r.first {
			r.first = false
			r.line = bytes.TrimPrefix(r.line, []byte("\xef\xbb\xbf"))
		}
		return r.line, nil
	}
}

// lineEnd is where the first CR or LF stands, -1 without one.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// window is what is buffered, at least one byte.
func (r *Reader) window() ([]byte, error) {
	if r.in.Buffered() == 0 {
		if r.BeforeRead != nil {
			r.BeforeRead()
		}
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
	}
	return r.in.Peek(r.in.Buffered())
}

func (r *Reader) take(b []byte) error {
	if len(r.line)+len(b) > r.limit {
		return ErrTooLong
	}
	r.line = append(r.line, b...)
	r.discard(len(b))
	return nil
}

// discard drops n bytes that are buffered, which can't fail.
func (r *Reader) discard(n int) { _, _ = r.in.Discard(n) }

// Buffered is how many bytes have been read from the underlying reader and not yet been used.
func (r *Reader) Buffered() int { return r.in.Buffered() }

// AppendData adds an event with that data, which must not hold a line end, to b.
func AppendData(b, data []byte) []byte {
	b = append(append(b, "data: "...), data...)
	return append(b, '\n', '\n')
}

// AppendComment adds a comment, which clients skip. text must not hold a line end.
func AppendComment(b []byte, text string) []byte {
	b = append(append(b, ": "...), text...)
	return append(b, '\n', '\n')
}

// Done is the data of the last event of a chat completion's stream.
const Done = "[DONE]"
