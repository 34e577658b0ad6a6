package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// What each request and each event goes through may allocate so often and no more, however long the conversation is: a
// copy of it, or a decoder, would show here. Times are for the benchmarks.

func TestAllocations(t *testing.T) {
	request := conversation(200 << 10)
	parsed, err := ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	edits := Edits{Tools: []byte(`{"type":"function"}`), After: []json.RawMessage{[]byte(`{}`), []byte(`{}`)}}
	reply := []byte(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("some words ", 1000) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`)
	turn, err := ReadReply(reply)
	if err != nil {
		t.Fatal(err)
	}
	usage := json.RawMessage(`{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}`)
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"a request is read", 12, func() { _, _ = ParseRequest(request) }},
		{"a body is spliced", 14, func() { parsed.Body(edits) }},
		{"a reply is read", 28, func() { _, _ = ReadReply(reply) }},
		{"a reply is handed on", 0, func() { _, _ = turn.ReplyFor(ReplyEdits{Finish: "stop"}) }},
		{"tokens are read", 2, func() { ReadTokens(usage) }},
		{"a text is quoted", 1, func() { Quote("call_abc123") }},
	} {
		if got := testing.AllocsPerRun(50, tt.f); got > tt.most {
			t.Errorf("%s with %v allocations, want %v at most", tt.name, got, tt.most)
		}
	}
}

func BenchmarkReadReply(b *testing.B) {
	reply := []byte(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("some words\\n", 100) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`)
	b.SetBytes(int64(len(reply)))
	b.ReportAllocs()
	for b.Loop() {
		turn, err := ReadReply(reply)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := turn.ReplyFor(ReplyEdits{Finish: "stop"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAssemble is a streamed turn of 200 events, put together.
func BenchmarkAssemble(b *testing.B) {
	event := []byte(strings.NewReplacer("TEXT", "some ", "PAD", "abcdef").Replace(events["openai"]))
	b.ReportAllocs()
	for b.Loop() {
		var r ChunkReader
		var a Assembler
		for range 200 {
			c, err := r.Read(event)
			if err != nil {
				b.Fatal(err)
			}
			a.Add(c)
		}
		if a.Turn().Text == "" {
			b.Fatal("no text")
		}
	}
}
