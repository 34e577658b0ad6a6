//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const browserConfig = `
server: {listen: "127.0.0.1:0", shutdown_grace: 1s}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}"}
models:
  assistant: {upstream: scripted, price: {prompt: 1, completion: 2}}
  slow: {upstream: scripted, budget: {max_seconds: 0.3}}
  "*": {upstream: scripted}
trace: {content: true}
auth:
  keys:
    - {name: client, sha256: "${CLIENT}", approve: false}
    - {name: boss, sha256: "${BOSS}", runs: all}
tools:
  stock:
    description: How many there are of an item.
    parameters: {item: {type: string, description: The item's name.}}
    http: {url: "${SERVICE}/stock/{item}"}
    errors: {404: {code: not_found, message: "there is no {item}"}}
  cancel:
    description: Cancel an order.
    parameters: {item: string}
    confirm: approval
    http: {method: POST, url: "${SERVICE}/cancels", body: json}
`

const browserScript = `
conversations:
  - when: stock
    turns:
      - {calls: [{name: stock, arguments: {item: cup}}, {name: stock, arguments: {item: none}}], delay: 300ms}
      - {text: "There are {tool}.", delay: 300ms}
  - when: hostile
    turns:
      - calls: [{name: cancle, arguments: {item: '<img src=x onerror="window.pwned=1">'}}]
      - text: "It is {tool}."
  - when: cancel
    turns: [{calls: [{name: cancel, arguments: {item: cup}}]}, {text: "It is {tool}."}]
  - when: deny
    turns: [{calls: [{name: cancel, arguments: {item: saucer}}]}, {text: "It is {tool}."}]
  - when: timeout
    turns: [{text: late, delay: 5s}]
  - turns: [{text: hello}]
`

// chromium is where the browser is. Where none is installed the test is skipped, but not in CI.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Chromium is installed: apt-get install chromium")
	}
	t.Skip("no Chromium is installed: apt-get install chromium")
	return ""
}

// TestRunsPage has a browser use the runs page; what is claimed of it stands in browser/page.mjs.
// TOOLGATE_E2E_SHOTS names a folder for screenshots.
func TestRunsPage(t *testing.T) {
	browser := chromium(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stock/none":
			w.WriteHeader(http.StatusNotFound)
		case "/stock/cup":
			time.Sleep(200 * time.Millisecond) // a bar that can be seen
			_, _ = io.WriteString(w, `{"item":"cup","left":7,"note":"<script>window.pwned=1</script>"}`)
		default:
			_, _ = io.WriteString(w, `{"done":true}`)
		}
	}))
	t.Cleanup(service.Close)
	upstream := httptest.NewServer(scripted(t, browserScript))
	t.Cleanup(upstream.Close)
	sum := func(key string) string {
		s := sha256.Sum256([]byte(key))
		return hex.EncodeToString(s[:])
	}
	g := serve(t, browserConfig, "UPSTREAM="+upstream.URL, "SERVICE="+service.URL, "OPERATOR_KEY="+operatorKey, "CLIENT="+sum("key-of-a-client"), "BOSS="+sum("key-of-the-boss"))
	program, err := os.ReadFile(filepath.Join("browser", "page.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--input-type=module", "--eval", string(program))
	cmd.Dir = installed(t, "browser")
	cmd.Env = append(os.Environ(), "GATEWAY="+g.url, "KEY=key-of-the-boss", "CLIENT_KEY=key-of-a-client", "CHROMIUM="+browser, "SHOTS="+os.Getenv("TOOLGATE_E2E_SHOTS"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("\n%s", out)
	if strings.Contains(g.text(), `"status":304`) {
		t.Error("a page that looks every other second fills the log")
	}
}
