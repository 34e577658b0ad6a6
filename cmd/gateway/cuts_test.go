package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/trace"
)

// broken plays a conversation's provider and tools, and does something to one of the provider's streams.
type broken struct {
	files map[string]string
	which int // of the provider's replies, from 1
	how   func(w http.ResponseWriter, body []byte)
	asked int
	tools int
}

func (b *broken) upstream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.asked++
	body := []byte(b.files["upstream-"+string(rune('0'+b.asked))])
	if len(body) == 0 {
		http.Error(w, `{"error":{"message":"no more"}}`, http.StatusTeapot)
		return
	}
	kind := "application/json"
	if bytes.HasPrefix(body, []byte("data:")) {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	if b.asked == b.which {
		b.how(w, body)
		return
	}
	_, _ = w.Write(body)
}

func (b *broken) tool(w http.ResponseWriter, _ *http.Request) {
	b.tools++
	_, _ = io.WriteString(w, b.files["tool-"+string(rune('0'+b.tools))])
}

// answerOf is what a client reads in a reply: the text, and how it ended: a finish_reason, or "error".
func answerOf(t *testing.T, status int, body string) (text, end string) {
	t.Helper()
	if status != http.StatusOK {
		if gjson.Get(body, "error.message").String() == "" {
			t.Fatalf("an error without a message: %d %s", status, body)
		}
		return "", "error"
	}
	done := false
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			done = true
		case gjson.Get(data, "error.message").String() != "":
			return text, "error"
		case !gjson.Valid(data):
			t.Fatalf("an event is no JSON: %q", data)
		default:
			if gjson.Get(data, "choices.0.delta.tool_calls").Exists() && !strings.Contains(data, `"mine"`) {
				t.Fatalf("a call shows: %s", data)
			}
			text += gjson.Get(data, "choices.0.delta.content").String()
			if f := gjson.Get(data, "choices.0.finish_reason"); f.Type == gjson.String {
				end = f.Str
			}
		}
	}
	if !done {
		t.Fatalf("the stream has neither an error nor an end: %s", body)
	}
	return text, end
}

// Any stream of a provider, split at any byte or with other line ends, gives the same answer; cut at any byte, the same
// answer or the beginning of it and a clean error.
func TestStreamsSplitAndCutAnywhere(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/stream-*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d conversations, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b := &broken{files: asMap(a.Files)}
			upstream := httptest.NewServer(http.HandlerFunc(b.upstream))
			defer upstream.Close()
			tools := httptest.NewServer(http.HandlerFunc(b.tool))
			defer tools.Close()
			config := strings.ReplaceAll(b.files["config.yaml"], "retry: {attempts: 1}", "retry: {attempts: 1}, breaker: {failures: 1000000}")
			front := newTestGateway(t, config, map[string]string{"UPSTREAM": upstream.URL, "TOOLS": tools.URL}).server.Handler(true)
			play := func(which int, how func(http.ResponseWriter, []byte)) (string, string) {
				b.which, b.how, b.asked, b.tools = which, how, 0, 0
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(b.files["request.json"]))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				front.ServeHTTP(w, r)
				if w.Header().Get(trace.Header) == "" {
					t.Fatal("no trace header")
				}
				return answerOf(t, w.Code, w.Body.String())
			}
			wantText, wantEnd := play(0, nil)
			for which := 1; b.files["upstream-"+string(rune('0'+which))] != ""; which++ {
				body := b.files["upstream-"+string(rune('0'+which))]
				if !strings.HasPrefix(body, "data:") {
					continue
				}
				same := func(what string, how func(http.ResponseWriter, []byte)) {
					if text, end := play(which, how); text != wantText || end != wantEnd {
						t.Errorf("stream %d %s: %q %s, want %q %s", which, what, text, end, wantText, wantEnd)
					}
				}
				for _, size := range []int{1, 2, 3, 7} {
					same("in pieces", func(w http.ResponseWriter, body []byte) {
						for ; len(body) > 0; body = body[min(size, len(body)):] {
							_, _ = w.Write(body[:min(size, len(body))])
							if len(body)%31 == 0 { // each flush is a packet: some are enough
								_ = http.NewResponseController(w).Flush()
							}
						}
					})
				}
				for _, lineEnd := range []string{"\r\n", "\r"} {
					same("with other line ends", func(w http.ResponseWriter, body []byte) {
						_, _ = w.Write(bytes.ReplaceAll(body, []byte("\n"), []byte(lineEnd)))
					})
				}
				for at := 0; at < len(body); at += 1 + len(body)/80 {
					text, end := play(which, func(w http.ResponseWriter, body []byte) {
						w.Header().Set("Content-Length", "1000000")
						_, _ = w.Write(body[:at])
						_ = http.NewResponseController(w).Flush()
						panic(http.ErrAbortHandler)
					})
					if !(text == wantText && end == wantEnd) && !(strings.HasPrefix(wantText, text) && end == "error") {
						t.Errorf("stream %d cut at byte %d: %q %s, want the beginning of %q and an error", which, at, text, end, wantText)
					}
				}
			}
		})
	}
}
