package sqltool

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestFailures(t *testing.T) {
	state := func(code string) error { return fmt.Errorf("x: %w", &pgconn.PgError{Code: code, Message: "secret"}) }
	tests := []struct {
		name  string
		err   error
		class tool.Class
		kind  string
	}{
		{"a syntax error", state("42601"), tool.Failed, TypeSQL},
		{"a value that is there already", state("23505"), tool.Failed, TypeSQL},
		{"a write in a transaction that reads", state("25006"), tool.Failed, TypeSQL},
		{"a statement that took too long", state("57014"), tool.Timeout, tool.TypeTimeout},
		{"a lock that took too long", state("55P03"), tool.Timeout, tool.TypeTimeout},
		{"too many connections", state("53300"), tool.Unavailable, tool.TypeConnect},
		{"a server that shuts down", state("57P01"), tool.Unavailable, tool.TypeConnect},
		{"a connection that the server lost", state("08006"), tool.Unavailable, tool.TypeConnect},
		{"a deadlock", state("40P01"), tool.Unavailable, tool.TypeConnect},
		{"a code that is none", state("53"), tool.Failed, TypeSQL},
		{"a connection that broke", broken(io.ErrUnexpectedEOF), tool.Unavailable, tool.TypeConnect},
		{"an answer stays one", broken(state("42601")), tool.Failed, TypeSQL},
		{"a connection that is bad", driver.ErrBadConn, tool.Unavailable, tool.TypeConnect},
		{"databases that are closed", errClosed, tool.Unavailable, tool.TypeConnect},
		{"a large result", broken(errTooLarge), tool.InvalidResult, tool.TypeDecode},
		{"anything else", errors.New("x"), tool.Failed, TypeSQL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := failure(t.Context(), tt.err)
			wantError(t, err, tt.class, tt.kind)
			if !errors.Is(err, tt.err) {
				t.Errorf("%v has lost its reason", err)
			}
		})
	}
	for code, class := range map[int]tool.Class{
		1: tool.Failed, 19 | 8<<8: tool.Failed, 26: tool.Failed, 8: tool.Failed,
		5: tool.Unavailable, 5 | 2<<8: tool.Unavailable, 6: tool.Unavailable, 14: tool.Unavailable, 10 | 1<<8: tool.Unavailable,
		9: tool.Timeout,
	} {
		if got := classOfSQLite(code); got != class {
			t.Errorf("code %d of SQLite is %s, want %s", code, got, class)
		}
	}
}

func TestTheTimeIsTheReasonOnceItIsUp(t *testing.T) {
	why := errors.New("the tool's timeout has passed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err := failure(ctx, broken(io.EOF))
	wantError(t, err, tool.Timeout, tool.TypeTimeout)
	if !errors.Is(err, why) || !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want it to say why, and what came of it", err)
	}
}
