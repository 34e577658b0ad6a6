package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// described has types with schemas of their own.
type described struct {
	Own   withSchema   `yaml:"own" doc:"From the field."`
	Self  shorthand    `yaml:"self" doc:"Reads itself."`
	Tree  tree         `yaml:"tree"`
	Kinds Map[kinds]   `yaml:"kinds"`
	Lists []*[]float32 `yaml:"lists"`
	Over  string       `yaml:"over"`
	Deep  Map[budget]  `yaml:"deep"`
}

type withSchema struct{}

func (withSchema) ConfigSchema() any {
	return map[string]any{"description": "From the type.", "anyOf": []any{
		map[string]any{"type": "integer"}, SchemaOf(struct {
			N uint8 `yaml:"n" min:"3"`
		}{}),
	}}
}

type tree struct {
	Left *tree `yaml:"left" doc:"Has no end."`
}

type kinds struct {
	Kind string   `yaml:"kind" enum:"a,b,c" later:"c" doc:"<b> & c"`
	Tags []string `yaml:"tags" enum:"x,y"`
}

func (k *kinds) SetDefaults() { k.Kind = "b"; k.Tags = []string{"x"} }

func compile(t *testing.T, schema json.RawMessage) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("gateway.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("gateway.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Indent(&b, raw, "", "  ")
	return b.String() + "\n"
}

func TestSchema(t *testing.T) {
	for name, c := range map[string]struct {
		root any
		opts SchemaOptions
	}{
		"sample":    {sample{}, SchemaOptions{Title: "Sample", ID: "https://example.com/gateway.schema.json"}},
		"described": {&described{}, SchemaOptions{Override: map[string]any{"over": true, "deep.*.max_steps": map[string]int{"minimum": 3}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Schema(c.root, c.opts)
			compile(t, got)
			golden(t, "testdata/"+name+".schema.json", indent(got))
			for range 10 {
				if !bytes.Equal(Schema(c.root, c.opts), got) {
					t.Fatal("not the same each time")
				}
			}
		})
	}
}

// The schema must not refuse in an editor what the gateway takes.
func TestTheSchemaTakesWhatTheReaderTakes(t *testing.T) {
	schema := compile(t, Schema(sample{}, SchemaOptions{}))
	for yaml, want := range map[string]bool{
		"{}":                                                  true,
		"budget: {max_steps: 3}":                              true,
		"budget: {max_steps: ${STEPS}}":                       true,
		"budget: {max_steps: many}":                           false,
		"budget: {max_steps: -1}":                             false,
		"budget: {max_cost: 0.5}":                             true,
		"budget: {on_exhausted: partial}":                     true,
		"budget: {on_exhausted: \"${HOW}\"}":                  true,
		"budget: {on_exhausted: explode}":                     false,
		"auth: {open: \"${OPEN}\"}":                           true,
		"auth: {open: yes}":                                   false,
		"server: {max_body: 20MiB}":                           true,
		"server: {max_body: 1024}":                            true,
		"server: {max_body: 20 mib}":                          false,
		"server: {shutdown_grace: 1m30s}":                     true,
		"server: {shutdown_grace: 0}":                         true,
		"server: {shutdown_grace: 5}":                         false,
		"server: {shutdown_grace: \"${T}ms\"}":                true,
		"server: {passthrough: models}":                       false,
		"server: {lisen: x}":                                  false,
		"upstreams: {a: {base_url: http://a, named: {x: 1}}}": true,
		"upstreams: {a: {named: {x: -1}}}":                    false,
		"tools: [anything, {at: all}]":                        true,
		"state: {backend: redis}":                             false,
		"cache: 1":                                            false,
	} {
		// Without substitution, as an editor sees it.
		n := (&Node{doc: &document{file: newFile("", nil)}}).Fragment("x.yaml", []byte(strings.ReplaceAll(yaml, ": ${STEPS}", `: "${STEPS}"`)))
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(n.JSON()))
		if err != nil {
			t.Fatal(yaml, err)
		}
		if err := schema.Validate(doc); (err == nil) != want {
			t.Errorf("%s: %v, want it to be good: %v", yaml, err, want)
		}
	}
}
