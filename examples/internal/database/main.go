// Command database makes a SQLite file of the statements of a .sql file, as sqlite3 FILE < SQL does where it is installed.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	_ "modernc.org/sqlite" // the driver
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes the file of statements and the one to make, which must not be there.
func run(ctx context.Context, args []string) (failed error) {
	if len(args) != 2 {
		return errors.New("want a file of SQL and the database to make")
	}
	statements, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	made, err := os.OpenFile(args[1], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := made.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", args[1])
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, db.Close()) }()
	_, err = db.ExecContext(ctx, string(statements)) //nolint:gosec // to run the statements of a file is what it is for
	return err
}
