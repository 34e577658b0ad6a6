//go:build !unix

package outbound

import "syscall"

// canPeek says whether quiet can tell.
const canPeek = false

func quiet(syscall.RawConn) bool { return true }

func peek(syscall.RawConn, []byte) (n int, open bool) { return 0, true }
