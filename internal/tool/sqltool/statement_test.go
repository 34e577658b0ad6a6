package sqltool

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestCountOfStatements(t *testing.T) {
	for query, want := range map[string]int{
		"":                                  0,
		" ; ":                               0,
		"SELECT 1":                          1,
		"SELECT 1;":                         1,
		"SELECT 1; SELECT 2":                2,
		"SELECT ';'; -- ; more\n":           1,
		"SELECT 'it''s;' /* ; /* ; */ ; */": 1,
		`SELECT ";" FROM "a;b"`:             1,
		"SELECT $$;$$, $x$ ; $$ $x$":        1,
		"SELECT $1; DROP TABLE t":           2,
		"-- only a comment":                 0,
		"SELECT 'open ;":                    1,
	} {
		tokens, _ := scan(query, postgres)
		if got := len(split(tokens)); got != want {
			t.Errorf("%q is %d statements, want %d", query, got, want)
		}
	}
}

func TestWhatAStatementDoes(t *testing.T) {
	tests := []struct {
		query  string
		verb   string
		writes string // what is seen to write
	}{
		{"select 1", "select", ""},
		{"-- a note\n/* and more */ SELECT 1 ; -- end", "SELECT", ""},
		{"; ;SELECT 1", "SELECT", ""},
		{"((SELECT 1) UNION (SELECT 2))", "SELECT", ""},
		{"VALUES (1), (2)", "VALUES", ""},
		{"TABLE t", "TABLE", ""},
		{"SHOW server_version", "SHOW", ""},
		{"EXPLAIN SELECT 1", "SELECT", ""},
		{"EXPLAIN QUERY PLAN SELECT 1", "SELECT", ""},
		{"EXPLAIN (FORMAT json, ANALYZE) WITH x AS (SELECT 1) SELECT * FROM x", "SELECT", ""},
		{"EXPLAIN (SELECT 1)", "SELECT", ""},
		{"WITH a AS (SELECT 1), b (x, y) AS NOT MATERIALIZED (SELECT 1, 2) SELECT * FROM a, b", "SELECT", ""},
		{"WITH RECURSIVE delete AS (SELECT 1), update(x) AS (SELECT 2) VALUES (1)", "VALUES", ""},
		{"WITH x AS (SELECT 1) (SELECT * FROM x)", "SELECT", ""},
		{"WITH a AS (SELECT 1) (WITH b AS (SELECT 2) SELECT 3)", "SELECT", ""},
		{"SELECT replace(a, 'x', 'y'), (replace(b, 'x', 'y')) FROM t", "SELECT", ""},
		{"SELECT x AS update, y AS delete FROM t WHERE (update) > 1 AND (delete) IS NULL", "SELECT", ""},
		{"SELECT 'DELETE FROM t', \"INSERT INTO\" /* DROP TABLE t */ FROM t -- INTO", "SELECT", ""},
		{"SELECT nextval FROM t WHERE setval = 1", "SELECT", ""},
		{"SELECT for_update, into_x FROM t", "SELECT", ""},

		{"INSERT INTO t VALUES (1)", "INSERT", "INSERT"},
		{"update t set a = 1", "update", "UPDATE"},
		{"DELETE FROM t RETURNING *", "DELETE", "DELETE"},
		{"REPLACE INTO t VALUES (1)", "REPLACE", "REPLACE"},
		{"MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", "MERGE", "MERGE"},
		{"CREATE TABLE x (a int)", "CREATE", "CREATE"},
		{"DROP TABLE t", "DROP", "DROP"},
		{"TRUNCATE t", "TRUNCATE", "TRUNCATE"},
		{"CALL p()", "CALL", "CALL"},
		{"DO $$ BEGIN DELETE FROM t; END $$", "DO", "DO"},
		{"ANALYZE", "ANALYZE", "ANALYZE"},
		{"/* SELECT */ DELETE FROM t", "DELETE", "DELETE"},
		{"-- SELECT\nDELETE FROM t", "DELETE", "DELETE"},
		{"EXPLAIN ANALYZE DELETE FROM t", "DELETE", "DELETE"},
		{"EXPLAIN (ANALYZE) UPDATE t SET a = 1", "UPDATE", "UPDATE"},
		{"WITH x AS (SELECT 1) DELETE FROM t", "DELETE", "DELETE"},
		{"WITH x AS (SELECT 1), y AS (SELECT 2) INSERT INTO t SELECT * FROM x", "INSERT", "INSERT"},
		{"WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d", "SELECT", "DELETE"},
		{"WITH d AS MATERIALIZED (\n/**/ insert into t VALUES (1) RETURNING *) SELECT * FROM d", "SELECT", "INSERT"},
		{"WITH d AS (UPDATE ONLY t SET a = 1 RETURNING *) SELECT * FROM d", "SELECT", "UPDATE"},
		{`WITH d AS (UPDATE "t" SET a = 1 RETURNING *) SELECT * FROM d`, "SELECT", "UPDATE"},
		{"WITH d AS (WITH e AS (SELECT 1) DELETE FROM t RETURNING *) SELECT * FROM d", "SELECT", "DELETE"},
		{"WITH d AS (INSERT OR REPLACE INTO t VALUES (1) RETURNING *) SELECT * FROM d", "SELECT", "INSERT"},
		{"SELECT * INTO copy FROM t", "SELECT", "SELECT INTO"},
		{"SELECT * FROM t FOR UPDATE", "SELECT", "FOR UPDATE"},
		{"SELECT * FROM t FOR no key update", "SELECT", "FOR NO"},
		{"SELECT nextval('s')", "SELECT", "nextval()"},
		{"SELECT * FROM (SELECT SetVal ('s', 1)) x", "SELECT", "setval()"},
		{"SELECT pg_catalog.pg_advisory_lock(1)", "SELECT", "pg_advisory_lock()"},
		{"SELECT load_extension('x')", "SELECT", "load_extension()"},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			s, err := parse(tt.query, postgres)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.at(s.verb).text; got != tt.verb {
				t.Errorf("verb %q, want %q", got, tt.verb)
			}
			if got := s.writes(); got != tt.writes {
				t.Errorf("writes() = %q, want %q", got, tt.writes)
			}
			want := tool.Write
			if tt.writes == "" {
				want = tool.Read
			}
			if got := s.effect(); got != want {
				t.Errorf("effect() = %s, want %s", got, want)
			}
		})
	}
}

func TestWhatIsNoStatement(t *testing.T) {
	tests := []struct{ query, want string }{
		{"SELECT 1; SELECT 2", "want exactly one statement"},
		{"SELECT 1;; DROP TABLE t --", "want exactly one statement"},
		{" ; -- nothing", "want exactly one statement"},
		{"SELECT 'a", "a quote has no end"},
		{"SELECT 1 /*", "a comment has no end"},
		{"SELECT 1) AS a, (SELECT 2", "the parentheses don't match"},
		{"SELECT (1", "the parentheses don't match"},
		{"SELECT 1\x00", "NUL"},
		{"1 + 1", "want a statement that begins with a keyword"},
		{"WITH x AS (SELECT 1)", "want a statement that begins with a keyword"},
		{"EXPLAIN", "want a statement that begins with a keyword"},
		{"'SELECT'", "want a statement that begins with a keyword"},
	}
	for _, tt := range tests {
		if _, err := parse(tt.query, postgres); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parse(%q): error %v, want one that says %q", tt.query, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("WITH x AS (SELECT 1; SELECT '", true)
	f.Add("EXPLAIN (ANALYZE) (DELETE FROM t", false)
	f.Fuzz(func(t *testing.T, query string, toSQLite bool) {
		d := postgres
		if toSQLite {
			d = sqlite
		}
		s, err := parse(query, d)
		if err != nil {
			return
		}
		s.check(tool.Read)
		if again, err := parse(s.query, d); err != nil || again.writes() != s.writes() || again.refused() != s.refused() {
			t.Errorf("parse(%q) of %q: %+v, %v", s.query, query, again, err)
		}
		if _, err := parse(s.query+"\n;SELECT 1", d); err == nil {
			t.Errorf("%q with one more is still one statement", s.query)
		}
	})
}
