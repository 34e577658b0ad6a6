package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "validate",
		Short:   "Check a configuration; exit code 2 with every fault where there is one",
		Example: "  gateway validate -c gateway.yaml",
		Args:    cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadSettings(*path)
		if err != nil {
			return err
		}
		for _, w := range c.warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
		}
		g, err := newGateway(c) // what only shows when it is made, such as a certificate that can't be read
		if err != nil {
			return usageError{err}
		}
		g.close()
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok: %d upstreams, %d models, %d tools\n", c.Upstreams.Len(), c.Models.Len(), len(g.tools.All()))
		return err
	}
	return cmd
}
