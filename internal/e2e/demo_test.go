//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestDemo runs what the documentation has a newcomer run first.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, "demo", "--once", "--listen", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil || log.Len() > 0 {
		t.Fatalf("gateway demo --once: %v\n%s%s", err, out.String(), log.String())
	}
	for _, want := range []string{
		`(?m)^question +Which city has the postal code 01001-000\?$`,
		`(?m)^tool call +lookup_cep, \d+ ms, ok$`,
		`(?m)^answer +The postal code 01001-000 belongs to: São Paulo/SP, Praça da Sé$`,
		`(?m)^trace +X-Gateway-Trace: id="run_\w+", stop=completed, steps=2, calls=1, failed=0, .*tools=\("lookup_cep";ms=\d+;ok\)$`,
		`(?m)^try it +curl `,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("output has no %s:\n%s", want, out.String())
		}
	}
}

// TestMock serves a script by `gateway mock`, as one tries a configuration without a model.
func TestMock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(`replies: [{calls: [{name: lookup_cep, arguments: {cep: "64600000"}}]}, {text: "It is {tool}."}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, upstream := start(t, nil, []string{"mock", file, "--listen", "127.0.0.1:0"}, func(line string) string {
		_, at, _ := strings.Cut(strings.TrimSpace(line), "mock upstream at ")
		return strings.TrimSuffix(at, "/v1")
	})
	g := serve(t, conversationConfig, "UPSTREAM="+upstream, "SERVICE="+newCEPService(t).URL, "OPERATOR_KEY="+operatorKey)

	got := g.ask(t, question("assistant", "Where is 64600-000?", false))

	if want := "It is CEP 64600-000: Picos/PI."; got.status != http.StatusOK || gjson.Get(got.body, "choices.0.message.content").Str != want {
		t.Errorf("reply = %d %s, want %q", got.status, got.body, want)
	}
}
