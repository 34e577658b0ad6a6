//go:build unix

package exectool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

func TestResult(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"what stands on stdout", "echo good; echo bad >&2", "good"},
		{"one line end is taken off", `printf 'a\n\n'`, "a\n"},
		{"and only at the end", `printf '\na\r\nb '`, "\na\r\nb "},
		{"nothing", ":", ""},
		{"a lone line end", "echo", ""},
		{"bytes that are no UTF-8 stay", `printf '\377\000\376'`, "\xff\x00\xfe"},
		{"what a child writes that the program waits for", "(sleep 0.05; echo late) & wait", "late"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := output(t, script(t, tt.body).make(t), nil); got != tt.want {
				t.Errorf("result %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	made := script(t, `head -c "$1" /dev/zero; echo "$1" >&2`, "{n}").make(t, "n")
	if got := output(t, made, map[string]any{"n": strconv.Itoa(maxOutput)}); len(got) != maxOutput {
		t.Errorf("%d bytes of the result, want %d", len(got), maxOutput)
	}
	_, err := made.Call(t.Context(), tool.Call{Args: map[string]any{"n": strconv.Itoa(maxOutput + 1)}})
	tooltest.WantError(t, err, tool.InvalidResult, tool.TypeDecode)
}

func TestEndlessOutputEndsTheProgram(t *testing.T) {
	pids := t.TempDir()
	made := script(t, `trap '' PIPE; echo $$ > "$1/parent"; sleep 60 & echo $! > "$1/child"; yes; sleep 60`, pids).make(t)
	_, err := made.Call(t.Context(), tool.Call{})
	tooltest.WantError(t, err, tool.InvalidResult, tool.TypeDecode)
	wantGone(t, pids, "parent", "child")
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name, body string
		status     int
	}{
		{"a code", "exit 2", 2},
		{"the highest code", "exit 255", 255},
		{"output does not help", "echo fine; exit 1", 1},
		{"a signal has no code", "kill -TERM $$", 0},
		{"nor has one that the system sends", "ulimit -c 0; kill -SEGV $$", 0},
		{"the code of a program whose child holds its output", "sleep 60 & exit 7", 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := script(t, "echo /srv/secret >&2\n"+tt.body).make(t).Call(t.Context(), tool.Call{})
			tooltest.WantError(t, err, tool.ExitError, tool.TypeExit)
			got, _ := errors.AsType[*tool.Error](err)
			if got.Status != tt.status {
				t.Errorf("status %d, want %d", got.Status, tt.status)
			}
			if got.Message != "" || !strings.Contains(got.Err.Error(), "/srv/secret") {
				t.Errorf("message %q, err %v; want what stands on stderr in the latter alone", got.Message, got.Err)
			}
		})
	}
}

func TestTheEndOfStderrIsKept(t *testing.T) {
	made := script(t, `printf start >&2; head -c 1000000 /dev/zero | tr '\0' x >&2; printf '\377end\n' >&2; exit 1`).make(t)
	_, err := made.Call(t.Context(), tool.Call{})
	got := err.Error()
	if !strings.HasSuffix(got, "x\uFFFDend") || strings.Contains(got, "start") || len(got) > keptStderr+500 {
		t.Errorf("error of %d bytes, ends in %q", len(got), got[max(0, len(got)-20):])
	}
}

func TestTail(t *testing.T) {
	tests := []struct {
		name, want string
		writes     []string
	}{
		{"nothing", "", nil},
		{"what fits", "abcd", []string{"ab", "cd"}},
		{"the end of many", "cdef", []string{"ab", "c", "def"}},
		{"the end of a long one", "efgh", []string{"x", "abcdefgh"}},
		{"an empty one changes nothing", "bcde", []string{"abcde", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept := &tail{limit: 4}
			for _, w := range tt.writes {
				if n, err := kept.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", w, n, err)
				}
			}
			if got := kept.String(); got != tt.want {
				t.Errorf("kept %q, want %q", got, tt.want)
			}
		})
	}
}

// soon is long for a call that should be over at once, even on a busy machine, and short beside the minute that the
// scripts here would sleep.
const soon = 20 * time.Second

// family writes the ids of a program, its child and its grandchild into a folder; each holds stdout and ignores what it
// can ignore.
const family = `
trap '' TERM INT HUP PIPE
echo $$ > "$1/program"
sh -c 'echo $$ > "$1/child"; sh -c "echo \$\$ > \"$1/grandchild\"; touch \"$1/ready\"; sleep 60; :"; :' sh "$1" &
wait
`

func TestTheEndOfTheContextKillsAllOfTheGroup(t *testing.T) {
	errMine := errors.New("time of the tool is up")
	for name, tt := range map[string]struct {
		end   func(t *testing.T, ready string) context.Context
		class tool.Class
		kind  string
	}{
		"at the deadline": {func(t *testing.T, _ string) context.Context {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errMine)
			t.Cleanup(cancel)
			return ctx
		}, tool.Timeout, tool.TypeTimeout},
		"when nobody wants it any more": {func(t *testing.T, ready string) context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				for ctx.Err() == nil {
					if _, err := os.Stat(ready); err == nil {
						cancel(errMine)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
			return ctx
		}, tool.Failed, tool.TypeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			pids := t.TempDir()
			made := script(t, family, pids).make(t)
			ctx := tt.end(t, filepath.Join(pids, "ready"))
			start := time.Now()
			_, err := made.Call(ctx, tool.Call{})
			if took := time.Since(start); took > soon {
				t.Errorf("Call() took %s", took)
			}
			tooltest.WantError(t, err, tt.class, tt.kind)
			if !errors.Is(err, errMine) {
				t.Errorf("error = %v, want the cause in it", err)
			}
			wantGone(t, pids, "program", "child", "grandchild")
		})
	}
}

func TestADeadlineThatHasPassedStartsNothing(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	made := script(t, `touch "$1"`, mark).make(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, err := made.Call(ctx, tool.Call{})
	tooltest.WantError(t, err, tool.Timeout, tool.TypeTimeout)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran")
	}
}

// What a program leaves behind does not hold the call up, and ends with it.
func TestChildrenDoNotOutliveTheProgram(t *testing.T) {
	for name, body := range map[string]string{
		"one that holds the output":   `sleep 60 & echo $! > "$1/child"; echo done`,
		"one that holds nothing open": `sleep 60 <&- >&- 2>&- & echo $! > "$1/child"; echo done`,
	} {
		t.Run(name, func(t *testing.T) {
			pids := t.TempDir()
			start := time.Now()
			if got := output(t, script(t, body, pids).make(t), nil); got != "done" {
				t.Errorf("result %q, want done", got)
			}
			if took := time.Since(start); took > soon {
				t.Errorf("Call() took %s", took)
			}
			wantGone(t, pids, "child")
		})
	}
}

// A process that has left the group can't be killed with it, but does not hold the call up either.
func TestAProcessThatLeftTheGroupDoesNotHoldTheCall(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid here")
	}
	pids := t.TempDir()
	made := script(t, `setsid sh -c 'echo $$ > "$1/away"; exec sleep 60' sh "$1" & sleep 60`, pids).make(t)
	t.Cleanup(func() {
		if pid := pidOf(t, pids, "away"); pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := made.Call(ctx, tool.Call{})
	tooltest.WantError(t, err, tool.Timeout, tool.TypeTimeout)
	if took := time.Since(start); took > soon {
		t.Errorf("Call() took %s", took)
	}
}

func TestAProgramThatCannotStart(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"gone":        os.Remove,
		"no program":  func(path string) error { return os.WriteFile(path, []byte("\x00\x01"), 0o700) },
		"not allowed": func(path string) error { return os.Chmod(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			settings := script(t, "echo")
			made := settings.make(t)
			if err := spoil(settings["command"].([]string)[0]); err != nil {
				t.Fatal(err)
			}
			_, err := made.Call(t.Context(), tool.Call{})
			tooltest.WantError(t, err, tool.Failed, tool.TypeInternal)
		})
	}
}

// pidOf is the id in a file, 0 where there is none.
func pidOf(t *testing.T, folder, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// wantGone fails the test unless the processes whose ids stand in the files of folder end at once.
func wantGone(t *testing.T, folder string, names ...string) {
	t.Helper()
	for _, name := range names {
		pid := pidOf(t, folder, name)
		if pid == 0 {
			t.Errorf("the %s did not start", name)
			continue
		}
		for end := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) { // a kill takes its time
			if time.Now().After(end) {
				t.Errorf("the %s, process %d, is still there", name, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}

// alive says whether a process runs. One that has ended and whose parent has not asked for it yet does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux: "pid (name) state ..."
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
