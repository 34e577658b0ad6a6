package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/globs"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/tool"
)

func toolsCommand() *cobra.Command {
	return group(&cobra.Command{Use: "tools", Short: "Look at tools and try them, without any model"}, toolsListCommand(), toolsCallCommand(), importCommand())
}

func toolsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tools as models see them, with what each costs in every request",
		Long: `List the tools as models see them, with what each costs in every request.

Tokens are estimated, at four characters each; what a provider counts differs by some.`,
		Example: "  gateway tools list -c gateway.yaml\n  gateway tools list --model assistant --key web",
		Args:    noArgs,
	}
	path := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the declarations as a request has them")
	model := cmd.Flags().String("model", "", "only what this model sees")
	key := cmd.Flags().String("key", "", "only what the caller with this key, by its name, may use")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		g, err := gatewayOf(cmd.Context(), cmd.ErrOrStderr(), *path)
		if err != nil {
			return err
		}
		defer g.close()
		list, err := g.seen(*model, *key)
		if err != nil {
			return err
		}
		if *asJSON {
			return printDeclarations(cmd.OutOrStdout(), list)
		}
		return printTools(cmd.OutOrStdout(), list)
	}
	return cmd
}

// seen are the tools that a model and a key see; without names all tools.
func (g *gateway) seen(model, key string) ([]*registry.Tool, error) {
	if model == "" && key == "" {
		return g.tools.All(), nil
	}
	var lists []globs.List
	if model != "" {
		m := g.site.Models.Find(model)
		if m == nil {
			return nil, usageError{fmt.Errorf("there is no model %q", model)}
		}
		lists = append(lists, m.Tools)
	}
	var fields map[string]any
	if key != "" {
		caller := g.site.Keys.Named(key)
		if caller == nil {
			return nil, usageError{fmt.Errorf("there is no key with the name %q", key)}
		}
		fields = caller.Fields
		lists = append(lists, caller.Tools)
	}
	return g.tools.View(nil, fields, lists...).Tools(), nil
}

func printDeclarations(out io.Writer, tools []*registry.Tool) error {
	list := []json.RawMessage{}
	for _, t := range tools {
		list = append(list, t.Declaration())
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(list)
}

// tokens is about how many tokens a text is.
func tokens(text []byte) int { return (len(text) + 3) / 4 }

func printTools(out io.Writer, tools []*registry.Tool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tEFFECT\tTOKENS\tDESCRIPTION")
	total := 0
	for _, t := range tools {
		n := tokens(t.Declaration())
		total += n
		first, _, _ := strings.Cut(t.Description(), "\n")
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", t.Name, t.Kind, t.Effect, n, shorten(visible(first), 60))
	}
	fmt.Fprintf(w, "%d tools\t\t\t%d\tin each request\n", len(tools), total)
	return w.Flush()
}

// visible is a text of others, such as that of a document or of an MCP server, without what a terminal would take for
// orders.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// shorten cuts a text to fit a column.
func shorten(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

func toolsCallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call NAME [ARGUMENTS | NAME=VALUE ...]",
		Short: "Call a tool for real, and print what a model would read",
		Long: `Call a tool for real, and print what a model would read.

Arguments are one JSON object, or NAME=VALUE for each: a text, which becomes a number or boolean where the tool wants one,
or a JSON list or object. They are read, checked and completed as in a run. What was sent, with secrets masked, and the
time it took go to stderr. Exit code 1 when the call failed.`,
		Example: `  gateway tools call lookup_cep '{"cep":"01001000"}' -c gateway.yaml
  gateway tools call lookup_cep cep=01001000
  gateway tools call find_docs '{"q":"leave"}' --caller level=2`,
		Args: cobra.MinimumNArgs(1),
	}
	path := configFlag(cmd)
	caller := cmd.Flags().StringToString("caller", nil, "fields of the caller that tools bind, such as id=web; a number or boolean is one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := gatewayOf(cmd.Context(), cmd.ErrOrStderr(), *path)
		if err != nil {
			return err
		}
		defer g.close()
		arguments, err := argumentsOf(args[1:])
		if err != nil {
			return err
		}
		return g.call(cmd, args[0], arguments, callerFields(*caller))
	}
	return cmd
}

// pair is an argument of the command line that names one of the tool.
var pair = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.-]*)=(.*)$`)

// argumentsOf is the JSON text of a tool's arguments: the one that is given, or an object of pairs.
func argumentsOf(given []string) (string, error) {
	if len(given) == 0 {
		return "", nil
	}
	if len(given) == 1 && !pair.MatchString(given[0]) {
		return given[0], nil
	}
	object := map[string]json.RawMessage{}
	for _, text := range given {
		m := pair.FindStringSubmatch(text)
		switch {
		case m == nil:
			return "", usageError{fmt.Errorf("%q: want one JSON object, or NAME=VALUE for each argument", text)}
		case object[m[1]] != nil:
			return "", usageError{fmt.Errorf("the argument %s stands twice", m[1])}
		}
		object[m[1]] = chat.Quote(m[2])
		if strings.HasPrefix(m[2], "{") || strings.HasPrefix(m[2], "[") {
			object[m[1]] = json.RawMessage(m[2])
		}
		if !json.Valid(object[m[1]]) {
			return "", usageError{fmt.Errorf("%q: is no JSON", text)}
		}
	}
	return string(tool.EncodeJSON(object)), nil
}

// callerFields are fields of the command line, in the types that a key's would have.
func callerFields(given map[string]string) map[string]any {
	fields := map[string]any{}
	for k, v := range given {
		switch {
		case v == "true" || v == "false":
			fields[k] = v == "true"
		case json.Valid([]byte(v)) && v[0] != '"' && v[0] != '{' && v[0] != '[' && v != "null":
			fields[k] = json.Number(v)
		default:
			fields[k] = v
		}
	}
	return fields
}

// call calls a tool as a run would, and prints what was sent and what came of it.
func (g *gateway) call(cmd *cobra.Command, name, arguments string, fields map[string]any) error {
	if err := lacksCaller(g.tools, name, fields); err != nil {
		return err
	}
	view := g.tools.View(nil, fields)
	tellDropped(cmd.ErrOrStderr(), g.tools, name, arguments)
	p := view.Prepare(name, json.RawMessage(chat.Quote(arguments)))
	if p.Refusal != nil {
		fmt.Fprintln(cmd.OutOrStdout(), p.Refusal.Text)
		return errors.New("the call failed: " + string(p.Refusal.Code))
	}
	g.transport.tell = func(r *http.Request, body []byte) { tellRequest(cmd.ErrOrStderr(), g.site.Mask, r, body) }
	start := time.Now()
	scope := registry.Scope{RunID: "cli", Key: "cli-" + start.Format(time.RFC3339Nano), Attempt: 1, Confirmed: true}
	if by := p.Tool.Confirm(); by != registry.ConfirmNone {
		if after := p.Tool.ConfirmAfter(); after != "" {
			by += " after " + after
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "note: in a run, %s waits for a confirmation (confirm: %s); called from here it does not\n", p.Name, by)
	}
	scope.Tell = func(lines ...string) { tellLines(cmd.ErrOrStderr(), g.site.Mask, lines) }
	seen, err := view.Run(cmd.Context(), p, scope)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "took %s\n", time.Since(start).Round(time.Millisecond))
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), seen.Text); err != nil {
		return err
	}
	if !seen.OK() {
		return errors.New("the call failed: " + string(seen.Code))
	}
	return nil
}

// tellDropped says which arguments are none of the tool's: a model's are dropped without a word.
func tellDropped(out io.Writer, set *registry.Set, name, arguments string) {
	for _, t := range set.All() {
		known := gjson.GetBytes(t.Declaration(), "function.parameters.properties")
		if t.Name != name || !gjson.Valid(arguments) || !known.IsObject() {
			continue
		}
		var names []string
		known.ForEach(func(key, _ gjson.Result) bool {
			names = append(names, key.String())
			return true
		})
		gjson.Parse(arguments).ForEach(func(key, _ gjson.Result) bool {
			if key.Type == gjson.String && !slices.Contains(names, key.String()) {
				hint := ""
				if near := suggest.Nearest(key.String(), names, 1); len(near) > 0 {
					hint = ": did you mean " + near[0] + "?"
				}
				fmt.Fprintf(out, "note: %s has no parameter %q, which is dropped%s\n", name, key.String(), hint)
			}
			return true
		})
	}
}

// tellRequest prints a request as it was sent, without secrets.
func tellRequest(out io.Writer, m *mask.Masker, r *http.Request, body []byte) {
	fmt.Fprintf(out, "sent %s %s\n", r.Method, m.Text(r.URL.String()))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if len(r.Header[name]) == 0 { // a word to the transport, which is not sent
			continue
		}
		value := strings.Join(r.Header[name], ", ")
		if name == "Authorization" || name == "Cookie" {
			value = mask.Mask
		}
		fmt.Fprintf(out, "     %s: %s\n", name, m.Text(value))
	}
	if len(body) > 0 {
		fmt.Fprintf(out, "     %s\n", m.Text(shorten(string(body), 2000)))
	}
}

// tellLines prints what a tool of another kind has sent, without secrets.
func tellLines(out io.Writer, m *mask.Masker, lines []string) {
	mark := "sent"
	for _, line := range lines {
		fmt.Fprintf(out, "%-4s %s\n", mark, m.Text(shorten(line, 2000)))
		mark = ""
	}
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
func gatewayOf(ctx context.Context, errOut io.Writer, path string) (*gateway, error) {
	c, err := loadSettings(path)
	if err != nil {
		return nil, err
	}
	c.Log.Level, c.Log.Format = "warn", "text"
	g, err := newGateway(c)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	stop := g.mcp.start(ctx)
	g.after = func() error {
		stop()
		return c.close()
	}
	if err := g.mcp.settle(ctx); err != nil {
		fmt.Fprintln(errOut, "warning:", g.site.Mask.Text(err.Error()))
	}
	return g, nil
}
