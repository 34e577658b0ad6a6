//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// plainBinary is the gateway without the race detector, whose figures are those of what operators run.
var plainBinary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("TOOLGATE_E2E_BINARY"); given != "" {
		return given, nil
	}
	out := filepath.Join(filepath.Dir(binary), "gateway-plain")
	build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", out, "./cmd/gateway")
	build.Dir = root()
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/gateway: %w\n%s", err, text)
	}
	return out, nil
})

// servePlain is serve without the race detector. limits are arguments of prlimit, such as --nofile=64.
func servePlain(t *testing.T, config string, limits []string, env ...string) *gateway {
	t.Helper()
	bin, err := plainBinary()
	if err != nil {
		t.Fatal(err)
	}
	return serveCommand(t, append(slices.Clip(limits), bin), config, env...)
}

// usage is what a process holds.
type usage struct {
	goroutines, fds int
	rss, peak       int64 // MiB
	cpu             time.Duration
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, RSS %d MiB, at most %d MiB, CPU %s", u.goroutines, u.fds, u.rss, u.peak, u.cpu.Round(10*time.Millisecond))
}

// scraper has a connection for each request, so that asking changes nothing.
var scraper = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// uses asks a gateway for its goroutines, and the system for the rest.
func (g *gateway) uses(t *testing.T) usage {
	t.Helper()
	var u usage
	metrics := ""
	await(t, "the gateway gives its metrics", func() bool { // it may have no place at present
		r, err := fetch(t.Context(), scraper, http.MethodGet, g.url+"/metrics", "")
		metrics = r.body
		return err == nil && r.status == http.StatusOK
	})
	u.goroutines = int(metric(metrics, "go_goroutines"))
	u.fds = int(metric(metrics, "process_open_fds"))
	u.cpu = time.Duration(metric(metrics, "process_cpu_seconds_total") * float64(time.Second))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(VmRSS|VmHWM):\s+(\d+) kB`).FindAllStringSubmatch(string(status), -1) {
		n, _ := strconv.ParseInt(m[2], 10, 64)
		if m[1] == "VmRSS" {
			u.rss = n >> 10
		} else {
			u.peak = n >> 10
		}
	}
	return u
}

// metric is the value of a series in the text format, -1 without it.
func metric(text, name string) float64 {
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, _ := strconv.ParseFloat(value, 64)
			return v
		}
	}
	return -1
}

// settles waits until a gateway holds no more than it did, but for a little that comes and goes.
func (g *gateway) settles(t *testing.T, before usage) usage {
	t.Helper()
	const slack = 6
	var now usage
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		now = g.uses(t)
		if now.goroutines <= before.goroutines+slack && now.fds <= before.fds+slack {
			return now
		}
		if time.Now().After(end) {
			t.Errorf("the gateway holds %s; before it held %s", now, before)
			return now
		}
	}
}
