package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/mask"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "validate",
		Short:   "Check a configuration; exit code 2 with every fault where there is one",
		Example: "  gateway validate -c gateway.yaml\n  gateway validate --connect\n  gateway validate --print-config",
		Args:    noArgs,
	}
	path := configFlag(cmd)
	connect := cmd.Flags().Bool("connect", false, "try databases, MCP servers, Redis and the key set of auth.jwt too; exit code 1 where one can't be reached")
	printed := cmd.Flags().Bool("print-config", false, "print the configuration in force as YAML, with its defaults and with *** in place of secrets")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, err := sourceOf(*path)
		if err != nil {
			return err
		}
		if from == "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: there is no %s here: this is the plain proxy that OPENAI_BASE_URL and OPENAI_API_KEY make\n", defaultFile)
		}
		f := from.read()
		c, err := check(f)
		if err != nil {
			return err
		}
		for _, w := range c.warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
		}
		defer c.close()                                   //nolint:errcheck // nothing was opened, unless by connect, which tells
		g, err := newGatewayWith(c, wiring{shared: true}) // what only shows when it is made, such as a certificate that can't be read
		if err != nil {
			return usageError{err}
		}
		defer g.close()
		if *connect {
			if err := connectAll(cmd.Context(), cmd.OutOrStdout(), c, g); err != nil {
				return err
			}
		}
		out := cmd.OutOrStdout()
		if *printed {
			if _, err := out.Write(c.effective(f)); err != nil {
				return err
			}
			out = cmd.ErrOrStderr()
		}
		_, err = fmt.Fprintf(out, "ok: %d upstreams, %d models, %d tools\n", c.Upstreams.Len(), c.Models.Len(), len(g.tools.All()))
		return err
	}
	return cmd
}

// connectTimeout bounds how long one database is tried.
const connectTimeout = 10 * time.Second

// connectAll tries what the tools talk to, and prints a line for each.
func connectAll(ctx context.Context, out io.Writer, c *checked, g *gateway) error {
	m := mask.New(c.secrets)
	var failed error
	tell := func(what string, err error) {
		if err == nil {
			fmt.Fprintf(out, "ok    %s\n", what)
			return
		}
		fmt.Fprintf(out, "FAIL  %s: %s\n", what, m.Text(err.Error()))
		failed = errors.New("not all could be reached")
	}
	for _, name := range c.databases.Names() {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		tell("database "+name, c.databases.Ping(ctx, name))
		cancel()
	}
	for _, s := range g.mcp.list {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout+s.Patience())
		tools, err := s.Connect(ctx)
		tell(fmt.Sprintf("MCP server %s, %d tools", s.Name(), len(tools)), err)
		cancel()
	}
	if g.stores.redis != nil {
		warnings, err := g.stores.redis.Check(ctx)
		tell("redis", err)
		for _, w := range warnings {
			fmt.Fprintln(out, "warning:", w)
		}
	}
	if g.keySet != nil {
		keys, skipped, err := g.keySet.Read(ctx)
		what := "key set of auth.jwt"
		if err == nil {
			what = fmt.Sprintf("%s, %d keys, %d that can't be used", what, keys.Len(), len(skipped))
		}
		tell(what, err)
	}
	return failed
}
