//go:build e2e

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// awaitLog waits until the log has a text.
func (g *gateway) awaitLog(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(g.text(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log never has %q:\n%s", text, g.text())
		}
	}
}

// replace puts another configuration in the place of the gateway's.
func (g *gateway) replace(t *testing.T, config string) {
	t.Helper()
	if err := os.WriteFile(g.file+".new", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(g.file+".new", g.file); err != nil {
		t.Fatal(err)
	}
}

// TestReload has a stream begin, and then the signal, a file that is changed, one with a fault, and a listener that can't
// be another while the process runs. The stream comes whole, by the model that is gone by then.
func TestReload(t *testing.T) {
	answer := strings.Repeat("ten chars ", 300)
	model := newProvider(t, scripted(t, `conversations: [{turns: [{text: "`+answer+`", between: 10ms}]}]`))
	g := serve(t, shutdownConfig, "UPSTREAM="+model.URL, "SERVICE="+closedAddress(t), "OPERATOR_KEY="+operatorKey, "GRACE=30s")
	r := g.open(t, "Count")

	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	g.awaitLog(t, `"reason":"SIGHUP"`)

	g.replace(t, strings.ReplaceAll(shutdownConfig, "assistant:", "clerk:"))
	g.awaitLog(t, `"reason":"file"`)
	if models := get(t, g.url+"/v1/models").body; !strings.Contains(models, `"clerk"`) || strings.Contains(models, `"assistant"`) {
		t.Errorf("models after the change: %s", models)
	}

	g.replace(t, shutdownConfig+"\nmodelz: {}\n")
	g.awaitLog(t, "did you mean \\\"models\\\"")
	g.awaitLog(t, "the one in force stays")
	if metrics := get(t, g.url+"/metrics").body; !strings.Contains(metrics, "\ngateway_config_reload_success 0\n") {
		t.Error("/metrics does not say that the last reading failed")
	}
	if models := get(t, g.url+"/v1/models").body; !strings.Contains(models, `"clerk"`) {
		t.Errorf("models after a file with a fault: %s", models)
	}

	g.replace(t, strings.ReplaceAll(shutdownConfig, `listen: "127.0.0.1:0"`, `listen: "127.0.0.1:1"`))
	g.awaitLog(t, `"key":"server.listen"`)

	rest := r.text(func(string) bool { return false })
	if !strings.HasSuffix(answer+"[DONE]", rest) || !strings.HasSuffix(rest, "[DONE]") {
		t.Errorf("the stream that began before ended with %q, %v, want the rest of the answer and [DONE]", rest, r.lines.Err())
	}
	g.end(t)
}
