package main

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/trial"
)

// TestExamplesBehaveAsTheirCasesSay runs the cases beside each example, as `gateway test` does.
func TestExamplesBehaveAsTheirCasesSay(t *testing.T) {
	for _, name := range exampleFolders(t) {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("../../examples", name)
			cases, err := trial.Load(filepath.Join(folder, "cases.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			c, err := check(config.Load(filepath.Join(folder, "gateway.yaml"), exampleEnvironment(t)))
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

// exampleEnvironment is documentEnvironment with the database that an example asks, made of the SQL beside it, and the MCP
// server that another starts.
func exampleEnvironment(t *testing.T) func(string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	return func(name string) (string, bool) {
		switch name {
		case "COURT_DB":
			path := filepath.Join(dir, "court.db")
			makeDatabase(t.Context(), t, path, "../../examples/court-cases/court.sql")
			return "sqlite:" + path, true
		case "FILES_SERVER":
			path := filepath.Join(dir, "server")
			build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, "../../examples/files/server")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return path, true
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
