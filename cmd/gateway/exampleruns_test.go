//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEachExampleRuns runs the script of each example as a reader does, from another folder and with nothing but the
// gateway, and holds what it prints against expected.txt.
func TestEachExampleRuns(t *testing.T) {
	gateway, err := exec.LookPath("gateway") // this binary, which TestMain has put there
	if err != nil {
		t.Fatal(err)
	}
	// What the scripts read, the go command knows nothing of: without this it would give a result that it has kept.
	err = filepath.WalkDir("../../examples", func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range exampleFolders(t) {
		t.Run(name, func(t *testing.T) {
			folder, err := filepath.Abs(filepath.Join("../../examples", name))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"README.md", "cases.yaml", "gateway.yaml", "model.yaml", "run.sh", "expected.txt"} {
				if _, err := os.Stat(filepath.Join(folder, file)); err != nil && (file != "expected.txt" || !*update) {
					t.Error(err)
				}
			}
			got := runExample(t, filepath.Join(folder, "run.sh"), "GATEWAY="+gateway, "EXAMPLES_BIN="+bin)
			expected := filepath.Join(folder, "expected.txt")
			if *update {
				if err := os.WriteFile(expected, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(read(t, expected), got); diff != "" {
				t.Errorf("run.sh prints something else (-expected.txt +printed); make golden takes it over:\n%s", diff)
			}
		})
	}
}

// runExample gives what a script prints, which is nothing on stderr. All that it started has to have ended with it.
func runExample(t *testing.T, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // the first of them builds
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, script)
	cmd.Dir = t.TempDir()
	temporary := t.TempDir()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasSuffix(name, "LISTEN") // of the machine's own
	}), append(env, "TMPDIR="+temporary, "GORACE=atexit_sleep_ms=50")...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what is left of it can be found
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	if errs.Len() > 0 {
		t.Errorf("on stderr it says\n%s", errs.String())
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); err == nil {
		t.Error("what it started is still there")
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	left, err := os.ReadDir(temporary)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), "go-") { // of the go command, which may look after its own in peace
			t.Errorf("it leaves %s", e.Name())
		}
	}
	return out.String()
}
