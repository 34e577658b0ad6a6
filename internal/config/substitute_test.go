package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSubstitution(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"a variable":                              {"a: ${LEVEL}", `{"a":"info"}`},
		"several in a scalar":                     {"a: ${LEVEL}-${STEPS}/${LEVEL}", `{"a":"info-7/info"}`},
		"what looks like a number stays a text":   {"a: ${STEPS}\nb: \"${STEPS}\"", `{"a":"7","b":"7"}`},
		"a default for what is unset or empty":    {"a: ${NONE:-x y}\nb: ${EMPTY:-z}\nc: ${NONE:-}\nd: ${LEVEL:-no}", `{"a":"x y","b":"z","c":"","d":"info"}`},
		"an empty variable is no missing one":     {"a: ${EMPTY}", `{"a":""}`},
		"in quotes and blocks":                    {"a: '${LEVEL}'\nb: |\n  x ${LEVEL}\nc: >-\n  x\n  ${LEVEL}", `{"a":"info","b":"x info\n","c":"x info"}`},
		"never in keys":                           {"'${LEVEL}': 1\n${STEPS}: 2", `{"${LEVEL}":1,"${STEPS}":2}`},
		"$${ is a plain ${":                       {"a: $${LEVEL}\nb: $$${LEVEL}\nc: $${${LEVEL}}", `{"a":"${LEVEL}","b":"$${LEVEL}","c":"${info}"}`},
		"other dollars are no matter":             {"a: ^\\d+$\nb: $LEVEL\nc: $$\nd: $ {x}", `{"a":"^\\d+$","b":"$LEVEL","c":"$$","d":"$ {x}"}`},
		"a value can't change the YAML":           {"a: ${NASTY}\nb: 1", `{"a":"a: [b, \"c\"] # ${SECRET}\n","b":1}`},
		"a file without its last line break":      {"a: ${file:two.txt}\nb: ${file:./sub/../crlf.txt}", `{"a":"one\ntwo\n","b":"x"}`},
		"in JSON":                                 {`{"a": "${LEVEL}", "b": ["$${x}"]}`, `{"a":"info","b":["${x}"]}`},
		"where an anchor stands and in its alias": {"a: &x ${LEVEL}\nb: *x", `{"a":"info","b":"info"}`},
		"in a tagged scalar":                      {"a: !!str ${STEPS}", `{"a":"7"}`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "two.txt"), "one\ntwo\n\n")
			write(t, filepath.Join(dir, "crlf.txt"), "x\r\n")
			f := Parse("gateway.yaml", dir, []byte(c.yaml), environment)
			if f.Problems() != nil {
				t.Errorf("Problems() = %v", f.Problems())
			}
			if got := string(f.Root().JSON()); got != c.want {
				t.Errorf("JSON() = %s, want %s", got, c.want)
			}
		})
	}
}

func TestASubstitutedScalarIsTypedByItsTarget(t *testing.T) {
	f := parse(t, `
budget: {max_steps: "${STEPS}", max_cost: "${COST:-1e-3}"}
auth: {open: "${OPEN:-true}"}
server:
  max_inflight: ${STEPS}0
  max_body: ${STEPS}KiB
  shutdown_grace: ${STEPS}s
  passthrough: ["${LEVEL}"]
`)
	var got sample
	f.Decode(&got)
	if f.Problems() != nil {
		t.Fatal(f.Problems())
	}
	if got.Budget != (budget{MaxSteps: 7, MaxCost: 1e-3}) || !got.Auth.Open || got.Server.MaxInflight != 70 ||
		got.Server.MaxBody != 7<<10 || got.Server.ShutdownGrace.String() != "7s" || got.Server.Passthrough[0] != "info" {
		t.Errorf("Decode() = %+v", got)
	}
}

func TestBrokenVariablesAndFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "latin1"), "\xe9")
	f := Parse("g.yaml", dir, []byte("a: ${BROKEN}\nb: ${file:latin1}"), environment)
	const want = "g.yaml:1:4: a: environment variable BROKEN is not valid UTF-8\n" +
		"g.yaml:2:4: b: file latin1 is not valid UTF-8"
	if diff := cmp.Diff(want, f.Problems().Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSecrets(t *testing.T) {
	f := parse(t, `
upstreams:
  a:
    base_url: ${URL}
    api_key: Bearer ${SECRET}
    headers: {x: literal-header, level: "${LEVEL}", z: "${NONE:-default-value}"}
  b: {base_url: "https://me:p%40ss-word@host/", api_key: literal-key}
  c: {base_url: "http://h", api_key: short}
tools: ["postgres://u:un@escaped-1@db:5432/x", 'see ${NASTY}']
`)
	f.Decode(&sample{})
	if f.Problems() != nil {
		t.Fatal(f.Problems())
	}
	want := []string{
		"Bearer s3cret-value", "a: [b, \"c\"] # ${SECRET}\n", "literal-key", "p%40ss-word", "p@ss-word",
		"s3cret-value", "un@escaped-1",
	}
	if diff := cmp.Diff(want, f.Secrets()); diff != "" {
		t.Errorf("Secrets() (-want +got):\n%s", diff)
	}
}

// Reports of other packages quote the text of a node: that must be safe too, for secrets of any length.
func TestNoReportShowsASecret(t *testing.T) {
	f := parse(t, "a: x ${SECRET}\nb: ${STEPS}\nc: ${NASTY}\nd: plain")
	root := f.Root()
	for _, key := range root.Keys() {
		root.Get(key).Fail("is bad: %q", root.Get(key).Text())
	}
	root.Get("d").Fail("is not %s and not %q", root.Get("a").Text(), root.Get("c").Text())
	const want = `gateway.yaml:1:4: a: is bad: "***"
gateway.yaml:2:4: b: is bad: "***"
gateway.yaml:3:4: c: is bad: "***"
gateway.yaml:4:4: d: is bad: "plain"
gateway.yaml:4:4: d: is not x *** and not "***"`
	if diff := cmp.Diff(want, f.Problems().Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The log of a gateway that is told by the environment where to listen says where that is.
func TestAddressesToListenOnAreNoSecrets(t *testing.T) {
	for value, secret := range map[string]bool{
		"127.0.0.1:8080": false, ":8080": false, "[::1]:65000": false, "localhost:8080": false, "0.0.0.0:80": false,
		"word:12345": true, "127.0.0.1:8080x": true, "12345678:9": true, ":123456": true,
	} {
		f := Parse("x.yaml", ".", []byte("a: ${V}"), func(string) (string, bool) { return value, true })
		if got := len(f.Secrets()) > 0; got != secret {
			t.Errorf("%s: taken for a secret %v, want %v", value, got, secret)
		}
	}
}
