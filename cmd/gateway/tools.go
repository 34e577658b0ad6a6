package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/registry"
)

func toolsCommand() *cobra.Command {
	return group(&cobra.Command{Use: "tools", Short: "Look at tools and try them, without any model"}, toolsListCommand(), toolsCallCommand())
}

func toolsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tools as models see them",
		Example: "  gateway tools list -c gateway.yaml",
		Args:    cobra.NoArgs,
	}
	path := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the declarations as a request has them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		g, err := gatewayOf(*path)
		if err != nil {
			return err
		}
		defer g.close()
		out := cmd.OutOrStdout()
		if *asJSON {
			list := []json.RawMessage{}
			for _, t := range g.tools.All() {
				list = append(list, t.Declaration())
			}
			e := json.NewEncoder(out)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			return e.Encode(list)
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tKIND\tEFFECT\tBYTES\tDESCRIPTION")
		for _, t := range g.tools.All() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", t.Name, t.Kind, t.Effect, len(t.Declaration()), registry.Cut(t.Description(), 60))
		}
		return w.Flush()
	}
	return cmd
}

func toolsCallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call NAME [ARGUMENTS]",
		Short: "Call a tool with a JSON object of arguments, and print what a model would read",
		Long: `Call a tool with a JSON object of arguments, and print what a model would read.

The arguments are read, checked and completed as in a run. Exit code 1 when the call failed.`,
		Example: `  gateway tools call lookup_cep '{"cep":"01001000"}' -c gateway.yaml`,
		Args:    cobra.RangeArgs(1, 2),
	}
	path := configFlag(cmd)
	caller := cmd.Flags().StringToString("caller", nil, "fields of the caller that tools bind, such as id=web")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := gatewayOf(*path)
		if err != nil {
			return err
		}
		defer g.close()
		fields := map[string]any{}
		for k, v := range *caller {
			fields[k] = v
		}
		arguments := json.RawMessage("{}")
		if len(args) == 2 {
			arguments, _ = json.Marshal(args[1]) // a string always marshals
		}
		if err := lacksCaller(g.tools, args[0], fields); err != nil {
			return err
		}
		p := g.tools.View(nil, fields).Prepare(args[0], arguments)
		seen := registry.Observation{}
		if p.Refusal != nil {
			seen = *p.Refusal
		} else if seen, err = g.tools.View(nil, fields).Run(cmd.Context(), p, registry.Scope{RunID: "cli", Key: "cli-" + time.Now().Format(time.RFC3339Nano), Attempt: 1}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), seen.Text); err != nil {
			return err
		}
		if !seen.OK() {
			return errors.New("the call failed: " + string(seen.Code))
		}
		return nil
	}
	return cmd
}

// lacksCaller tells which fields of the caller a tool needs before it is offered.
func lacksCaller(set *registry.Set, name string, fields map[string]any) error {
	for _, t := range set.All() {
		if t.Name != name {
			continue
		}
		for _, f := range t.CallerFields() {
			if fields[f] == nil {
				return usageError{fmt.Errorf("%s is offered only to callers with the field %s: add --caller %s=VALUE", name, f, f)}
			}
		}
	}
	return nil
}

// gatewayOf is the gateway of a configuration, for a command that does not serve.
func gatewayOf(path string) (*gateway, error) {
	c, err := loadSettings(path)
	if err != nil {
		return nil, err
	}
	c.Log.Level, c.Log.Format = "warn", "text"
	return newGateway(c)
}
