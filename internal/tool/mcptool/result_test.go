package mcptool

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestResults(t *testing.T) {
	tests := []struct{ name, result, want string }{
		{"nothing", `{"content":[]}`, ""},
		{"a text", `{"content":[{"type":"text","text":"one"}]}`, "one"},
		{"texts", `{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}`, "one\ntwo"},
		{"a picture", `{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, "[image image/png, 3 bytes]"},
		{"a sound", `{"content":[{"type":"audio","mimeType":"audio/wav","data":""}]}`, "[audio audio/wav, 0 bytes]"},
		{"a link", `{"content":[{"type":"resource_link","uri":"file:///a.txt","name":"a.txt","mimeType":"text/plain","size":12,"description":"Notes."}]}`, "[resource link a.txt, file:///a.txt, text/plain, 12 bytes] Notes."},
		{"a link of little", `{"content":[{"type":"resource_link","uri":"x:y","name":"a\nb"}]}`, "[resource link a b, x:y]"},
		{"a resource with a text", `{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"hello"}}]}`, "[resource file:///a, text/plain]\nhello"},
		{"a resource with bytes", `{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"AAAA"}}]}`, "[resource file:///a, 3 bytes]"},
		{"structured content alone", `{"content":[],"structuredContent":{"b":"<&>","a":1.5}}`, `{"a":1.5,"b":"<&>"}`},
		{"an empty list", `{"content":[],"structuredContent":{"result":[]}}`, `{"result":[]}`},
		{"structured content as text too", `{"content":[{"type":"text","text":"{ \"id\": 9007199254740993 }"}],"structuredContent":{"id":9007199254740993}}`, `{ "id": 9007199254740993 }`},
		{"structured content that says more", `{"content":[{"type":"text","text":"It is warm."}],"structuredContent":{"t":25}}`, "It is warm.\n{\"t\":25}"},
		{"FastMCP: a number", `{"content":[{"type":"text","text":"5"}],"structuredContent":{"result":5}}`, "5"},
		{"FastMCP: a text", `{"content":[{"type":"text","text":"five"}],"structuredContent":{"result":"five"}}`, "five"},
		{"FastMCP: a list", `{"content":[{"type":"text","text":"1"},{"type":"text","text":"{\"a\":2}"}],"structuredContent":{"result":[1,{"a":2}]}}`, "1\n{\"a\":2}"},
		{"FastMCP: another list", `{"content":[{"type":"text","text":"1"}],"structuredContent":{"result":[1,2]}}`, "1\n{\"result\":[1,2]}"},
		{"two keys are more than a text", `{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":"x","b":"y"}}`, "x\n{\"a\":\"x\",\"b\":\"y\"}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r mcp.CallToolResult
			if err := json.Unmarshal([]byte(tt.result), &r); err != nil {
				t.Fatal(err)
			}
			got, err := read(&r)
			if err != nil || got.Text != tt.want {
				t.Errorf("read() = %q, %v; want %q", got.Text, err, tt.want)
			}
			r.IsError = true
			_, err = read(&r)
			if e := failure(t, err, tool.Business, TypeMCP); e.Message != strings.TrimSpace(tt.want) {
				t.Errorf("message = %q, want %q", e.Message, tt.want)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	_, err := read(&mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("ü", 1<<20)}}})
	e := failure(t, err, tool.Business, TypeMCP)
	if len(e.Message) > 65<<10 || !strings.HasSuffix(e.Message, "ü\n[truncated]") {
		t.Errorf("message of %d bytes ends in %q", len(e.Message), e.Message[len(e.Message)-20:])
	}
}

func TestSchemasAreTheSameEachTimeWithTheRequiredFirst(t *testing.T) {
	const schema = `{"type":"object","required":["z","m"],"properties":{"a":{"type":"string"},"m":{"properties":{"y":{},"x":{}},"required":["y"]},"z":{"enum":["<",1,null,true]},"b":{"items":{"properties":{"required":{},"properties":{}}}}}}`
	const want = `{"properties":{"z":{"enum":["<",1,null,true]},"m":{"properties":{"y":{},"x":{}},"required":["y"]},"a":{"type":"string"},"b":{"items":{"properties":{"properties":{},"required":{}}}}},"required":["z","m"],"type":"object"}`
	for range 20 {
		var v any
		if err := json.Unmarshal([]byte(schema), &v); err != nil {
			t.Fatal(err)
		}
		if got := string(orderedSchema(v)); got != want {
			t.Fatalf("orderedSchema() = %s\nwant %s", got, want)
		}
	}
	if got := string(orderedSchema(nil)); got != "null" {
		t.Errorf("orderedSchema(nil) = %s", got)
	}
}

func TestLinesKeepToTheirLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 255, 999, 1000, 1001, 1255, 1257, 65536, 200_000}), 0, 5).Draw(t, "lengths")
		var text strings.Builder
		for i, n := range lengths {
			text.WriteString(strings.Repeat(string(rune('a'+i)), n) + "\n")
		}
		l := newLines(strings.NewReader(text.String()), 1000)
		for i, n := range lengths {
			got, err := l.next()
			full := strings.Repeat(string(rune('a'+i)), n) + "\n"
			switch {
			case err != nil:
				t.Fatalf("line %d: %v", i, err)
			case len(full) <= 1000 && (!got.whole() || string(got.head) != full):
				t.Fatalf("line %d of %d bytes: %d bytes, whole = %v", i, len(full), len(got.head), got.whole())
			case len(full) > 1000 && (got.whole() || string(got.head) != full[:kept] || string(got.end) != full[len(full)-kept:] || got.skipped != len(full)-2*kept):
				t.Fatalf("line %d of %d bytes: head %q, end %q, %d skipped", i, len(full), got.head, got.end, got.skipped)
			}
		}
		if got, err := l.next(); !errors.Is(err, io.EOF) || len(got.head) != 0 {
			t.Fatalf("after the last line: %q, %v", got.head, err)
		}
	})
}

func TestTailKeepsTheEnd(t *testing.T) {
	var said tail
	for range 1000 {
		said.add("a line of little interest")
	}
	said.add("the last words")
	if text := said.text(); len(text) > mostTail+1000 || !strings.HasSuffix(text, "\nthe last words") {
		t.Errorf("tail of %d bytes: %q", len(text), text[len(text)-30:])
	}
	said.add(strings.Repeat("ü", mostTail))
	if text := said.text(); len(text) > mostTail || !strings.HasPrefix(text, "ü") {
		t.Errorf("tail of %d bytes", len(text))
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"x"},5]`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":{},"result":1`))
	f.Add([]byte("\x00\xff{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := &stdio{log: testLogger()}
		for _, m := range c.messages(line{head: text}) {
			if m == nil {
				t.Error("a message that is none")
			}
		}
		if got := tooLong(line{head: text, end: text}); len(got) > 1 {
			t.Errorf("%d messages in place of one", len(got))
		}
	})
}
