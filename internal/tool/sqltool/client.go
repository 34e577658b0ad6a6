// Package sqltool is the tools that run one SQL statement on a database of the configuration: SQLite or PostgreSQL.
package sqltool

import (
	"context"
	"errors"
	"strings"

	"github.com/toolgate/toolgate/internal/tool"
)

// plan is what the configuration says of a call. It is immutable.
type plan struct {
	sql     string   // with the database's own parameters
	names   []string // of what is bound to them
	write   bool
	counts  bool // the number of changed rows means something
	maxRows int
	format  string
}

// client is the tool.
type client struct {
	plan     *plan
	dbs      *Databases
	database string
}

// Call runs the statement in a transaction of its own, within the deadline of ctx.
func (t *client) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	args, err := values(t.plan.names, c)
	if err != nil {
		return tool.Result{}, &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: err}
	}
	if c.Tell != nil {
		c.Tell(t.plan.told(args)...)
	}
	db, err := t.dbs.engine(t.database) //nolint:contextcheck // a pool outlives the call that opens it
	if err != nil {
		return tool.Result{}, failure(ctx, err)
	}
	r, err := db.run(ctx, t.plan, args)
	if err != nil {
		return tool.Result{}, failure(ctx, err)
	}
	return tool.Result{Text: r.text(t.plan)}, nil
}

// told is the statement and what is bound to it, for a person.
func (p *plan) told(args []any) []string {
	lines := strings.Split(strings.TrimSpace(p.sql), "\n")
	for i, name := range p.names {
		lines = append(lines, ":"+name+" = "+string(tool.EncodeJSON(args[i])))
	}
	return lines
}

// maxResult is how many bytes of values are read of one result.
const maxResult = 4 << 20

var errTooLarge = errors.New("the result is over 4 MiB")

// result is what came of a statement.
type result struct {
	columns []string // nil where the statement gives no rows, whatever it finds
	rows    [][]string
	more    bool // rows were left out
	changed int64
}

// full says whether the rows that the model may read are there, and notes when one more was found.
func (r *result) full(p *plan) bool {
	if len(r.rows) < p.maxRows {
		return false
	}
	r.more = true
	return true
}
