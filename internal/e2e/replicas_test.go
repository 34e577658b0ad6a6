//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/state/redistest"
)

const replicasConfig = `
server: {listen: "127.0.0.1:0", shutdown_grace: 1s}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}"}
models:
  assistant: {upstream: scripted}
budget: {max_seconds: 50}
state: {backend: redis, url: "${REDIS}", prefix: "e2e:"}
auth:
  keys:
    - {name: web, sha256: "${WEB}", caller: {id: web}}
    - {name: boss, sha256: "${BOSS}"}
    - {name: limited, sha256: "${LIMITED}", limits: {requests_per_minute: 5}}
tools:
  place_order:
    description: Place an order.
    parameters: {item: string}
    timeout: 2s
    http: {method: POST, url: "${SERVICE}/orders", body: json}
  refund:
    description: Pay an order back.
    parameters: {item: string}
    timeout: 2s
    confirm: user
    http: {method: POST, url: "${SERVICE}/refunds", body: json}
  cancel:
    description: Cancel an order.
    parameters: {item: string}
    timeout: 2s
    confirm: approval
    http: {method: POST, url: "${SERVICE}/cancels", body: json}
  stock:
    description: How many there are of an item.
    parameters: {item: string}
    cache: 1h
    http: {url: "${SERVICE}/stock/{item}"}
`

// warehouse is a service that notes what it is told to do, by path and item.
type warehouse struct {
	*httptest.Server
	mu   sync.Mutex
	done map[string]int
}

func newWarehouse(t *testing.T) *warehouse {
	t.Helper()
	w := &warehouse{done: map[string]int{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		item := gjson.GetBytes(body, "item").Str
		if r.Method == http.MethodGet {
			item = "GET"
		}
		w.mu.Lock()
		w.done[r.URL.Path+" "+item]++
		w.mu.Unlock()
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // what is begun is done, though nobody waits
		fmt.Fprintf(rw, `{"done":%q}`, item)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *warehouse) times(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done[what]
}

// clerk is a model. To "VERB ITEM" it calls the verb's tool, and says what came of it; to "what was done" it says what
// the last result in the conversation is.
func clerk() http.Handler {
	var ids atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway was killed
		}
		messages := gjson.GetBytes(body, "messages").Array()
		last, question, result := messages[len(messages)-1], "", "nothing"
		for _, m := range messages {
			switch m.Get("role").Str {
			case "user":
				question = m.Get("content").Str
			case "tool":
				result = m.Get("content").Str
			}
		}
		verb, item, _ := strings.Cut(question, " ")
		message := map[string]any{"role": "assistant", "content": "Result: " + result}
		finish := "stop"
		asks := verb == "place_order" || verb == "refund" || verb == "cancel" || verb == "stock" || question == "yes, do"
		if question == "yes, do" {
			verb, item = "refund", strings.TrimPrefix(gjson.GetBytes(body, "user").Str, "refund ")
		}
		if last.Get("role").Str == "user" && asks {
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			args, _ := json.Marshal(map[string]string{"item": item})
			message["tool_calls"] = []any{map[string]any{
				"id": "call" + strconv.FormatInt(ids.Add(1), 10), "type": "function", "function": map[string]any{"name": verb, "arguments": string(args)},
			}}
			finish = "tool_calls"
			delete(message, "content")
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "c", "object": "chat.completion", "created": 1, "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
		})
	})
}

// fleet is some gateways that share a Redis, behind a balancer that gives each request to the next one.
type fleet struct {
	t        *testing.T
	env      []string
	addrs    []string
	mu       sync.Mutex
	replicas []*gateway
	next     atomic.Int64
}

func newFleet(t *testing.T, n int, env ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, env: env, replicas: make([]*gateway, n)}
	for i := range n {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f.addrs = append(f.addrs, l.Addr().String())
		l.Close()
		f.boot(i)
	}
	return f
}

func (f *fleet) boot(i int) {
	g := serve(f.t, strings.Replace(replicasConfig, "127.0.0.1:0", f.addrs[i], 1), f.env...)
	f.mu.Lock()
	f.replicas[i] = g
	f.mu.Unlock()
}

// kill ends a replica without a word.
func (f *fleet) kill(i int) {
	f.mu.Lock()
	g := f.replicas[i]
	f.mu.Unlock()
	g.stop.Do(func() { // nothing is asked of its end
		_ = g.cmd.Process.Signal(syscall.SIGKILL)
		<-g.ended
	})
}

// url is that of the next replica.
func (f *fleet) url() string { return "http://" + f.addrs[int(f.next.Add(1))%len(f.addrs)] }

// client is one that asks for a reply again and again, with the same key, as SDKs do.
type client struct {
	fleet *fleet
	http  *http.Client
	key   string
}

func (f *fleet) client(key string) *client {
	return &client{f, &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}, key}
}

// once sends a chat completion to the next replica. Its error is for a connection that broke; any reply is a clean one,
// or the test fails.
func (c *client) once(ctx context.Context, idempotency, user string, messages ...any) (int, gjson.Result, http.Header, error) {
	body, err := json.Marshal(map[string]any{"model": "assistant", "user": user, "messages": messages})
	if err != nil {
		return 0, gjson.Result{}, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.fleet.url()+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, gjson.Result{}, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("X-Stainless-Read-Timeout", "40")
	if idempotency != "" {
		req.Header.Set("Idempotency-Key", idempotency)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, gjson.Result{}, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, gjson.Result{}, nil, err
	}
	if resp.StatusCode != http.StatusOK && gjson.GetBytes(text, "error.message").Str == "" || !gjson.ValidBytes(text) {
		c.fleet.t.Errorf("no clean reply: %s %s", resp.Status, text)
	}
	return resp.StatusCode, gjson.ParseBytes(text), resp.Header, nil
}

// insist asks until there is an answer, and gives its text.
func (c *client) insist(ctx context.Context, idempotency, user string, messages ...any) (string, error) {
	why := ""
	for try := range 30 {
		status, body, header, err := c.once(ctx, idempotency, user, messages...)
		switch {
		case err != nil:
			why += fmt.Sprintf("\n%d: %v", try, err)
		case status == http.StatusOK:
			return body.Get("choices.0.message.content").Str, nil
		case header.Get("X-Should-Retry") == "false" && status != http.StatusGatewayTimeout && status < 500:
			return "", fmt.Errorf("%d %s", status, body.Raw)
		default:
			why += fmt.Sprintf("\n%d: %d %s", try, status, body.Raw)
		}
		if ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "", fmt.Errorf("no answer:%s", why)
}

func say(role, text string) map[string]any { return map[string]any{"role": role, "content": text} }

func newStore(t *testing.T) (*redistest.Server, *warehouse, *fleet) {
	t.Helper()
	redis, service := redistest.Start(t), newWarehouse(t)
	up := newProvider(t, clerk())
	f := newFleet(t, 3, "UPSTREAM="+up.URL, "SERVICE="+service.URL, "REDIS="+redis.URL, "OPERATOR_KEY="+operatorKey, "WEB="+sum("key-web"), "BOSS="+sum("key-boss"), "LIMITED="+sum("key-limited"))
	return redis, service, f
}

// Each request of a conversation goes to another replica, and all is as with one.
func TestReplicasAreOne(t *testing.T) {
	_, service, f := newStore(t)
	web, ctx := f.client("key-web"), t.Context()
	want := func(got string, err error, want string) {
		t.Helper()
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("answer %q, %v, want %q", got, err, want)
		}
	}

	answer, err := web.insist(ctx, "k1", "u", say("user", "place_order book"))
	want(answer, err, `Result: {"done":"book"}`)
	again, err := web.insist(ctx, "k1", "u", say("user", "place_order book"))
	want(again, err, answer)
	if n := service.times("/orders book"); n != 1 {
		t.Errorf("the book was ordered %d times", n)
	}
	if status, body, _, err := web.once(ctx, "k1", "u", say("user", "place_order pen")); err != nil || status != http.StatusConflict {
		t.Errorf("the key with another body: %d %s, %v", status, body.Raw, err)
	}

	for range 3 { // what the client never saw is put back, wherever it asks
		held, err := web.insist(ctx, "", "u", say("user", "place_order book"), say("assistant", answer), say("user", "what was done?"))
		want(held, err, `{"done":"book"}`)
	}

	draft, err := web.insist(ctx, "", "refund book", say("user", "refund book"))
	want(draft, err, "confirmation_required")
	done, err := web.insist(ctx, "", "refund book", say("user", "refund book"), say("assistant", draft), say("user", "yes, do"))
	want(done, err, `{"done":"book"}`)
	if n := service.times("/refunds book"); n != 1 {
		t.Errorf("the book was paid back %d times", n)
	}

	status, body, header, err := web.once(ctx, "", "u", say("user", "cancel book"))
	id := header.Get("X-Gateway-Approval")
	if err != nil || status != http.StatusOK || id == "" || service.times("/cancels book") != 0 {
		t.Fatalf("a call that waits for an approval: %d %s %v, %v", status, body.Raw, header, err)
	}
	decide := newRequest(t, http.MethodPost, f.url()+"/gateway/approvals/"+id, strings.NewReader(`{"approve":true}`), "Authorization", "Bearer key-boss", "Content-Type", "application/json")
	if r := send(t, http.DefaultClient, decide); r.status != http.StatusOK {
		t.Fatalf("the decision: %d %s", r.status, r.body)
	}
	gone, err := web.insist(ctx, "", "u", say("user", "cancel book"), body.Get("choices.0.message").Value(), say("user", "cancel book"))
	want(gone, err, `{"done":"book"}`)

	for range 6 { // a result is kept for all
		stock, err := web.insist(ctx, "", "u", say("user", "stock book"))
		want(stock, err, "Result:")
	}
	if n := service.times("/stock/book GET"); n != 1 {
		t.Errorf("the stock was looked up %d times, want once for all replicas", n)
	}

	limited := f.client("key-limited")
	for i := range 8 {
		if status, body, _, err := limited.once(ctx, "", "u", say("user", "hello")); err != nil || (status == http.StatusOK) != (i < 5) || i >= 5 && status != http.StatusTooManyRequests {
			t.Errorf("request %d of a key that has 5: %d %s, %v", i, status, body.Raw, err)
		}
	}

	status, body, header, err = web.once(ctx, "", "u", say("user", "hello"))
	if err != nil || status != http.StatusOK {
		t.Fatal(status, body.Raw, err)
	}
	run, _, _ := strings.Cut(strings.TrimPrefix(header.Get("X-Gateway-Trace"), `id="`), `"`)
	for range 3 { // it gets there a moment after it has ended
		await(t, "the run is seen by every replica", func() bool {
			r := get(t, f.url()+"/gateway/runs/"+run, "Authorization", "Bearer key-web")
			return r.status == http.StatusOK && gjson.Get(r.body, "id").Str == run
		})
	}
	if r := get(t, f.url()+"/gateway/runs/"+run, "Authorization", "Bearer key-boss"); r.status != http.StatusNotFound {
		t.Errorf("another caller sees the run: %d", r.status)
	}
}

// Replicas are killed in the middle of runs and come back, Redis is killed and comes back, and clients repeat what broke.
// No write is made twice, no answer is wrong, and each client gets a reply.
func TestReplicasThatDie(t *testing.T) {
	redis, service, f := newStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const clients, each = 6, 12
	var wg, chaos sync.WaitGroup
	var made, unknown, refused atomic.Int64
	done := make(chan struct{})
	chaos.Go(func() { // ends when the clients have
		for round := 0; ; round++ {
			select {
			case <-done:
				return
			case <-time.After(700 * time.Millisecond):
			}
			if round%3 == 2 {
				redis.Kill()
				time.Sleep(200 * time.Millisecond)
				redis.Start()
				continue
			}
			i := round % len(f.addrs)
			f.kill(i)
			f.boot(i)
		}
	})
	for n := range clients {
		wg.Go(func() {
			c := f.client("key-web")
			for k := range each {
				item := fmt.Sprintf("item-%d-%d", n, k)
				answer, err := c.insist(ctx, "key of "+item, item, say("user", "place_order "+item))
				if err != nil {
					t.Errorf("%s: %v", item, err)
					continue
				}
				times := service.times("/orders " + item)
				switch {
				case strings.Contains(answer, `{"done":"`+item+`"}`):
					made.Add(1)
					if times != 1 {
						t.Errorf("%s was ordered %d times, want once: %s", item, times, answer)
					}
				case strings.Contains(answer, "it is not known whether"):
					unknown.Add(1)
				case strings.Contains(answer, "tool failed") || strings.Contains(answer, "not run"):
					refused.Add(1)
				default:
					t.Errorf("%s: a wrong answer: %s", item, answer)
				}
				if times > 1 {
					t.Errorf("%s was ordered %d times", item, times)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	chaos.Wait()
	for what, n := range service.done {
		if n > 1 {
			t.Errorf("%s was done %d times", what, n)
		}
	}
	t.Logf("%d orders made, %d of which nobody knows, %d refused", made.Load(), unknown.Load(), refused.Load())
	if made.Load() < clients*each/2 {
		t.Errorf("%d of %d orders were made", made.Load(), clients*each)
	}
}

// sum is a key as the configuration has it.
func sum(key string) string {
	b := sha256.Sum256([]byte(key))
	return hex.EncodeToString(b[:])
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}
