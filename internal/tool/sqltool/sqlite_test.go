package sqltool

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestSQLiteResults(t *testing.T) {
	d := newSQLite(t, `
		CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, at DATETIME, day DATE, ok BOOLEAN, data BLOB, extra JSON, ratio REAL, price NUMERIC);
		INSERT INTO t VALUES
			(1, 'Ana', '2026-01-02 03:04:05', '2026-01-02', 1, x'00ff', '{"a": [1, 2]}', 1.5, 12.50),
			(2, NULL, '2026-01-02T03:04:05.6-03:00', '2026-01-02 10:00:00', 0, x'6869', 'none', 9e999, 9223372036854775807),
			(3, 'a|b <&> "c"', 'soon', NULL, 5, NULL, NULL, -0.0, 'many');
		CREATE VIRTUAL TABLE docs USING fts5(body);
		INSERT INTO docs VALUES ('the quick brown fox'), ('a lazy dog');`)
	tests := []struct{ name, query, args, want string }{
		{"types", "SELECT * FROM t WHERE id = 1", `{}`, `[{"id":1,"name":"Ana","at":"2026-01-02T03:04:05Z","day":"2026-01-02","ok":true,"data":"base64:AP8=","extra":{"a":[1,2]},"ratio":1.5,"price":12.5}]`},
		{"types that hold something else", "SELECT * FROM t WHERE id = 2", `{}`, `[{"id":2,"name":null,"at":"2026-01-02T03:04:05.6-03:00","day":"2026-01-02T10:00:00Z","ok":false,"data":"hi","extra":"none","ratio":"Infinity","price":9223372036854775807}]`},
		{"texts where others are declared", "SELECT at, ok, price, name FROM t WHERE id = 3", `{}`, `[{"at":"soon","ok":5,"price":"many","name":"a|b <&> \"c\""}]`},
		{"no rows", "SELECT * FROM t WHERE id = :id", `{"id": 99}`, "no rows match"},
		{"an argument that is absent is NULL", "SELECT count(*) AS n FROM t WHERE (:name IS NULL OR name = :name)", `{"name": null}`, `[{"n":3}]`},
		{"an argument that is there", "SELECT count(*) AS n FROM t WHERE (:name IS NULL OR name = :name)", `{"name": "Ana"}`, `[{"n":1}]`},
		{"a large number", "SELECT :n AS n", `{"n": 9007199254740993}`, `[{"n":9007199254740993}]`},
		{"arguments of all kinds", "SELECT :s AS s, :i + 1 AS i, :f AS f, :b AS b, :z AS z", `{"s": "x'; DROP TABLE t; --", "i": 41, "f": 1.5, "b": true, "z": null}`, `[{"s":"x'; DROP TABLE t; --","i":42,"f":1.5,"b":1,"z":null}]`},
		{"a list", "SELECT id FROM t WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id DESC", `{"ids": [1, 3]}`, `[{"id":3},{"id":1}]`},
		{"an object", "SELECT json_extract(:o, '$.a.b') AS v", `{"o": {"a": {"b": 7}}}`, `[{"v":7}]`},
		{"literals with colons stay", "SELECT ':s' AS a, \"id\" AS b, [id] AS c, '--:s' AS d /* :s */ FROM t WHERE :s = 'x' AND id = 1 -- :s", `{"s": "x"}`, `[{"a":":s","b":1,"c":1,"d":"--:s"}]`},
		{"the order stays", "SELECT id FROM t ORDER BY id DESC", `{}`, `[{"id":3},{"id":2},{"id":1}]`},
		{"a union that is ordered", "SELECT 1 AS n UNION SELECT 3 UNION SELECT 2 ORDER BY n DESC LIMIT 2;", `{}`, `[{"n":3},{"n":2}]`},
		{"a name twice", "SELECT 1 AS a, 2 AS a", `{}`, `[{"a":1,"a:1":2}]`},
		{"values", "VALUES (1, 'x')", `{}`, `[{"column1":1,"column2":"x"}]`},
		{"full-text search", "SELECT body FROM docs WHERE docs MATCH :q", `{"q": "quick"}`, `[{"body":"the quick brown fox"}]`},
		{"the schema may be read", "SELECT name, type FROM pragma_table_info('t') LIMIT 1", `{}`, `[{"name":"id","type":"INTEGER"}]`},
		{"a query that recurses", "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 50) SELECT x FROM c WHERE x <= :n", `{"n": 2}`, `[{"x":1},{"x":2}]`},
		{"fields of the caller", "SELECT :caller.id AS id, :caller.level + 1 AS level", `{}`, `[{"id":"ana","level":3}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := d.ask(t, tt.query, tt.args)
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestSQLiteWrites(t *testing.T) {
	d := newSQLite(t, `
		CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, key TEXT);
		CREATE TABLE child (t INTEGER REFERENCES t(id));`)
	steps := []struct{ name, query, args, want string }{
		{"one row", "INSERT INTO t (name, key) VALUES (:name, :idempotency_key)", `{"name": "Ana"}`, "1 row affected"},
		{"the key is the gateway's", "SELECT key FROM t", `{}`, `[{"key":null}]`},
		{"rows that come back", "INSERT INTO t (name) VALUES (:a), (:b) RETURNING id, name", `{"a": "Bea", "b": "Cid"}`, `[{"id":2,"name":"Bea"},{"id":3,"name":"Cid"}]`},
		{"several rows", "UPDATE t SET key = 'k' WHERE id > :n", `{"n": 1}`, "2 rows affected"},
		{"none", "DELETE FROM t WHERE id = :n", `{"n": 99}`, "0 rows affected"},
		{"none that come back", "DELETE FROM t WHERE id = :n RETURNING id", `{"n": 99}`, "no rows match"},
		{"behind a WITH", "WITH x AS (SELECT max(id) AS id FROM t) DELETE FROM t WHERE id = (SELECT id FROM x)", `{}`, "1 row affected"},
		{"what counts nothing", "CREATE TABLE u (a)", `{}`, "done"},
		{"it is all there", "SELECT count(*) AS n FROM t", `{}`, `[{"n":2}]`},
	}
	for _, tt := range steps {
		got, err := d.ask(t, tt.query, tt.args)
		if err != nil || got != tt.want {
			t.Errorf("%s: got %s, %v\nwant %s", tt.name, got, err, tt.want)
		}
	}
	before := d.dump(t)
	for name, query := range map[string]string{
		"a value that is there already": "INSERT INTO t (name) VALUES ('Zoe'), ('Ana')",
		"a parent that is not there":    "INSERT INTO child VALUES (99)",
	} {
		_, err := d.ask(t, query, `{}`)
		wantError(t, err, tool.Failed, TypeSQL)
		if d.dump(t) != before {
			t.Errorf("%s changed something", name)
		}
	}
}

func TestTheKeyOfAWriteIsBound(t *testing.T) {
	d := newSQLite(t, "CREATE TABLE t (key TEXT)")
	made := d.newTool(t, `query: "INSERT INTO t VALUES (:idempotency_key) RETURNING key"`, spec(tool.Write))
	if got, err := call(t, made, tool.Call{IdempotencyKey: "tg_1"}); err != nil || got != `[{"key":"tg_1"}]` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestACallerWithoutAFieldIsRefused(t *testing.T) {
	d := newSQLite(t, "")
	made := d.newTool(t, `query: "SELECT :caller.team"`, spec(tool.Read))
	_, err := call(t, made, tool.Call{Caller: map[string]any{"id": "ana"}})
	wantError(t, err, tool.Failed, tool.TypeInternal)
}

func TestRowsAreCounted(t *testing.T) {
	const list = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < :n) SELECT x FROM c"
	lite, pg := newSQLite(t, "CREATE TABLE t (x INTEGER)"), newPostgres(t, "CREATE TABLE t (x INTEGER)")
	for _, d := range []*database{lite, pg} {
		t.Run(d.name, func(t *testing.T) {
			exact := d.newTool(t, fmt.Sprintf("max_rows: 3, query: %q", list), spec(tool.Read, "n"))
			table := d.newTool(t, fmt.Sprintf("max_rows: 1, format: table, query: %q", list), spec(tool.Read, "n"))
			insert := d.newTool(t, fmt.Sprintf("max_rows: 2, query: %q", "INSERT INTO t "+list+" RETURNING x"), spec(tool.Write, "n"))
			limited := d.newTool(t, fmt.Sprintf("max_rows: 3, query: %q", list+" LIMIT 2"), spec(tool.Read, "n"))
			for _, tt := range []struct {
				made tool.Tool
				n    string
				want string
			}{
				{exact, `{"n": 2}`, `[{"x":1},{"x":2}]`},
				{exact, `{"n": 3}`, `[{"x":1},{"x":2},{"x":3}]`},
				{exact, `{"n": 4}`, "[{\"x\":1},{\"x\":2},{\"x\":3}]\n[more rows: only the first 3 are shown]"},
				{exact, `{"n": 100000000}`, "[{\"x\":1},{\"x\":2},{\"x\":3}]\n[more rows: only the first 3 are shown]"},
				{limited, `{"n": 9}`, `[{"x":1},{"x":2}]`},
				{table, `{"n": 1}`, "| x   |\n|-----|\n| 1   |"},
				{table, `{"n": 2}`, "| x   |\n|-----|\n| 1   |\n[more rows: only the first is shown]"},
				{insert, `{"n": 30}`, "[{\"x\":1},{\"x\":2}]\n[more rows: only the first 2 are shown]"},
			} {
				if got, err := call(t, tt.made, tool.Call{Args: args(t, tt.n)}); err != nil || got != tt.want {
					t.Errorf("n %s: got %s, %v\nwant %s", tt.n, got, err, tt.want)
				}
			}
			if got, err := d.ask(t, "SELECT count(*) AS n FROM t", `{}`); got != `[{"n":30}]` {
				t.Errorf("of 30 rows written there are %s, %v", got, err)
			}
		})
	}
}

func TestALargeResultIsRefused(t *testing.T) {
	for _, tt := range []struct {
		d     *database
		query string
	}{
		{newSQLite(t, ""), "SELECT printf('%.*c', 3000000, 'x') AS a UNION ALL SELECT printf('%.*c', 3000000, 'y')"},
		{newPostgres(t, ""), "SELECT repeat('x', 3000000) AS a UNION ALL SELECT repeat('y', 3000000)"},
	} {
		_, err := tt.d.ask(t, tt.query, `{}`)
		wantError(t, err, tool.InvalidResult, tool.TypeDecode)
	}
	_, err := newSQLite(t, "").ask(t, "SELECT length(zeroblob(:n)) AS n", `{"n": 900000000}`)
	wantError(t, err, tool.Failed, TypeSQL)
}

func TestSQLiteFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(path string) *database { return newDatabase(t, "sqlite", "sqlite:"+filepath.Join(dir, path)) }

	t.Run("an empty file is an empty database", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "empty.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := at("empty.db").ask(t, "SELECT 1 AS n", `{}`); err != nil || got != `[{"n":1}]` {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("a file with signs of an address", func(t *testing.T) {
		name := "a b%41&c=d;é'.db"
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d := at(name)
		if got, err := d.ask(t, "CREATE TABLE t (a)", `{}`); err != nil || got != "done" {
			t.Errorf("got %s, %v", got, err)
		}
		if err := d.dbs.Ping(t.Context(), "db"); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("another file was written: %v", err)
		}
	})
	t.Run("a file that is not there is not made", func(t *testing.T) {
		for _, query := range []string{"SELECT 1", "CREATE TABLE t (a)"} {
			d := at("missing.db")
			_, err := d.ask(t, query, `{}`)
			wantError(t, err, tool.Unavailable, tool.TypeConnect)
			if err := d.dbs.Ping(t.Context(), "db"); err == nil || !strings.HasSuffix(err.Error(), "there is no file "+filepath.Join(dir, "missing.db")) {
				t.Errorf("Ping() = %v, want it to name the file", err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "missing.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file is there: %v", err)
		}
	})
	t.Run("a file that is no database", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "text.db"), []byte(strings.Repeat("no database\n", 200)), 0o600); err != nil {
			t.Fatal(err)
		}
		d := at("text.db")
		_, err := d.ask(t, "SELECT * FROM sqlite_schema", `{}`)
		wantError(t, err, tool.Failed, TypeSQL)
		if err := d.dbs.Ping(t.Context(), "db"); err == nil {
			t.Error("Ping() is no error")
		}
	})
	t.Run("a write-ahead log that another left", func(t *testing.T) {
		d := newSQLite(t, "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
		if got, err := d.ask(t, "SELECT a FROM t", `{}`); err != nil || got != `[{"a":1}]` {
			t.Errorf("got %s, %v", got, err)
		}
		if got, err := d.ask(t, "INSERT INTO t VALUES (2)", `{}`); err != nil || got != "1 row affected" {
			t.Errorf("got %s, %v", got, err)
		}
		if got, err := d.ask(t, "SELECT a FROM t", `{}`); err != nil || got != `[{"a":1},{"a":2}]` {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

// lock takes the write lock of a file, and a read is shut out too, until the function is called.
func lock(t *testing.T, d *database) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(d.url, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		conn.Close()
		db.Close()
	})
}

func TestSQLiteTime(t *testing.T) {
	d := newSQLite(t, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	const forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
	for name, query := range map[string]string{
		"before the first row":  forever + "SELECT x FROM c WHERE x < 0",
		"before the second row": forever + "SELECT x FROM c WHERE x = 1 OR x < 0",
		"in a sum":              forever + "SELECT sum(x) FROM c",
		"in a write":            forever + "INSERT INTO t SELECT x FROM c",
		"in what comes back":    "INSERT INTO t VALUES (2) RETURNING (" + forever + "SELECT sum(x) FROM c)",
	} {
		t.Run(name, func(t *testing.T) {
			before := d.dump(t)
			made := d.newTool(t, fmt.Sprintf("query: %q", query), spec(""))
			wantTimeout(t, made, 150*time.Millisecond)
			if got, err := d.ask(t, "SELECT a FROM t", `{}`); err != nil || got != `[{"a":1}]` {
				t.Errorf("afterwards: %s, %v", got, err)
			}
			if d.dump(t) != before {
				t.Error("something was written")
			}
		})
	}
}

// wantTimeout calls a tool that can't come to an end.
func wantTimeout(t *testing.T, made tool.Tool, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	start := time.Now()
	_, err := made.Call(ctx, tool.Call{})
	wantError(t, err, tool.Timeout, tool.TypeTimeout)
	if took := time.Since(start); took > within+5*time.Second { // other tests may hold up the machine
		t.Errorf("it took %s", took)
	}
}

func TestSQLiteWaitsForALock(t *testing.T) {
	d := newSQLite(t, "CREATE TABLE t (a)")
	read := d.newTool(t, `query: "SELECT a FROM t"`, spec(tool.Read))
	write := d.newTool(t, `query: "INSERT INTO t VALUES (1)"`, spec(tool.Write))
	unlock := lock(t, d)
	defer unlock()
	wantTimeout(t, read, 100*time.Millisecond)
	wantTimeout(t, write, 100*time.Millisecond)

	done := make(chan error, 2)
	for _, made := range []tool.Tool{write, read} {
		go func() {
			_, err := made.Call(t.Context(), tool.Call{})
			done <- err
		}()
	}
	unlock()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestSQLiteAtOnce(t *testing.T) {
	d := newSQLite(t, "CREATE TABLE t (a)")
	read := d.newTool(t, `query: "SELECT count(*) AS n FROM t"`, spec(tool.Read))
	write := d.newTool(t, `query: "INSERT INTO t VALUES (:a)"`, spec(tool.Write, "a"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5 {
				if _, err := call(t, write, tool.Call{Args: map[string]any{"a": "x"}}); err != nil {
					t.Error(err)
				}
				if _, err := call(t, read, tool.Call{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got, err := call(t, read, tool.Call{}); err != nil || got != `[{"n":40}]` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestClosedDatabases(t *testing.T) {
	d := newSQLite(t, "")
	made := d.newTool(t, "query: SELECT 1", spec(tool.Read))
	for range 2 {
		if err := d.dbs.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := call(t, made, tool.Call{})
	wantError(t, err, tool.Unavailable, tool.TypeConnect)
}

// FuzzArgument: whatever the model writes, it comes back as the same text and does nothing else.
func FuzzArgument(f *testing.F) {
	d := newSQLite(f, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	before := d.dump(f)
	made := d.newTool(f, `query: "SELECT :q AS q FROM t WHERE ':q' <> :q"`, spec(tool.Read, "q"))
	for _, q := range []string{"", "'; DROP TABLE t; --", "\x00", "é\n", "?1", `\'`} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		q = strings.ToValidUTF8(q, "?") // JSON has nothing else
		got, err := made.Call(t.Context(), tool.Call{Args: map[string]any{"q": q}})
		want := `[{"q":` + jsonText(q) + `}]`
		if q == ":q" {
			want = noRows
		}
		if strings.Contains(q, "\x00") {
			wantError(t, err, tool.Failed, TypeSQL)
		} else if err != nil || got.Text != want {
			t.Errorf("%q comes back as %s, %v", q, got.Text, err)
		}
		if d.dump(t) != before {
			t.Errorf("%q changed the database", q)
		}
	})
}
