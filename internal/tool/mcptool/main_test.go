package mcptool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// TestMain makes the test binary a server where the environment says which one.
func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv("MCPTOOL_SERVER"); ok {
		serve(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// serve is a server on the standard streams. mode is words that say how it behaves.
func serve(mode string) {
	is := func(word string) bool { return strings.Contains(" "+mode+" ", " "+word+" ") }
	if path, ok := os.LookupEnv("MCPTOOL_STARTS"); ok { // a line for each start
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, os.Getpid())
			_ = f.Close()
		}
	}
	if is("noise") {
		fmt.Println("Welcome to the noisy server!")
		fmt.Println(`{"level":"info","msg":"a log line that is JSON"}`)
		fmt.Println(`[1, 2, 3]`)
		fmt.Println("")
		fmt.Println(`{"jsonrpc": "2.0", broken`)
		fmt.Fprintln(os.Stderr, "noise on stderr")
	}
	switch {
	case is("crash"):
		fmt.Fprintln(os.Stderr, "no database at db:5432")
		os.Exit(3)
	case is("slow"):
		time.Sleep(700 * time.Millisecond)
	case is("deaf"): // reads and never answers
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case is("stubborn"): // never answers, and stays when it is asked to leave
		signal.Ignore(syscall.SIGTERM)
		select {}
	case is("raw"):
		serveRaw(is)
		return
	}
	s := newTestServer(is, nil)
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if is("lingers") {
		time.Sleep(time.Minute)
	}
}

// newTestServer is a server with a tool for each thing that can happen. Its calls end when over is closed.
func newTestServer(is func(string) bool, over <-chan struct{}) *mcp.Server {
	o := &mcp.ServerOptions{}
	if is("older") {
		o.SupportedProtocolVersions = []string{"2025-11-25", "2025-06-18"}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, o)
	var canceled atomic.Int64
	object := json.RawMessage(`{"type":"object","properties":{}}`)
	add := func(name string, h func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, Description: "It is " + name + ".", InputSchema: object}, h)
	}
	text := func(t string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: t}}}, nil
	}
	s.AddTool(&mcp.Tool{
		Name: "echo", Description: "Says it again.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"}},"required":["zeta"]}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(string(r.Params.Arguments))
	})
	add("meta", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, _ := r.Params.Meta[MetaIdempotencyKey].(string)
		return text(key)
	})
	add("parent", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		parent, _ := r.Params.Meta["traceparent"].(string)
		return text(parent)
	})
	add("env", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n"))
	})
	add("cwd", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		return text(dir)
	})
	add("header", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(r.Extra.Header.Get("X-User"))
	})
	add("session", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(r.Session.ID())
	})
	add("fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no note about that"}}}, nil
	})
	add("structured", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"city": "São <Paulo>", "n": 3}}, nil
	})
	add("picture", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "Here it is:"},
			&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 4033)},
		}}, nil
	})
	add("progress", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i), Total: 3, Message: "step " + strconv.Itoa(i),
			})
		}
		return text("done")
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-ctx.Done():
			canceled.Add(1)
		case <-over:
		}
		return nil, errors.New("it did not end well")
	})
	add("canceled", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strconv.FormatInt(canceled.Load(), 10))
	})
	add("die", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(3)
		return nil, nil
	})
	add("hang", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // takes effect soon
		select {}
	})
	add("child", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		cmd := exec.Command("sleep", "60")
		cmd.Stdout = os.Stdout // so that it holds the pipe open
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return text(strconv.Itoa(cmd.Process.Pid))
	})
	add("daemon", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		cmd := exec.Command("sleep", "5")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return text("it is out of reach")
	})
	add("more", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("added", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("new") })
		return text("there is one more")
	})
	add("less", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.RemoveTools("added")
		return text("there is one less")
	})
	return s
}

// serveRaw answers by hand, for what no library does.
func serveRaw(is func(string) bool) {
	out := bufio.NewWriter(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	big := strings.Repeat("x", mostMessage+10)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		reply := func(format string, args ...any) {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,`+format+"}\n", append([]any{m.ID}, args...)...)
		}
		switch m.Method {
		case "server/discover":
			switch {
			case is("mute"): // knows only `initialize`, and says nothing to anything else
			case is("fragile"):
				os.Exit(1)
			default:
				reply(`"error":{"code":-32601,"message":"method not found"}`)
			}
		case "initialize":
			reply(`"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`)
		case "tools/list":
			if is("endless") {
				reply(`"result":{"tools":[{"name":"a%d","inputSchema":{"type":"object"}}],"nextCursor":"again"}`, time.Now().UnixNano())
				break
			}
			reply(`"result":{"tools":[` +
				`{"name":"big","inputSchema":{"type":"object"}},{"name":"big_last","inputSchema":{"type":"object"}},` +
				`{"name":"odd","inputSchema":{"type":"object"}},{"name":"closing","inputSchema":{"type":"object"}},` +
				`{"name":"unknown","inputSchema":{"type":"object"}},{"name":"broken","inputSchema":{"type":"object"}},` +
				`{"name":"input","inputSchema":{"type":"object"}},` +
				`{"name":"file","description":"Reads files.","inputSchema":{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}},` +
				`{"name":"look","inputSchema":{"type":"object","properties":{"x":{"type":"string","pattern":"^(?=a)b"}}}}]}`)
		case "tools/call":
			switch m.Params.Name {
			case "big":
				reply(`"result":{"content":[{"type":"text","text":%q}]}`, big)
			case "big_last":
				fmt.Fprintf(out, `{"result":{"content":[{"type":"text","text":%q}]},"jsonrpc":"2.0","id":%s}`+"\n", big, m.ID)
			case "odd":
				reply(`"result":{"content":[{"type":"hologram","beam":1}]}`)
			case "closing":
				reply(`"error":{"code":-32003,"message":"the shop is closing"}`)
			case "unknown":
				reply(`"error":{"code":-32602,"message":"Unknown tool: unknown"}`)
			case "broken":
				reply(`"error":{"code":-32603,"message":"panic in /srv/app/main.py"}`)
			case "input":
				reply(`"result":{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}}}`)
			}
		case "ping":
			reply(`"result":{}`)
		default:
			reply(`"error":{"code":-32601,"message":"method not found"}`)
		}
		_ = out.Flush()
	}
}
