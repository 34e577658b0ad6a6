package script

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKeysAreDocumented holds the tables of docs/mock.md against the tags of the structs: a row for each key, in order.
func TestKeysAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/mock.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, v := range map[string]any{
		"A script": Script{}, "A conversation": Conversation{}, "A reply": Turn{}, "In place of a message": Body{},
		"The shape of a stream": Shape{}, "The connection": Wire{}, "`calls`": Call{}, "`usage`": Usage{}, "`stall`": Stall{},
		"`quirks`": Quirks{}, "`refuse`": Rule{},
	} {
		_, section, found := strings.Cut(string(data), "\n### "+heading+"\n")
		if !found {
			t.Errorf("docs/mock.md has no heading %q", heading)
		}
		section, _, _ = strings.Cut(section, "\n##")
		var got strings.Builder
		for line := range strings.Lines(section + "\n") {
			if strings.HasPrefix(line, "| `") {
				got.WriteString(line)
			}
		}
		if diff := cmp.Diff(rows(reflect.TypeOf(v)), got.String()); diff != "" {
			t.Errorf("%s (-tags +document):\n%s\nwant:\n%s", heading, diff, rows(reflect.TypeOf(v)))
		}
	}
}

func rows(t reflect.Type) string {
	var b strings.Builder
	for f := range t.Fields() {
		if key := f.Tag.Get("yaml"); key != "" && !strings.HasPrefix(key, ",") {
			doc := f.Tag.Get("doc")
			if doc == "" {
				doc = "(without a doc tag)"
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", key, doc)
		}
	}
	return b.String()
}
