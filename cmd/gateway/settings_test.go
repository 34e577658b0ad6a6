package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
)

// Each file in testdata/bad has faults of one sort, after which it is named; beside it is what is said of them.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = check(config.Parse(filepath.Base(file), filepath.Dir(file), data, documentEnvironment))
			if err == nil {
				t.Fatal("nothing is said of it")
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitsOfAKeyThatNobodyNeedsAreWarnedOf(t *testing.T) {
	const file = `upstreams: {up: {base_url: https://up.example.com/v1}}
auth: {open: true, keys: [{name: web, sha256: 997d500cb052336e01e272dcce29d85635f8451d4a163cf309f5ee3344ee7cef, limits: {concurrent: 1}}]}
`
	c, err := check(config.Parse("gateway.yaml", ".", []byte(file), documentEnvironment))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.warnings.Error(), "gateway.yaml:2:121: auth.keys.0.limits: auth.open is true: who leaves the key away has no limits"; got != want {
		t.Errorf("warnings = %s, want %s", got, want)
	}
}
