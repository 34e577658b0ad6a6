package exectool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
)

const (
	maxOutput  = 4 << 20 // bytes of stdout; more is no result
	keptStderr = 4 << 10 // bytes of the end of stderr, for the log

	// linger is how long the output of others is waited for once the program has ended or was killed: a child that
	// it left behind may hold its stdout, even for ever.
	linger = 500 * time.Millisecond
)

// runner is the tool.
type runner struct {
	plan *plan
}

// Call runs the program once. It returns when the program has ended; nothing in the program's process group outlives
// the call, be it over or cut short by ctx.
func (t *runner) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	args, refused := argv(t.plan.args, c)
	if refused != nil {
		return tool.Result{}, refused
	}
	enough, stop := context.WithCancel(ctx)
	defer stop()
	out := &bounded{limit: maxOutput, full: stop}
	stderr := &tail{limit: keptStderr}
	cmd := t.command(enough, args, c)
	cmd.Stdout, cmd.Stderr = out, stderr
	if c.Tell != nil {
		c.Tell(t.told(cmd, c)...)
	}

	if err := cmd.Start(); err != nil {
		return tool.Result{}, notStarted(ctx, fmt.Errorf("in folder %s: %w", t.plan.dir, err))
	}
	err := cmd.Wait()
	killGroup(cmd) // what the program has left behind
	if out.over {
		return tool.Result{}, &tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode, Err: fmt.Errorf("%w: more than %d bytes", errTooMuch, maxOutput)}
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // that one: the program ended well, others held its output
		return tool.Result{}, ended(ctx, fmt.Errorf("%s: %w, stderr: %s", t.plan.program, err, stderr))
	}
	return tool.Result{Text: strings.TrimSuffix(out.kept.String(), "\n")}, nil
}

// command is the program, ready to start. The end of ctx kills it with all its group.
func (t *runner) command(ctx context.Context, args []string, c tool.Call) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.plan.program, args...) //nolint:gosec // the operator's program; argv guards the rest
	cmd.Dir = t.plan.dir
	cmd.Env = t.plan.env
	if c.IdempotencyKey != "" {
		cmd.Env = append(slices.Clip(cmd.Env), idempotencyKey+"="+c.IdempotencyKey)
	}
	cmd.Stdin = t.stdin(c)
	cmd.WaitDelay = linger
	cmd.Cancel = func() error {
		killGroup(cmd)
		return nil
	}
	apart(cmd)
	return cmd
}

// told is the command line, as a JSON list, and stdin, for a person.
func (t *runner) told(cmd *exec.Cmd, c tool.Call) []string {
	line, _ := json.Marshal(cmd.Args)
	lines := []string{string(line)}
	if in := t.stdin(c); in != nil {
		text, _ := io.ReadAll(in)
		lines = append(lines, "stdin: "+strings.TrimSpace(string(text)))
	}
	return lines
}

// stdin is what the program may read; it need not. nil is an empty file.
func (t *runner) stdin(c tool.Call) io.Reader {
	if t.plan.stdin == stdinNone {
		return nil
	}
	if c.Args == nil {
		return strings.NewReader("{}\n")
	}
	return bytes.NewReader(append(c.JSON(), '\n'))
}

// notStarted is the failure of a program that did not run at all.
func notStarted(ctx context.Context, err error) *tool.Error {
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx, err)
	case errors.Is(err, syscall.E2BIG): // Linux takes 128 KiB in one argument (execve(2), "Limits on size of arguments")
		return &tool.Error{Class: tool.Business, Message: "the arguments are too long for a command", Err: err}
	}
	return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
}

// ended is the failure of a program that ran. An exit code is its own even where ctx is done by now; a signal is then
// ours.
func ended(ctx context.Context, err error) *tool.Error {
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case exit != nil && exit.Exited():
		return &tool.Error{Class: tool.ExitError, Type: tool.TypeExit, Status: exit.ExitCode(), Err: err}
	case ctx.Err() != nil:
		return interrupted(ctx, err)
	case exit != nil:
		return &tool.Error{Class: tool.ExitError, Type: tool.TypeExit, Err: err}
	}
	return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
}

// interrupted is the failure of a call that ctx cut short: its deadline, or the end of the run around it.
func interrupted(ctx context.Context, err error) *tool.Error {
	err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout, Err: err}
	}
	return &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
}
