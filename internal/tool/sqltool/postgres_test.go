package sqltool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestPostgresResults(t *testing.T) {
	d := newPostgres(t, `
		CREATE TYPE mood AS ENUM ('sad', 'ok, "really"');
		CREATE DOMAIN price AS numeric(12, 2);
		CREATE TABLE t (id int PRIMARY KEY, name text, at timestamptz, day date);
		INSERT INTO t VALUES (1, 'Ana', '2026-01-02 03:04:05.6+00', '2026-01-02'), (2, NULL, NULL, NULL), (3, 'a|b <&> "c"', 'infinity', '0044-03-15 BC');`)
	tests := []struct{ name, query, args, want string }{
		{"a row", "SELECT * FROM t WHERE id = :id", `{"id": 1}`, `[{"id":1,"name":"Ana","at":"2026-01-02T03:04:05.6Z","day":"2026-01-02"}]`},
		{"NULL", "SELECT * FROM t WHERE id = :id", `{"id": 2}`, `[{"id":2,"name":null,"at":null,"day":null}]`},
		{"what RFC 3339 can't say", "SELECT * FROM t WHERE id = :id", `{"id": 3}`, `[{"id":3,"name":"a|b <&> \"c\"","at":"infinity","day":"0044-03-15 BC"}]`},
		{"no rows", "SELECT * FROM t WHERE id = :id", `{"id": 99}`, "no rows match"},
		{"numbers", "SELECT 9007199254740993 AS a, 1.10 AS b, 12345678901234567890.5::numeric(30, 2) AS c, 1e-7::float8 AS d, 0.1::float4 AS e, 'NaN'::numeric AS f, '-Infinity'::float8 AS g", `{}`, `[{"a":9007199254740993,"b":1.10,"c":12345678901234567890.50,"d":1e-07,"e":0.1,"f":"NaN","g":"-Infinity"}]`},
		{"truth", "SELECT true AS a, false AS b, NULL::bool AS c", `{}`, `[{"a":true,"b":false,"c":null}]`},
		{"times", "SELECT '2026-01-02 03:04:05-03'::timestamptz AT TIME ZONE 'UTC' AS a, '03:04:05'::time AS b, '1 day 2 hours'::interval AS c, '2026-07-01 00:00+05:30'::timestamptz AS d", `{}`, `[{"a":"2026-01-02T06:04:05","b":"03:04:05","c":"1 day 02:00:00","d":"2026-06-30T18:30:00Z"}]`},
		{"bytes", `SELECT '\x00ff'::bytea AS a, 'plain'::bytea AS b, ''::bytea AS c, decode(repeat('00', 300), 'hex') AS d`, `{}`, `[{"a":"base64:AP8=","b":"plain","c":"","d":"[binary, 300 bytes]"}]`},
		{"json", `SELECT '{"b": 1,  "a": [1.10, "<"]}'::json AS a, '{"b": 1}'::jsonb AS b, 'null'::jsonb AS c, '"x"'::jsonb AS d`, `{}`, `[{"a":{"b":1,"a":[1.10,"<"]},"b":{"b":1},"c":null,"d":"x"}]`},
		{"uuid and addresses", "SELECT 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid AS a, '10.0.0.1/8'::inet AS b", `{}`, `[{"a":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","b":"10.0.0.1/8"}]`},
		{"arrays", `SELECT ARRAY[1,NULL,3] AS a, ARRAY[['x','y,"'],['NULL',NULL]] AS b, '{}'::int[] AS c, ARRAY[true] AS d, ARRAY['{"a": 1}'::jsonb] AS e, ARRAY['2026-01-02 00:00+00'::timestamptz] AS f, '[0:1]={5,6}'::int[] AS g, ARRAY['\x00'::bytea] AS h`, `{}`, `[{"a":[1,null,3],"b":[["x","y,\""],["NULL",null]],"c":[],"d":[true],"e":[{"a":1}],"f":["2026-01-02T00:00:00Z"],"g":[5,6],"h":["base64:AA=="]}]`},
		{"types of its own", `SELECT 'ok, "really"'::mood AS a, ARRAY['sad', 'ok, "really"']::mood[] AS b, ROW(1, 'x') AS c, '[1,5)'::int4range AS d, ARRAY[1.50]::price[] AS e, '((1,2),(3,4))'::box AS f, ARRAY['((1,2),(3,4))'::box] AS g`, `{}`, `[{"a":"ok, \"really\"","b":["sad","ok, \"really\""],"c":"(1,x)","d":"[1,5)","e":["1.50"],"f":"(3,4),(1,2)","g":["(3,4),(1,2)"]}]`},
		{"nothing", "SELECT pg_sleep(0) AS a", `{}`, `[{"a":null}]`},
		{"no columns", "SELECT FROM t WHERE id = 1", `{}`, `[{}]`},
		{"a name twice", "SELECT 1 AS a, 2 AS a", `{}`, `[{"a":1,"a_2":2}]`},
		{"the order stays", "SELECT id FROM t ORDER BY id DESC", `{}`, `[{"id":3},{"id":2},{"id":1}]`},
		{"values, table", "VALUES (1, 'x')", `{}`, `[{"column1":1,"column2":"x"}]`},
		{"a whole table", "TABLE t LIMIT 1", `{}`, `[{"id":1,"name":"Ana","at":"2026-01-02T03:04:05.6Z","day":"2026-01-02"}]`},
		{"a setting", "SHOW transaction_read_only", `{}`, `[{"transaction_read_only":"on"}]`},
		{"a plan", "EXPLAIN (COSTS off) SELECT 1", `{}`, `[{"QUERY PLAN":"Result"}]`},
		{"arguments of all kinds", "SELECT :s AS s, :i + 1 AS i, :f * 2.5 AS f, :b AND true AS b, :z AS z", `{"s": "x'; DROP TABLE t; --", "i": 41, "f": 1.10, "b": true, "z": null}`, `[{"s":"x'; DROP TABLE t; --","i":42,"f":2.750,"b":true,"z":null}]`},
		{"large numbers are exact", "SELECT :a::bigint AS a, :b::numeric AS b", `{"a": 9007199254740993, "b": 123456789012345678901234567890.123}`, `[{"a":9007199254740993,"b":123456789012345678901234567890.123}]`},
		{"times as arguments", "SELECT id FROM t WHERE at >= :from AND at < :to AND day = :day", `{"from": "2026-01-02T03:04:05Z", "to": "2026-01-02T03:04:06Z", "day": "2026-01-02"}`, `[{"id":1}]`},
		{"a filter that is left out", "SELECT id FROM t WHERE (:name IS NULL OR name = :name) AND (:min IS NULL OR id >= :min) ORDER BY id", `{"name": null, "min": 2}`, `[{"id":2},{"id":3}]`},
		{"a list for an array", "SELECT id FROM t WHERE id = ANY(:ids) OR name = ANY(:names) ORDER BY id", `{"ids": [1, null], "names": ["a|b <&> \"c\"", "x,y", "{}", "\\", ""]}`, `[{"id":1},{"id":3}]`},
		{"a list in a list", "SELECT :m::int[] AS m", `{"m": [[1, 2], [3, 4]]}`, `[{"m":[[1,2],[3,4]]}]`},
		{"no elements", "SELECT count(*) AS n FROM t WHERE id = ANY(:ids)", `{"ids": []}`, `[{"n":0}]`},
		{"a list for json", "SELECT jsonb_array_length(:list) AS n, :list -> 1 AS x", `{"list": [1, {"a": "é"}]}`, `[{"n":2,"x":{"a":"é"}}]`},
		{"a list for a text", "SELECT :list::text AS x", `{"list": [1, "a"]}`, `[{"x":"[1,\"a\"]"}]`},
		{"an object for json", "SELECT :o::jsonb ->> 'a' AS a, (:o::jsonb) AS o", `{"o": {"a": 1.10}}`, `[{"a":"1.10","o":{"a":1.10}}]`},
		{"objects for an array of json", "SELECT (:list::jsonb[])[1] ->> 'a' AS a", `{"list": [{"a": "q\"\\"}]}`, `[{"a":"q\"\\"}]`},
		{"literals with colons stay", `SELECT ':s' AS a, E'\':s' AS b, $x$ :s $x$ AS c, 'x'::text AS ":s", (ARRAY[1,2,3])[1:2] AS d, /* /* :s */ :s */ 'a:b' AS e WHERE :s = 'x' -- :s`, `{"s": "x"}`, `[{"a":":s","b":"':s","c":" :s ",":s":"x","d":[1,2],"e":"a:b"}]`},
		{"operators with question marks", `SELECT '{"a": 1}'::jsonb ? :k AS a`, `{"k": "a"}`, `[{"a":true}]`},
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

func TestTheServersSettingsChangeNothing(t *testing.T) {
	d := newPostgres(t, "")
	name := d.url[strings.LastIndex(d.url, "/")+1 : strings.Index(d.url, "?")]
	d.exec(t, fmt.Sprintf(`ALTER DATABASE %[1]s SET DateStyle = 'German'; ALTER DATABASE %[1]s SET IntervalStyle = 'iso_8601';
		ALTER DATABASE %[1]s SET bytea_output = 'escape'; ALTER DATABASE %[1]s SET standard_conforming_strings = off;
		ALTER DATABASE %[1]s SET timezone = 'America/Sao_Paulo'; ALTER DATABASE %[1]s SET default_transaction_read_only = on`, name))
	got, err := d.ask(t, `SELECT '2026-01-02 03:04:05+00'::timestamptz AS a, '1 day'::interval AS b, '\x00'::bytea AS c, '\' AS d, :q AS e`, `{"q": "x"}`)
	if want := `[{"a":"2026-01-02T00:04:05-03:00","b":"1 day","c":"base64:AA==","d":"\\","e":"x"}]`; err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if got, err := d.ask(t, "CREATE TABLE t (a int)", `{}`); err != nil || got != "done" {
		t.Errorf("a write: %s, %v", got, err)
	}
}

func TestPostgresWrites(t *testing.T) {
	d := newPostgres(t, `
		CREATE TABLE t (id serial PRIMARY KEY, name text UNIQUE, key text);
		CREATE TABLE late (id int REFERENCES t DEFERRABLE INITIALLY DEFERRED);
		CREATE FUNCTION add(n text) RETURNS int LANGUAGE sql AS 'INSERT INTO t (name) VALUES (n) RETURNING id';
		CREATE PROCEDURE wipe() LANGUAGE sql AS 'DELETE FROM t WHERE id > 2';`)
	steps := []struct{ name, query, args, want string }{
		{"one row", "INSERT INTO t (name, key) VALUES (:name, :idempotency_key)", `{"name": "Ana"}`, "1 row affected"},
		{"rows that come back", "INSERT INTO t (name) VALUES (:a), (:b) RETURNING id, name", `{"a": "Bea", "b": "Cid"}`, `[{"id":2,"name":"Bea"},{"id":3,"name":"Cid"}]`},
		{"several rows", "UPDATE t SET key = 'k' WHERE id > :n", `{"n": 1}`, "2 rows affected"},
		{"none that come back", "DELETE FROM t WHERE id = :n RETURNING id", `{"n": 99}`, "no rows match"},
		{"in a WITH", "WITH gone AS (DELETE FROM t WHERE id = :n RETURNING *) SELECT name FROM gone", `{"n": 3}`, `[{"name":"Cid"}]`},
		{"a merge", "MERGE INTO t USING (VALUES (:name)) AS s(n) ON t.name = s.n WHEN MATCHED THEN UPDATE SET key = 'm' WHEN NOT MATCHED THEN INSERT (name) VALUES (s.n)", `{"name": "Dan"}`, "1 row affected"},
		{"a procedure", "CALL wipe()", `{}`, "done"},
		{"what counts nothing", "TRUNCATE late", `{}`, "done"},
		{"it is all there", "SELECT count(*) AS n FROM t", `{}`, `[{"n":2}]`},
	}
	for _, tt := range steps {
		got, err := d.ask(t, tt.query, tt.args)
		if err != nil || got != tt.want {
			t.Errorf("%s: got %s, %v\nwant %s", tt.name, got, err, tt.want)
		}
	}
	t.Run("a function that writes is called for every row", func(t *testing.T) {
		made := d.newTool(t, `max_rows: 1, query: "SELECT add('f' || n) AS id FROM generate_series(1, 3) n"`, spec(tool.Write))
		if got, err := call(t, made, tool.Call{}); err != nil || !strings.HasSuffix(got, "[more rows: only the first is shown]") {
			t.Errorf("got %s, %v", got, err)
		}
		if got, err := d.ask(t, "SELECT count(*) AS n FROM t WHERE name LIKE 'f%'", `{}`); got != `[{"n":3}]` {
			t.Errorf("got %s, %v", got, err)
		}
	})
	for name, query := range map[string]string{
		"a value that is there already":                 "INSERT INTO t (name) VALUES ('Zoe'), ('Ana')",
		"what shows at the end of the transaction only": "INSERT INTO late VALUES (99)",
	} {
		_, err := d.ask(t, query, `{}`)
		wantError(t, err, tool.Failed, TypeSQL)
		if got, err := d.ask(t, "SELECT (SELECT count(*) FROM t WHERE name = 'Zoe') + (SELECT count(*) FROM late) AS n", `{}`); got != `[{"n":0}]` {
			t.Errorf("%s changed something: %s, %v", name, got, err)
		}
	}
}

func TestPostgresTime(t *testing.T) {
	d := newPostgres(t, "CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
	pid := func() string {
		got, err := d.ask(t, "SELECT pg_backend_pid()", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for name, query := range map[string]string{
		"asleep":                "SELECT pg_sleep(30)",
		"before the first row":  "SELECT count(*) FROM generate_series(1, 10000000000) a",
		"before the second row": "SELECT 1 UNION ALL SELECT count(*) FROM generate_series(1, 10000000000) a",
		"in a write":            "INSERT INTO t SELECT 1 FROM pg_sleep(30)",
	} {
		t.Run(name, func(t *testing.T) {
			made := d.newTool(t, fmt.Sprintf("query: %q", query), spec(""))
			for within := time.Second; ; within *= 2 { // on a busy machine the server may need longer to be first
				before := pid()
				wantTimeout(t, made, within)
				if after := pid(); after == before {
					break
				} else if within > 4*time.Second {
					t.Fatalf("the connection is %s, was %s: the server should have ended the statement", after, before)
				}
			}
			if got, err := d.ask(t, "SELECT count(*) AS n FROM t", `{}`); err != nil || got != `[{"n":1}]` {
				t.Errorf("afterwards: %s, %v", got, err)
			}
		})
	}
	t.Run("a client that left", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
		start := time.Now()
		_, err := d.newTool(t, `query: "SELECT pg_sleep(30)"`, spec(tool.Read)).Call(ctx, tool.Call{})
		wantError(t, err, tool.Timeout, tool.TypeTimeout)
		if !errors.Is(err, gone) {
			t.Errorf("error %v does not say why", err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		pid()
	})
	t.Run("a lock of another's", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), d.url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE t"); err != nil {
			t.Fatal(err)
		}
		wantTimeout(t, d.newTool(t, `query: "SELECT * FROM t"`, spec(tool.Read)), 200*time.Millisecond)
		wantTimeout(t, d.newTool(t, `query: "DELETE FROM t"`, spec(tool.Write)), 200*time.Millisecond)
	})
}

func TestPostgresConnections(t *testing.T) {
	d := newPostgres(t, "CREATE TABLE seen (n int)")
	made := d.newTool(t, `query: "INSERT INTO seen SELECT count(*) FROM pg_stat_activity, pg_sleep(0.02) WHERE application_name = 'toolgate' AND datname = current_database()"`, spec(tool.Write))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 3 {
				if _, err := call(t, made, tool.Call{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got, err := d.ask(t, "SELECT max(n) AS most, count(*) AS calls FROM seen", `{}`); err != nil || got != `[{"most":2,"calls":24}]` {
		t.Errorf("got %s, %v; max_conns is 2", got, err)
	}
	t.Run("those that the server cut are passed over", func(t *testing.T) {
		d.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'toolgate' AND datname = current_database()")
		if got, err := d.ask(t, "SELECT 1 AS n", `{}`); err != nil || got != `[{"n":1}]` {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("one that is cut in a call", func(t *testing.T) {
		_, err := d.ask(t, "SELECT pg_backend_pid(), \"pg_terminate_backend\"(pg_backend_pid())", `{}`)
		wantError(t, err, tool.Unavailable, tool.TypeConnect)
	})
	t.Run("a wait for one that is free", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var held sync.WaitGroup
		sleep := d.newTool(t, `query: "SELECT pg_sleep(30)"`, spec(tool.Read))
		for range 2 {
			held.Go(func() { _, _ = sleep.Call(ctx, tool.Call{}) })
		}
		for busy := ""; busy != "[2]\n"; { // until both are at it
			busy = sleeping(t, d)
		}
		wantTimeout(t, d.newTool(t, `query: "SELECT 1"`, spec(tool.Read)), 100*time.Millisecond)
		cancel()
		held.Wait()
	})
}

func sleeping(t *testing.T, d *database) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND state = 'active' AND application_name = 'toolgate' AND datname = current_database()").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintln([]int{n})
}

func TestPostgresThatIsNotThere(t *testing.T) {
	d := newPostgres(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	for name, address := range map[string]string{
		"no server":   "postgres://svc:hunter22@" + closed + "/db?sslmode=disable",
		"no database": strings.Replace(d.url, "/test", "/none", 1),
		"no user":     strings.Replace(d.url, "postgres@", "nobody:hunter22@", 1),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t, name, address)
			_, err := d.ask(t, "SELECT 1", `{}`)
			wantError(t, err, tool.Unavailable, tool.TypeConnect)
			ping := d.dbs.Ping(t.Context(), "db")
			if ping == nil {
				t.Fatal("Ping() is no error")
			}
			if text := ping.Error() + err.Error(); strings.Contains(text, "hunter22") {
				t.Errorf("errors tell the password: %s", text)
			}
		})
	}
	if err := d.dbs.Ping(t.Context(), "db"); err != nil {
		t.Errorf("Ping() of one that is there: %v", err)
	}
}

func TestPostgresErrors(t *testing.T) {
	d := newPostgres(t, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	for _, tt := range []struct{ name, query, args string }{
		{"a table that is not there", "SELECT * FROM nowhere", `{}`},
		{"an argument of another type", "SELECT * FROM t WHERE id = :id", `{"id": "1 OR 1=1"}`},
		{"a character that no text may hold", "SELECT :q AS q", `{"q": "a\u0000b"}`},
		{"a division by zero", "SELECT 1 / :n", `{"n": 0}`},
		{"a list that is no array", "SELECT * FROM t WHERE id = :id", `{"id": [1, 2]}`},
		{"a write that a function hides", "SELECT query_to_xml('DELETE FROM t RETURNING id', true, true, '')", `{}`},
	} {
		_, err := d.ask(t, tt.query, tt.args)
		wantError(t, err, tool.Failed, TypeSQL)
		if got, err := d.ask(t, "SELECT id FROM t", `{}`); err != nil || got != `[{"id":1}]` {
			t.Errorf("after %s: %s, %v", tt.name, got, err)
		}
	}
}
