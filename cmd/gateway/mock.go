package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/script"
)

func mockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mock SCRIPT",
		Short: "Serve a scripted OpenAI-compatible upstream",
		Long: `Serve a scripted OpenAI-compatible upstream, to try a configuration without a model.

A script is YAML:

  replies:
    - calls: [{name: lookup_cep, arguments: {cep: "01001000"}}]
    - text: "It is {tool}."
    - {status: 503, error: overloaded}
  repeat: true`,
		Example: "  gateway mock script.yaml --listen 127.0.0.1:9000",
		Args:    cobra.ExactArgs(1),
	}
	addr := cmd.Flags().String("listen", "127.0.0.1:9000", "address to listen on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := script.Load(args[0])
		if err != nil {
			return usageError{err}
		}
		var lc net.ListenConfig
		l, err := lc.Listen(cmd.Context(), "tcp", *addr)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "mock upstream at http://%s/v1\n", l.Addr())
		return serveUntil(cmd.Context(), l, script.NewServer(s))
	}
	return cmd
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
