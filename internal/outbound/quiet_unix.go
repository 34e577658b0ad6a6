//go:build unix

package outbound

import (
	"errors"
	"syscall"
)

// canPeek says whether quietOf can tell.
const canPeek = true

// quietOf says, for one caller at a time, whether a connection is open and has nothing to read: a server that has closed
// one has said so, and one that has sent something without a request sent what nobody asked for.
func quietOf(c syscall.RawConn) func() bool {
	var b [1]byte
	quiet := false
	look := func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = isNothing(err)
		return true
	}
	return func() bool { return c.Read(look) == nil && quiet }
}

func isNothing(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
}

// peek looks at what a connection has to read, and whether it is open.
func peek(c syscall.RawConn, b []byte) (n int, open bool) {
	err := c.Read(func(fd uintptr) bool {
		var err error
		n, _, err = syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = isNothing(err) || err == nil && n > 0
		n = max(n, 0) // -1 with an error
		return true
	})
	return n, err == nil && open
}
