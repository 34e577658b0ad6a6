package sqltool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	sqlitedriver "modernc.org/sqlite"

	"github.com/toolgate/toolgate/internal/tool"
)

// sqliteFileAge is how long a connection is kept. A file that was put in the place of another is seen at last then.
const sqliteFileAge = time.Minute

// sqliteEngine is a file of SQLite. Read statements have connections on which nothing can be written, whatever the
// statement: the file is open for reading alone (mode=ro), the connection refuses changes (query_only), and an
// authorizer refuses what else a statement could reach, such as another file. Such a statement is a read transaction by
// itself. Writes have one connection, as SQLite lets one write at a time.
type sqliteEngine struct {
	read, write *sql.DB
}

func openSQLite(file string, maxConns int32) *sqliteEngine {
	e := &sqliteEngine{
		read:  sql.OpenDB(newConnector(file, "mode=ro&_pragma=query_only(1)", mayRead)),
		write: sql.OpenDB(newConnector(file, "mode=rw&_pragma=foreign_keys(1)&_txlock=immediate", mayWrite)),
	}
	e.read.SetMaxOpenConns(int(maxConns))
	e.read.SetMaxIdleConns(int(maxConns))
	e.write.SetMaxOpenConns(1)
	for _, db := range []*sql.DB{e.read, e.write} {
		db.SetConnMaxLifetime(sqliteFileAge)
	}
	return e
}

// connector opens connections to a file that exists. It has a driver of its own, so that the rules that it gives every
// connection are no other package's.
type connector struct {
	driver *sqlitedriver.Driver
	file   string
	dsn    string
}

// newConnector makes the connector of a file. A wait for another's lock ends with the call: the driver watches its
// context meanwhile, so that busy_timeout, in milliseconds, only has to be longer.
func newConnector(file, options string, rule sqlitedriver.AuthorizerFn) *connector {
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") { // C:/shop.db (sqlite.org/uri.html, 3.1)
		path = "/" + path
	}
	d := &sqlitedriver.Driver{}
	d.RegisterConnectionHook(func(conn sqlitedriver.ExecQuerierContext, _ string) error {
		c, ok := conn.(sqlitedriver.AuthorizerRegisterer)
		if !ok {
			return errors.New("the driver has no authorizer")
		}
		return c.RegisterAuthorizer(rule)
	})
	return &connector{d, file, "file://" + (&url.URL{Path: path}).EscapedPath() + "?_busy_timeout=600000&_defensive=1&_error_rc=1&" + options}
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		if _, absent := os.Stat(c.file); errors.Is(absent, fs.ErrNotExist) {
			err = fmt.Errorf("%w: there is no file %s", err, c.file)
		}
		return nil, err
	}
	return conn, nil
}

func (c *connector) Driver() driver.Driver { return c.driver }

// mayRead allows what reads the database. It is asked while a statement is compiled.
func mayRead(action sqlitedriver.AuthorizerActionCode, arg1, arg2, _, _ string) sqlitedriver.AuthorizerReturnCode {
	switch action {
	case sqlitedriver.AuthSelect, sqlitedriver.AuthRead, sqlitedriver.AuthRecursive, sqlitedriver.AuthTransaction:
		return sqlitedriver.AuthorizerOK
	case sqlitedriver.AuthFunction, sqlitedriver.AuthPragma:
		return mayWrite(action, arg1, arg2, "", "")
	}
	return sqlitedriver.AuthorizerDeny
}

// mayWrite allows everything within the database's own file. It denies other files, libraries, and settings of the
// connection, which later calls use.
func mayWrite(action sqlitedriver.AuthorizerActionCode, arg1, arg2, _, _ string) sqlitedriver.AuthorizerReturnCode {
	switch action {
	case sqlitedriver.AuthAttach, sqlitedriver.AuthDetach:
		return sqlitedriver.AuthorizerDeny
	case sqlitedriver.AuthFunction:
		if strings.EqualFold(arg2, "load_extension") {
			return sqlitedriver.AuthorizerDeny
		}
	case sqlitedriver.AuthPragma:
		if !harmless(strings.ToLower(arg1), arg2) {
			return sqlitedriver.AuthorizerDeny
		}
	}
	return sqlitedriver.AuthorizerOK
}

// harmless says whether a pragma only tells something, as the tables pragma_table_info and the like do, and full-text
// search by itself. Some set what they tell when they have an argument. database_list is not among them: it tells paths.
func harmless(pragma, argument string) bool {
	switch pragma {
	case "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list":
		return true
	}
	return argument == "" && slices.Contains([]string{
		"collation_list", "compile_options", "data_version", "encoding", "function_list", "page_count", "page_size", "schema_version", "user_version",
	}, pragma)
}

func (e *sqliteEngine) close() error { return errors.Join(e.read.Close(), e.write.Close()) }

func (e *sqliteEngine) ping(ctx context.Context) error {
	var n int
	return e.read.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n) // opening a file does not look at it
}

func (e *sqliteEngine) run(ctx context.Context, p *plan, args []any) (*result, error) {
	bound := make([]any, len(args))
	for i, arg := range args {
		bound[i] = sqliteArgument(argument(arg))
		if text, ok := bound[i].(string); ok && strings.Contains(text, "\x00") {
			return nil, errNUL
		}
	}
	if !p.write {
		conn, err := e.read.Conn(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if _, err := sqlitedriver.Limit(conn, limitLength, longestValue); err != nil {
			return nil, err
		}
		return readSQLite(ctx, conn, p, bound)
	}
	tx, err := e.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	r, err := readSQLite(ctx, tx, p, bound)
	if err != nil {
		return nil, err
	}
	if err := tx.QueryRowContext(ctx, "SELECT changes()").Scan(&r.changed); err != nil {
		return nil, err
	}
	return r, tx.Commit()
}

const (
	limitLength  = 0        // SQLITE_LIMIT_LENGTH (sqlite.org/c3ref/c_limit_attached.html)
	longestValue = 64 << 20 // bytes of a value or a row, so that no zeroblob(:n) takes the gateway's memory
)

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readSQLite(ctx context.Context, db querier, p *plan, args []any) (*result, error) {
	rows, err := db.QueryContext(ctx, p.sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	r := &result{}
	row, into := make([]any, len(types)), make([]any, len(types))
	for i, t := range types {
		r.columns = append(r.columns, t.Name())
		into[i] = &row[i]
	}
	for size := 0; rows.Next() && !r.full(p); {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		texts := make([]string, len(row))
		for i, value := range row {
			texts[i] = sqliteValue(value, types[i].DatabaseTypeName())
			size += len(texts[i])
		}
		if size > maxResult {
			return nil, errTooLarge
		}
		r.rows = append(r.rows, texts)
	}
	return r, errors.Join(rows.Err(), rows.Close())
}

// errNUL is what PostgreSQL says of itself. SQLite stores such a text, but LIKE and many functions read it up to the NUL
// only: a pattern that an argument stands in the middle of would lose its end.
var errNUL = errors.New("an argument has a NUL character")

// sqliteArgument is an argument as SQLite takes it. A whole number that is too large for SQLite's is a text, which a
// column of numbers makes a number of.
func sqliteArgument(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f
		}
		return v.String()
	case []any:
		return string(tool.EncodeJSON(v))
	}
	return v
}

// sqliteValue is a value of SQLite as JSON. The type that its column was declared with, in capitals, decides where
// values of several types look alike.
func sqliteValue(v any, declared string) string {
	switch v := v.(type) {
	case nil:
		return null
	case int64:
		if strings.HasPrefix(declared, "BOOL") && (v == 0 || v == 1) {
			return jsonBool(v == 1)
		}
		return strconv.FormatInt(v, 10)
	case float64:
		return jsonFloat(v)
	case []byte:
		return jsonBlob(v)
	case time.Time: // of a column of dates; SQLite has no time zones and means UTC (sqlite.org/lang_datefunc.html)
		if declared == "DATE" && v.Equal(v.Truncate(24*time.Hour)) {
			return jsonText(v.Format(time.DateOnly))
		}
		return jsonTime(v)
	case string:
		if strings.HasPrefix(declared, "JSON") && json.Valid([]byte(v)) {
			return jsonInline(v)
		}
		return jsonText(v)
	}
	return jsonText(fmt.Sprint(v))
}
