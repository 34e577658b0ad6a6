//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The clocks of the gateway under faults. A run is over when its own has run out; clients wait a little longer, as the
// machine may be busy.
const (
	faultRun  = 4 * time.Second
	faultWait = faultRun + 6*time.Second
)

const faultHead = `
server: {listen: "127.0.0.1:0"}
budget: {max_seconds: 4}
streaming: {keep_alive: 300ms}
`

// upstreamYAML is an upstream with short clocks that never gives up for good, and a model of the same name.
func upstreamYAML(name, url string) (upstream, model string) {
	upstream = fmt.Sprintf("  %s: {base_url: %q, api_key: \"${OPERATOR_KEY}\", connect_timeout: 1s, first_byte_timeout: 1s, idle_timeout: 1s, retry: {attempts: 2, base: 10ms, budget: 10}, breaker: {failures: 100000}}\n", name, url)
	return upstream, fmt.Sprintf("  %s: {upstream: %s}\n", name, name)
}

// faultConfig is a gateway with an upstream, a tool and, of those that servers of MCP are given too, such a server for
// each fault. Their names are the faults'.
func faultConfig(list []fault, mcps []string) string {
	upstreams, models := upstreamYAML("good", "${HOSTILE}/none/v1")
	tools := "  t_none: {description: Nothing., http: {url: \"${TOOLS}/none/x\"}}\n"
	for name, command := range execFaults {
		tools += fmt.Sprintf("  x_%s: {description: Command %s., timeout: 1s, effect: read, exec: {command: %s}}\n", name, name, command)
	}
	add := func(name, url string) {
		u, m := upstreamYAML(name, url+"/v1")
		upstreams, models = upstreams+u, models+m
		tools += fmt.Sprintf("  t_%s: {description: Tool %s., timeout: 1s, breaker: {failures: 100000}, http: {url: \"%s/x\"}}\n", name, name, strings.Replace(url, "HOSTILE", "TOOLS", 1))
	}
	for _, f := range list {
		add(f.name, "${HOSTILE}/"+f.name)
	}
	add("refuses", "${CLOSED}")
	add("no-such-name", "http://no-such-name.invalid")
	config := faultHead + "upstreams:\n" + upstreams + "models:\n" + models + "tools:\n" + tools + "mcp_servers:\n"
	for _, name := range append([]string{"none"}, mcps...) {
		config += fmt.Sprintf("  m_%s: {url: \"${MCP}/%s/mcp\", tools: {set: {echo: {timeout: 1s, breaker: {failures: 100000}}}}}\n", name, name)
	}
	return config
}

// execFaults are what programs do to who runs them.
var execFaults = map[string]string{
	"hang":     `[sleep, "` + longSleep + `"]`,
	"endless":  `[yes]`,
	"stderr":   `[sh, -c, "yes >&2"]`,
	"garbage":  `[sh, -c, "head -c 100000 /dev/zero | tr '\\0' '\\377'"]`,
	"fails":    `[sh, -c, "exit 7"]`,
	"killed":   `[sh, -c, "kill -9 $$$$"]`,
	"stubborn": `[sh, -c, "trap '' TERM INT; sleep ` + longSleep + ` & sleep ` + longSleep + `"]`,
	"leaves":   `[sh, -c, "sleep ` + longSleep + ` & echo gone"]`,
}

// longSleep is of no other process.
const longSleep = "3141.5926"

// inMCP are the faults of servers of MCP, which are slow to try.
func inMCP() []string {
	return []string{"hang", "hang-in-body", "reset-before-header", "reset-in-body", "cut", "cut-chunked", "not-http", "html", "length-too-long", "body-endless", "429-in-ten-years", "500", "sse-line-endless", "sse-comments-endless", "sse-nothing", "switching"}
}

// echoMCP is a server of MCP with one tool.
func echoMCP() http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Say hello."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
}

// faultCase is one request of a client.
type faultCase struct {
	name, model, text string
	stream            bool
	answers           bool // nothing but an answer, or the end of the run's clock, is right
}

func faultCases(list []fault) []faultCase {
	var cases []faultCase
	add := func(c faultCase) {
		plain, streamed := c, c
		streamed.name, streamed.stream = c.name+", stream", true
		cases = append(cases, plain, streamed)
	}
	names := []string{"refuses", "no-such-name"}
	for _, f := range list {
		names = append(names, f.name)
	}
	for _, name := range names {
		add(faultCase{name: "upstream " + name, model: name, text: "hello"})
		add(faultCase{name: "tool " + name, model: "good", text: "call t_" + name, answers: true})
	}
	for name := range execFaults {
		add(faultCase{name: "command " + name, model: "good", text: "call x_" + name, answers: true})
	}
	for _, name := range inMCP() {
		add(faultCase{name: "MCP " + name, model: "good", text: "call m_" + name + "__echo", answers: true})
	}
	return cases
}

// TestFaults puts each fault at the place of the provider and of a tool. Every client gets a complete answer or a clean
// error in time, nothing of it tells what is behind the gateway, and nothing is left when all is over.
func TestFaults(t *testing.T) {
	list := faults()
	up := newHostile(t, list, caller(), nil)
	tools := newHostile(t, list, whole200(`{"found":"a thing"}`), nil)
	servers := newHostile(t, list, echoMCP(), func(body []byte) bool { return strings.Contains(string(body), `"tools/call"`) })
	g := servePlain(t, faultConfig(list, inMCP()), nil, "GOMEMLIMIT=256MiB", "HOSTILE="+up.URL, "TOOLS="+tools.URL, "MCP="+servers.URL, "CLOSED="+closedAddress(t), "OPERATOR_KEY="+operatorKey)
	client := &http.Client{Transport: &http.Transport{}}
	await(t, "the servers of MCP are there", func() bool {
		return strings.Contains(get(t, g.url+"/gateway/tools").body, "m_switching__echo")
	})
	for _, warm := range []string{"hello", "call t_none", "call m_none__echo"} {
		if r := g.ask(t, question("good", warm, false)); r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", warm, r.status, r.body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	bomb() // it takes a while to make
	before := g.uses(t)

	limit := make(chan struct{}, 16)
	var wg sync.WaitGroup
	codes := map[string]int{}
	var mu sync.Mutex
	for _, c := range faultCases(list) {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			code, took := c.try(t, g, client)
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
			if testing.Verbose() {
				t.Logf("%-45s %5.1fs %s", c.name, took.Seconds(), code)
			}
		})
	}
	wg.Wait()
	client.CloseIdleConnections()
	up.drop()
	tools.drop()
	after := g.settles(t, before)
	t.Logf("before: %s", before)
	t.Logf("after:  %s", after)
	t.Logf("replies: %v", codes)
	if after.peak > faultMemory {
		t.Errorf("RSS was at most %d MiB, want at most %d", after.peak, faultMemory)
	}
	if left := processes(longSleep); len(left) > 0 {
		t.Errorf("programs that tools ran are left: %v", left)
	}
	if r := g.ask(t, question("good", "call t_none", false)); r.status != http.StatusOK || !strings.Contains(r.body, "a thing") {
		t.Errorf("a good request afterwards: %d %s", r.status, r.body)
	}
}

// faultMemory bounds in MiB what a gateway needs under sixteen faults at once, of which several are replies without end:
// of one reply it takes up to 64 MiB.
const faultMemory = 1200

// try makes the request, and says how it was answered.
func (c faultCase) try(t *testing.T, g *gateway, client *http.Client) (string, time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), faultWait)
	defer cancel()
	begin := time.Now()
	r, err := fetch(ctx, client, http.MethodPost, g.url+"/v1/chat/completions", question(c.model, c.text, c.stream), "Content-Type", applyJSON)
	took := time.Since(begin)
	if err != nil {
		t.Errorf("%s: no clean reply after %s: %v; %d %s", c.name, took, err, r.status, excerpt(r.body))
		return "none", took
	}
	text, code, fault := unclean(r, c.stream)
	if fault != "" {
		t.Errorf("%s: %s: %d %s", c.name, fault, r.status, excerpt(r.body))
	}
	if code == "" {
		code = "answer"
	}
	if late := code == "504 timeout" || code == "in stream timeout"; c.answers && !late && !strings.HasPrefix(text, "Result: ") {
		t.Errorf("%s: %s %q, want what the model makes of the tool's failure", c.name, code, excerpt(r.body))
	}
	return code, took
}

func excerpt(s string) string {
	if len(s) > 600 {
		return s[:300] + " ... " + s[len(s)-300:]
	}
	return s
}

func whole200(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", applyJSON)
		_, _ = w.Write([]byte(body))
	})
}

// processes are those with that argument.
func processes(argument string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Split(string(data), "\x00"), argument) {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}
