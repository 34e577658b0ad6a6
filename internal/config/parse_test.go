package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseToJSON(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"an empty file is an empty mapping":             {"", `{}`},
		"so is one of comments":                         {"# nothing\n\n", `{}`},
		"so is one with a lone separator":               {"---\n", `{}`},
		"so is one that says null":                      {"~\n", `{}`},
		"a byte order mark is skipped":                  {"\ufeffa: 1", `{"a":1}`},
		"a directive and separators are no content":     {"%YAML 1.2\n---\na: 1\n...\n", `{"a":1}`},
		"keys keep the file's order":                    {"b: 1\na: 2\n10: 3\n1: 4", `{"b":1,"a":2,"10":3,"1":4}`},
		"numbers keep their spelling":                   {"[1.10, 9007199254740993, 1e3, -0, 1E-7]", `[1.10,9007199254740993,1e3,-0,1E-7]`},
		"numbers that JSON lacks are spelled its way":   {"[0123, 089, +5, .5, -.5, 5., 0o17, 0x1F, 007.50, 00]", `[123,89,5,0.5,-0.5,5,15,31,7.50,0]`},
		"a number of any length is a number":            {"a: 123456789012345678901234567890", `{"a":123456789012345678901234567890}`},
		"what looks like a number only elsewhere":       {"[1_000, 0b1, .inf, .nan, 1:30, 2024-10-21, 0x, 1e, '1']", `["1_000","0b1",".inf",".nan","1:30","2024-10-21","0x","1e","1"]`},
		"booleans are true and false":                   {"[true, False, TRUE, yes, on, off, 'true']", `[true,false,true,"yes","on","off","true"]`},
		"null has five spellings":                       {"[null, ~, Null, NULL, 'null', '']\n", `[null,null,null,null,"null",""]`},
		"<>& stay as they are":                          {"a: <b> & \"c\"", `{"a":"<b> & \"c\""}`},
		"a mapping in a list in a mapping":              {"a:\n- b: 1\n  c:\n  - d\n-\n", `{"a":[{"b":1,"c":["d"]},null]}`},
		"a literal block keeps its lines":               {"a: |\n  x\n\n   y\nb: 1", `{"a":"x\n\n y\n","b":1}`},
		"a folded block joins its lines":                {"a: >-\n  x\n  y\nb: 1", `{"a":"x y","b":1}`},
		"a tag makes a text of a number":                {"a: !!str 0123\nb: !!str \"\"\nc: !!int \"5\"\nd: ! 1", `{"a":"0123","b":"","c":5,"d":"1"}`},
		"CR LF ends a line":                             {"a: 1\r\nb: |\r\n  x\r\n  y\r\n", `{"a":1,"b":"x\ny\n"}`},
		"an alias is a copy":                            {"a: &x {k: [1]}\nb: *x\nc: [*x, *x]", `{"a":{"k":[1]},"b":{"k":[1]},"c":[{"k":[1]},{"k":[1]}]}`},
		"an alias means the last anchor before it":      {"a: &x 1\nb: *x\nc: &x 2\nd: *x", `{"a":1,"b":1,"c":2,"d":2}`},
		"an alias in a copy means what it meant before": {"a: &x 1\nb: &y {v: *x}\nc: &x 2\nd: *y\ne: *x", `{"a":1,"b":{"v":1},"c":2,"d":{"v":1},"e":2}`},
		"a merge key gives what is not there":           {"a: &a {x: 1, y: 2}\nb: {y: 3, <<: *a, z: 4}", `{"a":{"x":1,"y":2},"b":{"y":3,"x":1,"z":4}}`},
		"the first of several merged wins":              {"a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]", `{"a":{"x":1},"b":{"x":2,"y":2},"c":{"x":1,"y":2}}`},
		"merges of merges":                              {"a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b}", `{"a":{"x":1,"y":1},"b":{"y":1,"x":2},"c":{"x":2,"y":1}}`},
		"an inline mapping is merged and can be named":  {"a: {<<: &m {x: 1}}\nb: *m", `{"a":{"x":1},"b":{"x":1}}`},
		"a quoted << is a plain key":                    {"a: {\"<<\": 1}", `{"a":{"<<":1}}`},
		"an anchor on a key names its text":             {"&k a: 1\nb: 2", `{"a":1,"b":2}`},
		"a key may be marked":                           {"? a\n: 1", `{"a":1}`},
		"JSON with tabs":                                {"{\n\t\"a\": [1.0, -2e+5, null],\n\t\"b\": \"\\ud83d\\ude00\\/\"\n}", `{"a":[1.0,-2e+5,null],"b":"😀/"}`},
		"JSON without a blank":                          {`{"a":{"b":"c"},"d":[{}]}`, `{"a":{"b":"c"},"d":[{}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, c.yaml)
			if f.Problems() != nil {
				t.Errorf("Problems() = %v", f.Problems())
			}
			if got := string(f.Root().JSON()); got != c.want {
				t.Errorf("JSON() = %s, want %s", got, c.want)
			}
		})
	}
}

func TestNodesKnowTheirPlace(t *testing.T) {
	const yaml = "# é\n" +
		"a:   {b: x, 'ü': [1, \"y\"]}\n" +
		"tab:\tz\n" +
		"list:\n- q\n-   r: s\n" +
		"block: |\n  text\n" +
		"long: one\n  two\n" +
		"anchor: &x {k: v}\nalias: *x\nempty:\nlast: !!str 1\n"
	f := parse(t, yaml)
	var got strings.Builder
	var walk func(n *Node)
	walk = func(n *Node) {
		fmt.Fprintf(&got, "%s %d:%d %s\n", n.Path(), n.Pos().Line, n.Pos().Col, n.Kind())
		for _, key := range n.Keys() {
			walk(n.Get(key))
		}
		for _, item := range n.Items() {
			walk(item)
		}
	}
	walk(f.Root())
	const want = ` 2:1 a mapping
a 2:6 a mapping
a.b 2:10 a text
a.ü 2:18 a list
a.ü.0 2:19 a number
a.ü.1 2:22 a text
tab 3:6 a text
list 5:1 a list
list.0 5:3 a text
list.1 6:5 a mapping
list.1.r 6:8 a text
block 7:8 a text
long 9:7 a text
anchor 11:12 a mapping
anchor.k 11:16 a text
alias 12:8 a mapping
alias.k 11:16 a text
empty 13:7 null
last 14:13 a text
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANilNodeIsAnAbsentValue(t *testing.T) {
	var n *Node
	n.Fail("x")
	n.FailKey("k", "x")
	n.Warn("x")
	s := server{}
	n.Decode(&s)
	n.DecodeKnown(&budget{}, "x")
	if n.Path() != "" || n.Pos() != (Pos{}) || n.Kind() != Null || n.Get("x") != nil || n.Keys() != nil || n.Items() != nil ||
		n.Text() != "" || n.JSON() != nil || n.Dir() != "" || n.Fragment("x", nil) != nil {
		t.Error("a nil Node is not zero")
	}
	if s.MaxInflight != 1024 {
		t.Errorf("Decode() of nothing = %+v, want the defaults", s)
	}
}

func TestLimits(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10))
	}
	merges := "m: &m {" + strings.ReplaceAll(manyKeys(999), "\n", ", ") + "}\n"
	for i := range 150 {
		merges += fmt.Sprintf("m%d: {<<: *m}\n", i)
	}
	chain := "a0: &a0 [x]\n"
	for i := 1; i < 150; i++ {
		chain += fmt.Sprintf("a%d: &a%d [*a%d]\n", i, i, i-1)
	}
	var deep strings.Builder
	for i := range 101 {
		fmt.Fprintf(&deep, "%sk:\n", strings.Repeat(" ", i))
	}
	for name, c := range map[string]struct{ yaml, want string }{
		"aliases of aliases":       {bomb, "the aliases of the file stand for more than 100000 values"},
		"merges of merges":         {merges, "the merge keys of the file stand for more than 100000 values"},
		"aliases one in the other": {chain, "nested more than 100 levels deep"},
		"brackets":                 {strings.Repeat("[", 1000), "nested more than 100 levels deep"},
		"braces":                   {strings.Repeat("{a: ", 101), "nested more than 100 levels deep"},
		"valid JSON":               {strings.Repeat(`{"a":[`, 60) + strings.Repeat("]}", 60), "nested more than 100 levels deep"},
		"dashes":                   {strings.Repeat("- ", 1<<16) + "x", "nested more than 100 levels deep"},
		"indentation":              {deep.String(), "nested more than 100 levels deep"},
		"keys":                     {manyKeys(maxKeys + 1), "a mapping with more than 10000 keys"},
		"a long key":               {strings.Repeat("k", 1025) + ": x", "a key of more than 1024 characters"},
		"values":                   {strings.Repeat("-\n", 1<<18), "too much in one file: more than 200000 keys, values and signs"},
		"angle brackets":           {"a: " + strings.Repeat("<", 1<<20), "more than 255 characters < in a row"},
		"copies of a long text":    {"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 65) + "]", "the aliases and ${...} of the file stand for more than 64MiB"},
		"bytes":                    {"a: " + strings.Repeat("x", MaxBytes), "the file is too large: more than 4MiB"},
		"no UTF-8":                 {"a: 1\nb: é\xff", "the file must be UTF-8: the byte 0xff is not"},
		"a control character":      {"a: 1\nb: é\x00", `the control character 0x00 is not allowed: write "\x00" in double quotes`},
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, c.yaml)
			ps := f.Problems()
			if len(ps) != 1 || ps[0].Message != c.want || ps[0].Pos.Line < 1 || ps[0].Pos.Col < 1 {
				t.Errorf("Problems() = %v, want one: %s", ps, c.want)
			}
		})
	}
}

func TestWhatIsJustWithinTheLimits(t *testing.T) {
	for name, yaml := range map[string]string{
		"depth":      strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"keys":       manyKeys(maxKeys),
		"JSON":       `{"a":[` + strings.Repeat(`{"a":1},`, 250_000) + `1]}`,
		"text":       "a: |\n" + strings.Repeat("  some text\n", 100_000),
		"same level": "a:\n" + strings.Repeat("- b:\n  - c: {d: [e]}\n", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, yaml)
			if f.Problems() != nil || !json.Valid(f.Root().JSON()) {
				t.Errorf("Problems() = %v", f.Problems())
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	return b.String()
}

func TestLoadReadsRelativeToItsFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.yaml")
	write(t, path, "a: ${file:key.txt}\n")
	write(t, filepath.Join(dir, "key.txt"), "k-e-y-1\r\n")
	f := Load(path, environment)
	if got := f.Root().Get("a").Text(); got != "k-e-y-1" || f.Root().Dir() != dir {
		t.Errorf("Text() = %q in %s: %v", got, f.Root().Dir(), f.Problems())
	}

	f = Load(filepath.Join(dir, "none.yaml"), environment)
	if got, want := f.Problems().Error(), filepath.Join(dir, "none.yaml")+":1:1: the file can't be read: no such file or directory"; got != want {
		t.Errorf("Problems() = %q, want %q", got, want)
	}

	write(t, path, string(bytes.Repeat([]byte("#"), MaxBytes+1)))
	if got := Load(path, environment).Problems().Error(); !strings.Contains(got, "more than 4MiB") {
		t.Errorf("Problems() = %q", got)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFragmentReportsUnderItsOwnName(t *testing.T) {
	f := parse(t, "tools: {x: 1}\nbudget: {max_stepz: 1}")
	f.Decode(&sample{})
	n := f.Root().Get("tools")
	lead := n.Fragment("schemas/lead.yaml", []byte("type: object\nsecret: ${SECRET}\n"))
	lead.Get("secret").Fail("is no keyword, got %q", lead.Get("secret").Text())
	if got, want := lead.Dir(), filepath.Join(n.Dir(), "schemas"); got != want {
		t.Errorf("Dir() = %s, want %s", got, want)
	}
	if n.Fragment("bad.json", []byte("{]")) != nil {
		t.Error("a broken fragment is not nil")
	}
	n.Fragment("a.json", []byte("{\"a\": 1,\n \"a\": 2}"))
	const want = `gateway.yaml:2:10: budget.max_stepz: unknown key "max_stepz": did you mean "max_steps"?
a.json:2:2: a: duplicate key: it is set already at line 1
bad.json:1:2: not valid YAML: could not find flow map content: want key: value between { and }, and the closing }
schemas/lead.yaml:2:9: secret: is no keyword, got "${SECRET}"`
	if diff := cmp.Diff(want, f.Problems().Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWarningsAreNoProblems(t *testing.T) {
	f := parse(t, "b: 1\na: 2")
	f.Root().Get("a").Warn("is late")
	f.Root().Get("b").Warn("is early")
	f.Root().Get("b").Warn("is early")
	const want = "gateway.yaml:1:4: b: is early\ngateway.yaml:2:4: a: is late"
	if got := f.Warnings().Error(); got != want || f.Problems() != nil {
		t.Errorf("Warnings() = %q, Problems() = %v", got, f.Problems())
	}
}

// `{description: 8 digits, no dots}` is valid YAML for something that nobody means.
func TestACommaInAnUnquotedTextIsWarnedOf(t *testing.T) {
	f := parse(t, "cep: {type: string, description: 8 digits, no dots.}\nb: {c: }\n? d\n")
	const want = "gateway.yaml:1:44: cep.no dots.: this is read as a key without a value: put a text that holds a comma in quotes"
	if got := f.Warnings().Error(); got != want || f.Problems() != nil {
		t.Errorf("Warnings() = %q, %v", got, f.Problems())
	}
}
