//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const floodConfig = `
server: {listen: "127.0.0.1:0", max_inflight: 600, max_connections: 3000}
budget: {max_seconds: 50}
streaming: {keep_alive: 200ms}
upstreams:
  model: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}", retry: {attempts: 1}, breaker: {failures: 100000}}
models:
  assistant: {upstream: model}
tools:
  look:
    description: Look at a thing.
    timeout: 20s
    http: {url: "${SERVICE}/look"}
`

// floods is a gateway for clients that mean no good, and what is behind it.
type floods struct {
	*gateway
	behind []*hostile
	before usage
	asked  atomic.Int64 // model calls under way
	done   atomic.Int64
}

func newFloods(t *testing.T, config string, limits []string, env ...string) *floods {
	t.Helper()
	f := &floods{}
	model := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		defer f.asked.Add(-1)
		defer f.done.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		last := gjson.GetBytes(body, "messages.@reverse.0")
		switch text := last.Get("content").Str; {
		case last.Get("role").Str == "tool":
			modelSays(w, body, "Result: "+text)
		case text == "look":
			modelCalls(w, body, "look", "{}")
		case text == "think":
			<-r.Context().Done()
		case text == "write for ever":
			w.Header().Set("Content-Type", "text/event-stream")
			padded := strings.Replace(event(`{"content":"word "}`), `{"id"`, `{"obfuscation":"`+strings.Repeat("x", 4000)+`","id"`, 1)
			for part := []byte(padded); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		default:
			modelSays(w, body, "Hello.")
		}
	})
	up := newHostile(t, nil, nil, nil)
	up.Config.Handler = model
	service := newHostile(t, nil, nil, nil)
	service.Config.Handler = whole200(`"` + strings.Repeat("a thing ", 300<<10/8) + `"`)
	f.behind = []*hostile{up, service}
	f.gateway = servePlain(t, config, limits, append(env, "UPSTREAM="+up.URL, "SERVICE="+service.URL, "OPERATOR_KEY="+operatorKey)...)
	for range 3 {
		if r := send(t, scraper, f.request(t, question("assistant", "look", false))); r.status != http.StatusOK {
			t.Fatalf("look: %d %s", r.status, r.body)
		}
	}
	f.before = f.uses(t)
	return f
}

// dial opens a connection to the gateway and sends what is given.
func (f *floods) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// others asserts that good clients are served at once.
func (f *floods) others(t *testing.T) {
	t.Helper()
	var worst time.Duration
	for range 10 {
		begin := time.Now()
		if r := send(t, scraper, f.request(t, question("assistant", "hello", false))); r.status != http.StatusOK {
			t.Errorf("a good client: %d %s", r.status, r.body)
		}
		worst = max(worst, time.Since(begin))
	}
	if worst > 5*time.Second { // far less on a machine that has nothing else to do
		t.Errorf("a good client waited %s", worst)
	}
	t.Logf("good clients waited %s at most", worst.Round(time.Millisecond))
}

// over asserts that what the gateway held is given back, and that it never needed more memory than that.
func (f *floods) over(t *testing.T, mib int64) {
	t.Helper()
	for _, h := range f.behind { // connections that the gateway keeps
		h.drop()
	}
	after := f.settles(t, f.before)
	t.Logf("before: %s", f.before)
	t.Logf("after:  %s", after)
	if grown := after.peak - f.before.peak; grown > mib {
		t.Errorf("it took %d MiB, want at most %d", grown, mib)
	}
}

const chatHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

// closed reads until a connection has ended, and gives what came.
func closed(t *testing.T, c net.Conn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // as net gives it
		t.Errorf("a connection is still there: %q", text)
	}
	return string(text)
}

// Clients that send their header slowly or never hold up nobody, and lose their connection after ten seconds.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	f := newFloods(t, floodConfig, nil)
	var conns []net.Conn
	for i := range 500 {
		conns = append(conns, f.dial(t, []string{"", "POST /v1/chat/comp", chatHead + "X-Slow: "}[i%3]))
	}
	stop := make(chan struct{})
	var trickle sync.WaitGroup
	trickle.Go(func() { // ends with stop
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Millisecond):
				for i := 2; i < len(conns); i += 3 {
					_, _ = io.WriteString(conns[i], "x")
				}
			}
		}
	})
	f.others(t)
	begin := time.Now()
	for _, c := range conns {
		closed(t, c)
	}
	t.Logf("they were there for another %s", time.Since(begin).Round(time.Millisecond))
	close(stop)
	trickle.Wait()
	f.over(t, 60)
}

// Headers beyond all measure are refused.
func TestHeaderFloods(t *testing.T) {
	t.Parallel()
	f := newFloods(t, floodConfig, nil)
	var lines strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&lines, "X-H%d: value\r\n", i)
	}
	heads := map[string]string{
		"a line of 100 KB": "X-Long: " + strings.Repeat("h", 100<<10) + "\r\n",
		"10,000 lines":     lines.String(),
		"a key of 100 KB":  "Authorization: Bearer " + strings.Repeat("k", 100<<10) + "\r\n",
	}
	for name, head := range heads {
		var wg sync.WaitGroup
		for range 50 {
			c := f.dial(t, "")
			wg.Go(func() {
				_, _ = io.WriteString(c, chatHead+head+"Content-Length: 0\r\n\r\n") // it may be refused before it has come whole
				if got := closed(t, c); got != "" && !strings.HasPrefix(got, "HTTP/1.1 431 ") {
					t.Errorf("%s: %q, want 431", name, excerpt(got))
				}
			})
		}
		wg.Wait()
		f.others(t)
	}
	long := "GET /" + strings.Repeat("p", 200<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n"
	c := f.dial(t, "")
	_, _ = io.WriteString(c, long)
	if got := closed(t, c); got != "" && !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("a path of 200 KB: %q, want 431", excerpt(got))
	}
	f.over(t, 60)
}

// Bodies that are announced and do not come take no memory, and end their request after ten seconds.
func TestBodyFloods(t *testing.T) {
	t.Parallel()
	f := newFloods(t, floodConfig, nil)
	var conns []net.Conn
	for i := range 500 {
		c := f.dial(t, chatHead+fmt.Sprintf("Content-Length: %d\r\n\r\n", 20<<20-i)+[]string{"", `{"model"`}[i%2])
		conns = append(conns, c)
	}
	endless := f.dial(t, chatHead+"Transfer-Encoding: chunked\r\n\r\n")
	stopped := make(chan struct{})
	go func() { // ends when the gateway does not take more
		defer close(stopped)
		for more := chunk(strings.Repeat(" ", 64<<10)); ; {
			if _, err := io.WriteString(endless, more); err != nil {
				return
			}
		}
	}()
	if got := closed(t, endless); got != "" && !strings.HasPrefix(got, "HTTP/1.1 413 ") {
		t.Errorf("a body without end: %q, want 413", excerpt(got))
	}
	<-stopped
	f.others(t)
	for i, c := range conns {
		if got := closed(t, c); !strings.HasPrefix(got, "HTTP/1.1 408 ") || !strings.Contains(got, `"request_timeout"`) {
			t.Errorf("connection %d: %q, want 408", i, excerpt(got))
			break
		}
	}
	f.over(t, 200) // of which 40 are for the body without end, and the rest for 500 times what a connection takes
}

// Streams whose clients read nothing slow their providers down, and take a bounded memory each.
func TestStreamsThatNobodyReads(t *testing.T) {
	t.Parallel()
	f := newFloods(t, floodConfig, nil)
	body := question("assistant", "write for ever", true)
	var conns []net.Conn
	// Each fills some 5 MB of the system's buffers. Linux sets about a tenth of the memory aside for TCP (tcp_mem), and
	// beyond that resets connections of anybody's, other tests' among them.
	const streams = 120
	for i := range streams {
		conns = append(conns, f.dial(t, chatHead+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)))
		await(t, fmt.Sprintf("stream %d is under way", i), func() bool { return f.asked.Load() > int64(i) })
	}
	time.Sleep(3 * time.Second) // as much as fits into the buffers of the system is written
	held := f.uses(t)
	f.others(t)
	for _, c := range conns {
		c.Close()
	}
	await(t, "no model call is left", func() bool { return f.asked.Load() == 0 })
	t.Logf("with %d streams: %s", streams, held)
	f.over(t, 100)
}

// Clients that leave in the middle, hundreds at once, end what is done for them.
func TestManyClientsThatLeave(t *testing.T) {
	t.Parallel()
	f := newFloods(t, floodConfig, nil)
	for round := range 3 {
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(300+rand.IntN(700))*time.Millisecond)
				defer leave()
				_, _ = fetch(ctx, scraper, http.MethodPost, f.url+"/v1/chat/completions", question("assistant", "think", i%2 == 0), "Content-Type", applyJSON)
			})
		}
		wg.Wait()
		await(t, "no model call is left", func() bool { return f.asked.Load() == 0 })
		t.Logf("round %d: %d model calls were made and ended", round, f.done.Load())
	}
	f.others(t)
	f.over(t, 150)
}

// More requests than server.max_inflight are refused at once. Nobody queues.
func TestMoreRequestsThanPlaces(t *testing.T) {
	t.Parallel()
	f := newFloods(t, strings.Replace(floodConfig, "max_inflight: 600", "max_inflight: 20", 1), nil)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, _ = fetch(ctx, scraper, http.MethodPost, f.url+"/v1/chat/completions", question("assistant", "think", false), "Content-Type", applyJSON)
		})
	}
	await(t, "all places are taken", func() bool { return f.asked.Load() == 20 })
	var refused sync.WaitGroup
	for i := range 200 {
		refused.Go(func() {
			begin := time.Now()
			r, err := fetch(t.Context(), scraper, http.MethodPost, f.url+"/v1/chat/completions", question("assistant", "hello", i%2 == 0), "Content-Type", applyJSON)
			if err != nil || r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || gjson.Get(r.body, "error.code").Str != "overloaded" {
				t.Errorf("got %d %v %s, %v; want 503 with Retry-After", r.status, r.header, r.body, err)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("a refusal took %s", took)
			}
		})
	}
	refused.Wait()
	leave()
	wg.Wait()
	await(t, "no model call is left", func() bool { return f.asked.Load() == 0 })
	f.others(t)
	f.over(t, 100)
}

// With few descriptors, more clients than there are places get a clean refusal, the process goes on without haste, and
// all is well when they have left.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	f := newFloods(t, strings.Replace(floodConfig, ", max_connections: 3000", "", 1), []string{"prlimit", "--nofile=64"})
	t.Run("many clients", func(t *testing.T) {
		codes := map[string]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				stream := i%2 == 0
				r, err := fetch(ctx, scraper, http.MethodPost, f.url+"/v1/chat/completions", question("assistant", "look", stream), "Content-Type", applyJSON)
				code := "refused" // by the system: a reset
				if err == nil {
					var fault string
					if _, code, fault = unclean(r, stream); fault != "" {
						t.Errorf("%s: %d %s", fault, r.status, excerpt(r.body))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		wg.Wait()
		t.Logf("300 clients at once: %s", counts(codes))
		if codes[""] == 0 {
			t.Error("nobody got an answer")
		}
	})
	t.Run("silent connections", func(t *testing.T) {
		var conns []net.Conn
		for range 200 {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.url, "http://"))
			if err != nil {
				continue // reset
			}
			defer c.Close()
			conns = append(conns, c)
		}
		begin := time.Now()
		await(t, "a good client is served beside silent connections", func() bool { return f.serves(t) })
		t.Logf("beside %d silent connections a good client waited %s", len(conns), time.Since(begin).Round(time.Millisecond))
		before := f.cpu(t)
		time.Sleep(2 * time.Second)
		if took := f.cpu(t) - before; took > time.Second {
			t.Errorf("it spent %s on connections that say nothing", took)
		}
	})
	await(t, "a good client is served", func() bool { return f.serves(t) })
	f.over(t, 100)
}

// serves says whether a good client is served.
func (f *floods) serves(t *testing.T) bool {
	r, err := fetch(t.Context(), scraper, http.MethodPost, f.url+"/v1/chat/completions", question("assistant", "look", false), "Content-Type", applyJSON)
	return err == nil && r.status == http.StatusOK
}

// cpu is what a gateway has spent.
func (f *floods) cpu(t *testing.T) time.Duration { return f.uses(t).cpu }

// With GOMEMLIMIT set, large requests, results and replies, many at once, stay within reason.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	f := newFloods(t, floodConfig, nil, "GOMEMLIMIT=128MiB")
	large := question("assistant", "look", false)
	large = strings.Replace(large, `"messages":[`, `"messages":[{"role":"system","content":"`+strings.Repeat("x", 1<<20)+`"},`, 1)
	streamed := strings.Replace(large, `"stream":false`, `"stream":true`, 1)
	codes := map[string]int{}
	var mu sync.Mutex
	for round := range 2 {
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				body, stream := large, i%2 == 0
				if stream {
					body = streamed
				}
				r, err := fetch(t.Context(), scraper, http.MethodPost, f.url+"/v1/chat/completions", body, "Content-Type", applyJSON)
				_, code, fault := unclean(r, stream)
				if err != nil || fault != "" {
					t.Errorf("%v, %s: %d %s", err, fault, r.status, excerpt(r.body))
				}
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		wg.Wait()
		t.Logf("round %d: %s; %s", round, counts(codes), f.uses(t))
	}
	if codes[""] != 400 {
		t.Errorf("%s, want 400 answers", counts(codes))
	}
	f.over(t, 400)
}
