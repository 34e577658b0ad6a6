package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUsesAreTheFilesThatWereRead(t *testing.T) {
	dir := t.TempDir()
	main, key, empty := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "key"), filepath.Join(dir, "empty")
	yaml := "a: ${file:key}\nb: ${file:empty}\nc: ${file:absent}\n"
	for path, text := range map[string]string{main: yaml, key: "secret\n", empty: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := Load(main, noEnvironment)
	f.Root().Uses("table.csv", []byte("k,v\n"))

	want := map[string]Sum{
		main:                            SumOf([]byte(yaml)),
		key:                             SumOf([]byte("secret\n")),
		empty:                           SumOf(nil),
		filepath.Join(dir, "absent"):    {},
		filepath.Join(dir, "table.csv"): SumOf([]byte("k,v\n")),
	}
	if diff := cmp.Diff(want, f.Uses()); diff != "" {
		t.Errorf("Uses (-want +got):\n%s", diff)
	}
}

func TestUsesOfAFileThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	want := map[string]Sum{path: {}}
	if diff := cmp.Diff(want, Load(path, noEnvironment).Uses()); diff != "" {
		t.Errorf("Uses (-want +got):\n%s", diff)
	}
}

func noEnvironment(string) (string, bool) { return "", false }
