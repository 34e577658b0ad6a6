package outbound

import (
	"bytes"
	"io"
	"net"
)

// conn writes a request's body from where it lies. net/http hands over what its own small buffer does not take through
// ReadFrom, and net would copy it in parts of 32 KiB, a system call each.
type conn struct{ *net.TCPConn }

// pieces is a body that lies in several places.
type pieces interface {
	// Rest is what was not read yet; from then on it counts as read.
	Rest() [][]byte
}

// ReadFrom writes what r has.
func (c conn) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return c.TCPConn.ReadFrom(r)
	}
	switch body := limited.R.(type) {
	case *bytes.Reader:
		if int64(body.Len()) <= limited.N {
			n, err := body.WriteTo(c.TCPConn)
			limited.N -= n
			return n, err
		}
	case pieces:
		rest := net.Buffers(body.Rest())
		var size int64
		for _, b := range rest {
			size += int64(len(b))
		}
		if size > limited.N { // more than was announced: net/http tells of it
			return c.TCPConn.ReadFrom(io.LimitReader(io.MultiReader(readers(rest)...), limited.N))
		}
		n, err := rest.WriteTo(c.TCPConn)
		limited.N -= n
		return n, err
	}
	return c.TCPConn.ReadFrom(r)
}

func readers(of net.Buffers) []io.Reader {
	list := make([]io.Reader, len(of))
	for i, b := range of {
		list[i] = bytes.NewReader(b)
	}
	return list
}
