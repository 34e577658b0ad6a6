package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The reference is what the schema says today.
func TestReferenceIsThatOfTheSchema(t *testing.T) {
	const file = "../../docs/configuration.md"
	want := reference(fileSchema())
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/configuration.md is not what gateway schema --markdown prints (make golden writes it anew):\n%s", diff)
	}
}

// Every key has a word on what it is for.
func TestKeysOfTheReferenceAreExplained(t *testing.T) {
	for line := range strings.Lines(reference(fileSchema())) {
		if strings.HasSuffix(strings.TrimSpace(line), " |  |") {
			t.Errorf("no word on %s", line)
		}
	}
}

// Each kind of tool has an example in the guide to tools.
func TestKindsAreInTheGuideToTools(t *testing.T) {
	guide, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds(nil) {
		if !strings.Contains(string(guide), "    "+k.Name+":") {
			t.Errorf("docs/tools.md has no example of %s", k.Name)
		}
	}
}
