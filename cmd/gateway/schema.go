package main

import (
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool/sqltool"
)

func schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Example: `  gateway schema > gateway.schema.json
  # first line of gateway.yaml:  # yaml-language-server: $schema=gateway.schema.json
  gateway schema --markdown | less`,
		Args: noArgs,
	}
	markdown := cmd.Flags().Bool("markdown", false, "print all keys as a document instead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		text := string(fileSchema()) + "\n"
		if *markdown {
			text = reference(fileSchema())
		}
		_, err := cmd.OutOrStdout().Write([]byte(text))
		return err
	}
	return cmd
}

// fileSchema is the JSON Schema of the configuration file.
func fileSchema() []byte {
	return config.Schema(settings{}, config.SchemaOptions{
		Title:    "gateway.yaml",
		Override: map[string]any{"tools": registry.ConfigSchema(kinds(sqltool.NewDatabases(config.Map[sqltool.DatabaseConfig]{})))},
	})
}
