package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// events are streams as providers write them; TEXT and PAD are what differs.
var events = map[string]string{
	"openai":       `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default","choices":[{"index":0,"delta":{"content":"TEXT"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"PAD"}`,
	"plain":        `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"TEXT"},"finish_reason":null}]}`,
	"with a role":  `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"TEXT"},"finish_reason":null}]}`,
	"with blanks":  `{ "id" : "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [ {"index": 0, "delta": { "content": "TEXT" }, "finish_reason": null} ] }`,
	"reasoning":    `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"TEXT"},"finish_reason":null}]}`,
	"short":        `{"choices":[{"delta":{"content":"TEXT"}}]}`,
	"with both":    `{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"TEXT","reasoning":"TEXT"},"finish_reason":null}]}`,
	"with usage":   `{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"TEXT"},"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
	"twice":        `{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x","content":"TEXT"},"finish_reason":null}]}`,
	"two choices":  `{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"TEXT"},"finish_reason":null},{"index":1,"delta":{"content":"y"},"finish_reason":null}]}`,
	"other things": `{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"TEXT","annotations":[{"a":1}]},"finish_reason":null}]}`,
	"calls":        `{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"TEXT","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}]}`,
	"finished":     `{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"TEXT"},"finish_reason":"stop"}]}`,
	"an error":     `{"choices":[{"index":0,"delta":{"content":"TEXT"},"error":{"message":"down"}}]}`,
}

// readBoth reads events one by one and by a ChunkReader, and fails where the two differ in anything that is seen.
func readBoth(t *testing.T, data []string) {
	t.Helper()
	var reader ChunkReader
	var one, other Assembler
	var kept []Kept
	var want []*Chunk
	for i, event := range data {
		buffer := []byte(event)
		got, err := reader.Read(buffer)
		alone, wantErr := ReadChunk([]byte(event))
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || (got == nil) != (alone == nil) {
			t.Fatalf("event %d %s: %v, %v, want %v, %v", i, event, got, err, alone, wantErr)
		}
		if got == nil {
			continue
		}
		sameChunks(t, event, got, alone)
		one.Add(got)
		other.Add(alone)
		kept, want = append(kept, got.Keep()), append(want, alone)
		for j := range buffer { // a reader's buffer is used again
			buffer[j] = '#'
		}
	}
	place := new(Chunk)
	for i := range kept {
		sameChunks(t, "kept", kept[i].Chunk(), want[i])
		sameChunks(t, "kept, in a place used before", kept[i].In(place), want[i])
	}
	if diff := cmp.Diff(other.Turn(), one.Turn(), cmpopts.IgnoreUnexported(Turn{}, Call{})); diff != "" {
		t.Errorf("the turn (-one by one +by the reader)\n%s", diff)
	}
}

func sameChunks(t *testing.T, event string, got, want *Chunk) {
	t.Helper()
	type seen struct {
		Raw, ID, Object, Model, Created, Usage, Text, Finish  string
		HasDelta, Role, Reasoning, Calls, Rest, Shows         bool
		Inside, InsideWithRole, InAnother, WithText, PartText string
	}
	look := func(c *Chunk) seen {
		s := seen{
			Raw: string(c.Raw), ID: c.ID, Object: c.Object, Model: c.Model, Created: c.Created, Usage: string(c.Usage), Text: c.Text, Finish: c.Finish,
			HasDelta: c.HasDelta, Role: c.Role, Reasoning: c.Reasoning, Calls: c.Calls, Rest: c.Rest, Shows: c.Shows(),
		}
		if !c.HasDelta {
			return s
		}
		in := func(e Envelope, role bool) string {
			b, err := c.In(e, role)
			return fmt.Sprintf("%s %v", b, err)
		}
		s.Inside = in(Envelope{ID: "c1", Created: "1", Model: "m"}, false)
		s.InsideWithRole = in(Envelope{ID: "c1", Created: "1", Model: "m"}, true)
		s.InAnother = in(Envelope{ID: "other \"id\"", Created: "2", Model: "n"}, false)
		if part, err := c.WithText("part"); err == nil {
			s.WithText, s.PartText = string(part.Raw), part.Text
		}
		return s
	}
	if diff := cmp.Diff(look(want), look(got)); diff != "" {
		t.Fatalf("%s (-alone +by the reader)\n%s", event, diff)
	}
}

func TestAReaderOfChunksReadsWhatEachIs(t *testing.T) {
	texts := []string{"Hel", "lo", " \\\"quoted\\\"", "\\n", "", "\\u00e9\\ud83d\\ude00", "\\ud83d", "é", "<", "tab\\t", "ends in \\\\"}
	for name, like := range events {
		t.Run(name, func(t *testing.T) {
			var data []string
			for i, text := range texts {
				data = append(data, strings.NewReplacer("TEXT", text, "PAD", strings.Repeat("p", i)).Replace(like))
			}
			readBoth(t, data)
		})
	}
	t.Run("all in turn", func(t *testing.T) {
		var data []string
		for _, text := range texts {
			for _, like := range events {
				data = append(data, strings.NewReplacer("TEXT", text, "PAD", "p").Replace(like))
			}
		}
		readBoth(t, data)
	})
	t.Run("what is no JSON", func(t *testing.T) {
		like := events["plain"]
		for _, text := range []string{"bad \\x escape", "an open \\", "a \x01 control", "\\u12", `a "quote`, `","content":"b`} {
			readBoth(t, []string{strings.Replace(like, "TEXT", "good", 1), strings.Replace(like, "TEXT", text, 1)})
		}
		readBoth(t, []string{like, like[:len(like)-1], like + "}", like + " ", "", "null", like})
	})
}

func FuzzChunkReader(f *testing.F) {
	for _, like := range events {
		f.Add(like, "one", "two \\n", "p", "pp")
	}
	f.Fuzz(func(t *testing.T, like, a, b, c, d string) {
		if !json.Valid([]byte(like)) {
			t.Skip()
		}
		first := strings.NewReplacer("TEXT", a, "PAD", c).Replace(like)
		second := strings.NewReplacer("TEXT", b, "PAD", d).Replace(like)
		readBoth(t, []string{first, second, first, second})
	})
}

func BenchmarkChunkReader(b *testing.B) {
	for _, name := range []string{"plain", "openai"} {
		event := []byte(strings.NewReplacer("TEXT", "some ", "PAD", "abcdef").Replace(events[name]))
		e := Envelope{ID: "c1", Created: "1", Model: "m"}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var r ChunkReader
			var a Assembler
			for b.Loop() {
				c, err := r.Read(event)
				if err != nil {
					b.Fatal(err)
				}
				a.Add(c)
				if _, err := c.In(e, false); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" one by one", func(b *testing.B) {
			b.ReportAllocs()
			var a Assembler
			for b.Loop() {
				c, err := ReadChunk(event)
				if err != nil {
					b.Fatal(err)
				}
				a.Add(c)
				if _, err := c.In(e, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What an event of a stream costs is its text, and nothing else.
func TestAnEventOfAStreamCostsItsText(t *testing.T) {
	event := []byte(strings.NewReplacer("TEXT", "some ", "PAD", "abcdef").Replace(events["openai"]))
	e := Envelope{ID: "c1", Created: "1", Model: "m"}
	var r ChunkReader
	read := func() {
		c, err := r.Read(event)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.In(e, false); err != nil {
			t.Fatal(err)
		}
	}
	read()
	read()
	if n := testing.AllocsPerRun(100, read); n > 1 {
		t.Errorf("%v allocations an event, want 1", n)
	}
}
