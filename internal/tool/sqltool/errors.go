package sqltool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"

	"github.com/toolgate/toolgate/internal/tool"
)

// TypeSQL is the type of failure of a statement that the database refused.
const TypeSQL = "SQLError"

// failure says what kind of failure an error is. Where ctx is done that is the reason, whatever the error says: nobody
// waits for more, and both drivers tell of it in many words. No text of a database reaches the model.
func failure(ctx context.Context, err error) *tool.Error {
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return &tool.Error{Class: tool.Timeout, Type: tool.TypeTimeout, Err: err}
	}
	if errors.Is(err, errTooLarge) {
		return &tool.Error{Class: tool.InvalidResult, Type: tool.TypeDecode, Err: err}
	}
	e := &tool.Error{Class: tool.Failed, Type: TypeSQL, Err: err}
	switch e.Class = classOf(err); e.Class {
	case tool.Timeout:
		e.Type = tool.TypeTimeout
	case tool.Unavailable:
		e.Type = tool.TypeConnect
	case tool.Failed, tool.InvalidResult, tool.Business, tool.ExitError:
	}
	return e
}

// classOf is the class of what a driver reports within its time.
func classOf(err error) tool.Class {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return tool.Unavailable
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classOfState(e.Code)
	}
	if e, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		return classOfSQLite(e.Code())
	}
	if _, ok := errors.AsType[*connectionError](err); ok {
		return tool.Unavailable
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, errClosed) {
		return tool.Unavailable
	}
	return tool.Failed
}

// connectionError is an error of a connection, as opposed to one that the database answered with.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return "connection: " + e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// classOfState is the class of an SQLSTATE (PostgreSQL, appendix A).
func classOfState(code string) tool.Class {
	switch code {
	case "57014", // query_canceled: statement_timeout, or an operator
		"55P03", // lock_not_available: lock_timeout
		"25P03", // idle_in_transaction_session_timeout
		"25P04": // transaction_timeout
		return tool.Timeout
	case "57P01", "57P02", "57P03", "57P05", // the server or the session is being shut down
		"40001", "40P01": // another transaction was in the way: serialization, deadlock
		return tool.Unavailable
	}
	if len(code) == 5 && slices.Contains([]string{"08", "53"}, code[:2]) { // connection; too many of them, no memory
		return tool.Unavailable
	}
	return tool.Failed
}

// The result codes of SQLite that pass, or that are about reaching the file (sqlite.org/rescode.html).
const (
	sqliteBusy      = 5
	sqliteLocked    = 6
	sqliteInterrupt = 9
	sqliteIOErr     = 10
	sqliteCantOpen  = 14
	sqliteProtocol  = 15
)

func classOfSQLite(code int) tool.Class {
	switch code & 0xff { // the rest says more of the same
	case sqliteBusy, sqliteLocked, sqliteIOErr, sqliteCantOpen, sqliteProtocol:
		return tool.Unavailable
	case sqliteInterrupt:
		return tool.Timeout
	}
	return tool.Failed
}
