package sqltool

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/tool"
)

// attempts are arguments of somebody who would like to read or change more than a query is for, as JSON.
var attempts = []string{
	// to get out of a literal
	`"' OR '1'='1"`,
	`"' OR 1=1 --"`,
	`"' OR 1=1 /*"`,
	`"') OR ('1'='1"`,
	`"')) OR 1=1 --"`,
	`"\" OR \"\"=\""`,
	`"\\' OR 1=1 --"`,
	`"\\"`,
	`"'"`,
	`"''"`,
	`"bob' AND 1=(SELECT count(*) FROM secrets) --"`,
	`"\u02bc OR 1=1 --"`,
	`"\uff07 OR \uff07\uff11\uff07=\uff07\uff11"`,
	`"' || (SELECT token FROM secrets LIMIT 1) || '"`,
	`"$$ OR 1=1 --"`,
	`"$x$ OR $x$"`,
	`"E'\\\\' OR 1=1 --"`,
	// to read other tables
	`"' UNION SELECT 1, token FROM secrets --"`,
	`"x') UNION ALL SELECT 1, token FROM secrets WHERE ('1'='1"`,
	`"' UNION SELECT 1, sql FROM sqlite_schema --"`,
	`"' UNION SELECT 1, usename FROM pg_user --"`,
	`"(SELECT token FROM secrets)"`,
	// another statement
	`"'; DROP TABLE users; --"`,
	`"1; DELETE FROM users"`,
	`"'); INSERT INTO users VALUES (9, 'eve', 'evil'); --"`,
	`"'; UPDATE users SET tenant = 'ana'; COMMIT; --"`,
	`"'; ATTACH DATABASE 'evil.db' AS evil; --"`,
	`"'; PRAGMA writable_schema = 1; --"`,
	`"'; COPY users TO PROGRAM 'touch evil'; --"`,
	`"'; SELECT lo_import('/etc/passwd'); --"`,
	`"\n; DROP TABLE users\n--"`,
	// our own notation, and the databases'
	`":caller.id"`,
	`":q"`,
	`"$1"`,
	`"?1"`,
	`"$2::text OR true"`,
	`"{\"a\": 1}'::jsonb OR true --"`,
	// time
	`"' OR (SELECT 1 FROM pg_sleep(30)) IS NOT NULL --"`,
	`"' AND 1=randomblob(1000000000) --"`,
	// no texts
	`{"$ne": null}`,
	`{"toString": "' OR 1=1 --"}`,
	`["' OR 1=1 --"]`,
	`["x", "') OR ('1'='1"]`,
	`[[["'"]]]`,
	`true`,
	`1`,
	`-1`,
	`0.0`,
	`1e308`,
	`99999999999999999999999999`,
	// odd characters
	`""`,
	`"\u0000' OR 1=1 --"`,
	`"users\u0000"`,
	`"\ud83d\ude00'"`,
	`"\u202e' OR 1=1 --"`,
	`"%"`,
	`"_"`,
}

const attacked = `
	CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, tenant TEXT);
	INSERT INTO users VALUES (101, 'bob', 'ana'), (102, 'mallory', 'other'), (103, 'trent', 'other');
	CREATE TABLE secrets (token TEXT);
	INSERT INTO secrets VALUES ('s3cret-t0ken');
	CREATE TABLE notes (body TEXT);`

func TestArgumentsAreNeverStatements(t *testing.T) {
	if len(attempts) < 40 {
		t.Fatalf("%d attempts, want 40", len(attempts))
	}
	for _, d := range []*database{newSQLite(t, attacked), newPostgres(t, attacked)} {
		t.Run(d.name, func(t *testing.T) {
			before := d.dump(t)
			readers := map[string]tool.Tool{}
			for _, query := range []string{
				"SELECT id, name FROM users WHERE tenant = :caller.id AND name = :q",
				"SELECT id, name FROM users WHERE (tenant = :caller.id AND (name = :q OR name LIKE '%' || :q || '%zz'))",
				"SELECT name FROM users WHERE tenant = :q",
				"SELECT name FROM users WHERE id = :q",
				"SELECT name FROM users WHERE ':q' = 'x' /* :q */ OR tenant = 'nobody' || :q ORDER BY :q -- :q",
			} {
				readers[query] = d.newTool(t, fmt.Sprintf("query: %q", query), spec(tool.Read, "q"))
			}
			for _, attempt := range attempts {
				c := tool.Call{Args: args(t, `{"q": `+attempt+`}`), Caller: map[string]any{"id": "ana"}}
				for query, made := range readers {
					start := time.Now()
					got, err := call(t, made, c)
					if err != nil {
						wantError(t, err, tool.Failed, TypeSQL) // a text that is no number, a NUL, ...
					} else if got != noRows {
						t.Errorf("%s brings %s from %s", attempt, got, query)
					}
					if took := time.Since(start); took > 10*time.Second {
						t.Errorf("%s takes %s", attempt, took)
					}
				}
			}
			if d.dump(t) != before {
				t.Error("the database has changed")
			}
		})
	}
}

func TestAWriteStoresAnArgumentAsItIs(t *testing.T) {
	for _, d := range []*database{newSQLite(t, attacked), newPostgres(t, attacked)} {
		t.Run(d.name, func(t *testing.T) {
			write := d.newTool(t, `query: "INSERT INTO notes VALUES (:q)"`, spec(tool.Write, "q"))
			read := d.newTool(t, `query: "SELECT body FROM notes"`, spec(tool.Read))
			wipe := d.newTool(t, `query: "DELETE FROM notes"`, spec(tool.Write))
			for _, attempt := range attempts {
				c := tool.Call{Args: args(t, `{"q": `+attempt+`}`)}
				text, isText := c.Args["q"].(string)
				if !isText {
					continue
				}
				if _, err := call(t, write, c); err != nil {
					if !strings.Contains(text, "\x00") {
						t.Errorf("%s: %v", attempt, err)
					}
					continue
				}
				if got, err := call(t, read, tool.Call{}); err != nil || got != `[{"body":`+jsonText(text)+`}]` {
					t.Errorf("%s is stored as %s, %v", attempt, got, err)
				}
				if _, err := call(t, wipe, tool.Call{}); err != nil {
					t.Fatal(err)
				}
			}
			want := `[{"users":3,"secrets":1,"notes":0}]`
			if got, err := d.ask(t, "SELECT (SELECT count(*) FROM users) AS users, (SELECT count(*) FROM secrets) AS secrets, (SELECT count(*) FROM notes) AS notes", `{}`); err != nil || got != want {
				t.Errorf("afterwards %s, %v", got, err)
			}
		})
	}
}

// disguised are statements that change something, or reach out of the database, and look as if they only read.
var disguised = map[string][]string{
	"sqlite": {
		"WITH x AS (SELECT 1) DELETE FROM users",
		"WITH x AS (SELECT 1) INSERT INTO users (name) VALUES ('eve') RETURNING id",
		"WITH x AS (SELECT 1) UPDATE users SET name = 'eve'",
		"/* SELECT */ DELETE FROM users",
		"-- SELECT\nDELETE FROM users RETURNING *",
		"REPLACE INTO users VALUES (101, 'eve', 'ana')",
		"INSERT OR IGNORE INTO users (name) VALUES ('eve')",
		"SELECT 1; DELETE FROM users",
		"; DELETE FROM users",
		"ATTACH 'evil.db' AS evil",
		"ATTACH '%DIR%/evil.db' AS evil",
		"DETACH main",
		"PRAGMA writable_schema = 1",
		"PRAGMA user_version = 7",
		"PRAGMA journal_mode = WAL",
		"PRAGMA query_only = 0",
		"SELECT * FROM pragma_database_list",
		"SELECT * FROM pragma_user_version(7)",
		"SELECT * FROM pragma_journal_mode('WAL')",
		"VACUUM",
		"VACUUM INTO '%DIR%/evil.db'",
		"CREATE TABLE evil (a)",
		"CREATE TEMP TABLE evil (a)",
		"CREATE VIEW evil AS SELECT 1",
		"CREATE VIRTUAL TABLE evil USING fts5(a)",
		"DROP TABLE users",
		"ALTER TABLE users RENAME TO evil",
		"REINDEX",
		"ANALYZE",
		"BEGIN IMMEDIATE",
		"SELECT load_extension('/tmp/evil.so')",
		"SELECT \"load_extension\"('/tmp/evil.so')",
		"SELECT writefile('%DIR%/evil', 'x')",
		"EXPLAIN DELETE FROM users",
	},
	"postgres": {
		"WITH gone AS (DELETE FROM users RETURNING *) SELECT * FROM gone",
		"WITH made AS MATERIALIZED (INSERT INTO users VALUES (9, 'eve', 'ana') RETURNING *) SELECT * FROM made",
		"WITH x AS (SELECT 1) UPDATE users SET name = 'eve'",
		"SELECT * FROM (WITH gone AS (DELETE FROM users RETURNING *) SELECT * FROM gone) x",
		"/* SELECT */ DELETE FROM users",
		"/* /* */ SELECT */ DELETE FROM users",
		"SELECT 1; DELETE FROM users",
		"SELECT $$;$$; DELETE FROM users",
		"EXPLAIN ANALYZE DELETE FROM users",
		"EXPLAIN (ANALYZE, FORMAT json) WITH gone AS (DELETE FROM users RETURNING *) SELECT * FROM gone",
		"MERGE INTO users USING secrets ON true WHEN MATCHED THEN DELETE",
		"SELECT * INTO evil FROM users",
		"CREATE TABLE evil AS SELECT 1",
		"CREATE TEMP TABLE evil AS SELECT 1",
		"SELECT * FROM users FOR UPDATE",
		"TABLE users FOR SHARE",
		"TRUNCATE users",
		"DROP TABLE users",
		"LOCK TABLE users",
		"SELECT wipe()",
		"SELECT * FROM wipe()",
		"SELECT sneaky()",
		"SELECT stubborn()",
		"CALL purge()",
		"DO $$ BEGIN DELETE FROM users; END $$",
		"SELECT nextval('counter')",
		"SELECT \"nextval\"('counter')",
		"SELECT pg_catalog.setval('counter', 99)",
		"SELECT \"setval\"('counter', 99)",
		"SELECT query_to_xml('DELETE FROM users', true, true, '')",
		"SELECT query_to_xml('UPDATE users SET name = ''eve'' RETURNING 1', true, true, '')",
		"SELECT set_config('transaction_read_only', 'off', true)",
		"SELECT \"set_config\"('transaction_read_only', 'off', false), wipe()",
		"SELECT \"set_config\"('default_transaction_read_only', 'off', false), wipe()",
		"SELECT \"set_config\"('role', 'postgres', false)",
		"SET TRANSACTION READ WRITE",
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
		"COMMIT",
		"ROLLBACK",
		"BEGIN READ WRITE",
		"PREPARE TRANSACTION 'evil'",
		"PREPARE evil AS DELETE FROM users",
		"COPY users TO PROGRAM 'touch %DIR%/evil'",
		"COPY users FROM PROGRAM 'echo 9'",
		"COPY users TO '%DIR%/evil'",
		"SELECT lo_create(4711)",
		"SELECT \"lo_create\"(4711)",
		"SELECT lo_import('/etc/hostname')",
		"SELECT lo_from_bytea(4711, 'x')",
		"SELECT pg_advisory_lock(1)",
		"SELECT pg_notify('evil', 'x')",
		"NOTIFY evil",
		"LISTEN evil",
		"VACUUM users",
		"ANALYZE users",
		"REINDEX TABLE users",
		"REFRESH MATERIALIZED VIEW seen",
		"CREATE ROLE evil SUPERUSER",
		"ALTER SYSTEM SET fsync = off",
		"GRANT ALL ON users TO PUBLIC",
	},
}

const attackedPostgres = attacked + `
	CREATE SEQUENCE counter;
	CREATE MATERIALIZED VIEW seen AS SELECT count(*) FROM users;
	CREATE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM users; SELECT 1';
	CREATE FUNCTION sneaky() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN EXECUTE ''DELETE FROM users''; RETURN 1; END';
	CREATE FUNCTION stubborn() RETURNS int LANGUAGE plpgsql AS
		'BEGIN SET LOCAL transaction_read_only = off; DELETE FROM users; RETURN 1; EXCEPTION WHEN OTHERS THEN DELETE FROM users; RETURN 2; END';
	CREATE PROCEDURE purge() LANGUAGE plpgsql AS 'BEGIN DELETE FROM users; COMMIT; END';`

func TestAReadToolCantWrite(t *testing.T) {
	for _, d := range []*database{newSQLite(t, attacked), newPostgres(t, attackedPostgres)} {
		dir := filepath.Dir(strings.TrimPrefix(d.url, "sqlite:"))
		if d.name == "postgres" {
			dir = server.dir
		}
		before := d.dump(t)
		for _, query := range disguised[d.name] {
			query = strings.ReplaceAll(query, "%DIR%", dir)
			t.Run(d.name+": "+query, func(t *testing.T) {
				made, f := d.tryTool(t, fmt.Sprintf("query: %q", query), spec(tool.Read))
				if made == nil {
					text := f.Problems().Error()
					if !strings.Contains(text, "writes") && !strings.Contains(text, "not for a tool") && !strings.Contains(text, "exactly one statement") {
						t.Errorf("refused, but for %s", text)
					}
				} else if _, err := call(t, made, tool.Call{}); err == nil && !harmlessAll[query] {
					t.Error("it is neither refused nor fails")
				}
				// The database has to hold by itself: not every statement can be seen through.
				e, err := d.dbs.engine("db")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if d.name == "postgres" && strings.HasPrefix(query, "COPY") { // would wait for data
					return
				}
				_, _ = e.run(ctx, &plan{sql: query, maxRows: 5}, nil)
				if d.dump(t) != before {
					t.Fatal("the database has changed")
				}
				if got, err := call(t, d.newTool(t, `query: "SELECT count(*) AS n FROM users"`, spec(tool.Read)), tool.Call{}); err != nil || got != `[{"n":3}]` {
					t.Fatalf("afterwards: %s, %v", got, err)
				}
			})
		}
		if found, err := filepath.Glob(filepath.Join(dir, "evil*")); err != nil || len(found) > 0 {
			t.Errorf("files were made: %v, %v", found, err)
		}
	}
}

// harmlessAll are disguised statements that may succeed, as nothing of them is left when the call is over.
var harmlessAll = map[string]bool{
	`SELECT "lo_create"(4711)`:                       true, // up to PostgreSQL 15
	`SELECT "set_config"('role', 'postgres', false)`: true,
}
