// Command server is an MCP server over stdio that reads the files of one folder. Its tools have the names and arguments of
// those of @modelcontextprotocol/server-filesystem, so that either can stand in gateway.yaml.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves a folder until its client has gone or ctx ends.
func run(ctx context.Context, folders []string) error {
	if len(folders) != 1 {
		return errors.New("want one folder")
	}
	root, err := os.OpenRoot(folders[0]) // no path and no link leads out of it
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a folder has nothing to be written at its end
	f := folder{root}
	s := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(s, &mcp.Tool{Name: "list_directory", Description: "List what is in a folder, one name a line, with [DIR] or [FILE] in front.", Annotations: reads}, f.list)
	mcp.AddTool(s, &mcp.Tool{Name: "read_text_file", Description: "Read a text file, whole or its first lines.", Annotations: reads}, f.read)
	mcp.AddTool(s, &mcp.Tool{Name: "write_file", Description: "Write a text file, in place of what is there."}, f.write)
	if err := s.Run(ctx, &mcp.StdioTransport{}); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// folder is what the server reads and writes.
type folder struct{ root *os.Root }

type listArgs struct {
	Path string `json:"path" jsonschema:"the folder, such as . or minutes"`
}

func (f folder) list(_ context.Context, _ *mcp.CallToolRequest, args listArgs) (*mcp.CallToolResult, any, error) {
	entries, err := fs.ReadDir(f.root.FS(), inside(args.Path))
	if err != nil {
		return nil, nil, plain(err)
	}
	var lines []string
	for _, e := range entries {
		kind := "[FILE] "
		if e.IsDir() {
			kind = "[DIR] "
		}
		lines = append(lines, kind+e.Name())
	}
	return text(strings.Join(lines, "\n")), nil, nil
}

type readArgs struct {
	Path string `json:"path" jsonschema:"the file, such as minutes/may.txt"`
	Head int    `json:"head,omitempty" jsonschema:"so many of its first lines; all without it"`
}

// maxFile bounds what is read of a file.
const maxFile = 1 << 20

func (f folder) read(_ context.Context, _ *mcp.CallToolRequest, args readArgs) (*mcp.CallToolResult, any, error) {
	file, err := f.root.Open(inside(args.Path))
	if err != nil {
		return nil, nil, plain(err)
	}
	defer file.Close() //nolint:errcheck // what was read is read
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, nil, plain(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if args.Head > 0 && args.Head < len(lines) {
		lines = lines[:args.Head]
	}
	return text(strings.TrimSuffix(strings.Join(lines, ""), "\n")), nil, nil
}

type writeArgs struct {
	Path    string `json:"path" jsonschema:"the file, such as minutes/june.txt"`
	Content string `json:"content" jsonschema:"all of its text"`
}

func (f folder) write(_ context.Context, _ *mcp.CallToolRequest, args writeArgs) (*mcp.CallToolResult, any, error) {
	if err := f.root.WriteFile(inside(args.Path), []byte(args.Content), 0o600); err != nil {
		return nil, nil, plain(err)
	}
	return text("written: " + args.Path), nil, nil
}

// inside is a path as the folder has it: /minutes and ./minutes are minutes.
func inside(p string) string {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p == "" {
		return "."
	}
	return p
}

// plain is an error with the path that was asked for and no other.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
