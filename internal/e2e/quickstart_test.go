//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fence is a block of commands, or of what they print.
var fence = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

// The commands of the quick start do what it says, one after the other in one shell, in a folder of their own.
func TestQuickStart(t *testing.T) {
	for _, name := range []string{"python3", "npx", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%s is missing", name)
		}
	}
	document, err := os.ReadFile(filepath.Join(root(), "docs", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	up := newProvider(t, scripted(t, `
conversations:
  - when: lamps
    turns: [{calls: [{name: stock, arguments: {item: lamp}}]}, {text: "There are {tool}."}]
  - when: files
    turns: [{calls: [{name: files__list_directory, arguments: {path: "."}}]}, {text: "These: {tool}"}]
  - turns: [{text: Hello!}]
`))
	type expected struct {
		block int
		lines []string
	}
	var script strings.Builder
	var expects []expected
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n")
	blocks := 0
	for _, m := range fence.FindAllStringSubmatch(string(document), -1) {
		switch {
		case excused("docs/quickstart.md", m[2]) != "":
		case m[1] == "text":
			expects = append(expects, expected{blocks, strings.Split(strings.TrimSpace(m[2]), "\n")})
		default:
			blocks++
			script.WriteString("echo '@@@ block'\n")
			if strings.Contains(m[2], "go build") { // the binary that all tests have
				m[2] = strings.Replace(m[2], "go build -o gateway ./cmd/gateway", "cp '"+absolute(t, binary)+"' gateway", 1)
			}
			script.WriteString(m[2])
		}
	}
	if blocks < 6 || len(expects) < 4 {
		t.Fatalf("%d blocks and %d outputs in the quick start", blocks, len(expects))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+up.URL+"/v1", "OPENAI_API_KEY="+operatorKey, "MODEL=m")
	out, err := cmd.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(cmd.Dir, "gateway.log"))
		t.Fatalf("%v\n%s\nthe log:\n%s", err, out, log)
	}
	parts := strings.Split(string(out), "@@@ block\n")
	for _, e := range expects {
		for _, line := range e.lines {
			if !strings.Contains(parts[e.block], line) {
				t.Errorf("block %d lacks %q:\n%s", e.block, line, parts[e.block])
			}
		}
	}
	if strings.Contains(string(out), "internal-7") || strings.Contains(string(out), operatorKey) {
		t.Errorf("the output has what nobody is to see:\n%s", out)
	}
}
