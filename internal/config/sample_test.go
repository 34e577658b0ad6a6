package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the expected files anew")

// sample has a field of every sort.
type sample struct {
	Server    server          `yaml:"server" doc:"What clients connect to."`
	Upstreams Map[upstream]   `yaml:"upstreams" doc:"The providers."`
	Budget    budget          `yaml:"budget"`
	Auth      *auth           `yaml:"auth"`
	State     state           `yaml:"state"`
	Tools     *Node           `yaml:"tools" doc:"The tools."`
	Defaults  json.RawMessage `yaml:"defaults"`
	Cache     *Node           `yaml:"cache" later:"*" doc:"A cache."`
	Built     string          // no key of the file
}

type server struct {
	Listen        string   `yaml:"listen" doc:"Address & port."`
	MaxBody       Size     `yaml:"max_body"`
	MaxInflight   int      `yaml:"max_inflight" min:"1"`
	Passthrough   []string `yaml:"passthrough"`
	ShutdownGrace Duration `yaml:"shutdown_grace"`
}

func (s *server) SetDefaults() {
	*s = server{
		Listen: "127.0.0.1:8080", MaxBody: 20 << 20, MaxInflight: 1024,
		Passthrough: []string{"models", "audio/*"}, ShutdownGrace: Duration(30 * time.Second),
	}
}

type upstream struct {
	BaseURL string      `yaml:"base_url"`
	APIKey  Secret      `yaml:"api_key"`
	Kind    string      `yaml:"kind" enum:"openai,azure"`
	Headers Map[string] `yaml:"headers"`
	Retry   retry       `yaml:"retry"`
	Named   Map[uint16] `yaml:"named"`
	common  `yaml:",inline"`
}

type common struct {
	Stream *bool `yaml:"stream" doc:"nil when the file has nothing"`
}

func (u *upstream) SetDefaults() {
	u.Kind = "openai"
	u.Retry.Max = Duration(9 * time.Second)
}

func (u *upstream) Check(n *Node) {
	switch {
	case u.BaseURL == "":
		n.FailKey("base_url", "is required")
	case !strings.HasPrefix(u.BaseURL, "http"):
		n.Get("base_url").Fail("want an http URL, got %q", u.BaseURL)
	}
}

type retry struct {
	Attempts int8     `yaml:"attempts"`
	Base     Duration `yaml:"base" min:"1ms"`
	Max      Duration `yaml:"max"  min:"1ms"`
}

func (r *retry) SetDefaults() {
	*r = retry{Attempts: 3, Base: Duration(250 * time.Millisecond), Max: Duration(8 * time.Second)}
}

type budget struct {
	MaxSteps    int     `yaml:"max_steps" min:"0"`
	MaxCost     float64 `yaml:"max_cost" min:"0"`
	OnExhausted string  `yaml:"on_exhausted" enum:"answer,partial,error"`
}

type auth struct {
	Open bool `yaml:"open"`
}

type state struct {
	Backend string `yaml:"backend" enum:"memory,redis" later:"redis"`
}

// environment is os.LookupEnv of the tests.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"SECRET": "s3cret-value", "LEVEL": "info", "STEPS": "7", "EMPTY": "", "URL": "https://api.example.com/v1",
		"NASTY": "a: [b, \"c\"] # ${SECRET}\n", "BROKEN": "\xff",
	}[name]
	return value, ok
}

func parse(t testing.TB, yaml string) *File {
	t.Helper()
	return Parse("gateway.yaml", t.TempDir(), []byte(yaml), environment)
}

// golden compares got with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Each file in testdata/bad has one fault, or one sort, after which it is named; beside it is what is said of it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f := Parse(filepath.Base(file), filepath.Dir(file), data, environment)
			f.Decode(&sample{})
			got := f.Problems().Error()
			if strings.Contains(got, "s3cret") || strings.Contains(got, "literal-123456") || strings.Contains(got, "pass-word") {
				t.Errorf("a message shows a secret:\n%s", got)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", got+"\n")
		})
	}
}
