package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The keys of the gateway: one that is offered no tool, so that its requests are passed through, one that is offered the
// harness's tool alone, and one that is offered all of them.
const (
	passKey   = "key-that-is-passed-through"
	lookupKey = "key-with-one-tool"
	toolsKey  = "key-with-tools"
)

// startWait bounds how long a process may take until it serves.
const startWait = 30 * time.Second

// setup is the built programs and the servers that run for the whole of it. close ends and removes all.
type setup struct {
	o        options
	dir      string
	stderr   io.Writer
	gateway  string // the programs
	harness  string
	addr     map[string]string // of the servers, by the harness's name for them
	running  []*server
	gateways int // that were started
}

// newSetup builds the gateway and the harness, and starts the harness's servers.
func newSetup(ctx context.Context, o options, stderr io.Writer) (*setup, error) {
	bench, err := filepath.Abs(o.bench)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(bench, "compare.go")); err != nil {
		return nil, fmt.Errorf("the harness is not in %s: say where it is with BENCH=FOLDER (-bench)", o.bench)
	}
	dir, err := os.MkdirTemp("", "toolgate-compare-")
	if err != nil {
		return nil, err
	}
	s := &setup{o: o, dir: dir, stderr: stderr, gateway: filepath.Join(dir, "gateway"), harness: filepath.Join(dir, "bench"), addr: map[string]string{}}
	if err := s.begin(ctx, bench); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *setup) begin(ctx context.Context, bench string) error {
	// As `make build` has it.
	if err := s.build(ctx, ".", "CGO_ENABLED=0", "-trimpath", "-ldflags", "-s -w -X main.version="+s.o.version, "-o", s.gateway, "./cmd/gateway"); err != nil {
		return err
	}
	if err := s.build(ctx, bench, "", "-o", s.harness, "."); err != nil {
		return err
	}
	for _, name := range []string{"mock", "tool", "proxy", "refloop"} {
		at, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		s.addr[name] = at
		args := []string{name, "-addr", at}
		switch name {
		case "proxy":
			args = append(args, "-upstream", "http://"+s.addr["mock"])
		case "refloop":
			args = append(args, "-upstream", "http://"+s.addr["mock"]+"/v1", "-tool", "http://"+s.addr["tool"]+"/lookup")
		}
		p, err := s.start(ctx, name, s.harness, args...)
		if err != nil {
			return err
		}
		if err := p.await(ctx, time.Millisecond, func() bool { return listens(ctx, at) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) build(ctx context.Context, dir, env string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-buildvcs=false"}, args...)...) //nolint:gosec // our own arguments
	cmd.Dir, cmd.Env = dir, os.Environ()
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, out)
	}
	return nil
}

// close ends what runs, and removes what was written.
func (s *setup) close() {
	for _, p := range s.running {
		p.end()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(s.stderr, "compare:", err)
	}
}

// server is a process that serves. What it writes is in the file log.
type server struct {
	name  string
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed once err, of the process, is there
	err   error
}

func (s *setup) start(ctx context.Context, name, program string, args ...string) (*server, error) {
	p := &server{name: name, log: filepath.Join(s.dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()                                                         //nolint:errcheck // the process has its own
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...) //nolint:gosec // programs that were built here
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() { // ends with the process
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.running = append(s.running, p)
	return p, nil
}

// end tells a process to end, and waits until it has. Further calls do nothing.
func (p *server) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(startWait):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// await looks every so often until something of the process is so.
func (p *server) await(ctx context.Context, every time.Duration, so func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(startWait); !so(); {
		select {
		case <-p.ended:
			said, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(p.err, errEnded), said)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not serve", p.name)
		}
	}
	return nil
}

var errEnded = errors.New("before it served")

func listens(ctx context.Context, addr string) bool {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = c.Close() // it has served its purpose
	}
	return err == nil
}

// freeAddress is one of loopback where nobody listens.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// gateway is one that is ready, and how long that took.
type gateway struct {
	*server
	addr  string
	ready time.Duration // from its start
}

// serve starts a gateway with so many tools. more is put behind its configuration.
func (s *setup) serve(ctx context.Context, tools int, more string) (*gateway, error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s.gateways++
	name := fmt.Sprintf("gateway-%d", s.gateways)
	file := filepath.Join(s.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(s.configuration(addr, tools)+more), 0o600); err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := s.start(ctx, name, s.gateway, "serve", "-c", file)
	if err != nil {
		return nil, err
	}
	g := &gateway{server: p, addr: addr}
	if err := p.await(ctx, time.Millisecond, func() bool { return isReady(ctx, addr) }); err != nil {
		return nil, err
	}
	g.ready = time.Since(began)
	return g, nil
}

func isReady(ctx context.Context, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // the status says it all
	return resp.StatusCode == http.StatusOK
}

// configuration is a gateway's: all that is on by default, keys, and tools of which the first is the harness's.
func (s *setup) configuration(addr string, tools int) string {
	sum := func(key string) string {
		b := sha256.Sum256([]byte(key))
		return hex.EncodeToString(b[:])
	}
	var b strings.Builder
	fmt.Fprintf(&b, `server: {listen: %q}
upstreams:
  mock: {base_url: "http://%s/v1", api_key: sk-bench}
models:
  "*": {upstream: mock}
  tools-50x1: {upstream: mock, budget: {max_steps: 300, max_tool_calls: 300}}
  tools-200x1: {upstream: mock, budget: {max_steps: 300, max_tool_calls: 300}}
auth:
  keys:
    - {name: pass, sha256: %q, tools: []}
    - {name: lookup, sha256: %q, tools: [lookup]}
    - {name: tools, sha256: %q}
tools:
  lookup:
    description: Look up the fact for an id.
    parameters:
      id: {type: string, description: "The id to look up, as it stands in the text."}
    http: {url: "http://%[6]s/lookup", query: {id: "{id}"}}
`, addr, s.addr["mock"], sum(passKey), sum(lookupKey), sum(toolsKey), s.addr["tool"])
	for i := 1; i < tools; i++ {
		fmt.Fprintf(&b, `  filler_%02[1]d: # toolgate: allow similar-tools
    description: Find entry number %[1]d of the archive by a name and a year.
    parameters:
      name: {type: string, minLength: 1, description: "A name, or the beginning of one."}
      year: {type: integer, minimum: 1900, maximum: 2100, description: "The year."}
    http: {url: "http://%[2]s/lookup", query: {id: "{name}-{year}"}}
`, i, s.addr["tool"])
	}
	return b.String()
}
