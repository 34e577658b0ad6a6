//go:build unix

package mcptool

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the child the leader of a process group. A Ctrl-C at the gateway's terminal then does not reach it: it
// is the gateway that ends it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals the whole group of a child that was started by ownGroup, also when its leader is gone.
func signalGroup(leader *os.Process, s syscall.Signal) { _ = syscall.Kill(-leader.Pid, s) }
