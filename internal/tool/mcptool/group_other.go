//go:build !unix

package mcptool

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup does nothing: there are no process groups here, and what a child starts may outlive it.
func ownGroup(*exec.Cmd) {}

// signalGroup ends the child, whatever the signal.
func signalGroup(leader *os.Process, _ syscall.Signal) { _ = leader.Kill() }
