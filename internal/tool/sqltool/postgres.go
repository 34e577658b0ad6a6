package sqltool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresEngine is a database of PostgreSQL. A query goes by the extended protocol, which takes one statement and
// values apart from it. Values travel as texts both ways: the server knows its types best, and a text tells a number to
// its last digit.
type postgresEngine struct {
	pool     *pgxpool.Pool
	maxConns int32
	elements sync.Map // of an array type that the driver does not know to the type of its elements; 0 of other types
}

const (
	connectTimeout  = 10 * time.Second // where the address sets none
	rollbackTimeout = 5 * time.Second
)

func openPostgres(c *pgxpool.Config, maxConns int32) (*postgresEngine, error) {
	c = c.Copy()
	c.MaxConns = maxConns
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // begin finds dead ones
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "toolgate"
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return &postgresEngine{pool: pool, maxConns: maxConns}, nil
}

func (e *postgresEngine) close() error {
	e.pool.Close()
	return nil
}

func (e *postgresEngine) ping(ctx context.Context) error { return e.pool.Ping(ctx) }

func (e *postgresEngine) run(ctx context.Context, p *plan, args []any) (*result, error) {
	conn, err := e.begin(ctx, p.write)
	if err != nil {
		return nil, broken(err)
	}
	defer conn.Release()
	r, err := e.ask(ctx, conn.Conn(), p, args)
	if err == nil && p.write {
		if err = commit(ctx, conn.Conn().PgConn()); err == nil {
			return r, nil
		}
	}
	rollback(ctx, conn.Conn().PgConn())
	if err != nil {
		return nil, broken(err)
	}
	return r, nil
}

// broken marks what is no answer of the server as an error of the connection.
func broken(err error) error {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok || errors.Is(err, errTooLarge) {
		return err
	}
	return &connectionError{err}
}

// begin begins a transaction on a connection of the pool. One that turns out dead is passed over: nothing has been
// done on it. A transaction that only reads can't be made to write by the statement in it, as the server refuses that
// once the transaction has taken a snapshot (PostgreSQL, SET TRANSACTION).
func (e *postgresEngine) begin(ctx context.Context, write bool) (*pgxpool.Conn, error) {
	for tries := e.maxConns + 1; ; tries-- {
		conn, err := e.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		pg := conn.Conn().PgConn()
		_, err = pg.Exec(ctx, beginning(ctx, write)).ReadAll()
		if err == nil {
			return conn, nil
		}
		rollback(ctx, pg)
		dead := pg.IsClosed()
		conn.Release()
		if !dead || ctx.Err() != nil || tries <= 1 {
			return nil, err
		}
	}
}

// beginning begins a transaction with what has to hold in it: the deadline of ctx as the server's own, the quotes that
// the query was read with, and how values are written.
func beginning(ctx context.Context, write bool) string {
	mode := "READ ONLY"
	if write {
		mode = "READ WRITE"
	}
	return fmt.Sprintf("BEGIN %s; SET LOCAL statement_timeout = %d; SET LOCAL standard_conforming_strings = on;"+
		" SET LOCAL DateStyle = ISO; SET LOCAL IntervalStyle = postgres; SET LOCAL bytea_output = hex", mode, statementTimeout(ctx))
}

// statementTimeout is the time until shortly before the deadline of ctx, in milliseconds, 0 without one. The server's
// cancellation leaves a usable connection, that by ctx none.
func statementTimeout(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	left -= min(left/10, 100*time.Millisecond)
	return max(1, left.Milliseconds())
}

func commit(ctx context.Context, pg *pgconn.PgConn) error {
	results, err := pg.Exec(ctx, "COMMIT").ReadAll()
	if err == nil && (len(results) != 1 || results[0].CommandTag.String() != "COMMIT") {
		return errors.New("the server rolled the transaction back")
	}
	return err
}

// rollback ends a transaction without a trace, also where ctx is done. Advisory locks of a session are the one thing that
// a transaction that only reads can leave behind. A connection on which this fails is not used again: the pool looks at
// its state.
func rollback(ctx context.Context, pg *pgconn.PgConn) {
	if pg.IsClosed() || pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = pg.Exec(ctx, "ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()").Close()
}

// ask runs the statement and reads its result.
func (e *postgresEngine) ask(ctx context.Context, conn *pgx.Conn, p *plan, args []any) (*result, error) {
	reader, err := execute(ctx, conn.PgConn(), p.sql, args)
	if err != nil {
		return nil, err
	}
	r := &result{}
	var types []uint32
	for _, f := range reader.FieldDescriptions() {
		r.columns = append(r.columns, f.Name)
		types = append(types, f.DataTypeOID)
	}
	var rows [][][]byte
	size := 0
	for reader.NextRow() && size <= maxResult {
		if len(rows) == p.maxRows {
			r.more = true
			break
		}
		row := make([][]byte, len(types))
		for i, value := range reader.Values() {
			row[i] = bytes.Clone(value)
			size += len(value)
		}
		rows = append(rows, row)
	}
	tag, err := reader.Close() // reads what is left
	switch {
	case err != nil:
		return nil, err
	case size > maxResult:
		return nil, errTooLarge
	}
	r.changed = tag.RowsAffected()
	r.rows, err = e.texts(ctx, conn, types, rows)
	return r, err
}

// execute sends a statement with its arguments. Only where one of them is a list the server is asked for the types of
// the parameters first: a list is written differently for an array than for json.
func execute(ctx context.Context, pg *pgconn.PgConn, sql string, args []any) (*pgconn.ResultReader, error) {
	bound := make([][]byte, len(args))
	lists := false
	for i, arg := range args {
		arg = argument(arg)
		_, list := arg.([]any)
		lists = lists || list
		bound[i] = postgresArgument(arg, pgtype.JSONOID)
	}
	if !lists {
		return pg.ExecParams(ctx, sql, bound, nil, nil, nil), nil
	}
	described, err := pg.Prepare(ctx, "", sql, nil)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		bound[i] = postgresArgument(argument(arg), described.ParamOIDs[i])
	}
	return pg.ExecPrepared(ctx, "", bound, nil, nil), nil
}

// texts writes the values of rows as JSON.
func (e *postgresEngine) texts(ctx context.Context, conn *pgx.Conn, types []uint32, rows [][][]byte) ([][]string, error) {
	writers := make([]func(string) string, len(types))
	for i, oid := range types {
		element, err := e.element(ctx, conn, oid)
		if err != nil {
			return nil, err
		}
		writers[i] = postgresWriter(oid, element)
	}
	texts := make([][]string, len(rows))
	for i, row := range rows {
		texts[i] = make([]string, len(row))
		for j, value := range row {
			texts[i][j] = null
			if value != nil {
				texts[i][j] = writers[j](string(value))
			}
		}
	}
	return texts, nil
}

// element is the type of the elements of an array type, 0 of any other type. The server is asked once about a type that
// the driver does not know, such as an array of an enum.
func (e *postgresEngine) element(ctx context.Context, conn *pgx.Conn, oid uint32) (uint32, error) {
	if t, ok := conn.TypeMap().TypeForOID(oid); ok {
		if array, ok := t.Codec.(*pgtype.ArrayCodec); ok {
			return array.ElementType.OID, nil
		}
		return 0, nil
	}
	if element, ok := e.elements.Load(oid); ok {
		return element.(uint32), nil // nothing else is stored
	}
	const query = "SELECT typelem FROM pg_catalog.pg_type WHERE oid = $1 AND typcategory = 'A'"
	found := conn.PgConn().ExecParams(ctx, query, [][]byte{fmt.Append(nil, oid)}, nil, nil, nil).Read()
	if found.Err != nil {
		return 0, found.Err
	}
	var element uint32
	if len(found.Rows) == 1 {
		if _, err := fmt.Sscan(string(found.Rows[0][0]), &element); err != nil {
			return 0, err
		}
	}
	e.elements.Store(oid, element)
	return element, nil
}
