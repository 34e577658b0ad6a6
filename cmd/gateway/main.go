// Command gateway is an OpenAI-compatible HTTP gateway that runs tools on the server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // certificates of public authorities where the system has none, as in the image
)

// version is set by the linker in releases.
var version = "dev"

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2 // a wrong command line or configuration
)

// usageError is an error that the person at the command line can mend.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }

func (e usageError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd, err := root().ExecuteContextC(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	var usage usageError
	switch cobras := isCobraUsage(err); {
	case cobras && cmd.HasParent():
		fmt.Fprintf(os.Stderr, "Usage: %s; see %s --help\n", cmd.UseLine(), cmd.CommandPath())
		fallthrough
	case cobras, errors.As(err, &usage):
		os.Exit(exitUsage)
	}
	os.Exit(exitFailure)
}

// isCobraUsage tells the errors that cobra makes of a command line; it has no type for them.
func isCobraUsage(err error) bool {
	for _, begin := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "flag needs", "invalid argument", "required flag"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return false
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "An OpenAI-compatible HTTP gateway that runs tools on the server",
		Example: `  gateway demo                      a whole setup in one process, no key and no network needed
  gateway validate -c gateway.yaml  check a configuration
  gateway serve -c gateway.yaml     serve it`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(serveCommand(), validateCommand(), schemaCommand(), toolsCommand(), runsCommand(), testCommand(), mockCommand(), demoCommand(), keyCommand(), versionCommand())
	return cmd
}

// noArgs is for a command that takes flags alone. Other programs take the name of the configuration as it is.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("config") != nil {
		return usageError{fmt.Errorf("%s takes no argument %q: name a configuration with -c %[2]s", cmd.CommandPath(), args[0])}
	}
	return usageError{fmt.Errorf("%s takes no argument, such as %q; see %[1]s --help", cmd.CommandPath(), args[0])}
}

// group makes a command that only holds others refuse a name that is none of them.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usageError{fmt.Errorf("unknown command %q for %q; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())}
	}
	return cmd
}
