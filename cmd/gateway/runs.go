package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/trace"
)

func runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs that a gateway at work has made, the newest first",
		Long: `List the runs that a gateway at work has made, the newest first.

The gateway is the one at --url, else at $GATEWAY_URL, else at the address in the configuration. Its key, where it asks
for one, is taken from $GATEWAY_API_KEY. A key sees its own runs; one with runs: all sees those of all callers.

On a terminal an id shows its last characters alone, which gateway runs show takes; elsewhere the whole.`,
		Example: `  gateway runs
  gateway runs --tool lookup_cep --since 15m
  gateway runs --stop timeout --json | jq .request_id
  gateway runs show run_01J8Z3K2M4N5P6Q7R8S9T0V1W2`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return nil
			case strings.HasPrefix(args[0], "run_"):
				return usageError{fmt.Errorf("to see that run: gateway runs show %s", args[0])}
			}
			return usageError{fmt.Errorf("unknown command %q for \"gateway runs\"; see gateway runs --help", args[0])}
		},
	}
	at := gatewayFlags(cmd)
	var q runQuery
	cmd.Flags().StringVar(&q.model, "model", "", "only runs of this model, as clients name it")
	cmd.Flags().StringVar(&q.stop, "stop", "", "only runs that ended so, such as completed, max_steps or timeout")
	cmd.Flags().StringVar(&q.tool, "tool", "", "only runs that called this tool")
	cmd.Flags().StringVar(&q.since, "since", "", "only runs since then: how long ago, such as 15m, or a time as RFC 3339 has it")
	cmd.Flags().IntVar(&q.limit, "limit", 20, "how many at most")
	asJSON := cmd.Flags().Bool("json", false, "print what the gateway says of each run, one a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if q.limit < 1 {
			return usageError{fmt.Errorf("--limit is %d: want 1 or more", q.limit)}
		}
		c, err := at.client()
		if err != nil {
			return err
		}
		list, more, err := c.runs(cmd.Context(), q)
		if err != nil {
			return err
		}
		if *asJSON {
			for _, r := range list {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n", r.raw)
			}
			return nil
		}
		if len(list) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), q.none(c.base))
			return nil
		}
		printRuns(newScreen(cmd.OutOrStdout()), list, time.Now())
		if more {
			fmt.Fprintf(cmd.ErrOrStderr(), "there are more: --limit %d shows them\n", q.limit*5)
		}
		return nil
	}
	cmd.AddCommand(runsShowCommand())
	return cmd
}

// where says which gateway is meant.
type where struct{ url, config *string }

func gatewayFlags(cmd *cobra.Command) where {
	w := where{config: configFlag(cmd)}
	w.url = cmd.Flags().String("url", "", "address of the gateway (default $"+urlVariable+", else that in the configuration)")
	return w
}

func (w where) client() (*client, error) { return newClient(*w.url, *w.config) }

// runQuery is which runs are asked for.
type runQuery struct {
	model, stop, tool, since string
	limit                    int
}

func (q *runQuery) values() url.Values {
	values := url.Values{}
	for name, v := range map[string]string{"model": q.model, "stop": q.stop, "tool": q.tool, "since": q.since} {
		if v != "" {
			values.Set(name, v)
		}
	}
	return values
}

// none says why there may be nothing to show.
func (q *runQuery) none(base string) string {
	if len(q.values()) > 0 {
		return "no run at " + base + " is as asked for; gateway runs without flags shows all"
	}
	return "no run is kept at " + base + " that this key may see"
}

// listed is a run of the list, and its text as it came.
type listed struct {
	trace.Summary
	raw json.RawMessage
}

// UnmarshalJSON reads a run and keeps its text.
func (l *listed) UnmarshalJSON(b []byte) error {
	l.raw = append(l.raw, b...)
	return json.Unmarshal(b, &l.Summary)
}

// runs are the newest of the runs that are asked for, and whether there are more.
func (c *client) runs(ctx context.Context, q runQuery) (list []listed, more bool, err error) {
	values := q.values()
	for {
		values.Set("limit", strconv.Itoa(min(q.limit-len(list), trace.MaxPage)))
		var page struct {
			Data []listed `json:"data"`
			Next string   `json:"next"`
		}
		if err := c.get(ctx, "/gateway/runs", values, &page); err != nil {
			return nil, false, err
		}
		list = append(list, page.Data...)
		if page.Next == "" || len(list) >= q.limit {
			return list, page.Next != "", nil
		}
		values.Set("before", page.Next)
	}
}

// column is a part of a table's lines.
type column struct {
	head  string
	right bool // of numbers
	least int  // how narrow it may become; 0: it stays as it is
	cells []string
	width int
}

// printRuns prints a table, on a terminal no wider than that.
func printRuns(s *screen, list []listed, now time.Time) {
	columns := runColumns(s, list, now)
	total := -1
	for _, c := range columns {
		c.width = utf8.RuneCountInString(c.head)
		for _, cell := range c.cells {
			c.width = max(c.width, utf8.RuneCountInString(cell))
		}
		total += c.width + 1
	}
	for s.width > 0 && total > s.width { // the widest of those that may lose something does
		var widest *column
		for _, c := range columns {
			if c.least > 0 && c.width > c.least && (widest == nil || c.width > widest.width) {
				widest = c
			}
		}
		if widest == nil {
			break
		}
		widest.width--
		total--
	}
	s.row(columns, func(c *column) string { return c.head }, bold)
	for i := range list {
		s.row(columns, func(c *column) string { return c.cells[i] }, "")
	}
}

func (s *screen) row(columns []*column, cell func(*column) string, p paint) {
	var cells []string
	for _, c := range columns {
		text := fill(cell(c), c.width)
		if c.right {
			text = fillLeft(cell(c), c.width)
		}
		cells = append(cells, text)
	}
	line := strings.TrimRight(strings.Join(cells, " "), " ")
	if p != "" {
		line = s.paint(p, line)
	}
	fmt.Fprintln(s.out, line)
}

func runColumns(s *screen, list []listed, now time.Time) []*column {
	started := &column{head: "TIME"}
	id := &column{head: "RUN"}
	model := &column{head: "MODEL", least: 8}
	stop := &column{head: "STOP", least: 9}
	steps := &column{head: "STEPS", right: true}
	tools := &column{head: "TOOLS", least: 8}
	tokens := &column{head: "TOKENS", right: true}
	cost := &column{head: "COST", right: true}
	ms := &column{head: "MS", right: true}
	paid := false
	for _, r := range list {
		started.cells = append(started.cells, clock(r.Started, now))
		id.cells = append(id.cells, s.id(r.ID))
		model.cells = append(model.cells, plain(r.Model))
		stop.cells = append(stop.cells, plain(r.Stop))
		steps.cells = append(steps.cells, strconv.Itoa(r.Steps))
		tools.cells = append(tools.cells, toolsOf(r.Summary))
		tokens.cells = append(tokens.cells, strconv.FormatInt(r.Prompt+r.Output, 10))
		cost.cells = append(cost.cells, money(r.Cost))
		ms.cells = append(ms.cells, strconv.FormatInt(r.MS, 10))
		paid = paid || r.Cost > 0
	}
	columns := []*column{started, id, model, stop, steps, tools, tokens, cost, ms}
	if !paid && s.width > 0 { // its place is worth more than a column of nothing
		columns = append(columns[:7], ms)
	}
	return columns
}

// toolsOf says which tools a run has called, and how many of the calls failed.
func toolsOf(r trace.Summary) string {
	if r.Calls == 0 {
		return "-"
	}
	text := plain(strings.Join(r.Tools, ","))
	if r.Failed > 0 {
		return fmt.Sprintf("%d failed: %s", r.Failed, text)
	}
	return text
}

// clock is a time in the day, and the day where it is another one.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if now.Sub(t) < 12*time.Hour || t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format("Jan 02 15:04")
}

// money is a cost with three digits that say something.
func money(cost float64) string {
	if cost == 0 {
		return "-"
	}
	if rounded, err := strconv.ParseFloat(strconv.FormatFloat(cost, 'g', 3, 64), 64); err == nil {
		cost = rounded
	}
	return strconv.FormatFloat(cost, 'f', -1, 64)
}

// shortID is how many characters of an id tell runs apart: 40 random bits.
const shortID = 8

// id is that of a run, on a terminal as short as gateway runs show takes it.
func (s *screen) id(id string) string {
	if id = plain(id); s.width > 0 && len(id) > shortID {
		return id[len(id)-shortID:]
	}
	return id
}

// maxSearched is among how many runs the end of an id is looked for.
const maxSearched = 2000

// find is the id of the run that is meant by an id or by the end of one.
func (c *client) find(ctx context.Context, given string) (string, error) {
	if strings.HasPrefix(given, "run_") {
		if err := (&trace.Query{Before: given}).Check(); err != nil {
			return "", usageError{fmt.Errorf("%q is no id of a run: %w", given, err)}
		}
		return given, nil
	}
	if len(given) < 4 {
		return "", usageError{fmt.Errorf("%q is no id of a run: %w, or at least its last 4 characters", given, trace.ErrBadID)}
	}
	list, _, err := c.runs(ctx, runQuery{limit: maxSearched})
	if err != nil {
		return "", err
	}
	var found []string
	for _, r := range list {
		if strings.HasSuffix(r.ID, strings.ToUpper(given)) {
			found = append(found, r.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no run at %s whose id ends in %s, or it is no longer kept; gateway runs lists those that are there", c.base, plain(given))
	case 1:
		return found[0], nil
	}
	return "", usageError{fmt.Errorf("several runs end in %s: %s", given, strings.Join(found, ", "))}
}

func runsShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one run: each model call and tool call over its time",
		Long: `Show one run: each model call and tool call over its time, with its outcome.

Arguments and results of tool calls are there where the gateway keeps them, which trace.content says. The id is that of
the header X-Gateway-Trace and of gateway runs; its last characters are enough.`,
		Example: "  gateway runs show run_01J8Z3K2M4N5P6Q7R8S9T0V1W2\n  gateway runs show T0V1W2 --full",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("want the id of one run: gateway runs show ID; gateway runs lists them")}
			}
			return nil
		},
	}
	at := gatewayFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the record as the gateway has it")
	full := cmd.Flags().Bool("full", false, "print long arguments and results whole")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := at.client()
		if err != nil {
			return err
		}
		id, err := c.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var raw json.RawMessage
		err = c.get(cmd.Context(), "/gateway/runs/"+url.PathEscape(id), nil, &raw)
		if e, ok := errors.AsType[*replyError](err); ok && e.Code == "run_not_found" {
			return fmt.Errorf("there is no run %s at %s that this key may see, or it is no longer kept; gateway runs lists those that are there", id, c.base)
		}
		if err != nil {
			return err
		}
		if *asJSON {
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			return e.Encode(raw)
		}
		run := &trace.Run{}
		if err := json.Unmarshal(raw, run); err != nil {
			return fmt.Errorf("the gateway at %s has another form of runs than this command: %w", c.base, err)
		}
		printRun(newScreen(cmd.OutOrStdout()), run, *full)
		return nil
	}
	return cmd
}
