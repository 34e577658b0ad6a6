//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// `make compare` measures what it says, by one short round of some rows. Whether they are reached is not asked here: that
// wants more rounds and a machine of its own.
func TestCompare(t *testing.T) {
	harness := filepath.Join(root(), "..", "shared", "bench")
	if _, err := os.Stat(harness); err != nil {
		t.Logf("there is no %s here, so nothing was compared", harness)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", "./internal/compare", "-rounds", "1", "-dur", "300ms", "-only", "a1,cp,d1,e1,start,steps")
	cmd.Dir = root()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	rows := 0
	for line := range strings.Lines(string(out)) {
		cells := strings.Split(line, "|")
		if len(cells) < 7 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "scenario" {
			continue
		}
		rows++
		id, measured, verdict := strings.TrimSpace(cells[2]), strings.TrimSpace(cells[4]), strings.TrimSpace(cells[6])
		// One round may find that the bare proxy added nothing to compare with.
		if strings.HasPrefix(measured, "-") && id != "cp" || verdict != "pass" && verdict != "aside" && !strings.HasPrefix(verdict, "**short**") {
			t.Errorf("a row without a result: %s", line)
		}
		if id == "all" && verdict != "pass" {
			t.Errorf("requests failed: %s", line)
		}
	}
	if want := 9; rows != want {
		t.Errorf("%d rows, want %d: %v\n%s%s", rows, want, err, out, stderr.String())
	}
	if short := strings.Contains(string(out), "**short**"); short == (err == nil) {
		t.Errorf("the command ends with %v, though a row is short: %v", err, short)
	}
}
