package sqltool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `sql` kind of tool, on the databases of the same file.
func Kind(dbs *Databases) tool.Kind {
	return tool.Kind{Name: "sql", Doc: "A statement in a database.", New: func() tool.Config { return &Config{dbs: dbs} }}
}

// Config is the `sql` part of a tool.
type Config struct {
	Database string `yaml:"database" doc:"the name of one under databases"`
	Query    string `yaml:"query" doc:"one statement; :name is an argument, :caller.name a field of the caller, also :idempotency_key; all of them are bound, never put into the text; an argument that is absent is NULL"`
	MaxRows  int    `yaml:"max_rows" min:"1" doc:"rows that the model reads; it is told when there are more"`
	Format   string `yaml:"format" enum:"json,table" doc:"json: a list of objects; table: a table in Markdown"`

	dbs  *Databases
	plan *plan // made by Check
}

// SetDefaults sets what the file need not say.
func (c *Config) SetDefaults() {
	c.MaxRows = 20
	c.Format = formatJSON
}

// parse reads the query in the dialect of the database.
func (c *Config) parse() (*statement, error) {
	return parse(c.Query, c.dbs.dialect(c.Database))
}

// DefaultEffect is Read where nothing in the statement is seen to write.
func (c *Config) DefaultEffect() tool.Effect {
	s, err := c.parse()
	if err != nil {
		return tool.Write
	}
	return s.effect()
}

// Hosts are the hosts of the database, none for SQLite.
func (c *Config) Hosts() []string { return c.dbs.hosts(c.Database) }

// SharedBreaker is the name of the breaker that all tools of the database share.
func (c *Config) SharedBreaker() string { return "database:" + c.Database }

// CallerFields are the fields of the caller that the query binds, sorted. They are known after Check.
func (c *Config) CallerFields() []string {
	if c.plan == nil {
		return nil
	}
	return callerFields(c.plan.names)
}

// Check reads the query and reports what can't work.
func (c *Config) Check(n *config.Node, s tool.Spec) {
	c.checkDatabase(n)
	if strings.TrimSpace(c.Query) == "" {
		n.FailKey("query", "is required")
		return
	}
	query := n.Get("query")
	statement, err := c.parse()
	if err != nil {
		query.Fail("%v", err)
		return
	}
	sql, names := statement.bind()
	for _, fault := range append(statement.check(s.Effect), checkNames(names, s.Params)...) {
		query.Fail("%s", fault)
	}
	if taken := takesSQL(names, s); taken != "" {
		n.FailKey("query", "takes nothing of the call, and the tool has a parameter %q: SQL of a model's own is never run; write the query and bind its values as :name", taken)
	}
	warnUnused(n, names, s)
	c.plan = &plan{
		names:   names,
		write:   s.Effect == tool.Write,
		counts:  statement.counts(),
		maxRows: c.MaxRows,
		format:  c.Format,
		sql:     sql,
	}
	// A function that a SELECT calls for its effect has to be called for every row.
	if s.Effect == tool.Read || statement.dialect == sqlite {
		c.plan.sql = statement.limited(sql, c.MaxRows+1)
	}
}

// takesSQL is the parameter of a tool that looks as if a model were to write the query itself, "" without one.
func takesSQL(names []string, s tool.Spec) string {
	if len(names) > 0 {
		return ""
	}
	for _, name := range []string{"sql", "query", "statement", "where"} {
		if s.Has(name) {
			return name
		}
	}
	return ""
}

func (c *Config) checkDatabase(n *config.Node) {
	known := c.dbs.Names()
	switch {
	case c.Database == "":
		n.FailKey("database", "is required")
	case slices.Contains(known, c.Database):
	case len(known) == 0:
		n.Get("database").Fail("no database %q: the file has none; add databases: {%s: {url: \"sqlite:./FILE.db\"}}", c.Database, c.Database)
	default:
		message := fmt.Sprintf("no database %q", c.Database)
		if near := suggest.Nearest(c.Database, known, 1); len(near) > 0 {
			message += fmt.Sprintf(": did you mean %q?", near[0])
		} else {
			message += ": there are " + strings.Join(known, ", ")
		}
		n.Get("database").Fail("%s", message)
	}
}

// warnUnused tells of parameters that never reach the database, and of a key that no call has.
func warnUnused(n *config.Node, names []string, s tool.Spec) {
	params := make([]string, 0, len(s.Params))
	for name := range s.Params {
		params = append(params, name)
	}
	slices.Sort(params)
	for _, name := range params {
		switch {
		case name == idempotencyKey:
			n.Warn("parameter %q is not used: :%s is the gateway's own", name, name)
		case !slices.Contains(names, name):
			n.Warn("parameter %q is not used: :%s stands nowhere in the query", name, name)
		}
	}
	if s.Effect == tool.Read && slices.Contains(names, idempotencyKey) {
		n.Get("query").Warn(":%s is always NULL: the tool's effect is read", idempotencyKey)
	}
}

// Build makes the tool. The database is opened by the first call.
func (c *Config) Build(tool.Spec, tool.Env) (tool.Tool, error) {
	if c.plan == nil {
		return nil, errors.New("sqltool: Build before Check")
	}
	return &client{plan: c.plan, dbs: c.dbs, database: c.Database}, nil
}
