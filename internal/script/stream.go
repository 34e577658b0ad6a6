package script

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/sse"
)

// Shape is how a stream is cut and written.
type Shape struct {
	Pieces         Pieces   `yaml:"pieces" doc:"How texts are cut into deltas: words (reasoning stays whole), whole, or a number of characters. Default words."`
	ArgumentPieces int      `yaml:"argument_pieces" min:"1" doc:"Characters of a call's arguments in a delta, behind one with its name. Default whole calls, or 8 for quirks of later deltas."`
	Done           bool     `yaml:"done" doc:"End with [DONE]. Default true."`
	LineEnd        string   `yaml:"line_end" enum:"lf,crlf,cr" doc:"lf, crlf or cr. Default lf."`
	Comments       []string `yaml:"comments" doc:"Comments, one ahead of each event; the last one repeats, and those without an event come before [DONE]."`
}

// SetDefaults sets what the file need not say.
func (s *Shape) SetDefaults() { s.Done, s.LineEnd = true, "lf" }

// Check reports what can't work.
func (s *Shape) Check(n *config.Node) {
	for i, c := range s.Comments {
		if strings.ContainsAny(c, "\r\n") {
			n.Get("comments").Items()[i].Fail("want one line")
		}
	}
}

// Pieces is a number of characters, or words or wholePiece.
type Pieces int

const (
	words      Pieces = 0
	wholePiece Pieces = -1
)

// DecodeNode reads the number or the word.
func (p *Pieces) DecodeNode(n *config.Node) {
	switch text := n.Text(); text {
	case "words":
		*p = words
	case "whole":
		*p = wholePiece
	default:
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 {
			n.Fail("want words, whole or a number of characters from 1")
		}
		*p = Pieces(count)
	}
}

// ConfigSchema says what the file may have.
func (*Pieces) ConfigSchema() any { return map[string]any{"type": []string{"string", "integer"}} }

// cut cuts a text; an empty one has no pieces.
func (p Pieces) cut(s string) (pieces []string) {
	switch {
	case s == "":
	case p == wholePiece:
		pieces = []string{s}
	case p == words:
		for word := range strings.SplitAfterSeq(s, " ") {
			if word != "" {
				pieces = append(pieces, word)
			}
		}
	default:
		for runes := []rune(s); len(runes) > 0; {
			n := min(int(p), len(runes))
			pieces, runes = append(pieces, string(runes[:n])), runes[n:]
		}
	}
	return pieces
}

// pieces are the bytes of a stream of these events, with comments and end.
func (s *Shape) pieces(events [][]byte) (pieces [][]byte) {
	comments := s.Comments
	comment := func() {
		if len(comments) > 0 {
			pieces = append(pieces, sse.AppendComment(nil, comments[0]))
		}
	}
	for _, e := range events {
		comment()
		comments = comments[min(1, max(0, len(comments)-1)):]
		var lines []byte
		for line := range bytes.SplitSeq(bytes.TrimSuffix(e, []byte("\n")), []byte("\n")) {
			lines = append(append(append(lines, "data: "...), line...), '\n')
		}
		pieces = append(pieces, append(lines, '\n'))
	}
	for range max(0, len(s.Comments)-len(events)) {
		comment()
		comments = comments[1:]
	}
	if s.Done {
		pieces = append(pieces, sse.AppendData(nil, []byte(sse.Done)))
	}
	if end := map[string]string{"crlf": "\r\n", "cr": "\r"}[s.LineEnd]; end != "" {
		for i, p := range pieces {
			pieces[i] = bytes.ReplaceAll(p, []byte("\n"), []byte(end))
		}
	}
	return pieces
}

// events are the chunks of the reply. asked says that the request wants usage.
func (p player) events(asked bool) [][]byte {
	e := chat.Envelope{ID: p.id(), Created: strconv.FormatInt(time.Now().Unix(), 10), Model: p.model}
	deltas := p.deltas()
	ends := p.turn.Error == "" && p.turn.Quirks.Whole == ""
	if ends {
		deltas = append(deltas, map[string]any{})
	}
	place := p.turn.Quirks.Usage
	if place == "" && asked {
		place = "chunk"
	}
	chunks := make([][]byte, 0, len(deltas)+2)
	for i, d := range deltas {
		finish := json.RawMessage("null")
		last := i == len(deltas)-1 && p.turn.Error == ""
		if last {
			finish = p.finish()
		}
		c := chat.NewChunk(e, string(encode(p.turn.Quirks.dress(d, i == 0))), string(finish))
		if p.turn.Quirks.Whole == "message" {
			c = set(c, "choices.0", map[string]any{"index": 0, "message": d, "finish_reason": finish})
		}
		all := p.turn.Usage.Completion
		switch {
		case place == "every":
			c = set(c, "usage", p.usage(all*(i+1)/len(deltas)))
		case last && place == "last":
			c = set(c, "usage", p.usage(all))
		case last && place == "choice": // Moonshot
			c = set(c, "choices.0.usage", p.usage(all))
		case last && place == "x_groq":
			c = set(c, "x_groq", map[string]any{"id": "req_" + e.ID, "usage": p.usage(all)})
		}
		chunks = append(chunks, c)
	}
	if p.turn.Error != "" {
		body, _ := p.turn.failure()
		return append(chunks, body)
	}
	if place == "chunk" {
		chunks = append(chunks, chat.UsageChunk(e, encode(p.usage(p.turn.Usage.Completion))))
	}
	return chunks
}

// set sets a value in a chunk, which is JSON, so that it can't fail.
func set(chunk json.RawMessage, path string, v any) json.RawMessage {
	if next, err := sjson.SetRawBytes(chunk, path, encode(v)); err == nil {
		return next
	}
	return chunk
}

// deltas are the pieces of the message, in order.
func (p player) deltas() []map[string]any {
	t := p.turn
	if t.Error != "" && t.Text == "" && t.Reasoning == "" && len(t.Calls) == 0 {
		return nil
	}
	if t.Quirks.Whole != "" {
		m := p.message()
		if len(t.Calls) > 0 && t.Quirks.Whole == "delta" {
			m["tool_calls"] = p.calls(true)
		}
		return []map[string]any{m}
	}
	deltas := []map[string]any{{"role": "assistant", "content": ""}}
	thoughts := t.Pieces
	if thoughts == words {
		thoughts = wholePiece
	}
	for _, piece := range thoughts.cut(p.fill(t.Reasoning)) {
		deltas = append(deltas, map[string]any{"reasoning_content": piece})
	}
	for _, piece := range t.Pieces.cut(p.fill(t.Text)) {
		deltas = append(deltas, map[string]any{"content": piece})
	}
	for _, calls := range p.callDeltas() {
		deltas = append(deltas, map[string]any{"tool_calls": calls})
	}
	return deltas
}

// callDeltas are the calls in the deltas of a stream: all at once, each in one delta, or in pieces.
func (p player) callDeltas() (deltas [][]toolCall) {
	q, n := p.turn.Quirks, Pieces(p.turn.ArgumentPieces)
	whole := p.calls(true)
	switch {
	case n == 0 && q.continues():
		n = 8
	case len(whole) == 0:
		return nil
	case n == 0 && q == (Quirks{}):
		return [][]toolCall{whole}
	}
	queues := make([][]toolCall, len(whole))
	for i, c := range whole {
		queues[i] = []toolCall{c}
		if n > 0 && q.Arguments != "object" && q.Arguments != "none" {
			queues[i] = p.inPieces(i, c, n)
		}
	}
	if !q.Interleaved {
		for _, queue := range queues {
			for _, c := range queue {
				deltas = append(deltas, []toolCall{c})
			}
		}
		return deltas
	}
	for at, some := 0, true; some; at++ {
		some = false
		for _, queue := range queues {
			if at < len(queue) {
				deltas, some = append(deltas, []toolCall{queue[at]}), true
			}
		}
	}
	return deltas
}

// inPieces is call i in several deltas: one with its name, then its arguments.
func (p player) inPieces(i int, c toolCall, n Pieces) []toolCall {
	q := p.turn.Quirks
	text := p.arguments(p.turn.Calls[i])
	c.Function.Arguments = chat.Quote("")
	switch q.Arguments {
	case "leading":
		c.Function.Arguments = chat.Quote("{}")
	case "empty":
		text = ""
	}
	list := []toolCall{c}
	for d, piece := range n.cut(text) {
		list = append(list, toolCall{
			Index:    c.Index,
			ID:       q.id(p.callID(i), p.callID(0), d+1),
			Function: function{Name: q.name(p.turn.Calls[i].Name, d+1), Arguments: chat.Quote(piece)},
		})
	}
	return list
}
