package main

import (
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool/sqltool"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Example: `  gateway schema > gateway.schema.json
  # first line of gateway.yaml:  # yaml-language-server: $schema=gateway.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema := config.Schema(settings{}, config.SchemaOptions{
				Title:    "gateway.yaml",
				Override: map[string]any{"tools": registry.ConfigSchema(kinds(sqltool.NewDatabases(config.Map[sqltool.DatabaseConfig]{})))},
			})
			_, err := cmd.OutOrStdout().Write(append(schema, '\n'))
			return err
		},
	}
}
