package schema

import (
	"encoding/json"
	"testing"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// fromYAML reads the key `parameters` of a file, with its key `schemas` for the named ones, and fails on problems.
func fromYAML(t testing.TB, text string) *Schema {
	t.Helper()
	s, f := readYAML(t, text)
	if p := f.Problems(); p != nil {
		t.Fatalf("problems:\n%v", p)
	}
	if s == nil {
		t.Fatal("no schema and no problem")
	}
	return s
}

func readYAML(t testing.TB, text string) (*Schema, *config.File) {
	t.Helper()
	f := config.Parse("gateway.yaml", "testdata", []byte(text), func(string) (string, bool) { return "", false })
	if p := f.Problems(); p != nil {
		t.Fatalf("the YAML itself:\n%v", p)
	}
	named := map[string]json.RawMessage{}
	for _, name := range f.Root().Get("schemas").Keys() {
		named[name] = f.Root().Get("schemas").Get(name).JSON()
	}
	return FromNode(f.Root().Get("parameters"), named), f
}

func parse(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// value decodes JSON with json.Number.
func value(t testing.TB, text string) any {
	t.Helper()
	v, err := jsontree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.Any()
}

func arguments(t testing.TB, text string) map[string]any {
	t.Helper()
	return value(t, text).(map[string]any)
}

func numberOf(s string) json.Number { return json.Number(s) }
