//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const soakConfig = `
server: {listen: "127.0.0.1:0"}
log: {level: warn}
budget: {max_seconds: 5}
streaming: {keep_alive: 300ms, hold: 20}
upstreams:
  model: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}", connect_timeout: 1s, first_byte_timeout: 700ms, idle_timeout: 700ms, retry: {attempts: 3, base: 5ms, max: 50ms, budget: 1}, breaker: {failures: 8, open_for: 300ms}}
models:
  assistant: {upstream: model}
tools:
  stock:
    description: How many there are of an item.
    parameters: {item: string}
    timeout: 700ms
    retry: {attempts: 2, base: 5ms}
    breaker: {failures: 8, open_for: 300ms}
    http: {url: "${SERVICE}/stock/{item}"}
  order:
    description: Order an item. The service knows no keys.
    parameters: {item: string}
    timeout: 700ms
    breaker: {failures: 8, open_for: 300ms}
    http: {method: POST, url: "${SERVICE}/order", body: json}
  book:
    description: Book an item. The service knows a call by its key.
    parameters: {item: string}
    timeout: 700ms
    idempotent: true
    retry: {attempts: 3, base: 5ms}
    breaker: {failures: 8, open_for: 300ms}
    http: {method: POST, url: "${SERVICE}/book", body: json}
`

// dice are the faults of a soak, and how often each falls.
type dice struct {
	list  []fault
	share float64 // of all replies
	mu    sync.Mutex
	count map[string]int
}

func newDice(share float64) *dice {
	names := []string{
		"hang", "hang-in-body", "reset-before-header", "reset-in-body", "close-before-header", "cut", "cut-chunked", "not-http", "html", "html-502",
		"wrong-json", "empty", "429", "429-in-ten-years", "500", "503-empty", "500-cut", "length-too-long", "sse-garbage-later", "sse-reset-later", "closes-idle",
	}
	d := &dice{share: share, count: map[string]int{}}
	for _, f := range faults() {
		if slices.Contains(names, f.name) {
			d.list = append(d.list, f)
		}
	}
	d.list = append(d.list, fault{"slow", func(x *exchange) {
		time.Sleep(200 * time.Millisecond)
		half := len(x.body) / 2
		x.send(x.sized() + string(x.body[:half]))
		time.Sleep(100 * time.Millisecond)
		x.send(string(x.body[half:]))
	}})
	return d
}

// roll is the fault that falls, if one does. Faults that hang are rarer: they hold everybody up.
func (d *dice) roll() (fault, bool) {
	if rand.Float64() >= d.share {
		return fault{}, false
	}
	f := d.list[rand.IntN(len(d.list))]
	if strings.HasPrefix(f.name, "hang") && rand.IntN(4) > 0 {
		return fault{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[f.name]++
	return f, true
}

// shaky serves the replies of inner, and some of them spoiled.
func shaky(t *testing.T, d *dice, inner http.Handler) *hostile {
	t.Helper()
	h := newHostile(t, nil, nil, nil)
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, bad := d.roll()
		if !bad {
			inner.ServeHTTP(w, r)
			return
		}
		good := httptest.NewRecorder()
		if !strings.HasPrefix(f.name, "429") { // which says that nothing was done
			r.Header.Set("X-Fault", f.name)
			inner.ServeHTTP(good, r)
		}
		h.spoil(w, f, good)
	})
	return h
}

// market is the service of a soak: it counts what it was told to do.
type market struct {
	mu   sync.Mutex
	done map[string]int      // by verb and item
	keys map[string]bool     // of bookings
	how  map[string][]string // each call of what was done: its key, and the fault of its reply
}

func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	verb, item, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method == http.MethodPost {
		item = gjson.GetBytes(body, "item").Str
		key := r.Header.Get("Idempotency-Key")
		m.mu.Lock()
		if verb == "order" || !m.keys[key] {
			m.keys[key] = true
			m.done[verb+" "+item]++
			m.how[verb+" "+item] = append(m.how[verb+" "+item], key+" "+r.Header.Get("X-Fault"))
		}
		m.mu.Unlock()
	}
	w.Header().Set("Content-Type", applyJSON)
	fmt.Fprintf(w, `{"did":%q,"item":%q}`, verb, item)
}

// twice is what was done more than once.
func (m *market) twice() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for what, n := range m.done {
		if n > 1 {
			list = append(list, fmt.Sprintf("%s: %d: %v", what, n, m.how[what]))
		}
	}
	return list
}

// trader is the model of a soak. To "VERB... about ITEM" it calls each verb's tool, and says then what came of them.
func trader() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		messages := gjson.GetBytes(body, "messages").Array()
		asked, results := "", ""
		for _, m := range messages {
			switch m.Get("role").Str {
			case "user":
				asked = m.Get("content").Str
			case "tool":
				results += " " + m.Get("content").Str
			}
		}
		verbs, item, _ := strings.Cut(asked, " about ")
		if messages[len(messages)-1].Get("role").Str != "user" || verbs == "talk" {
			modelSays(w, body, "Of "+item+":"+results+" That is all there is to say of it.")
			return
		}
		var calls []any
		for i, verb := range strings.Fields(verbs) {
			arguments, _ := json.Marshal(map[string]string{"item": item})
			calls = append(calls, map[string]any{"index": i, "id": "call_" + verb, "type": "function", "function": map[string]any{"name": verb, "arguments": string(arguments)}})
		}
		modelTurn(w, body, map[string]any{"role": "assistant", "content": nil, "tool_calls": calls}, "tool_calls")
	})
}

// tally is what became of the runs of a soak.
type tally struct {
	answers, replayed, left atomic.Int64
	mu                      sync.Mutex
	codes                   map[string]int
	bad                     map[string][]string // by what is wrong: lost, wrong
	worst                   time.Duration
}

func (a *tally) is(kind, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.bad[kind]) < 20 {
		a.bad[kind] = append(a.bad[kind], what)
	}
}

// marker is how runs are told apart.
var marker = regexp.MustCompile(`item-\d+-`)

// soakRun is one run: a client that asks, perhaps leaves, and asks again where SDKs would.
func (a *tally) soakRun(ctx context.Context, c *http.Client, url string, n int) {
	item := fmt.Sprintf("item-%d-", n)
	verbs := []string{"talk", "stock", "order", "book", "stock order", "stock book", "book order stock", "stock"}[rand.IntN(8)]
	stream := rand.IntN(2) == 0
	body := question("assistant", verbs+" about "+item, stream)
	header := []string{"Content-Type", applyJSON}
	if rand.IntN(2) == 0 {
		header = append(header, "Idempotency-Key", "key of "+item)
	}
	for try := range 3 {
		once, leave := context.WithTimeout(ctx, 20*time.Second)
		leaves := rand.IntN(33) == 0
		if leaves {
			time.AfterFunc(time.Duration(rand.IntN(60))*time.Millisecond, leave)
		}
		begin := time.Now()
		r, err := fetch(once, c, http.MethodPost, url, body, header...)
		took := time.Since(begin)
		gone := once.Err() != nil && leaves
		leave()
		if gone {
			a.left.Add(1)
			if len(header) > 2 {
				continue // it comes back with its key
			}
			return
		}
		if !a.reply(r, err, stream, item, took) || len(header) == 2 || r.header.Get("X-Should-Retry") == "false" || try == 2 {
			return
		}
	}
}

// reply notes how a run was answered, and says whether its client would ask again.
func (a *tally) reply(r reply, err error, stream bool, item string, took time.Duration) bool {
	a.mu.Lock()
	a.worst = max(a.worst, took)
	a.mu.Unlock()
	if err != nil {
		a.is("lost", fmt.Sprintf("%s after %s: %v; %d %s", item, took, err, r.status, excerpt(r.body)))
		return true
	}
	text, code, fault := unclean(r, stream)
	if fault != "" {
		a.is("lost", fmt.Sprintf("%s: %s: %d %s", item, fault, r.status, excerpt(r.body)))
		return false
	}
	own := 0
	for _, m := range marker.FindAllString(text, -1) {
		if m != item {
			a.is("wrong", fmt.Sprintf("%s: %s", item, excerpt(text)))
		}
		own++
	}
	if code != "" {
		a.mu.Lock()
		a.codes[code]++
		a.mu.Unlock()
		return r.status >= 500 || r.status == http.StatusTooManyRequests
	}
	if own == 0 {
		a.is("wrong", fmt.Sprintf("%s: %s", item, excerpt(text)))
	}
	a.answers.Add(1)
	if r.header.Get("Idempotent-Replayed") != "" {
		a.replayed.Add(1)
	}
	return false
}

// TestSoak makes SOAK_RUNS runs, 2,000 without it, against a provider and a service that fail in many ways, from clients
// of which some leave, while the configuration is read again and again. No client goes without a reply, none gets that
// of another, no write is made twice, and nothing is left at the end.
func TestSoak(t *testing.T) {
	runs := 2000
	if text := os.Getenv("SOAK_RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	upFaults, toolFaults := newDice(0.15), newDice(0.15)
	service := &market{done: map[string]int{}, keys: map[string]bool{}, how: map[string][]string{}}
	up, tools := shaky(t, upFaults, trader()), shaky(t, toolFaults, service)
	g := servePlain(t, strings.Replace(soakConfig, "level: warn", "level: info", 1), nil, "UPSTREAM="+up.URL, "SERVICE="+tools.URL, "OPERATOR_KEY="+operatorKey)
	g.setConfig(t, soakConfig, 0) // from here on without a line for each request
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	client := &http.Client{Transport: transport}
	a := &tally{codes: map[string]int{}, bad: map[string][]string{}}
	for n := range 100 {
		a.soakRun(t.Context(), client, g.url+"/v1/chat/completions", n)
	}
	transport.CloseIdleConnections()
	up.drop()
	tools.drop()
	time.Sleep(500 * time.Millisecond)
	before := g.uses(t)

	begin := time.Now()
	next := make(chan int)
	var clients, reloads sync.WaitGroup
	over := make(chan struct{})
	reloads.Go(func() { // ends with over
		for i := 1; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(2 * time.Second):
				g.setConfig(t, soakConfig, i%2)
			}
		}
	})
	for range 32 {
		clients.Go(func() {
			for n := range next {
				a.soakRun(t.Context(), client, g.url+"/v1/chat/completions", n)
			}
		})
	}
	for n := 100; n < 100+runs; n++ {
		next <- n
		if n%10_000 == 0 {
			t.Logf("%6d runs after %s: %s", n, time.Since(begin).Round(time.Second), g.uses(t))
		}
	}
	close(next)
	clients.Wait()
	close(over)
	reloads.Wait()
	took := time.Since(begin)
	atEnd := g.uses(t)
	transport.CloseIdleConnections()
	up.drop()
	tools.drop()
	after := g.settles(t, before)

	cpu := (atEnd.cpu - before.cpu).Seconds()
	t.Logf("runs             %d in %s, %.0f a second, 32 at once; the slowest reply took %s", runs, took.Round(time.Second), float64(runs)/took.Seconds(), a.worst.Round(10*time.Millisecond))
	t.Logf("answers          %d, of which %d were replayed to a repeated key", a.answers.Load(), a.replayed.Load())
	t.Logf("clients that left %d", a.left.Load())
	t.Logf("clean errors     %s", counts(a.codes))
	t.Logf("faults, provider %s", counts(upFaults.count))
	t.Logf("faults, service  %s", counts(toolFaults.count))
	t.Logf("writes made      %d", len(service.done))
	t.Logf("lost %d, wrong %d, duplicated writes %d", len(a.bad["lost"]), len(a.bad["wrong"]), len(service.twice()))
	t.Logf("start            %s", before)
	t.Logf("end              %s", atEnd)
	t.Logf("a moment later   %s", after)
	t.Logf("CPU              %.1f s for 1,000 runs", cpu/float64(runs)*1000)
	for kind, list := range a.bad {
		t.Errorf("%s: %s", kind, strings.Join(list, "\n"))
	}
	if twice := service.twice(); len(twice) > 0 {
		t.Errorf("made twice: %v", twice)
	}
	if after.peak > soakMemory {
		t.Errorf("RSS was at most %d MiB, want at most %d", after.peak, soakMemory)
	}
}

// soakMemory bounds in MiB what a gateway needs for 32 runs at once, with all that it keeps of those before.
const soakMemory = 600

// setConfig replaces the configuration by one that differs in a little, and has it read.
func (g *gateway) setConfig(t *testing.T, config string, variant int) {
	text := strings.Replace(config, "max_seconds: 5}", fmt.Sprintf("max_seconds: %d}", 5+variant), 1)
	if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
}

// counts are numbers by name, the largest first, and their sum.
func counts(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return m[b] - m[a] })
	sum := 0
	var parts []string
	for _, name := range names {
		sum += m[name]
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return fmt.Sprintf("%d: %s", sum, strings.Join(parts, ", "))
}
