//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// conformance runs one scenario of the MCP conformance suite.
func conformance(t *testing.T, args ...string) {
	t.Helper()
	dir := installed(t, "conformance")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "node", "node"), append([]string{filepath.Join(dir, "node_modules", ".bin", "conformance")}, args...)...)
	cmd.Dir = t.TempDir() // it writes its results there
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "node")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), ", 0 failed") {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}

// TestMCPConformanceServer holds /mcp against the scenarios of the suite that are about what it serves: the start,
// ping, tools and the protection of a local server. Others are about resources, prompts, sampling and the like, which
// the gateway does not have, and about $ref in schemas, which it puts in place.
func TestMCPConformanceServer(t *testing.T) {
	g := serve(t, `server: {listen: 127.0.0.1:0}
upstreams: {none: {base_url: "http://127.0.0.1:9/v1"}}
tools:
  test_simple_text: {description: Gives a simple text for tests., const: This is a simple text response for testing.}
  test_error_handling: {description: Fails each time for tests., table: {rows: {a: 1}, key: b}}
`)
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "dns-rebinding-protection"} {
		t.Run(scenario, func(t *testing.T) { conformance(t, "server", "--url", g.url+"/mcp", "--scenario", scenario) })
	}
}

// TestMCPConformanceClient holds mcp_servers against the scenarios of the suite that are about tools, with gateway tools
// as the client. Others are about OAuth and elicitation, which the gateway does not offer.
func TestMCPConformanceClient(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write("client.yaml", `upstreams: {none: {base_url: "http://127.0.0.1:9/v1"}}
mcp_servers: {it: {url: "${MCP_URL}", prefix: ""}}
`, 0o600)
	for scenario, args := range map[string]string{
		"initialize": "list", "tools_call": `call add_numbers '{"a":5,"b":3}'`, "sse-retry": "call test_reconnection",
	} {
		t.Run(scenario, func(t *testing.T) {
			client := write(scenario+".sh", "#!/bin/sh\nMCP_URL=\"$1\" exec "+binary+" tools "+args+" -c "+config+"\n", 0o700)
			conformance(t, "client", "--command", client, "--scenario", scenario)
		})
	}
}
