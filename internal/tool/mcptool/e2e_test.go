//go:build e2e

package mcptool

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
)

// The servers that the tests are held against. They are installed once, into the folder mcp of TOOLGATE_E2E_CACHE.
var (
	nodePackages   = []string{"@modelcontextprotocol/server-everything@2026.8.31", "@modelcontextprotocol/server-filesystem@2026.8.31", "@modelcontextprotocol/server-memory@2026.8.31"}
	pythonPackages = []string{"mcp-server-time==2026.10.19"}
)

// cacheFolder is where the servers are installed.
func cacheFolder(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("TOOLGATE_E2E_CACHE")
	if cache == "" {
		cache = ".cache/e2e"
	}
	if !filepath.IsAbs(cache) {
		cache = filepath.Join(root, cache)
	}
	return filepath.Join(cache, "mcp")
}

// installed runs commands in the cache unless their stamp says that they have run. Where they fail, the test is
// skipped, or with CI=true or TOOLGATE_E2E=require fails.
func installed(t *testing.T, part, pins string, commands ...[]string) string {
	t.Helper()
	dir := filepath.Join(cacheFolder(t), part)
	stamp := filepath.Join(dir, "stamp")
	if text, err := os.ReadFile(stamp); err == nil && string(text) == pins {
		return dir
	}
	give := t.Skipf
	if os.Getenv("CI") == "true" || os.Getenv("TOOLGATE_E2E") == "require" {
		give = t.Fatalf
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, argv := range commands {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			give("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	if err := os.WriteFile(stamp, []byte(pins), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

var installing sync.Mutex

// nodeServer is the program of an npm package.
func nodeServer(t *testing.T, name string) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	dir := installed(t, "node", strings.Join(nodePackages, " "),
		[]string{"npm", "init", "--yes"},
		append([]string{"npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"}, nodePackages...))
	return filepath.Join(dir, "node_modules", ".bin", name)
}

// pythonServer is the program of a Python package.
func pythonServer(t *testing.T, name string) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	dir := installed(t, "python", strings.Join(pythonPackages, " "),
		[]string{"python3", "-m", "venv", "venv"},
		append([]string{"venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, pythonPackages...))
	return filepath.Join(dir, "venv", "bin", name)
}

// object is arguments written as JSON.
func object(t *testing.T, text string) tool.Call {
	t.Helper()
	return tool.Call{Args: args(t, text)}
}

func TestServerEverything(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	run := "echo $$ > " + pid + "; exec " + nodeServer(t, "mcp-server-everything")
	r := start(t, "{command: [sh, -c, "+quote(run)+"], list_timeout: 30s}").ready()
	if _, tools := r.lists(); len(tools) < 10 {
		t.Errorf("%d tools", len(tools))
	}
	calls := []struct {
		id, args string
		want     []string
	}{
		{"echo", `{"message":"olá"}`, []string{"Echo: olá"}},
		{"get-sum", `{"a":2,"b":3}`, []string{"5"}},
		{"get-tiny-image", `{}`, []string{"[image image/png, 4033 bytes]"}},
		{"get-resource-links", `{"count":2}`, []string{"[resource link ", "resource", "text/plain"}},
		{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, []string{"[resource ", "text/plain]\n"}},
		{"get-resource-reference", `{"resourceType":"Blob","resourceId":2}`, []string{"[resource ", " bytes]"}},
		{"trigger-long-running-operation", `{"duration":1,"steps":2}`, []string{"completed"}},
		{"toggle-simulated-logging", `{}`, []string{"logging"}},
	}
	for _, c := range calls {
		text, err := r.call(t.Context(), c.id, object(t, c.args))
		if err != nil {
			t.Errorf("%s: %v", c.id, err)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s = %q, want %q in it", c.id, text, want)
			}
		}
	}
	text, err := r.call(t.Context(), "get-structured-content", object(t, `{"location":"Chicago"}`))
	if err != nil || strings.Count(text, "temperature") != 1 {
		t.Errorf("get-structured-content = %q, %v; want it once", text, err)
	}
	until(t, "progress in the log", func() bool { return strings.Contains(r.logs.String(), "mcp progress") })

	_, err = r.call(t.Context(), "get-sum", object(t, `{"a":"two"}`))
	wants(t, err, tool.Business, TypeMCP)
	_, err = r.call(t.Context(), "no-such-tool", tool.Call{})
	wants(t, err, tool.Business, TypeMCP)

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = r.call(ctx, "trigger-long-running-operation", object(t, `{"duration":60,"steps":60}`))
	wants(t, err, tool.Timeout, tool.TypeTimeout)
	if got, err := r.call(t.Context(), "echo", object(t, `{"message":"still here"}`)); err != nil || got != "Echo: still here" {
		t.Errorf("echo = %q, %v", got, err)
	}

	time.AfterFunc(300*time.Millisecond, func() {
		text, _ := os.ReadFile(pid)
		_ = exec.Command("kill", "-9", strings.TrimSpace(string(text))).Run()
	})
	_, err = r.call(t.Context(), "trigger-long-running-operation", object(t, `{"duration":60,"steps":60}`))
	wants(t, err, tool.Unavailable, tool.TypeConnect)
	if got, err := r.call(t.Context(), "echo", object(t, `{"message":"back"}`)); err != nil || got != "Echo: back" {
		t.Errorf("echo = %q, %v", got, err)
	}
}

// loopback keeps a server of Node on loopback that would listen on every interface.
const loopback = `const net = require("net"), listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return typeof port === "object" && port !== null
    ? listen.call(this, { ...port, host: "127.0.0.1" }, ...rest)
    : listen.call(this, port, "127.0.0.1", ...rest.filter((a) => typeof a === "function"));
};`

func TestServerEverythingOverHTTP(t *testing.T) {
	for _, mode := range []string{"streamableHttp", "sse"} {
		t.Run(mode, func(t *testing.T) {
			script := nodeServer(t, "mcp-server-everything")
			preload := filepath.Join(t.TempDir(), "loopback.cjs")
			if err := os.WriteFile(preload, []byte(loopback), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := l.Addr().String()
			_, port, _ := net.SplitHostPort(address)
			_ = l.Close()
			var server *exec.Cmd
			up := func() {
				server = exec.Command("node", "--require", preload, script, mode)
				server.Env = append(os.Environ(), "PORT="+port)
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
			}
			down := func() {
				_ = server.Process.Kill()
				_ = server.Wait()
			}
			up()
			t.Cleanup(func() { down() })
			path := "/mcp"
			if mode == "sse" {
				path = "/sse"
			}
			r := start(t, "{url: 'http://"+address+path+"', list_timeout: 5s}").ready()
			if got, err := r.call(t.Context(), "get-sum", object(t, `{"a":2,"b":3}`)); err != nil || !strings.Contains(got, "5") {
				t.Errorf("get-sum = %q, %v", got, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err = r.call(ctx, "trigger-long-running-operation", object(t, `{"duration":60,"steps":60}`))
			wants(t, err, tool.Timeout, tool.TypeTimeout)
			if got, err := r.call(t.Context(), "echo", object(t, `{"message":"still here"}`)); err != nil || got != "Echo: still here" {
				t.Errorf("echo = %q, %v", got, err)
			}
			time.AfterFunc(300*time.Millisecond, func() {
				down()
				up()
			})
			slow, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			_, err = r.call(slow, "trigger-long-running-operation", object(t, `{"duration":60,"steps":60}`))
			wants(t, err, tool.Unavailable, tool.TypeConnect)
			until(t, "a call that goes well", func() bool {
				got, _ := r.call(t.Context(), "echo", object(t, `{"message":"back"}`))
				return got == "Echo: back"
			})
			until(t, "the tools", r.Ready)
		})
	}
}

func TestServerFilesystem(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, "{command: "+quote(nodeServer(t, "mcp-server-filesystem"))+", args: ["+quote(dir)+"], list_timeout: 30s}").ready()
	_, tools := r.lists()
	if read, ok := named(tools, "read_text_file"); !ok || !read.ReadOnly {
		t.Errorf("read_text_file = %+v, want it to be a read", read)
	}
	if write, ok := named(tools, "write_file"); !ok || write.ReadOnly {
		t.Errorf("write_file = %+v, want it to be a write", write)
	}
	path := quote(filepath.Join(dir, "a.txt"))
	if _, err := r.call(t.Context(), "write_file", object(t, `{"path":`+path+`,"content":"ação\n"}`)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.call(t.Context(), "read_text_file", object(t, `{"path":`+path+`}`)); err != nil || got != "ação\n" {
		t.Errorf("read_text_file = %q, %v", got, err)
	}
	_, err = r.call(t.Context(), "read_text_file", object(t, `{"path":"/etc/passwd"}`))
	if e := failure(t, err, tool.Business, TypeMCP); !strings.Contains(e.Message, "denied") {
		t.Errorf("message = %q", e.Message)
	}
}

func TestServerMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.json")
	r := start(t, "{command: "+quote(nodeServer(t, "mcp-server-memory"))+", env: {MEMORY_FILE_PATH: "+quote(file)+"}, list_timeout: 30s}").ready()
	if _, err := r.call(t.Context(), "create_entities", object(t, `{"entities":[{"name":"Ann","entityType":"person","observations":["likes tea"]}]}`)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.call(t.Context(), "read_graph", tool.Call{}); err != nil || strings.Count(got, "likes tea") != 1 {
		t.Errorf("read_graph = %q, %v; want the fact once", got, err)
	}
}

func TestPythonServerTime(t *testing.T) {
	r := start(t, "{command: "+quote(pythonServer(t, "mcp-server-time"))+", list_timeout: 30s}").ready()
	if got, err := r.call(t.Context(), "get_current_time", object(t, `{"timezone":"Etc/UTC"}`)); err != nil || strings.Count(got, "timezone") != 1 {
		t.Errorf("get_current_time = %q, %v", got, err)
	}
	for id, c := range map[string]string{"get_current_time": `{"timezone":"Mars/Olympus"}`, "convert_time": `{"time":5}`, "no_such_tool": `{}`} {
		_, err := r.call(t.Context(), id, object(t, c))
		if e := failure(t, err, tool.Business, TypeMCP); e.Message == "" {
			t.Errorf("%s has no message", id)
		}
	}
}

func TestTwoServersWithTheSameTools(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"one", "two"} {
		s, err := New(name, load(t, "{command: "+quote(nodeServer(t, "mcp-server-everything"))+", list_timeout: 30s}"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := s.Connect(t.Context())
		if err != nil || len(tools) == 0 {
			t.Fatal(tools, err)
		}
		for _, one := range tools {
			if seen[one.Name] || one.Name != name+"__"+one.ID {
				t.Errorf("%s of %s is called %s", one.ID, name, one.Name)
			}
			seen[one.Name] = true
		}
	}
}
