//go:build unix

package outbound

import "syscall"

// canPeek says whether quiet can tell.
const canPeek = true

// quiet says whether a connection is open and has nothing to read: a server that has closed one has said so, and one
// that has sent something without a request sent what nobody asked for.
func quiet(c syscall.RawConn) bool {
	nothing := false
	err := c.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && nothing
}
