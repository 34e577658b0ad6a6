package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/trial"
)

// TestExamplesBehaveAsTheirCasesSay runs the cases beside each example, as `gateway test` does.
func TestExamplesBehaveAsTheirCasesSay(t *testing.T) {
	files, err := filepath.Glob("../../examples/cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cases, err := trial.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			example := filepath.Join("../../examples", filepath.Base(file))
			c, err := check(config.Load(example, exampleEnvironment(t)))
			if err != nil {
				t.Fatal(err)
			}
			c.Log.Level = "error"
			var out strings.Builder
			if err := runTrials(t.Context(), &out, c, []*trial.File{cases}, ""); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}

// exampleEnvironment is documentEnvironment with the databases that examples ask, made of the SQL beside them.
func exampleEnvironment(t *testing.T) func(string) (string, bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "court.db")
	return func(name string) (string, bool) {
		if name == "COURT_DB" {
			makeDatabase(t.Context(), t, path, "../../examples/court-cases.sql")
			return "sqlite:" + path, true
		}
		return documentEnvironment(name)
	}
}

func makeDatabase(ctx context.Context, t *testing.T, path, script string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, string(text)); err != nil {
		t.Fatal(err)
	}
}
