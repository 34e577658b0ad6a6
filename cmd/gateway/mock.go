package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/script"
)

func mockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mock SCRIPT",
		Short: "Serve a scripted OpenAI-compatible upstream",
		Long: `Serve a scripted OpenAI-compatible upstream, to try a configuration without a model, and against what
providers do: refusals, rate limits, odd replies, slow and cut streams. docs/mock.md has all keys of a script.

A script is YAML:

  replies:
    - calls: [{name: lookup_cep, arguments: {cep: "01001000"}}]
    - text: "It is {tool}."
    - {status: 503, error: overloaded}
  repeat: true

A provider that refuses stream_options, is over its limit twice, and numbers all calls 0:

  refuse: [{member: stream_options}]
  replies:
    - {status: 429, error: slow down, headers: {Retry-After: "1"}, times: 2}
    - calls: [{name: lookup_cep, arguments: {cep: "01001000"}}, {name: lookup_cep, arguments: {cep: "20040002"}}]
      quirks: {index: zero}
    - {text: "It is {tool}.", cut_after: 600}

Each request is told on stderr, in one line.`,
		Example: `  gateway mock script.yaml --listen 127.0.0.1:9000
  gateway mock script.yaml --requests asked.jsonl   # what the gateway sends, one body a line`,
		Args: cobra.ExactArgs(1),
	}
	addr := cmd.Flags().String("listen", "127.0.0.1:9000", "address to listen on")
	requests := cmd.Flags().String("requests", "", "file that each request's body is added to, as a line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) (failed error) {
		s, err := script.Load(args[0])
		if err != nil {
			return usageError{err}
		}
		record := requestLog{told: cmd.ErrOrStderr()}
		if *requests != "" {
			f, err := os.OpenFile(*requests, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) // conversations are private
			if err != nil {
				return usageError{fmt.Errorf("--requests: %w", err)}
			}
			record.bodies = f
			defer func() { failed = errors.Join(failed, f.Close()) }()
		}
		var lc net.ListenConfig
		l, err := lc.Listen(cmd.Context(), "tcp", *addr)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "mock upstream at http://%s/v1\n", l.Addr())
		server := script.NewServer(s)
		server.Seen = record.add
		return serveUntil(cmd.Context(), l, server)
	}
	return cmd
}

// requestLog tells of the requests that the mock gets.
type requestLog struct {
	mu     sync.Mutex
	n      int
	told   io.Writer
	bodies io.Writer // nil: not wanted
}

// maxLogged is the size up to which a body is written whole.
const maxLogged = 1 << 20

func (l *requestLog) add(e script.Exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	fmt.Fprintf(l.told, "request %d: %s -> %s\n", l.n, summary(e.Body), outcome(e))
	if l.bodies == nil {
		return
	}
	if _, err := l.bodies.Write(bodyLine(e.Body)); err != nil {
		fmt.Fprintf(l.told, "request %d: not written: %v\n", l.n, err)
	}
}

func summary(body []byte) string {
	if !gjson.ValidBytes(body) {
		return fmt.Sprintf("no JSON, %d bytes", len(body))
	}
	req := gjson.ParseBytes(body)
	parts := []string{fmt.Sprintf("model %q", cut(req.Get("model").String(), 100))}
	if req.Get("stream").Bool() {
		parts = append(parts, "stream")
	}
	return fmt.Sprintf("%s, messages %d, tools %d", strings.Join(parts, ", "), req.Get("messages.#").Int(), req.Get("tools.#").Int())
}

func outcome(e script.Exchange) string {
	if e.Place == "" {
		return fmt.Sprintf("%d, nothing in the script", e.Status)
	}
	return fmt.Sprintf("%d, %s", e.Status, e.Place)
}

// bodyLine is a body as one line: as it is but for blanks, or the begin of one that is too large or no JSON.
func bodyLine(body []byte) []byte {
	var line bytes.Buffer
	if len(body) > maxLogged || json.Compact(&line, body) != nil {
		line.Reset()
		begin, _ := json.Marshal(cut(string(body), 1000)) // a text always encodes
		fmt.Fprintf(&line, `{"not_whole":%s,"bytes":%d}`, begin, len(body))
	}
	line.WriteByte('\n')
	return line.Bytes()
}

// cut is the begin of s, of up to limit bytes.
func cut(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(limit, len(s))], "")
}

// serveUntil serves h until ctx ends, then for a moment more what is under way.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }() // ends with Shutdown or Close below
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(end) != nil {
			_ = server.Close()
		}
		err = <-failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
