package sqltool

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		server.stop()
		os.Exit(code)
	}))
}

// document is the part of a file that concerns us.
type document struct {
	Databases config.Map[DatabaseConfig] `yaml:"databases"`
	SQL       *config.Node               `yaml:"sql"`
}

// spec is that of a tool with these parameters; one that ends in "?" is optional.
func spec(effect tool.Effect, params ...string) tool.Spec {
	s := tool.Spec{Name: "t", Effect: effect, Params: map[string]tool.Param{}}
	for _, name := range params {
		name, optional := strings.CutSuffix(name, "?")
		s.Params[name] = tool.Param{Optional: optional}
	}
	return s
}

// load decodes and checks a file with databases and one tool. An effect of "" is the tool's default.
func load(yaml, dir string, s tool.Spec) (*Config, *config.File) {
	f := config.Parse("f.yaml", dir, []byte(yaml), func(string) (string, bool) { return "", false })
	var d document
	f.Decode(&d)
	c := Kind(NewDatabases(d.Databases)).New().(*Config)
	d.SQL.Decode(c)
	if s.Effect == "" {
		s.Effect = c.DefaultEffect()
	}
	c.Check(d.SQL, s)
	return c, f
}

// database is a real database that tests share nothing of.
type database struct {
	name string
	url  string
	dbs  *Databases
	exec func(t testing.TB, script string) // as its owner, any statements
	dump func(t testing.TB) string         // everything in it
}

// newDatabase is a database at an address, its connections closed after the test.
func newDatabase(t testing.TB, name, url string) *database {
	t.Helper()
	c, f := load(fmt.Sprintf("databases: {db: {url: %q, max_conns: 2}}\nsql: {database: db, query: SELECT 1}", url), "", spec(""))
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	t.Cleanup(func() {
		if err := c.dbs.Close(); err != nil {
			t.Error(err)
		}
	})
	return &database{name: name, url: url, dbs: c.dbs}
}

// newTool makes a tool on a database of queries without faults.
func (d *database) newTool(t testing.TB, sqlPart string, s tool.Spec) tool.Tool {
	t.Helper()
	made, f := d.tryTool(t, sqlPart, s)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	return made
}

// tryTool makes a tool, nil where the file has faults.
func (d *database) tryTool(t testing.TB, sqlPart string, s tool.Spec) (tool.Tool, *config.File) {
	t.Helper()
	c, f := load(fmt.Sprintf("databases: {db: {url: %q}}\nsql: {database: db, %s}", d.url, sqlPart), "", s)
	if f.Problems() != nil {
		return nil, f
	}
	c.dbs = d.dbs
	made, err := c.Build(s, tool.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return made, f
}

// ask makes a tool of a query and calls it.
func (d *database) ask(t testing.TB, query, arguments string) (string, error) {
	t.Helper()
	c := tool.Call{Args: args(t, arguments), Caller: map[string]any{"id": "ana", "level": json.Number("2")}}
	var names []string
	for name := range c.Args {
		names = append(names, name)
	}
	made := d.newTool(t, fmt.Sprintf("query: %q", query), spec("", names...))
	return call(t, made, c)
}

// call calls a tool within a time that is enough.
func call(t testing.TB, made tool.Tool, c tool.Call) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := made.Call(ctx, c)
	return r.Text, err
}

// args reads arguments the way that the gateway does, numbers kept.
func args(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// newSQLite is a file with what the script makes. Its dump is its bytes and the names of what lies in its folder.
func newSQLite(t testing.TB, script string) *database {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "shop.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDatabase(t, "sqlite", "sqlite:"+path)
	d.exec = func(t testing.TB, script string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), script); err != nil {
			t.Fatal(err)
		}
	}
	d.dump = func(t testing.TB) string {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(entries) + string(data)
	}
	if script != "" {
		d.exec(t, script)
	}
	return d
}

// wantError fails unless err is of a class and a type and tells the model nothing more.
func wantError(t testing.TB, err error, class tool.Class, kind string) {
	t.Helper()
	e := tool.AsError(err)
	if err == nil || e.Class != class || e.Type != kind || e.Message != "" {
		t.Errorf("error %v, want %s (%s)", err, kind, class)
	}
}
