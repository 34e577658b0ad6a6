//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// patience bounds every wait for something that takes a moment on a quiet machine.
const patience = 60 * time.Second

// binary is the gateway under test.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if binary = os.Getenv("TOOLGATE_E2E_BINARY"); binary == "" {
		dir, err := os.MkdirTemp("", "toolgate-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
		binary = filepath.Join(dir, "gateway")
		build := exec.CommandContext(context.Background(), "go", "build", "-race", "-buildvcs=false", "-o", binary, "./cmd/gateway")
		build.Dir = root()
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build ./cmd/gateway: %s\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// root is the repository's folder: tests run in that of their package.
func root() string { return filepath.Join("..", "..") }

// process is a command, most often of the gateway's binary, that serves until it is told to end.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended and all that it wrote is in log
	err    error         // of the process; set before ended is closed
	stop   sync.Once
	mu     sync.Mutex
	log    bytes.Buffer
	served chan string // the address, once
}

// start runs the binary. Its lines on stderr are the log; address finds in one of them where it serves.
func start(t *testing.T, env, args []string, address func(line string) string) (*process, string) {
	t.Helper()
	return startCommand(t, env, append([]string{binary}, args...), address)
}

// startCommand is start for a command that runs the binary.
func startCommand(t *testing.T, env, argv []string, address func(line string) string) (*process, string) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=50"), env...) // the race detector's own is a second
	return launch(t, cmd, address)
}

// launch starts a command that serves. See start.
func launch(t *testing.T, cmd *exec.Cmd, address func(line string) string) (*process, string) {
	t.Helper()
	return launchSlow(t, cmd, patience, address)
}

// launchSlow is launch for a command that takes its time, even on a quiet machine.
func launchSlow(t *testing.T, cmd *exec.Cmd, limit time.Duration, address func(line string) string) (*process, string) {
	t.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{}), served: make(chan string, 1)}
	name := filepath.Base(cmd.Path) + " " + strings.Join(cmd.Args[1:], " ")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(stderr, address) // ends with the process
	t.Cleanup(func() {
		p.end(t)
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(p.text()), "\n")
			t.Logf("end of the log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	})
	select {
	case at := <-p.served:
		return p, at
	case <-p.ended:
		t.Fatalf("%s ended: %v\n%s", name, p.err, p.text())
	case <-time.After(limit):
		t.Fatalf("%s does not serve\n%s", name, p.text())
	}
	return nil, ""
}

func (p *process) read(stderr io.Reader, address func(string) string) {
	lines := bufio.NewReader(stderr)
	found := false
	for {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		p.log.WriteString(line)
		p.mu.Unlock()
		if at := address(line); at != "" && !found {
			found = true
			p.served <- at
		}
		if err != nil {
			break
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// operatorKey is the key for the provider in all configurations. It belongs in no log and in no reply.
const operatorKey = "operator-key-that-nobody-may-see"

// end sends SIGTERM and asserts an orderly end. Further calls do nothing.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop.Do(func() {
		if err := p.terminate(); err != nil {
			t.Errorf("after SIGTERM: %v, want exit code 0", err)
		}
		for _, bad := range []string{"DATA RACE", "panic:", "handler panicked", operatorKey} {
			if strings.Contains(p.text(), bad) {
				t.Errorf("the log has %q:\n%s", bad, p.text())
			}
		}
	})
}

func (p *process) terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return p.err
	case <-time.After(patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // Go prints all stacks, which tell what it waits for
		<-p.ended
		return errors.New("the process did not end")
	}
}

// gateway is a `gateway serve`.
type gateway struct {
	*process
	url  string
	file string // its configuration
}

// serve starts a gateway and waits until it lives. The configuration names what differs as ${NAME}, and env, a list of
// NAME=value, gives it. The address is any that is free.
func serve(t *testing.T, config string, env ...string) *gateway {
	t.Helper()
	return serveCommand(t, []string{binary}, config, env...)
}

// serveCommand is serve for a command that runs the binary with the arguments that are put behind its own.
func serveCommand(t *testing.T, argv []string, config string, env ...string) *gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p, at := startCommand(t, env, append(slices.Clip(argv), "serve", "-c", file), func(line string) string {
		if gjson.Get(line, "msg").Str == "listening" {
			return gjson.Get(line, "address").Str
		}
		return ""
	})
	g := &gateway{process: p, url: "http://" + at, file: file}
	if resp := get(t, g.url+"/healthz"); resp.status != http.StatusOK {
		t.Fatalf("GET /healthz = %d, want 200", resp.status)
	}
	return g
}

// reply is an HTTP reply, read to its end.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

// get asks for a document.
func get(t *testing.T, url string, header ...string) reply {
	t.Helper()
	return send(t, http.DefaultClient, newRequest(t, http.MethodGet, url, nil, header...))
}

// ask posts a chat completion. The header is a list of names and values.
func (g *gateway) ask(t *testing.T, body string, header ...string) reply {
	t.Helper()
	return send(t, http.DefaultClient, g.request(t, body, header...))
}

func (g *gateway) request(t *testing.T, body string, header ...string) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body), append(header, "Content-Type", "application/json")...)
}

// newRequest makes a request that is given up after patience. The header is a list of names and values.
func newRequest(t *testing.T, method, url string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func send(t *testing.T, c *http.Client, req *http.Request) reply {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v after %q", req.Method, req.URL.Path, err, body)
	}
	return reply{resp.StatusCode, resp.Header, resp.Trailer, string(body)}
}

// question is the body of a request with one user message.
func question(model, text string, stream bool) string {
	b, err := json.Marshal(map[string]any{
		"model": model, "stream": stream, "messages": []any{map[string]any{"role": "user", "content": text}},
	})
	if err != nil {
		panic(err) // texts and a boolean always encode
	}
	return string(b)
}

// traceHeader is the header that tells what a run did.
const traceHeader = "X-Gateway-Trace"

// readTrace reads the trace header: a dictionary whose values are numbers, tokens, texts and one list.
func readTrace(t *testing.T, header string) map[string]string {
	t.Helper()
	trace := map[string]string{}
	for rest := header; rest != ""; {
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			t.Fatalf("%s: %q is no dictionary", traceHeader, header)
		}
		end := ", "
		if strings.HasPrefix(value, "(") {
			end = "), "
		}
		value, rest, _ = strings.Cut(value, end)
		trace[name] = strings.Trim(value, `"`)
	}
	return trace
}
