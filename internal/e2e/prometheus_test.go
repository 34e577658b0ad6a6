//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// needs skips a test without the programs of the Debian package prometheus, but not in CI.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		const how = "%s is not installed: apt-get install --no-install-recommends prometheus"
		if os.Getenv("CI") != "" {
			t.Fatalf(how, p)
		}
		t.Skipf(how, p)
	}
}

// promtool runs promtool, in the folder of the rules.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir, cmd.Stdin = deployed("prometheus"), strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func deployed(path ...string) string {
	return filepath.Join(append([]string{root(), "deploy"}, path...)...)
}

func TestPrometheusRules(t *testing.T) {
	needs(t, "promtool")
	promtool(t, "", "check", "rules", "toolgate.rules.yaml")
	promtool(t, "", "test", "rules", "toolgate.test.yaml")

	// Each alert is tested, and the operator reads what to do about it.
	rules, tests := readFile(t, deployed("prometheus", "toolgate.rules.yaml")), readFile(t, deployed("prometheus", "toolgate.test.yaml"))
	guide := readFile(t, filepath.Join(root(), "docs", "operations.md"))
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(tests, "alertname: "+m[1]+"\n") || !strings.Contains(guide, "`"+m[1]+"`") {
			t.Errorf("%s is not tested, or not in docs/operations.md", m[1])
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// prometheus is a Prometheus that scrapes a gateway.
type prometheus struct{ url string }

// newPrometheus starts one with the rules of deploy.
func newPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(deployed("prometheus", "toolgate.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	file := filepath.Join(dir, "prometheus.yml")
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: toolgate, static_configs: [{targets: [%q]}]}]
`, rules, strings.TrimPrefix(target, "http://"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	launch(t, cmd, func(line string) string {
		if strings.Contains(line, "Server is ready to receive web requests") {
			return at
		}
		return ""
	})
	return &prometheus{url: "http://" + at}
}

// ask gives the values of a query, without those that are no numbers.
func (p *prometheus) ask(t *testing.T, query string) []string {
	t.Helper()
	r := get(t, p.url+"/api/v1/query?query="+url.QueryEscape(query))
	if r.status != http.StatusOK {
		t.Fatalf("%s: %s", query, r.body)
	}
	var list []string
	for _, v := range gjson.Get(r.body, "data.result").Array() {
		value := v.Get("value.1").Str
		if f, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(f) {
			list = append(list, v.Get("metric").Raw+" "+value)
		}
	}
	return list
}

const observedConfig = `
server: {listen: "127.0.0.1:0"}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}"}
  dead: {base_url: "${DEAD}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 3, open_for: 60s}}
models:
  assistant: {upstream: scripted, price: {prompt: 1, completion: 2}}
  plain: {upstream: scripted, tools: []}
  gone: {upstream: dead}
auth:
  keys:
    - {name: web, sha256: "${WEB}"}
    - {name: few, sha256: "${FEW}", limits: {requests_per_minute: 1}}
trace: {otlp_endpoint: "${DEAD}"}
tools:` + cepTool + `    timeout: 300ms
  double: {description: Double a number., parameters: {n: integer}, compute: n * 2}
`

// hashOf is what the configuration knows of a key.
func hashOf(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

const observedScript = `
conversations:
  - when: good
    turns:
      - {calls: [{name: lookup_cep, arguments: {cep: "64600000"}}, {name: double, arguments: {n: 21}}], usage: {prompt_tokens: 100, completion_tokens: 20}}
      - {text: "It is in Picos.", usage: {prompt_tokens: 150, completion_tokens: 10}}
  - when: bad
    turns:
      - calls: [{name: lookup_cep, arguments: {cep: "50000000"}}, {name: lookup_cep, arguments: {cep: "646"}}]
      - {text: "It can't be found."}
  - turns: [{text: "Hello.", between: 5ms}]
`

// TestDashboard asks a real Prometheus every query of the dashboard, after a load in which everything happens that one
// may want to see. A panel that stays empty then is a fault in its query, or a metric that is not there.
func TestDashboard(t *testing.T) {
	needs(t, "prometheus", "promtool")
	model, service := newProvider(t, scripted(t, observedScript)), newCEPService(t)
	g := serve(t, observedConfig, "UPSTREAM="+model.URL, "DEAD="+closedAddress(t), "SERVICE="+service.URL, "OPERATOR_KEY="+operatorKey,
		"WEB="+hashOf("web-key"), "FEW="+hashOf("few-key"))
	p := newPrometheus(t, g.url)

	statuses := map[int]int{}
	var mu sync.Mutex
	ask := func(key, model, text string, stream bool) {
		req := g.request(t, question(model, text, stream))
		req.Header.Set("Authorization", "Bearer "+key)
		got := send(t, http.DefaultClient, req)
		mu.Lock()
		defer mu.Unlock()
		statuses[got.status]++
	}
	load := func() {
		for _, stream := range []bool{false, true} {
			ask("web-key", "assistant", "good", stream)
			ask("web-key", "assistant", "bad", stream)
			ask("web-key", "plain", "hello", stream)
		}
		ask("web-key", "gone", "hello", false)
		ask("web-key", "nobody-knows-it", "hello", false)
		ask("few-key", "assistant", "hello", false)
	}
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, deployed("grafana", "toolgate.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := map[string]string{}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s asks for nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			query := target.Expr
			for name, value := range map[string]string{"$__rate_interval": "15s", "$model": ".*", "$job": ".*"} {
				query = strings.ReplaceAll(query, name, value)
			}
			queries[query] = panel.Title
		}
	}
	if len(queries) < 20 {
		t.Errorf("the dashboard has %d queries", len(queries))
	}
	var missing map[string]string
	for end := time.Now().Add(20 * time.Second); ; {
		load()
		missing = map[string]string{}
		for query, title := range queries {
			if len(p.ask(t, query)) == 0 {
				missing[query] = title
			}
		}
		if len(missing) == 0 || time.Now().After(end) {
			break
		}
		time.Sleep(500 * time.Millisecond) // until the next scrape
	}
	for query, title := range missing {
		t.Errorf("%s: nothing for %s", title, query)
	}
	for status, name := range map[int]string{200: "success", 429: "refused by a limit", 502: "a dead provider", 404: "no such model"} {
		if statuses[status] == 0 {
			t.Errorf("the load had no %d (%s): %v", status, name, statuses)
		}
	}
	for _, v := range dashboard.Templating.List {
		if m := regexp.MustCompile(`label_values\((\w+), (\w+)\)`).FindStringSubmatch(v.Definition); m != nil {
			if len(p.ask(t, "count by ("+m[2]+") ("+m[1]+")")) == 0 {
				t.Errorf("the variable %s has no values", v.Name)
			}
		}
	}

	// What is true after that load, so that the queries are not only there.
	for query, want := range map[string]string{
		`count(gateway_requests_total{model="nobody-knows-it"}) or vector(0)`:                   "0", // a label that a client makes up
		`min(gateway_limit_rejections_total{key="few",limit="requests_per_minute"} > bool 0)`:   "1",
		`min(gateway_tool_calls_total{tool="lookup_cep",outcome="unavailable"} > bool 0)`:       "1",
		`min(gateway_tool_calls_total{tool="lookup_cep",outcome="invalid_arguments"} > bool 0)`: "1",
		`max(gateway_breaker_state{name="upstream:dead/gone"})`:                                 "2",
		`min(gateway_runs_total{model="assistant",stop="completed"} > bool 0)`:                  "1",
		`min(gateway_cost_total{model="assistant"} > bool 0)`:                                   "1",
		`min(gateway_time_to_first_token_seconds_count > bool 0)`:                               "1",
		`count(count by (__name__) ({__name__=~"gateway_.*"}) > 100) or vector(0)`:              "0",
		`count(ALERTS{alertname="ToolgateBreakerOpen",alertstate="pending"})`:                   "1",
	} {
		got := p.ask(t, query)
		if len(got) != 1 || !strings.HasSuffix(got[0], " "+want) {
			t.Errorf("%s = %v, want %s", query, got, want)
		}
	}
	metrics := get(t, g.url+"/metrics").body
	promtool(t, metrics, "check", "metrics")
	inDocuments(t, metrics)
}

// inDocuments holds the README's table and the guide against the metrics that there are.
func inDocuments(t *testing.T, metrics string) {
	t.Helper()
	readme, guide := readFile(t, filepath.Join(root(), "README.md")), readFile(t, filepath.Join(root(), "docs", "operations.md"))
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (gateway_\w+) `).FindAllStringSubmatch(metrics, -1) {
		names = append(names, m[1])
		for document, text := range map[string]string{"README.md": readme, "docs/operations.md": guide} {
			if !strings.Contains(text, "`"+m[1]+"`") {
				t.Errorf("%s does not name %s", document, m[1])
			}
		}
	}
	onlyRedis := []string{"gateway_state_errors_total", "gateway_state_runs_dropped_total"}
	for _, m := range regexp.MustCompile("`(gateway_[a-z_]+)`").FindAllStringSubmatch(readme, -1) {
		if !slices.Contains(names, m[1]) && !slices.Contains(onlyRedis, m[1]) {
			t.Errorf("README.md names %s, which is not there", m[1])
		}
	}
}
