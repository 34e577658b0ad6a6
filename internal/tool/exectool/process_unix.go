//go:build unix

package exectool

import (
	"os/exec"
	"syscall"
)

const supported = true

// apart makes the command the leader of a session, and so of a process group, of its own: all that it starts can be
// killed at once, and none of it finds a terminal at which it could wait for a password.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killGroup kills a started command and all that it has started, but what has moved to a group of its own since. That
// there is nothing left is no failure, and no other could be helped. It may be called up to some moments after Wait: an
// id that a group still has is given to no process, and a free one only when all others have had their turn.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
