package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Whatever a text is, it is read again as the same text: no number, no reference, no other value.
func TestQuotedTextsAreReadAgain(t *testing.T) {
	read := func(text string) (*Node, Problems) {
		f := Parse("printed.yaml", ".", []byte("k: "+quote(text)+"\n"), func(string) (string, bool) { return "replaced", true })
		return f.Root().Get("k"), f.Problems()
	}
	check := func(t interface {
		Errorf(format string, args ...any)
	}, text string,
	) {
		n, p := read(text)
		if p != nil || n.Kind() != String || n.Text() != text {
			t.Errorf("%q is written as %s and read as %s %q, %v", text, quote(text), n.Kind(), n.Text(), p)
		}
	}
	for _, text := range []string{
		"", "plain", "two words", "***", "null", "~", "true", "1.10", "0x1F", "- a", "a: b", "a #b", "[a]", "{a}", "'", `"`, `\`, "a\nb\n", " a", "a ",
		"${NAME}", "$${NAME}", "$$${NAME}", "${file:x}", "$", "a$", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a", "\t", "é", "\u2028", "\u0085", "\ufeff", "\u007f", "🙂",
		"http://a.test:8080/v1", "http://a.test:", ".", "_", "..", ".5", "+1", "<<", "=",
	} {
		check(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", " ", "$", "{", "}", "${", "N}", ":", "#", "-", "\n", "'", `"`, `\`, "1", ".", "*", "é"})).Draw(t, "text"), ""))
	})
}

type printedConfig struct {
	Name  string           `yaml:"name"`
	Key   Secret           `yaml:"key"`
	Wait  Duration         `yaml:"wait" min:"1ms"`
	Size  Size             `yaml:"size"`
	Count int              `yaml:"count" min:"1"`
	On    bool             `yaml:"on"`
	List  []string         `yaml:"list"`
	Of    Map[printedPart] `yaml:"of"`
	Rest  *Node            `yaml:"rest"`
	Later string           `yaml:"later" later:"*"`
}

type printedPart struct {
	URL     string      `yaml:"url"`
	Headers Map[string] `yaml:"headers"`
	Env     Map[string] `yaml:"env"`
	Limit   *int        `yaml:"limit"`
}

func (c *printedConfig) SetDefaults() { c.Wait, c.Size = Duration(5e9), 20<<20 }

// plainly masks nothing further.
type plainly struct{}

func (plainly) Known(s string) string { return s }
func (plainly) Text(s string) string  { return s }

func TestEffective(t *testing.T) {
	f := Parse("gateway.yaml", ".", []byte(`
name: ${SHORT}
key: k
list: [a, "${LONG}"]
of:
  env: {url: "${URL}/v1", headers: {Accept: x, X-Api-Key: k}, env: {MODE: fast}}
  bare: {}
rest: {one: {parameters: {env: {type: string}}}, n: 1.10, e: [], t: "a ${SHORT} b"}
`), func(name string) (string, bool) {
		return map[string]string{"SHORT": "ab", "LONG": "long-value", "URL": "https://a.test"}[name], true
	})
	var c printedConfig
	f.Decode(&c)
	if p := f.Problems(); p != nil {
		t.Fatal(p)
	}
	const want = `name: "***"
key: "***"
wait: 5s
size: 20MiB
on: false
list:
  - a
  - "***"
of:
  env:
    url: https://a.test/v1
    headers:
      Accept: x
      X-Api-Key: "***"
    env:
      MODE: "***"
  bare: {}
rest:
  one:
    parameters:
      env:
        type: string
  n: 1.10
  e: []
  t: a *** b
`
	got := string(f.Effective(&c, nil, plainly{}))
	if diff := cmp.Diff(strings.ReplaceAll(want, "t: a *** b", `t: "a *** b"`), got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
