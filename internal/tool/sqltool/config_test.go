package sqltool

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// twoDatabases is the beginning of a file in which the tool's part stands in the second line.
const twoDatabases = `databases: {shop: {url: "sqlite:./shop.db"}, crm: {url: "postgres://svc:s3cret-pass@crm.example.com:5433/crm"}}` + "\n"

func TestFaultsOfTheFile(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string // each a part of one problem, in order
	}{
		{"nothing", `{}`, []string{"2:6: sql.database: is required", "2:6: sql.query: is required"}},
		{"an unknown database", `{database: shpo, query: SELECT 1}`, []string{`2:17: sql.database: no database "shpo": did you mean "shop"?`}},
		{"an unknown database that is like none", `{database: x, query: SELECT 1}`, []string{`no database "x": there are shop, crm`}},
		{"an unknown parameter", `{database: shop, query: "SELECT :idd, :id, ':xx'"}`, []string{"2:30: sql.query: :idd names no parameter: did you mean :id?"}},
		{"an unknown parameter is told of once", `{database: shop, query: "SELECT :zzz, :zzz"}`, []string{":zzz names no parameter"}},
		{"a caller without a field", `{database: shop, query: "SELECT :caller"}`, []string{":caller: want :caller.NAME"}},
		{"a mistyped key of ours", `{database: shop, query: "UPDATE t SET k = :idempotencykey"}`, []string{"did you mean :idempotency_key?"}},
		{"two statements", `{database: shop, query: "SELECT 1; SELECT 2"}`, []string{"2:30: sql.query: want exactly one statement"}},
		{"two statements behind a comment", `{database: crm, query: "SELECT 1 /* ; */; DELETE FROM t"}`, []string{"want exactly one statement"}},
		{"a quote without an end", `{database: shop, query: "SELECT 'a"}`, []string{"a quote has no end"}},
		{"parentheses that reach out of ours", `{database: shop, query: "SELECT 1) UNION SELECT * FROM (SELECT 2"}`, []string{"the parentheses don't match"}},
		{"parameters of the database's own", `{database: crm, query: "SELECT $1"}`, []string{"$1: want :name"}},
		{"parameters of SQLite", `{database: shop, query: "SELECT ?, @a, :id"}`, []string{"?: want :name", "@a: want :name"}},
		{"ATTACH", `{database: shop, query: "ATTACH :id AS x"}`, []string{"ATTACH is not for a tool"}},
		{"PRAGMA", `{database: shop, query: "PRAGMA journal_mode = OFF"}`, []string{"PRAGMA is not for a tool"}},
		{"VACUUM", `{database: shop, query: "VACUUM INTO 'copy.db'"}`, []string{"VACUUM is not for a tool"}},
		{"COPY", `{database: crm, query: "COPY t TO PROGRAM 'sh'"}`, []string{"COPY is not for a tool"}},
		{"COMMIT", `{database: crm, query: "COMMIT"}`, []string{"COMMIT is not for a tool"}},
		{"SET", `{database: crm, query: "SET ROLE postgres"}`, []string{"SET is not for a tool"}},
		{"another format", `{database: shop, query: SELECT 1, format: csv}`, []string{"want one of json, table"}},
		{"no rows", `{database: shop, query: SELECT 1, max_rows: 0}`, []string{"want 1 or more"}},
		{"an unknown key", `{database: shop, query: SELECT 1, limit: 3}`, []string{`unknown key "limit"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, f := load(twoDatabases+"sql: "+tt.yaml, "", spec("", "id"))
			wantProblems(t, f, tt.want)
		})
	}
}

func wantProblems(t *testing.T, f *config.File, want []string) {
	t.Helper()
	got := f.Problems()
	if len(got) != len(want) {
		t.Fatalf("problems\n%v\nwant %d", got, len(want))
	}
	for i, p := range got {
		if !strings.Contains(p.String(), want[i]) {
			t.Errorf("problem %q, want it to say %q", p, want[i])
		}
	}
}

func TestAReadToolThatWritesIsAFault(t *testing.T) {
	for query, want := range map[string]string{
		"DELETE FROM t": "writes (DELETE)",
		"WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d": "writes (DELETE)",
		"WITH x AS (SELECT 1) UPDATE t SET a = 1":               "writes (UPDATE)",
		"SELECT nextval('s')":                                   "writes (nextval())",
		"SELECT * INTO u FROM t":                                "writes (SELECT INTO)",
		"CREATE TABLE t (a int)":                                "writes (CREATE)",
	} {
		_, f := load(twoDatabases+`sql: {database: crm, query: "`+query+`"}`, "", spec(tool.Read))
		wantProblems(t, f, []string{"2:29: sql.query: the statement " + want + ", but the tool's effect is read"})
		if _, f := load(twoDatabases+`sql: {database: crm, query: "`+query+`"}`, "", spec("")); f.Problems() != nil {
			t.Errorf("%s with its default effect: %v", query, f.Problems())
		}
	}
}

func TestFaultsOfDatabases(t *testing.T) {
	tests := []struct {
		name, entry string
		want        []string
	}{
		{"no url", `{}`, []string{"databases.db.url: is required"}},
		{"another kind", `{url: "mysql://u:hunter22@h/x"}`, []string{"want an address that begins with sqlite: or postgres://"}},
		{"no path", `{url: "sqlite:"}`, []string{"want the path of a file behind the colon"}},
		{"a folder", `{url: "sqlite:./data/"}`, []string{"want the path of a file behind the colon"}},
		{"a database in memory", `{url: "sqlite::memory:"}`, []string{"a database in memory of its own"}},
		{"options", `{url: "sqlite:shop.db?mode=rwc&_pragma=x"}`, []string{"want sqlite:PATH without options"}},
		{"a password that cuts the address", `{url: "postgres://svc:hunter22/x@h:5432/db"}`, []string{"want postgres://USER:PASSWORD@HOST:PORT/NAME"}},
		{"a bad option", `{url: "postgres://svc:hunter22@h/db?sslmode=hunter22"}`, []string{"databases.db.url: the address is not valid"}},
		{"a bad option that is told of", `{url: "postgres://svc:hunter22@h/db?sslmode=maybe"}`, []string{"sslmode"}},
		{"no connections", `{url: "sqlite:a.db", max_conns: 0}`, []string{"want 1 or more"}},
		{"too many connections", `{url: "sqlite:a.db", max_conns: 99999999999}`, []string{"want a whole number from"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, f := load("databases: {db: "+tt.entry+"}\nsql: {database: db, query: SELECT 1}", "", spec(""))
			wantProblems(t, f, tt.want)
			if text := f.Problems().Error(); strings.Contains(text, "hunter") {
				t.Errorf("problems repeat a password: %s", text)
			}
		})
	}
}

func TestWhatOthersAskOfAConfig(t *testing.T) {
	c, f := load(twoDatabases+`sql: {database: crm, query: "SELECT :caller.level, :id, :caller.id, ':caller.x'"}`, "", spec("", "id"))
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	if got := c.DefaultEffect(); got != tool.Read {
		t.Errorf("DefaultEffect() = %s", got)
	}
	if diff := cmp.Diff([]string{"id", "level"}, c.CallerFields()); diff != "" {
		t.Errorf("CallerFields() (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"crm.example.com"}, c.Hosts()); diff != "" {
		t.Errorf("Hosts() (-want +got)\n%s", diff)
	}
	if got := c.SharedBreaker(); got != "database:crm" {
		t.Errorf("SharedBreaker() = %q", got)
	}
	if c.MaxRows != 20 || c.Format != "json" {
		t.Errorf("defaults %d, %s", c.MaxRows, c.Format)
	}
	var (
		_ tool.CallerNamer   = c
		_ tool.BreakerSharer = c
	)
}

func TestHostsOfAddresses(t *testing.T) {
	for address, want := range map[string][]string{
		"postgres://u@b.example:1,a.example:2/db": {"a.example", "b.example"},
		"postgresql:///db?host=/var/run/pg":       {},
		"sqlite:x.db":                             nil,
	} {
		c, f := load(`databases: {db: {url: "`+address+`"}}`+"\nsql: {database: db, query: SELECT 1}", "", spec(""))
		if p := f.Problems(); p != nil {
			t.Fatal(p)
		}
		if diff := cmp.Diff(want, c.Hosts()); diff != "" {
			t.Errorf("Hosts() of %s (-want +got)\n%s", address, diff)
		}
	}
}

func TestTheDialectIsTheDatabases(t *testing.T) {
	for _, tt := range []struct{ database, query string }{
		{"shop", "SELECT [:x] FROM t"}, // brackets are quotes in SQLite alone, dollars in PostgreSQL alone
		{"crm", "SELECT $$ :x $$"},
	} {
		if _, f := load(twoDatabases+`sql: {database: `+tt.database+`, query: "`+tt.query+`"}`, "", spec("")); f.Problems() != nil {
			t.Errorf("%s in %s: %v", tt.query, tt.database, f.Problems())
		}
	}
}

func TestWarnings(t *testing.T) {
	for yaml, want := range map[string]string{
		`{database: shop, query: "SELECT :a"}`:                              `parameter "b" is not used: :b stands nowhere in the query`,
		`{database: shop, query: "SELECT :a, :b, :idempotency_key"}`:        ":idempotency_key is always NULL",
		`{database: shop, query: "DELETE FROM t WHERE :a > :b"}`:            "",
		`{database: shop, query: "UPDATE t SET a=:a,k=:idempotency_key,b"}`: `parameter "b" is not used`,
	} {
		_, f := load(twoDatabases+"sql: "+yaml, "", spec("", "a", "b"))
		got := f.Warnings().Error()
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %q, want %q", yaml, got, want)
		}
	}
}

func TestAnAddressIsNeverShown(t *testing.T) {
	_, f := load(twoDatabases+`sql: {database: crm, query: SELECT 1}`, "", spec(""))
	secrets := strings.Join(f.Secrets(), "\n")
	if !strings.Contains(secrets, "s3cret-pass") {
		t.Errorf("Secrets() = %q", secrets)
	}
}

func TestPathsStartFromTheFilesFolder(t *testing.T) {
	dir := t.TempDir()
	for address, want := range map[string]string{
		"sqlite:./shop.db":        filepath.Join(dir, "shop.db"),
		"sqlite:a b/%41.db":       filepath.Join(dir, "a b", "%41.db"),
		"sqlite:///srv/shop.db":   "/srv/shop.db",
		"SQLite:/srv/shop.db":     "/srv/shop.db",
		"sqlite://../x/./shop.db": filepath.Join(filepath.Dir(dir), "x", "shop.db"),
	} {
		c, f := load(`databases: {db: {url: "`+address+`"}}`+"\nsql: {database: db, query: SELECT 1}", dir, spec(""))
		if p := f.Problems(); p != nil {
			t.Fatal(p)
		}
		if got := c.dbs.configs["db"].target.file; got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
}

func TestDatabasesOfAFileWithFaults(t *testing.T) {
	c, _ := load(`databases: {a: {}, b: {url: "nonsense"}, c: 5}`+"\nsql: {database: a, query: SELECT 1}", "", spec(""))
	if diff := cmp.Diff([]string{"a", "b", "c"}, c.dbs.Names()); diff != "" {
		t.Errorf("Names() (-want +got)\n%s", diff)
	}
	if err := c.dbs.Ping(context.Background(), "a"); err == nil {
		t.Error("Ping() of a database without an address is no error")
	}
	none := Kind(nil).New().(*Config)
	if none.Hosts() != nil || none.DefaultEffect() != tool.Write {
		t.Error("a kind without databases")
	}
	if _, err := none.Build(spec(""), tool.Env{}); err == nil {
		t.Error("Build() before Check is no error")
	}
}
