//go:build unix

package outbound

import "syscall"

// canPeek says whether quiet can tell.
const canPeek = true

// quiet says whether a connection is open and has nothing to read: a server that has closed one has said so, and one
// that has sent something without a request sent what nobody asked for.
func quiet(c syscall.RawConn) bool {
	var b [1]byte
	n, open := peek(c, b[:])
	return open && n == 0
}

// peek looks at what a connection has to read, and whether it is open.
func peek(c syscall.RawConn, b []byte) (n int, open bool) {
	err := c.Read(func(fd uintptr) bool {
		var err error
		n, _, err = syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing := err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		open = nothing || err == nil && n > 0
		n = max(n, 0) // -1 with an error
		return true
	})
	return n, err == nil && open
}
