package main

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/config"
)

// A slip in a list of tools took the tool away from the model, and nothing told: gateway validate said ok.
func TestNamesInListsThatAreNothingAreWarnedOf(t *testing.T) {
	const file = `upstreams: {up: {base_url: https://up.example.com/v1}}
models:
  assistant: {upstream: up, tools: [lookup_cpe, "-no_such", lookup_cep, "look*", files__read, t_find]}
auth: {keys: [{name: web, sha256: 997d500cb052336e01e272dcce29d85635f8451d4a163cf309f5ee3344ee7cef, tools: [lokup_cep], models: [asistant, assistant]}]}
mcp_servers: {files: {command: files}, tickets: {command: tickets, prefix: t_}}
tools:
  lookup_cep: # toolgate: allow short-description
    description: Look up the city of a Brazilian postal code, with its state.
    parameters: {cep: {type: string, description: With 8 digits.}}
    http: {url: "https://cep.example.com/{cep}"}
`
	c, err := check(config.Parse("gateway.yaml", ".", []byte(file), documentEnvironment))
	if err != nil {
		t.Fatal(err)
	}
	const want = `gateway.yaml:3:37: models.assistant.tools.0: there is no tool "lookup_cpe": did you mean lookup_cep?
gateway.yaml:3:49: models.assistant.tools.1: there is no tool "no_such"
gateway.yaml:4:109: auth.keys.0.tools.0: there is no tool "lokup_cep": did you mean lookup_cep?
gateway.yaml:4:130: auth.keys.0.models.0: there is no model "asistant": did you mean assistant?`
	if got := c.warnings.Error(); got != want {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, want)
	}
}

func TestModelsThatAnyNameReachesAreNotWarnedOf(t *testing.T) {
	for _, models := range []string{"", "models: {one: {upstream: up}, \"*\": {upstream: up}}\n"} {
		c, err := check(config.Parse("gateway.yaml", ".", []byte("upstreams: {up: {base_url: https://up.example.com/v1}}\n"+models+
			"auth: {keys: [{name: web, sha256: 997d500cb052336e01e272dcce29d85635f8451d4a163cf309f5ee3344ee7cef, models: [other]}]}\n"), documentEnvironment))
		if err != nil || strings.Contains(c.warnings.Error(), "no model") {
			t.Errorf("with %q: %v, %v", models, err, c.warnings)
		}
	}
}
