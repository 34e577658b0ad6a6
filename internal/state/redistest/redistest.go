// Package redistest starts a real Redis for tests.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a Redis of a test. It writes all that it is told to its disk at once, so that a restart loses nothing.
type Server struct {
	URL string

	t    testing.TB
	dir  string
	port int
	cmd  *exec.Cmd
}

// Start starts a Redis, which ends with the test. Where none is installed the test is skipped, but not in CI.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no Redis is installed: apt-get install redis-server")
		}
		t.Skip("no Redis is installed: apt-get install redis-server")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.URL = fmt.Sprintf("redis://127.0.0.1:%d/0", s.port)
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// Start starts the server again once it was ended. What it kept is there.
func (s *Server) Start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()                                 //nolint:errcheck // the server has its own
	s.cmd = exec.CommandContext(context.Background(), //nolint:gosec // a port and a folder of its own
		"redis-server", "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	c := s.Client()
	defer c.Close()                                                                   //nolint:errcheck // all that it does is in vain
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) { // nothing tells when it listens
		err := c.Ping(context.Background()).Err()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			s.t.Fatalf("redis-server: %v: %s", err, said)
		}
	}
}

// Kill ends the server without a word.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Hang makes the server answer nobody, until Resume.
func (s *Server) Hang() { s.signal(syscall.SIGSTOP) }

// Resume ends Hang.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Client is a connection to the server, to look at it.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), MaxRetries: -1})
}
