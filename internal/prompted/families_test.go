package prompted

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected parts of golden files")

// Each file is what one family of models writes for a call: the text, and the calls that it is, read where the whole
// text has to be calls and where text may stand around them.
func TestFamilies(t *testing.T) {
	files, err := filepath.Glob("testdata/families/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.TrimSuffix(string(archive.Files[0].Data), "\n")
			got := said(t, known.Read(AfterThoughts(text)))
			if got == "" {
				t.Error("not read as calls")
			}
			for name, around := range map[string]string{"alone": text, "with text before": "Let me look.\n" + text, "with text around": "Let me look.\n\n" + text + "\nOne moment, please."} {
				if thoughts(text) > 0 && name != "alone" {
					continue
				}
				found := known.Find(around)
				if diff := cmp.Diff(got, said(t, found.Calls)); diff != "" {
					t.Errorf("%s (-read +found):\n%s", name, diff)
				}
				if before := strings.TrimSpace(found.Before); name != "alone" && before != "Let me look." {
					t.Errorf("%s: the text before is %q", name, before)
				}
				if strings.Contains(found.Said, "One moment") {
					t.Errorf("%s: what was said goes on behind the calls: %q", name, found.Said)
				}
			}
			want := fmt.Appendf(nil, "%s\n", strings.ReplaceAll(got, "|", "\n"))
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "calls", Data: want})
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 {
				t.Fatal("no calls in the file: run make golden")
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), string(want)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}
