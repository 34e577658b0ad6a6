package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
	f.Root().Uses(filepath.Join(dir, "table.csv"), []byte("k,v\n"))

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

// With -c conf/gateway.yaml a file that it names was noted as conf/conf/NAME, so that its changes were not seen.
func TestUsesOfAFileInAFolderThatIsNamedRelatively(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("conf", 0o700); err != nil {
		t.Fatal(err)
	}
	const yaml = "a: ${file:key}\n"
	for path, text := range map[string]string{"conf/gateway.yaml": yaml, "conf/key": "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Sum{
		filepath.Join(wd, "conf/gateway.yaml"): SumOf([]byte(yaml)),
		filepath.Join(wd, "conf/key"):          SumOf([]byte("secret\n")),
	}
	if diff := cmp.Diff(want, Load("conf/gateway.yaml", noEnvironment).Uses()); diff != "" {
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

// A file of the host that the user of a container may not read was "permission denied", and nobody knew for whom.
func TestAFileThatMayNotBeReadSaysWho(t *testing.T) {
	got := reason(&os.PathError{Op: "open", Path: "/etc/gateway/gateway.yaml", Err: fs.ErrPermission})
	want := "permission denied: it has to be readable for user " + strconv.Itoa(os.Getuid()) + ", as whom this runs"
	if os.Getuid() < 0 { // Windows has no such numbers
		want = fs.ErrPermission.Error()
	}
	if got != want {
		t.Errorf("reason() = %q, want %q", got, want)
	}
}
