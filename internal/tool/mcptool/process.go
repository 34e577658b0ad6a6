package mcptool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a server that is a child of the gateway. It and all that it starts are one process group, so that none of
// it outlives stop: `npx` and the like are shells around the program that is meant.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	tail   tail

	stopping chan struct{} // closed by stop
	stopOnce sync.Once
	exited   chan struct{} // closed when the child has ended and the next two are set
	state    string        // how the child ended
	early    bool          // it ended before it was to stop
	quiet    chan struct{} // closed when stderr is at its end
	done     chan struct{} // closed when nothing is left: no process, no goroutine, no pipe
	users    sync.WaitGroup
}

// The time that a child has to end by itself, after its standard input was closed and again after SIGTERM (MCP,
// transports, stdio, shutdown), and that what it wrote last has to be read.
const (
	terminateAfter = time.Second
	drainFor       = 500 * time.Millisecond
)

// startProcess starts the program of a server. The caller reads stdout to its end and calls users.Done then. stop ends
// it all; done says when.
func startProcess(c *ServerConfig, log *slog.Logger) (*process, error) {
	p := &process{
		stopping: make(chan struct{}), exited: make(chan struct{}), quiet: make(chan struct{}), done: make(chan struct{}),
	}
	argv := append(append([]string{}, c.Command...), c.Args...)
	p.cmd = exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // the operator's command; it ends by stop, which asks it first
	if p.cmd.Dir = c.Cwd; !filepath.IsAbs(c.Cwd) {
		p.cmd.Dir = filepath.Join(c.dir, c.Cwd) // as with exec; a program with a slash in its name is looked for there
	}
	p.cmd.Env = environment(c)
	ownGroup(p.cmd)
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	var mine []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(mine)
			return nil, err
		}
		if len(mine) == 0 {
			r, w = w, r
		}
		mine, theirs = append(mine, r), append(theirs, w)
	}
	// Files, and no readers: with these exec would wait for whoever still holds a pipe.
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p.stdin, p.stdout, p.stderr = mine[0], mine[1], mine[2]
	if err := p.cmd.Start(); err != nil {
		closeAll(mine)
		return nil, err
	}
	p.users.Add(1)
	p.users.Go(func() { p.readStderr(log) })
	p.users.Go(p.terminate)
	go p.reap()
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// environment is what reaches the child: PATH and HOME, which programs are not found without, and what the file lists.
func environment(c *ServerConfig) []string {
	var list []string
	for _, name := range []string{"PATH", "HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	for name, value := range c.Env.All() {
		list = append(list, name+"="+value) // of two equal names exec takes the last
	}
	return list
}

// stop lets the child end, and makes it where it does not. It does not wait.
func (p *process) stop() {
	p.stopOnce.Do(func() {
		close(p.stopping)
		_ = p.stdin.Close()
	})
}

// terminate ends with the child. Once it is to stop, it is told more and more clearly.
func (p *process) terminate() {
	select {
	case <-p.exited:
		return
	case <-p.stopping:
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.exited:
			return
		case <-time.After(terminateAfter):
			signalGroup(p.cmd.Process, signal)
		}
	}
}

// reap waits for the child, then ends what it has left behind and frees all.
func (p *process) reap() {
	err := p.cmd.Wait()
	signalGroup(p.cmd.Process, syscall.SIGKILL)
	p.state = "exit status 0"
	if err != nil {
		p.state = err.Error()
	}
	select {
	case <-p.stopping:
	default:
		p.early = true
	}
	close(p.exited)
	// A grandchild in a group of its own can hold the pipes open for ever.
	cut := time.AfterFunc(drainFor, func() {
		_ = p.stdout.Close()
		_ = p.stderr.Close()
	})
	p.users.Wait()
	cut.Stop()
	closeAll([]*os.File{p.stdin, p.stdout, p.stderr})
	close(p.done)
}

// readStderr keeps the end of what the child says, and shows it to who debugs.
func (p *process) readStderr(log *slog.Logger) {
	defer close(p.quiet)
	lines := newLines(p.stderr, 4<<10)
	for {
		line, err := lines.next()
		if text := strings.TrimSpace(strings.ToValidUTF8(string(line.head), "\uFFFD")); text != "" {
			p.tail.add(text)
			log.Debug("mcp server wrote to stderr", slog.String("text", text))
		}
		if err != nil {
			return
		}
	}
}

// ending is how the child ended, once its last words are known.
func (p *process) ending() error {
	deadline := time.NewTimer(2 * drainFor)
	defer deadline.Stop()
	for _, c := range []chan struct{}{p.exited, p.quiet} {
		select {
		case <-c:
		case <-deadline.C:
			return &endedError{state: "it closed its standard output", tail: p.tail.text()}
		}
	}
	return &endedError{state: p.state, tail: p.tail.text()}
}

// endedError is a session that ended as the server's process did.
type endedError struct{ state, tail string }

func (e *endedError) Error() string {
	s := "the server's process ended: " + e.state
	if e.tail != "" {
		s += "; stderr: " + e.tail
	}
	return s
}

// tail keeps the last lines of a text, about 4 KiB of them. Its zero value is empty and for many goroutines.
type tail struct {
	mu    sync.Mutex
	lines []string
	size  int
}

const mostTail = 4 << 10

func (t *tail) add(line string) {
	if len(line) > mostTail {
		line = strings.ToValidUTF8(line[len(line)-mostTail:], "")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	t.size += len(line)
	for t.size > mostTail {
		t.size -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// startError is a program that could not be started.
func startError(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("start: %w: is the program installed, and in the PATH of the gateway?", err)
	}
	return fmt.Errorf("start: %w", err)
}
