package script

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

func TestShapesOfStreams(t *testing.T) {
	for yaml, want := range map[string]string{
		`{events: [{b: 1.0, a: "<"}, "text", null, ""]}`:                  "data: {\"b\":1.0,\"a\":\"<\"}\n\ndata: text\n\ndata: null\n\ndata: \n\ndata: [DONE]\n\n",
		`{events: ["two\nlines\n"], done: false}`:                         "data: two\ndata: lines\n\n",
		`{events: [a], line_end: crlf}`:                                   "data: a\r\n\r\ndata: [DONE]\r\n\r\n",
		`{events: [a], line_end: cr, done: false}`:                        "data: a\r\r",
		`{events: [a, b, c], comments: [x, y], done: false}`:              ": x\n\ndata: a\n\n: y\n\ndata: b\n\n: y\n\ndata: c\n\n",
		`{events: [], comments: [OPENROUTER PROCESSING, x]}`:              ": OPENROUTER PROCESSING\n\n: x\n\ndata: [DONE]\n\n",
		`{events: [a], comments: [x, y]}`:                                 ": x\n\ndata: a\n\n: y\n\ndata: [DONE]\n\n",
		`{events: []}`:                                                    "data: [DONE]\n\n",
		`{raw: "\uFEFFdata: x\r\rnot an event", content_type: text/html}`: "\uFEFFdata: x\r\rnot an event",
		`{raw_base64: "AP8K\n/w=="}`:                                      "\x00\xff\n\xff",
		`{json: {z: 1, a: {y: 1e3, x: null}}}`:                            `{"z":1,"a":{"y":1e3,"x":null}}`,
		`{json: '{"z": 1} '}`:                                             `{"z": 1} `,
	} {
		if _, _, got := post(t, serve(t, "replies: ["+yaml+"]"), streams); got != want {
			t.Errorf("%s\n got %q\nwant %q", yaml, got, want)
		}
	}
}

func TestContentTypes(t *testing.T) {
	for _, c := range []struct{ yaml, body, want string }{
		{`{text: x}`, asks, typeJSON},
		{`{text: x}`, streams, typeStream},
		{`{json: {}}`, streams, typeJSON},
		{`{events: []}`, asks, typeStream},
		{`{raw: x}`, asks, typeJSON},
		{`{raw: x}`, streams, typeStream},
		{`{raw: <html>, status: 502, content_type: text/html}`, streams, "text/html"},
		{`{status: 500, error: x}`, streams, typeJSON},
		{`{status: 500, error: x, error_shape: text}`, asks, typeText},
		{`{text: x, headers: {content-type: text/plain}}`, asks, "text/plain"},
	} {
		if _, header, _ := post(t, serve(t, "replies: ["+c.yaml+"]"), c.body); header.Get("Content-Type") != c.want {
			t.Errorf("%s: Content-Type = %s, want %s", c.yaml, header.Get("Content-Type"), c.want)
		}
	}
}

func TestTextsAreCutIntoPieces(t *testing.T) {
	for pieces, want := range map[string][]string{
		"words": {"", "Olá ", "a ", "todos"}, "whole": {"", "Olá a todos"}, "3": {"", "Olá", " a ", "tod", "os"}, "100": {"", "Olá a todos"},
	} {
		var got []string
		for _, d := range chunks(t, `{text: Olá a todos, pieces: `+pieces+`}`, streams) {
			if c := d.Get("choices.0.delta.content"); c.Exists() {
				got = append(got, c.Str)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pieces: %s (-want +got):\n%s", pieces, diff)
		}
	}
}

// chunks are the events of a reply but for [DONE].
func chunks(t *testing.T, turn, body string) (list []gjson.Result) {
	t.Helper()
	_, _, got := post(t, serve(t, "replies: ["+turn+"]"), body)
	for line := range strings.Lines(got) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			list = append(list, gjson.Parse(data))
		}
	}
	return list
}
