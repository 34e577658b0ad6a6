package table

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/tooltest"
)

func TestLookUp(t *testing.T) {
	const rows = "rows: {furto: 1003, 'colisao leve': 1007, 7: {a: 1.0}}"
	for _, tt := range []struct{ name, yaml, term, want string }{
		{"a key", "table: {" + rows + ", key: '{term}'}", "furto", "1003"},
		{"evened out", "table: {" + rows + ", key: '{term}', normalize: [lower, trim, accents]}", " Colisão LEVE ", "1007"},
		{"a key that is a number, and a value that is none", "table: {" + rows + ", key: '{term}'}", "7", `{"a":1.0}`},
		{"a default with placeholders", "table: {" + rows + ", key: '{term}', default: 'no {term}'}", "x", "no x"},
		{"a default that is a number", "table: {" + rows + ", key: '{term}', default: -1}", "x", "-1"},
		{"a key of several parts", "table: {rows: {a-b: yes}, key: '{term}-b'}", "a", "yes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tooltest.Make(t, Kind, tool.Env{}, tt.yaml, "term").Call(t.Context(), tool.Call{Args: map[string]any{"term": tt.term}})
			if err != nil || got.Text != tt.want {
				t.Errorf("Call() = %q, %v; want %q", got.Text, err, tt.want)
			}
		})
	}
	_, err := tooltest.Make(t, Kind, tool.Env{}, "table: {"+rows+", key: '{term}'}", "term").Call(t.Context(), tool.Call{Args: map[string]any{"term": "x"}})
	tooltest.WantError(t, err, tool.Business, "")
}

func TestCSV(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("codes.csv", "\xef\xbb\xbfname,code,note\nfurto,1003,\"a, b\"\nroubo,1004,\n")
	twice := write("twice.csv", "name,code\nA,1\nb,2\na,3\n")
	ragged := write("ragged.csv", "name,code\nA\n")
	yaml := func(path, value string) string {
		return "table: {file: " + path + ", key_column: name, value_column: " + value + ", key: '{term}', normalize: [lower]}"
	}
	got, err := tooltest.Make(t, Kind, tool.Env{}, yaml(good, "note"), "term").Call(t.Context(), tool.Call{Args: map[string]any{"term": "FURTO"}})
	if err != nil || got.Text != "a, b" {
		t.Errorf("Call() = %q, %v", got.Text, err)
	}
	term := []string{"term"}
	tooltest.CheckRefuses(t, Kind, []tooltest.Refuses{
		{Name: "no such file", YAML: yaml(filepath.Join(dir, "none.csv"), "code"), Want: "no such file", Params: term},
		{Name: "no such column", YAML: yaml(good, "kode"), Want: "two of its columns: name, code, note", Params: term},
		{Name: "a key twice", YAML: yaml(twice, "code"), Want: "line 4: another line has the same key", Params: term},
		{Name: "a short line", YAML: yaml(ragged, "code"), Want: "wrong number of fields", Params: term},
		{Name: "rows beside a file", YAML: "table: {file: " + good + ", rows: {a: 1}, key: '{term}'}", Want: "want either rows or a file", Params: term},
		{Name: "no table", YAML: "table: {key: '{term}'}", Want: "want either rows or a file", Params: term},
		{Name: "no key", YAML: "table: {rows: {a: 1}}", Want: "key is missing"},
		{Name: "a key that is no parameter", YAML: "table: {rows: {a: 1}, key: '{trem}'}", Want: "did you mean", Params: term},
		{Name: "a way to even out that is none", YAML: "table: {rows: {a: 1}, key: '{term}', normalize: [upper]}", Want: "want lower, trim or accents", Params: term},
		{Name: "two keys that are the same", YAML: "table: {rows: {a: 1, A: 2}, key: '{term}', normalize: [lower]}", Want: "another key is the same", Params: term},
	})
}
