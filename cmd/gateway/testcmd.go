package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/trial"
)

func testCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run scripted conversations against the configuration, offline",
		Long: `Run scripted conversations against the configuration, offline: what the model says is given, the tools are
the real ones or answer as the case says, and what the model would read and the user would get is checked.

  cases:
    - name: a postal code
      ask: Which city is 01001-000?
      tools: {lookup_cep: {status: 200, body: '{"localidade": "São Paulo", "uf": "SP"}'}}
      turns:
        - calls: [{name: lookup_cep, arguments: {cep: "01001000"}}]
          observed: [São Paulo/SP]
        - text: That is São Paulo.
      answer: That is São Paulo.
      stop: completed`,
		Example: "  gateway test cases.yaml -c gateway.yaml",
		Args:    cobra.MinimumNArgs(1),
	}
	path := configFlag(cmd)
	only := cmd.Flags().String("run", "", "only cases whose name contains this")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := loadSettings(*path)
		if err != nil {
			return err
		}
		c.Log.Level, c.Log.Format = "error", "text"
		var files []*trial.File
		for _, name := range args {
			f, err := trial.Load(name)
			if err != nil {
				return usageError{err}
			}
			files = append(files, f)
		}
		return errors.Join(runTrials(cmd.Context(), cmd.OutOrStdout(), c, files, *only), c.close())
	}
	return cmd
}

// runTrials runs the cases one after the other and prints a line for each, and what was wrong below it.
func runTrials(ctx context.Context, out io.Writer, c *checked, files []*trial.File, only string) error {
	passed, failed := 0, 0
	for _, f := range files {
		for i := range f.Cases {
			t := &f.Cases[i]
			if !strings.Contains(t.Name, only) {
				continue
			}
			faults, err := tryCase(ctx, c, t)
			if err != nil {
				return err
			}
			if len(faults) == 0 {
				passed++
				fmt.Fprintf(out, "ok    %s\n", t.Name)
				continue
			}
			failed++
			fmt.Fprintf(out, "FAIL  %s\n", t.Name)
			for _, fault := range faults {
				fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(fault, "\n", "\n      "))
			}
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d cases failed", failed, passed+failed)
	case passed == 0:
		return usageError{errors.New("no case was run")}
	}
	return nil
}

// tryCase runs one case on a gateway of its own, so that no case sees another's breakers and caches.
func tryCase(ctx context.Context, c *checked, t *trial.Case) ([]string, error) {
	g, err := newGatewayWith(c, wiring{stubs: &stubs{byName: map[string]*trial.Stub{}}})
	if err != nil {
		return nil, err
	}
	defer g.close()
	stop := g.mcp.start(ctx)
	defer stop()
	if err := g.mcp.settle(ctx); err != nil {
		return []string{g.site.Mask.Text(err.Error())}, nil
	}
	m := g.site.Models.Find(t.Model)
	if t.Model == "" {
		if m = g.site.Models.Any(); len(g.site.Models.Named()) > 0 {
			m = g.site.Models.Named()[0]
		}
	}
	if m == nil {
		return []string{fmt.Sprintf("there is no model %q", t.Model)}, nil
	}
	return t.Run(ctx, trial.World{Tools: g.tools, Model: m, Stub: g.stub, Logger: g.log})
}
