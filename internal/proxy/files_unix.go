//go:build unix

package proxy

import (
	"math"
	"syscall"
)

// openFiles is how many files the process may have open. Go has raised the soft limit to the hard one.
func openFiles() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return math.MaxUint64
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on some systems
}
