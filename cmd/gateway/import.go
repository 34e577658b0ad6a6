package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/adopt"
	"github.com/toolgate/toolgate/internal/registry"
)

func importCommand() *cobra.Command {
	return group(&cobra.Command{Use: "import", Short: "Write the YAML of tools from what documentation gives"}, importCurlCommand(), importMCPCommand(), importOpenAPICommand())
}

// maxImport bounds what is read from stdin.
const maxImport = 1 << 20

func importCurlCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "curl COMMAND | -",
		Short: "Write the YAML of an http tool from a curl command; nothing is sent",
		Long: `Write the YAML of an http tool from a curl command, as documentation and browsers copy it; nothing is sent.

Values of the query and of the body, and ids in the path, become parameters. Credentials become ${NAME}: the values of the
command are not printed, and stderr says which variables to export. What a tool does not need is left out, and stderr says
so; what it can't do is exit code 2. The description is left to you: gateway validate warns until it says something.`,
		Example: `  gateway tools import curl 'curl -H "Authorization: Bearer $TOKEN" https://api.example.com/users/42?verbose=true'
  gateway tools import curl --name find_user - < command.txt`,
		Args: cobra.ExactArgs(1),
	}
	name := cmd.Flags().String("name", "", "name of the tool; made of the method and the path by default")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *name != "" && !registry.FitName(*name) {
			return usageError{errors.New("--name: want at most 64 of a-z, A-Z, 0-9, _ and -")}
		}
		command := args[0]
		if command == "-" {
			data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxImport))
			if err != nil {
				return err
			}
			command = string(data)
		}
		d, err := adopt.Curl(command, *name)
		if err != nil {
			return usageError{err}
		}
		if _, err := cmd.OutOrStdout().Write(d.YAML); err != nil {
			return err
		}
		tellImport(cmd.ErrOrStderr(), d)
		return nil
	}
	return cmd
}

// tellImport says what is left to do.
func tellImport(out io.Writer, d adopt.Definition) {
	tellLeft(out, d.Notes, d.Variables)
	fmt.Fprintf(out, "todo: say under tools.%s what it does and when it is of use, then run gateway validate\n", d.Name)
}

// tellLeft says what was left out, and which variables to export.
func tellLeft(out io.Writer, notes []string, variables []adopt.Variable) {
	for _, n := range notes {
		fmt.Fprintln(out, "note:", n)
	}
	for _, v := range variables {
		fmt.Fprintf(out, "export %s=...   # %s\n", v.Name, v.For)
	}
}

func importMCPCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp FILE | -",
		Short: "Write the YAML of mcp_servers from the JSON of other programs; nothing is started",
		Long: `Write the YAML of mcp_servers from the JSON that a server's README gives for other programs ("mcpServers"); nothing is
started. Secrets under env and headers become ${NAME}, and stderr says which variables to export.`,
		Example: "  gateway tools import mcp claude_desktop_config.json\n  gateway tools import mcp - < block.json",
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		read := os.ReadFile
		if args[0] == "-" {
			read = func(string) ([]byte, error) { return io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxImport)) }
		}
		data, err := read(args[0])
		if err != nil {
			return usageError{err}
		}
		s, err := adopt.MCP(string(data))
		if err != nil {
			return usageError{err}
		}
		if _, err := cmd.OutOrStdout().Write(s.YAML); err != nil {
			return err
		}
		tellLeft(cmd.ErrOrStderr(), s.Notes, s.Variables)
		return nil
	}
	return cmd
}
