//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const shutdownConfig = `
server: {listen: "127.0.0.1:0", shutdown_grace: "${GRACE}"}
upstreams:
  scripted: {base_url: "${UPSTREAM}/v1", api_key: "${OPERATOR_KEY}"}
models:
  assistant: {upstream: scripted}
tools:` + cepTool + `
  save_note:
    description: Keep a note.
    parameters: {note: string}
    http: {method: POST, url: "${SERVICE}/notes", body: json}
`

// running is a stream under way.
type running struct {
	resp  *http.Response
	lines *bufio.Scanner
	leave context.CancelFunc
}

// open asks for a stream and reads until the first text of the answer.
func (g *gateway) open(t *testing.T, text string) *running {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience)
	t.Cleanup(leave)
	req := g.request(t, question("assistant", text, true)).WithContext(ctx)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	r := &running{resp, bufio.NewScanner(resp.Body), leave}
	if got := r.text(func(text string) bool { return text != "" }); got == "" {
		t.Fatalf("no text came: %v", r.lines.Err())
	}
	return r
}

// text reads on until enough is true of the text that came, or the stream has ended in order.
func (r *running) text(enough func(string) bool) string {
	text := ""
	for r.lines.Scan() {
		data, ok := strings.CutPrefix(r.lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return text + data
		}
		if text += gjson.Get(data, "choices.0.delta.content").Str; enough(text) {
			return text
		}
	}
	return text
}

// TestShutdownLetsStreamEnd sends SIGTERM in the middle of an answer. It comes whole, and nobody else is let in.
func TestShutdownLetsStreamEnd(t *testing.T) {
	answer := strings.Repeat("ten chars ", 60)
	model := newProvider(t, scripted(t, `conversations: [{turns: [{text: "`+answer+`", between: 10ms}]}]`))
	g := serve(t, shutdownConfig, "UPSTREAM="+model.URL, "SERVICE="+closedAddress(t), "OPERATOR_KEY="+operatorKey, "GRACE=30s")
	r := g.open(t, "Count")

	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	g.refusesSoon(t)
	rest := r.text(func(string) bool { return false })

	if !strings.HasSuffix(answer+"[DONE]", rest) || !strings.HasSuffix(rest, "[DONE]") {
		t.Errorf("after SIGTERM came %q, %v, want the rest of the answer and [DONE]", rest, r.lines.Err())
	}
	within(t, "end of the process", g.ended)
}

// refusesSoon waits until no new connection is taken.
func (g *gateway) refusesSoon(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		resp, err := client.Do(newRequest(t, http.MethodGet, g.url+"/healthz", nil))
		if err != nil {
			return
		}
		_ = resp.Body.Close()
	}
	t.Error("new connections are still taken after SIGTERM")
}

// TestShutdownEndsAtGrace has a stream that does not end: it is cut off, so that its client sees that something is
// missing, and the process ends in order.
func TestShutdownEndsAtGrace(t *testing.T) {
	answer := strings.Repeat("ten chars ", 1000)
	model := newProvider(t, scripted(t, `conversations: [{turns: [{text: "`+answer+`", between: 10ms}]}]`))
	g := serve(t, shutdownConfig, "UPSTREAM="+model.URL, "SERVICE="+closedAddress(t), "OPERATOR_KEY="+operatorKey, "GRACE=300ms")
	r := g.open(t, "Count")

	begin := time.Now()
	g.end(t)

	if took := time.Since(begin); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("the process ended %s after SIGTERM, want about 300ms", took)
	}
	if rest := r.text(func(string) bool { return false }); strings.HasSuffix(rest, "[DONE]") {
		t.Error("the stream that was cut off has [DONE]")
	}
	within(t, "the end of the call upstream", model.requests("Count")[0].gone)
}

// soon is how fast a client that leaves has to be noticed behind the gateway.
const soon = 500 * time.Millisecond

// TestClientThatLeaves asserts that nobody goes on working for a client that has left.
func TestClientThatLeaves(t *testing.T) {
	script := `conversations:
  - {when: think, turns: [{text: late, delay: 50s}]}
  - {when: talk, turns: [{text: "` + strings.Repeat("ten chars ", 1000) + `", between: 10ms}]}
  - {when: look, turns: [{calls: [{name: lookup_cep, arguments: {cep: "99999999"}}]}]}
  - {when: note, turns: [{calls: [{name: save_note, arguments: {note: x}}]}]}
`
	begun, left, finish := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http looks for the end of the connection only behind the body
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
			left <- struct{}{}
		case <-finish:
			_, _ = io.WriteString(w, "kept")
		}
	}))
	t.Cleanup(service.Close)
	model := newProvider(t, scripted(t, script))
	g := serve(t, shutdownConfig, "UPSTREAM="+model.URL, "SERVICE="+service.URL, "OPERATOR_KEY="+operatorKey, "GRACE=30s")

	for name, stream := range map[string]bool{"": false, ", stream": true} {
		t.Run("before the model's answer"+name, func(t *testing.T) {
			leave := g.askAndLeave(t, question("assistant", "think"+name, stream))
			gone := model.await(t, "think"+name).gone
			leave()
			noticed(t, gone)
		})
		t.Run("in a read tool"+name, func(t *testing.T) {
			leave := g.askAndLeave(t, question("assistant", "look"+name, stream))
			within(t, "the call of the tool", begun)
			leave()
			noticed(t, left)
			if n := len(model.requests("look" + name)); n != 1 {
				t.Errorf("the model was asked %d times, want once", n)
			}
		})
	}
	t.Run("in the middle of an answer", func(t *testing.T) {
		r := g.open(t, "talk")
		r.leave()
		noticed(t, model.requests("talk")[0].gone)
	})
	t.Run("in a write tool, which ends", func(t *testing.T) {
		leave := g.askAndLeave(t, question("assistant", "note", false))
		within(t, "the call of the tool", begun)
		leave()
		select {
		case <-left:
			t.Error("a write that had begun was canceled")
		case <-time.After(2 * soon): // long enough for the cancellations above
		}
		close(finish)
	})
	t.Run("no run is left", func(t *testing.T) {
		const idle = "\ngateway_runs_in_flight 0\n"
		for end := time.Now().Add(patience); !strings.Contains(get(t, g.url+"/metrics").body, idle); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("/metrics never had %q", idle)
			}
		}
	})
}

// askAndLeave sends a request whose reply nobody waits for. The client leaves when the returned function is called.
func (g *gateway) askAndLeave(t *testing.T, body string) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req := g.request(t, body).WithContext(ctx)
	ended := make(chan struct{})
	go func() { // ends with cancel
		defer close(ended)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return cancel
}

// await waits until the provider is asked that question.
func (p *provider) await(t *testing.T, question string) asked {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if list := p.requests(question); len(list) > 0 {
			return list[0]
		}
	}
	t.Fatalf("the model was never asked %q", question)
	return asked{}
}

func noticed(t *testing.T, gone <-chan struct{}) {
	t.Helper()
	if took := within(t, "cancellation", gone); took > soon {
		t.Errorf("noticed after %s, want at most %s", took, soon)
	}
}
