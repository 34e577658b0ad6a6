//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/state/redistest"
)

// scaleConfig has a key for each thing that may cost something, and a tool of each kind.
const scaleConfig = `
server: {listen: "127.0.0.1:0", passthrough: [embeddings]}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}"}
models:
  assistant: {upstream: scripted, price: {prompt: 1, completion: 1}}
  forgetful: {upstream: scripted, memory: off}
trace: {keep: 100}
auth:
  keys:
    - {name: free, sha256: "${FREE}"}
    - {name: boss, sha256: "${BOSS}"}
    - {name: toolless, sha256: "${TOOLLESS}", tools: []}
    - {name: requests, sha256: "${REQUESTS}", limits: {requests_per_minute: 100000}}
    - {name: tokens, sha256: "${TOKENS}", limits: {tokens_per_minute: 100000}}
    - {name: cost, sha256: "${COST}", limits: {cost_per_day: 1000}}
    - {name: places, sha256: "${PLACES}", limits: {concurrent: 100}}
tools:
  look_up:
    description: Look an item up.
    parameters: {item: string}
    http: {url: "${SERVICE}/look/{item}"}
  stock:
    description: How many there are of an item.
    parameters: {item: string}
    cache: 1h
    http: {url: "${SERVICE}/stock/{item}"}
  order:
    description: Place an order.
    parameters: {item: string}
    http: {method: POST, url: "${SERVICE}/orders", body: json}
  cancel:
    description: Cancel an order.
    parameters: {item: string}
    confirm: approval
    http: {method: POST, url: "${SERVICE}/cancels", body: json}
`

// counter is a model's API. To "VERB ITEM" it calls the tool, and then says what that has returned.
func counter() http.Handler {
	var ids atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
			return
		}
		messages := gjson.GetBytes(body, "messages").Array()
		last := messages[len(messages)-1]
		message, finish := map[string]any{"role": "assistant", "content": "It says " + last.Get("content").Str}, "stop"
		if verb, item, ok := strings.Cut(last.Get("content").Str, " "); ok && last.Get("role").Str == "user" && verb != "say" {
			args, _ := json.Marshal(map[string]string{"item": item})
			call := map[string]any{"id": "call" + strconv.FormatInt(ids.Add(1), 10), "type": "function", "function": map[string]any{"name": verb, "arguments": string(args)}}
			message, finish = map[string]any{"role": "assistant", "tool_calls": []any{call}}, "tool_calls"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "c", "object": "chat.completion", "created": 1, "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
			"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
		})
	})
}

// scaled are gateways and what stands behind them.
type scaled struct {
	t        *testing.T
	replicas []*gateway
	items    atomic.Int64
}

// scale starts so many gateways with a service and a model, and state as the line says.
func scale(t *testing.T, n int, state string) *scaled {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q,"item":%q}`, r.URL.Path, gjson.GetBytes(body, "item").Str)
	}))
	t.Cleanup(service.Close)
	up := httptest.NewServer(counter())
	t.Cleanup(up.Close)
	env := []string{"UPSTREAM=" + up.URL, "SERVICE=" + service.URL, "OPERATOR_KEY=" + operatorKey}
	for _, key := range []string{"free", "boss", "toolless", "requests", "tokens", "cost", "places"} {
		env = append(env, strings.ToUpper(key)+"="+sum("key-"+key))
	}
	s := &scaled{t: t}
	for range n {
		s.replicas = append(s.replicas, serve(t, scaleConfig+state, env...))
	}
	return s
}

// item is a name that no other call had.
func (s *scaled) item() string { return "item" + strconv.FormatInt(s.items.Add(1), 10) }

// request is one to a replica. Its header is names and values.
func (s *scaled) request(replica int, method, path, body string, header ...string) reply {
	s.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
		header = append(header, "Content-Type", "application/json")
	}
	r := send(s.t, http.DefaultClient, newRequest(s.t, method, s.replicas[replica].url+path, in, header...))
	if r.status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
	return r
}

// chat asks a replica with a key, and gives the answer and its header. said is the conversation, the user's turn first.
func (s *scaled) chat(replica int, key, model string, said []string, header ...string) (string, http.Header) {
	s.t.Helper()
	var messages []any
	for i, text := range said {
		messages = append(messages, say([]string{"user", "assistant"}[i%2], text))
	}
	body, err := json.Marshal(map[string]any{"model": model, "messages": messages})
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.request(replica, http.MethodPost, "/v1/chat/completions", string(body), append(header, "Authorization", "Bearer key-"+key)...)
	return gjson.Get(r.body, "choices.0.message.content").Str, r.header
}

// asks is a run that calls a tool, and fails the test where the answer is another.
func (s *scaled) asks(replica int, key, model, verb, item string, header ...string) {
	s.t.Helper()
	answer, _ := s.chat(replica, key, model, []string{verb + " " + item}, header...)
	if !strings.Contains(answer, item) || !strings.Contains(answer, `"path"`) {
		s.t.Errorf("%s %s: the answer is %q", verb, item, answer)
	}
}

// monitor sees every command that clients send to a Redis.
type monitor struct {
	mu   sync.Mutex
	seen []string
}

// What go-redis sends for a connection, and the gateway once as it starts.
var ofConnections = regexp.MustCompile(`(?i)^"(hello|client|auth|select|ping|config|info|monitor)"`)

func watch(t *testing.T, redis *redistest.Server) *monitor {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(redis.URL, "redis://"), "/0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR: %q, %v", line, err)
	}
	m := &monitor{}
	ended := make(chan struct{})
	go func() { // ends with the connection
		defer close(ended)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			from, command, _ := strings.Cut(line, "] ")
			if strings.HasSuffix(from, " lua") || ofConnections.MatchString(command) {
				continue
			}
			m.mu.Lock()
			m.seen = append(m.seen, command)
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-ended
	})
	return m
}

// take gives what was seen since the last time, once it is at least so many, and nothing has come for a moment after it:
// records of runs go out when they have been answered.
func (m *monitor) take(least int) []string {
	seen := 0
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(30 * time.Millisecond) {
		m.mu.Lock()
		n := len(m.seen)
		if n >= least && n == seen || time.Now().After(end) {
			defer m.mu.Unlock()
			all := m.seen
			m.seen = nil
			return all
		}
		seen = n
		m.mu.Unlock()
	}
}

// costs is what a kind of request makes Redis do, as docs/scale.md says.
type costs struct{ waited, beside int }

// documentedCosts is the document's table of them, by the words of its first column.
func documentedCosts(t *testing.T) map[string]costs {
	t.Helper()
	all := map[string]costs{}
	text := readFile(t, filepath.Join(root(), "docs", "scale.md"))
	_, text, _ = strings.Cut(text, "| request | waited for | beside it |")
	text, _, _ = strings.Cut(text, "\n\n")
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.HasPrefix(cells[1], "-") {
			continue
		}
		waited, err := strconv.Atoi(strings.TrimSpace(cells[2]))
		beside, err2 := strconv.Atoi(strings.TrimSpace(cells[3]))
		if err != nil || err2 != nil {
			t.Errorf("docs/scale.md: a row that has no numbers: %s", line)
		}
		all[strings.TrimSpace(cells[1])] = costs{waited, beside}
	}
	return all
}

// Each kind of request makes the round trips that the document says, no more and no fewer.
func TestRedisCommandsOfRequests(t *testing.T) {
	redis := redistest.Start(t)
	s := scale(t, 2, `state: {backend: redis, url: "`+redis.URL+`"}`)
	run := func(key string) func(int) { return func(int) { s.asks(0, key, "assistant", "look_up", s.item()) } }
	plain := func(key string) func(int) {
		return func(int) { s.chat(0, key, "assistant", []string{"say nothing"}, "X-Gateway-Tools", "none") }
	}
	keys := make([]string, 3)
	for i := range keys {
		keys[i] = fmt.Sprintf("idempotency-%d", i)
	}
	shared := make([]string, 3)
	for i := range shared {
		shared[i] = fmt.Sprintf("shared%d", i)
	}
	approvals := make([]string, 3)

	kinds := []struct {
		name string // in the document
		do   func(i int)
		upon []string // rows that the request is too
	}{
		{name: "`/healthz`, `/readyz`, `/metrics`, `/v1/models`, embeddings and the like", do: func(int) {
			for _, path := range []string{"/healthz", "/readyz", "/metrics", "/v1/models"} {
				s.request(0, http.MethodGet, path, "", "Authorization", "Bearer key-free")
			}
			s.request(0, http.MethodPost, "/v1/embeddings", `{"model":"assistant","input":"x"}`, "Authorization", "Bearer key-free")
		}},
		{name: "a chat completion without tools, passed through", do: plain("toolless")},
		{name: "a run without a call of a tool", do: func(int) { s.chat(0, "free", "assistant", []string{"say nothing"}) }},
		{name: "a run with calls of reads, any number", do: run("free")},
		{name: "the same with `memory: off`", do: func(int) { s.asks(0, "free", "forgetful", "look_up", s.item()) }},

		{
			name: "for each answer in the conversation that the client sends, with `memory: held`", upon: []string{"a run with calls of reads, any number"},
			do: func(int) {
				s.chat(0, "free", "assistant", []string{"say hello", "It says hello", "look_up " + s.item()})
			},
		},
		{
			name: "for a call with `cache` that no replica has", upon: []string{"a run with calls of reads, any number"},
			do: func(i int) { s.asks(0, "free", "assistant", "stock", shared[i]) },
		},
		{
			name: "that another replica has", upon: []string{"a run with calls of reads, any number"},
			do: func(i int) { s.asks(1, "free", "assistant", "stock", shared[i]) },
		},
		{
			name: "that this replica has", upon: []string{"a run with calls of reads, any number"},
			do: func(i int) { s.asks(1, "free", "assistant", "stock", shared[i]) },
		},
		{
			name: "for a write", upon: []string{"a run with calls of reads, any number"},
			do: func(int) { s.asks(0, "free", "assistant", "order", s.item()) },
		},
		{
			name: "for an `Idempotency-Key`", upon: []string{"a run with calls of reads, any number"},
			do: func(i int) { s.asks(0, "free", "assistant", "look_up", "key", "Idempotency-Key", keys[i]) },
		},
		{name: "a request whose `Idempotency-Key` has its reply", do: func(i int) { s.asks(1, "free", "assistant", "look_up", "key", "Idempotency-Key", keys[i]) }},
		{name: "for a key with `requests_per_minute`", do: plain("requests"), upon: []string{"a chat completion without tools, passed through"}},
		{name: "`tokens_per_minute`", do: run("tokens"), upon: []string{"a run with calls of reads, any number"}},
		{name: "`cost_per_day`", do: run("cost"), upon: []string{"a run with calls of reads, any number"}},
		{name: "`concurrent`", do: plain("places"), upon: []string{"a chat completion without tools, passed through"}},
		{name: "a run whose call waits for an approval", do: func(i int) {
			_, header := s.chat(0, "free", "assistant", []string{"cancel order" + strconv.Itoa(i)})
			if approvals[i] = header.Get("X-Gateway-Approval"); approvals[i] == "" {
				t.Error("no approval is asked for")
			}
		}},
		{name: "the decision", do: func(i int) {
			s.request(1, http.MethodPost, "/gateway/approvals/"+approvals[i], `{"approve":true}`, "Authorization", "Bearer key-boss")
		}},
	}

	// A script is sent whole the first time, and a second time where Redis did not know it. Both replicas know their own.
	warm := []func(){
		func() {
			for _, key := range []string{"requests", "tokens", "cost", "places"} {
				run(key)(0)
			}
		},
		func() { s.asks(0, "free", "assistant", "order", s.item(), "Idempotency-Key", "warm") },
	}
	m := watch(t, redis)
	for _, do := range warm {
		do()
	}
	m.take(1)

	documented := documentedCosts(t)
	for _, kind := range kinds {
		want, ok := documented[kind.name]
		if !ok {
			t.Errorf("docs/scale.md has no row %q", kind.name)
		}
		delete(documented, kind.name)
		for _, other := range kind.upon {
			base := documentedCosts(t)[other]
			want.waited, want.beside = want.waited+base.waited, want.beside+base.beside
		}
		for i := range 3 {
			kind.do(i)
			seen := m.take(want.waited + want.beside)
			var got costs
			for _, command := range seen {
				if strings.Contains(command, ":runs:") || strings.Contains(command, "runs:newest") {
					got.beside++
				} else {
					got.waited++
				}
			}
			if got != want {
				t.Errorf("%s: %d commands waited for and %d beside, want %d and %d:\n%s", kind.name, got.waited, got.beside, want.waited, want.beside, shorten(seen))
				break
			}
		}
	}
	for name := range documented {
		t.Errorf("docs/scale.md has a row %q that no request of this test is", name)
	}
}

// shorten makes commands fit to be read.
func shorten(commands []string) string {
	var b strings.Builder
	for _, c := range commands {
		b.WriteString(c[:min(len(c), 160)] + "\n")
	}
	return b.String()
}

// cpu is what processes have used until now.
func (s *scaled) cpu() time.Duration {
	s.t.Helper()
	var ticks int64
	for _, g := range s.replicas {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.cmd.Process.Pid))
		if err != nil {
			s.t.Fatal(err)
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		for _, f := range fields[11:13] { // utime and stime
			n, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 everywhere
}

// load makes runs by many clients at once, each at the next replica, and gives how many there were a second and what each
// has cost.
func (s *scaled) load(runs int) (rate float64, each time.Duration) {
	s.t.Helper()
	const clients = 16
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var next, wrong atomic.Int64
	begin, before := time.Now(), s.cpu()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(runs); n = next.Add(1) {
				item := s.item()
				req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.replicas[int(n)%len(s.replicas)].url+"/v1/chat/completions",
					strings.NewReader(question("assistant", "look_up "+item, false)))
				if err != nil {
					s.t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", "Bearer key-requests")
				resp, err := client.Do(req)
				if err != nil {
					s.t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				answer := gjson.GetBytes(body, "choices.0.message.content").Str
				if err != nil || resp.StatusCode != http.StatusOK || !strings.HasSuffix(answer, `{"path":"/look/`+item+`","item":""}`) {
					if wrong.Add(1) < 5 {
						s.t.Errorf("%s: %d %s, %v", item, resp.StatusCode, body, err)
					}
				}
			}
		})
	}
	wg.Wait()
	return float64(runs) / time.Since(begin).Seconds(), (s.cpu() - before) / time.Duration(runs)
}

// What state that is shared costs: three replicas with a Redis against one that keeps all by itself, the same work in
// turns. How much faster three are is the machine's matter, which has to have cores for them; what a run costs is not.
func TestReplicasAgainstOne(t *testing.T) {
	const rounds, runs = 5, 2000
	// With a Redis a run here waits for three exchanges, and one more goes beside it: about as much as the run itself costs,
	// as it asks for a model and a tool that answer at once.
	const most = 3.0
	one := scale(t, 1, "")
	redis := redistest.Start(t)
	three := scale(t, 3, `state: {backend: redis, url: "`+redis.URL+`"}`)
	for _, s := range []*scaled{one, three} { // connections, and what is made once
		s.load(runs / 4)
	}
	client := redis.Client()
	defer client.Close()
	info := func(name string) float64 {
		t.Helper()
		text, err := client.Info(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ = strings.Cut(text, "\n"+name+":")
		text, _, _ = strings.Cut(text, "\r")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("INFO %s: %v", name, err)
		}
		return v
	}
	busy := func() float64 { return info("used_cpu_user") + info("used_cpu_sys") }
	beganBusy, beganMemory := busy(), info("used_memory")
	var ratios []float64
	for range rounds {
		rate1, cpu1 := one.load(runs)
		rate3, cpu3 := three.load(runs)
		t.Logf("one without Redis: %.0f runs/s, CPU %s each; three with it: %.0f runs/s, CPU %s each", rate1, cpu1, rate3, cpu3)
		ratios = append(ratios, float64(cpu3)/float64(cpu1))
	}
	slices.Sort(ratios)
	if ratio := ratios[rounds/2]; !(ratio <= most) {
		t.Errorf("a run with Redis costs %.2f times the CPU of one without, want at most %.1f", ratio, most)
	}
	t.Logf("of Redis, which writes each command to its disk: CPU %.0fµs and %.0f bytes for a run", (busy()-beganBusy)*1e6/rounds/runs, (info("used_memory")-beganMemory)/rounds/runs)
	for i := range three.replicas { // no record was dropped on the way
		if r := three.request(i, http.MethodGet, "/metrics", ""); !strings.Contains(r.body, "\ngateway_state_runs_dropped_total 0\n") {
			t.Errorf("replica %d dropped records of runs", i)
		}
	}
}
