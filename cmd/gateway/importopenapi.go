package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/adopt"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/openapi"
)

// maxImportedTools is how many operations are named one by one. Models choose well among some dozens, and a request to
// OpenAI takes 128 tools.
const (
	maxImportedTools = 1000
	maxRequestTools  = 128
)

func importOpenAPICommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "openapi FILE",
		Short: "Write the YAML of an openapi entry from an OpenAPI document; nothing is sent",
		Long: `Write the YAML of an openapi entry from an OpenAPI document, 3.0 or 3.1, YAML or JSON; nothing is sent.

Every operation that can be a tool stands under include, to be kept or taken out; stderr lists the tools as models will see
them, with what each costs in every request, and says which operations are left out and why. Security schemes become
${NAME}, and stderr says which variables to export. The YAML goes into a configuration in the folder where this is run, as
it names FILE from there.`,
		Example: `  gateway tools import openapi petstore.yaml
  gateway tools import openapi tracker.yaml --include 'GET *' --include create_issue --exclude '*_admin'`,
		Args: cobra.ExactArgs(1),
	}
	var o importedDocument
	cmd.Flags().StringVar(&o.name, "name", "", "name of the entry, and the beginning of its tools' names; made of the file's name or the title by default")
	cmd.Flags().StringVar(&o.baseURL, "base-url", "", "address that the paths of the document follow; the document's first server by default")
	cmd.Flags().StringArrayVar(&o.include, "include", nil, "operations that become tools, as under include: an operationId, or METHOD and path, with * for any text; all that are not deprecated by default")
	cmd.Flags().StringArrayVar(&o.exclude, "exclude", nil, "operations that do not, in the form of --include")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.spec = args[0]
		return o.write(cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// importedDocument is what the command line says.
type importedDocument struct {
	spec, name, baseURL string
	include, exclude    []string
}

func (o importedDocument) write(out, errOut io.Writer) error {
	if o.spec == "-" {
		return usageError{errors.New("want a file and not -: the configuration names the document, and reads it at each start")}
	}
	s, warnings, err := o.survey()
	if err != nil {
		return usageError{err}
	}
	if err := wrongNumber(s, warnings); err != nil {
		return usageError{err}
	}
	if o.name == "" {
		base := filepath.Base(o.spec)
		o.name = adopt.EntryName(strings.TrimSuffix(base, filepath.Ext(base)), s.Title)
		if s, warnings, err = o.survey(); err != nil { // with the names that its tools will have
			return usageError{err}
		}
	}
	e, err := adopt.OpenAPI(s, o.name, o.spec, o.baseURL)
	if err != nil {
		return err
	}
	g, err := importedGateway(e)
	if err != nil {
		return usageError{err}
	}
	defer g.close()
	if _, err := out.Write(e.YAML); err != nil {
		return err
	}
	if err := printTools(errOut, g.tools.All()); err != nil {
		return err
	}
	tellLeft(errOut, slices.Concat(leftOut(s, warnings), e.Notes), e.Variables)
	writes := 0
	for _, t := range g.tools.All() {
		if t.Effect == tool.Write {
			writes++
		}
	}
	if n := len(g.tools.All()); n > maxRequestTools {
		fmt.Fprintf(errOut, "todo: %d tools are more than a request to OpenAI takes (%d), and more than models choose well among: take lines out of include\n", n, maxRequestTools)
	}
	if writes > 0 {
		fmt.Fprintf(errOut, "todo: %d of the tools write: take out what no model may do, or set confirm: user under openapi.%s.set\n", writes, o.name)
	}
	fmt.Fprintln(errOut, "todo: put it into the configuration, then run gateway validate and gateway tools list")
	return nil
}

// survey looks at the document as an entry with the given lists would.
func (o importedDocument) survey() (*openapi.Survey, config.Problems, error) {
	entry := map[string]any{"spec": o.spec}
	for key, list := range map[string][]string{"include": o.include, "exclude": o.exclude} {
		if list != nil {
			entry[key] = list
		}
	}
	if o.baseURL != "" {
		entry["base_url"] = o.baseURL
	}
	name := cmp.Or(o.name, "api")
	f := config.Parse("", ".", nil, func(string) (string, bool) { return "", false })
	s := openapi.Look(name, f.Root().Fragment("", tool.EncodeJSON(entry)))
	if p := f.Problems(); s == nil || len(p) > 0 {
		var faults []error
		for _, each := range p {
			faults = append(faults, errors.New(o.flag(each)))
		}
		return nil, nil, errors.Join(faults...)
	}
	return s, f.Warnings(), nil
}

// flag is a problem of the entry in the words of the command line.
func (o importedDocument) flag(p config.Problem) string {
	switch key, _, _ := strings.Cut(p.Path, "."); key {
	case "include", "exclude":
		return "--" + key + ": " + p.Message
	case "base_url":
		return "--base-url: " + p.Message
	case "":
		return "--name: " + p.Message
	}
	return p.Message
}

// wrongNumber says why there is nothing to print of a document, or how to choose from one that nobody wants all of.
func wrongNumber(s *openapi.Survey, warnings config.Problems) error {
	tools, below := 0, map[string]int{}
	for _, o := range s.Operations {
		if o.Left == "" {
			tools++
			_, path, _ := strings.Cut(o.Operation, " ")
			first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
			below["/"+first]++
		}
	}
	switch {
	case tools == 0 && len(s.Operations) == 0:
		return errors.New("the document has no operations")
	case tools == 0:
		return fmt.Errorf("no operation can be a tool: %s", strings.Join(leftOut(s, warnings), "; "))
	case tools <= maxImportedTools:
		return nil
	}
	paths := slices.SortedFunc(maps.Keys(below), func(a, b string) int { return cmp.Or(below[b]-below[a], strings.Compare(a, b)) })
	var most []string
	for _, p := range paths[:min(len(paths), 12)] {
		most = append(most, fmt.Sprintf("%s (%d)", shorten(visible(p), 60), below[p]))
	}
	return fmt.Errorf("%d operations can be tools, more than %d: choose with --include, such as --include 'GET %s*'; most are below %s",
		tools, maxImportedTools, shorten(visible(paths[0]), 60), strings.Join(most, ", "))
}

// leftOut is a note for each reason why operations are no tools, and each other warning of the document.
func leftOut(s *openapi.Survey, warnings config.Problems) []string {
	of := map[string][]string{}
	var reasons []string
	others := 0
	for _, o := range s.Operations {
		switch {
		case o.Left == "":
			continue
		case o.NotChosen:
			others++
			continue
		}
		if of[o.Left] == nil {
			reasons = append(reasons, o.Left)
		}
		of[o.Left] = append(of[o.Left], shorten(visible(o.Operation), 100))
	}
	var notes []string
	for _, r := range reasons {
		const most = 5
		who := of[r]
		if more := len(who) - most; more > 0 {
			who = append(slices.Clip(who[:most]), fmt.Sprintf("%d more", more))
		}
		notes = append(notes, fmt.Sprintf("left out: %s: %s", strings.Join(who, ", "), visible(r)))
	}
	if others > 0 {
		notes = append(notes, fmt.Sprintf("not chosen by --include and --exclude: %d operations", others))
	}
	for _, w := range warnings {
		notes = append(notes, visible(w.Message))
	}
	return notes
}

// importedGateway is a gateway with the entry alone, so that what is printed is known to be taken, and its tools as models
// will see them.
func importedGateway(e adopt.Entry) (*gateway, error) {
	values := map[string]string{}
	for _, v := range e.Variables {
		values[v.Name] = "value-of-" + strings.ToLower(v.Name)
		if strings.HasSuffix(v.Name, "_URL") {
			values[v.Name] = "https://service.invalid"
		}
	}
	c, err := check(config.Parse("(imported)", ".", append([]byte("upstreams: {none: {base_url: \"https://upstream.invalid/v1\"}}\n"), e.YAML...), func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}))
	if err != nil {
		return nil, err
	}
	return newGatewayWith(c, wiring{log: io.Discard})
}
