package schema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
)

// files writes files to a folder of their own and reads the key `parameters` of its gateway.yaml.
func inFolder(t *testing.T, files map[string]string) (*Schema, *config.File) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := config.Load(filepath.Join(dir, "gateway.yaml"), func(string) (string, bool) { return "", false })
	return FromNode(f.Root().Get("parameters"), Named(f.Root().Get("schemas"))), f
}

// JSON files are read by a YAML parser, for the sake of their lines. What JSON can say must come out of it unchanged.
func TestJSONFilesComeOutAsTheyAre(t *testing.T) {
	for name, text := range map[string]string{
		"spread out with tabs":    "{\n\t\"type\":\t\"object\",\n\t\"properties\": {\n\t\t\"a\": {\n\t\t\t\"type\": \"string\"\n\t\t}\n\t}\n}\n",
		"on one line":             `{"type":"object","properties":{"a":{"type":"string","enum":["x","y"],"default":"x"},"b":{"type":"array","items":{"type":"object","properties":{}}}},"required":["a"]}`,
		"escapes":                 `{"type":"object","properties":{"a":{"description":"\"q\" \\ \/ \b\f\n\r\t \u00e9 \ud83d\ude42 \u0000"}}}`,
		"YAML's own characters":   `{"type":"object","properties":{"a":{"description":"- a: b # c, {d} [e] & *f ! | > % @ ` + "`" + ` ' ? : ","pattern":"^[^#:]*$"},"yes":{"enum":["no","null","~","1.0","on","","0x1F","2024-01-01"]}}}`,
		"numbers":                 `{"type":"object","properties":{"a":{"minimum":1e3,"maximum":1.5E+3,"multipleOf":0.10},"b":{"enum":[-0,-1,9007199254740993,123456789012345678901234567890]}}}`,
		"words":                   `{"type":"object","properties":{"a":{"default":null,"examples":[true,false,null]}}}`,
		"odd keys":                `{"type":"object","properties":{"":{},"a b":{},"c:d":{},"true":{},"1":{},"~":{},"- x":{},"é":{},"<<":{}}}`,
		"blanks in odd places":    "{ \"type\" : \"object\" ,\r\n\"properties\"\n:\n{ \"a\"\n: { } } }",
		"a long line":             `{"type":"object","properties":{"a":{"description":"` + strings.Repeat("word ", 3000) + `"}}}`,
		"a long key":              `{"type":"object","properties":{"` + strings.Repeat("k", 2000) + `":{}}}`,
		"text in other scripts":   `{"type":"object","properties":{"a":{"description":"São Paulo, 日本, 🙂, ` + "\u2028 \u0085 \u00a0" + `"}}}`,
		"lists that are nested":   `{"type":"object","properties":{"a":{"enum":[[],[[]],[{}],{"x":[1,[2,{"y":null}]]}]}}}`,
		"a text of several words": `{"type":"object","properties":{"a":{"description":"a  b   c "}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, f := inFolder(t, map[string]string{"gateway.yaml": `parameters: {$file: s.json}`, "s.json": text})
			if p := f.Problems(); p != nil {
				t.Fatal(p)
			}
			want := parse(t, text)
			if diff := cmp.Diff(string(want.JSON()), string(s.JSON())); diff != "" {
				t.Errorf("the file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilesMayTakeInFilesRelativeToThemselves(t *testing.T) {
	s, f := inFolder(t, map[string]string{
		"gateway.yaml":  "parameters: {a: {$file: sub/a.yaml}, t: {$ref: '#/schemas/tree'}}\nschemas: {tree: {$file: sub/tree.json}}",
		"sub/a.yaml":    "type: object\nproperties: {b: {$file: b.json}, own: {$ref: '#/$defs/own'}}\n$defs: {own: {type: boolean}}",
		"sub/b.json":    `{"type": "string"}`,
		"sub/tree.json": `{"type": "object", "properties": {"next": {"$file": "tree.json"}}}`,
	})
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	want := `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"},"own":{"type":"boolean"}}},` +
		`"t":{"type":"object","properties":{"next":{"$ref":"#/$defs/tree"}}}},"required":["a","t"],"$defs":{"tree":{"type":"object","properties":{"next":{"$ref":"#/$defs/tree"}}}}}`
	if got := string(s.JSON()); got != want {
		t.Errorf("JSON() = %s\nwant     %s", got, want)
	}
}

func TestNamedReportsEachFaultWhereItIs(t *testing.T) {
	f := config.Parse("gateway.yaml", ".", []byte(`
schemas:
  good: {type: string, pattern: '^a'}
  any: true
  uses: {type: object, properties: {g: {$ref: '#/schemas/good'}, n: {$ref: '#/schemas/none'}}}
  bad: {type: strng}
  worse: 5
  self: {$ref: '#/schemas/self'}
  default: {type: integer, default: x}
`), nil)
	named := Named(f.Root().Get("schemas"))
	if len(named) != 7 || string(named["good"]) != `{"type":"string","pattern":"^a"}` {
		t.Errorf("Named = %s", named)
	}
	want := `gateway.yaml:5:76: schemas.uses.properties.n.$ref: the reference "#/schemas/none" points to nothing
gateway.yaml:6:15: schemas.bad.type: unknown type "strng": did you mean "string"?
gateway.yaml:7:10: schemas.worse: want a JSON Schema, got a number
gateway.yaml:8:9: schemas.self: the schema "self" refers to itself without end
gateway.yaml:9:37: schemas.default.default: the default is refused by its own schema: must be an integer, got a string`
	if got := f.Problems().Error(); got != want {
		t.Errorf("problems:\n%s\nwant:\n%s", got, want)
	}
	if named := Named(nil); len(named) != 0 {
		t.Errorf("Named(nil) = %v", named)
	}
}
