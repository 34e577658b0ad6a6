package config

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const good = `
server: {listen: :9090, max_body: 1MB, passthrough: [models, 5, true]}
upstreams:
  openai:
    base_url: https://api.openai.com/v1
    api_key: 12345
    stream: false
    named: {a: 1, b: 65535}
    headers: {X-Version: 1.10, X-Zip: 01310}
    retry: {base: 1m30s}
  azure: {base_url: http://a, kind: azure, retry: ~}
budget: {max_cost: 0x10}
auth:
state: {backend: memory}
tools: {b: 1, a: {x: ~}}
defaults: {temperature: 0.20, n: null}
cache: null
`

func TestDecode(t *testing.T) {
	f := parse(t, good)
	var s sample
	f.Decode(&s)
	if f.Problems() != nil {
		t.Fatal(f.Problems())
	}
	wantServer := server{
		Listen: ":9090", MaxBody: 1e6, MaxInflight: 1024, Passthrough: []string{"models", "5", "true"},
		ShutdownGrace: Duration(30 * time.Second),
	}
	if diff := cmp.Diff(wantServer, s.Server); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
	if got := s.Upstreams.Keys(); !slices.Equal(got, []string{"openai", "azure"}) || s.Upstreams.Len() != 2 {
		t.Errorf("Keys() = %q", got)
	}
	u, ok := s.Upstreams.Get("openai")
	if !ok || u.APIKey.Reveal() != "12345" || u.Kind != "openai" || u.Stream == nil || *u.Stream {
		t.Errorf("openai = %+v", u)
	}
	// The outer defaults overrule the inner ones, and the file both.
	if want := (retry{3, Duration(90 * time.Second), Duration(9 * time.Second)}); u.Retry != want {
		t.Errorf("retry = %+v, want %+v", u.Retry, want)
	}
	if b, _ := u.Named.Get("b"); b != 65535 || u.Named.Len() != 2 {
		t.Errorf("named = %+v", u.Named)
	}
	var headers []string
	for k, v := range u.Headers.All() {
		headers = append(headers, k+"="+v)
	}
	if !slices.Equal(headers, []string{"X-Version=1.10", "X-Zip=01310"}) {
		t.Errorf("headers = %q", headers)
	}
	if u, _ = s.Upstreams.Get("azure"); u.Stream != nil || u.Kind != "azure" || u.Retry.Attempts != 3 {
		t.Errorf("azure = %+v", u)
	}
	if _, ok := s.Upstreams.Get("none"); ok || s.Upstreams.Node("none") != nil || s.Upstreams.Node("azure").Pos() != (Pos{11, 10}) {
		t.Errorf("Node() = %v", s.Upstreams.Node("azure").Pos())
	}
	if s.Auth != nil || s.Cache != nil || s.Budget.MaxCost != 16 {
		t.Errorf("auth, cache, budget = %v, %v, %v", s.Auth, s.Cache, s.Budget)
	}
	if got := s.Tools.Keys(); !slices.Equal(got, []string{"b", "a"}) || s.Tools.Get("a").Get("x") == nil {
		t.Errorf("tools = %s", s.Tools.JSON())
	}
	if got := string(s.Defaults); got != `{"temperature":0.20,"n":null}` {
		t.Errorf("defaults = %s", got)
	}
}

func TestDecodeOfABrokenFileGivesTheDefaults(t *testing.T) {
	f := parse(t, "a: [")
	var s sample
	f.Decode(&s)
	if s.Server.MaxInflight != 1024 || len(f.Problems()) != 1 {
		t.Errorf("Decode() = %+v, %v", s.Server, f.Problems())
	}
}

// shorthand is a number or a mapping.
type shorthand struct {
	N     int `yaml:"n"`
	M     int `yaml:"m"`
	calls []string
}

func (s *shorthand) SetDefaults() { s.M = 5; s.calls = append(s.calls, "defaults") }
func (s *shorthand) Check(*Node)  { s.calls = append(s.calls, "check") }
func (s *shorthand) DecodeNode(n *Node) {
	s.calls = append(s.calls, "decode")
	if n.Kind() == Mapping {
		n.Decode(s)
		return
	}
	n.Decode(&s.N)
}

func TestATypeMayDecodeItself(t *testing.T) {
	for yaml, want := range map[string]shorthand{
		"x: 3":           {N: 3, M: 5},
		"x: {n: 4}":      {N: 4, M: 5},
		"x: {m: 6}":      {M: 6},
		"x: {m: 6, n: }": {M: 6},
	} {
		f := parse(t, yaml)
		var got struct {
			X shorthand `yaml:"x"`
		}
		f.Decode(&got)
		want.calls = []string{"defaults", "decode", "check"}
		if diff := cmp.Diff(want, got.X, cmp.AllowUnexported(shorthand{})); diff != "" || f.Problems() != nil {
			t.Errorf("%s: (-want +got):\n%s%v", yaml, diff, f.Problems())
		}
		direct := shorthand{}
		f.Root().Get("x").Decode(&direct)
		if diff := cmp.Diff(want, direct, cmp.AllowUnexported(shorthand{})); diff != "" {
			t.Errorf("%s, decoded directly: (-want +got):\n%s", yaml, diff)
		}
	}
}

func TestSeveralReadersOfAMapping(t *testing.T) {
	f := parse(t, "max_steps: 3\nopen: true\nopne: 1\nmax_stepz: 2")
	var b budget
	var a auth
	f.Root().DecodeKnown(&b, "open")
	f.Root().DecodeKnown(&a, "max_steps")
	const want = `gateway.yaml:3:1: opne: unknown key "opne": did you mean "open"?
gateway.yaml:4:1: max_stepz: unknown key "max_stepz": did you mean "max_steps"?`
	if diff := cmp.Diff(want, f.Problems().Error()); diff != "" || b.MaxSteps != 3 || !a.Open {
		t.Errorf("(-want +got):\n%s\n%v %v", diff, b, a)
	}
}

type outer struct {
	Inner  `yaml:",inline"`
	Second Other `yaml:",inline"`
	C      int   `yaml:"c"`
}

type Inner struct {
	A int `yaml:"a"`
}

func (i *Inner) SetDefaults()  { i.A = 1 }
func (i *Inner) Check(n *Node) { n.FailKey("a", "inner is checked: %d", i.A) }

type Other struct {
	B []string `yaml:"b" enum:"x,y" later:"y"`
}

func (o *Other) SetDefaults()  { o.B = []string{"x"} }
func (o *Other) Check(n *Node) { n.FailKey("b", "other is checked: %q", o.B) }

func (o *outer) Check(n *Node) { n.FailKey("c", "outer is checked: %d", o.C) }

func TestInlineStructsTakeDefaultsAndChecks(t *testing.T) {
	f := parse(t, "c: 3")
	var o outer
	f.Decode(&o)
	const want = `gateway.yaml:1:1: a: inner is checked: 1
gateway.yaml:1:1: b: other is checked: ["x"]
gateway.yaml:1:1: c: outer is checked: 3`
	if diff := cmp.Diff(want, f.Problems().Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	f = parse(t, "b: [x, y, z]")
	f.Decode(&Other{})
	const wantItems = `gateway.yaml:1:1: b: other is checked: ["x" "y" "z"]
gateway.yaml:1:8: b.1: "y" is not supported yet
gateway.yaml:1:11: b.2: want one of x, y, got "z"`
	if diff := cmp.Diff(wantItems, f.Problems().Error()); diff != "" {
		t.Errorf("tags of a list hold for its items (-want +got):\n%s", diff)
	}
}

func TestNullsInListsAndMaps(t *testing.T) {
	f := parse(t, "raw: {a: ~}\nnodes: {a: ~}\nlist: [~]\npointers: [~]\nlists: {a: ~}")
	var v struct {
		Raw      Map[json.RawMessage] `yaml:"raw"`
		Nodes    Map[*Node]           `yaml:"nodes"`
		List     []budget             `yaml:"list"`
		Pointers []*int               `yaml:"pointers"`
		Lists    Map[[]string]        `yaml:"lists"`
	}
	f.Decode(&v)
	raw, _ := v.Raw.Get("a")
	node, _ := v.Nodes.Get("a")
	if string(raw) != "null" || node == nil || node.Kind() != Null || len(v.List) != 1 || v.Pointers[0] != nil {
		t.Errorf("Decode() = %+v", v)
	}
	if got, want := f.Problems().Error(), "gateway.yaml:5:12: lists.a: want a list, got null"; got != want {
		t.Errorf("Problems() = %q, want %q", got, want)
	}
}
