package main

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/plainjson"
)

// plainJSON writes what slog.JSONHandler would, for a record of short plain values such as the line of a request: text
// that JSON takes as it stands, and numbers. Any other record, and all that is derived by WithAttrs and WithGroup, is
// slog.JSONHandler's.
type plainJSON struct {
	slog.Handler
	to   io.Writer
	mask func(text string) string
}

var logLines = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// Handle writes the record.
func (h *plainJSON) Handle(ctx context.Context, r slog.Record) error {
	line := logLines.Get().(*[]byte)
	defer logLines.Put(line)
	b, ok := h.line((*line)[:0], r)
	*line = b[:0]
	if !ok {
		return h.Handler.Handle(ctx, r)
	}
	_, err := h.to.Write(b)
	return err
}

// line appends the record's line to b; false where it is not plain.
func (h *plainJSON) line(b []byte, r slog.Record) (line []byte, ok bool) {
	if r.Time.IsZero() {
		return b, false
	}
	b = append(b, `{"time":"`...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"`...)
	b = append(b, r.Level.String()...)
	b = append(b, `","msg":`...)
	if b, ok = h.text(b, r.Message); !ok {
		return b, false
	}
	r.Attrs(func(a slog.Attr) bool {
		if ok = a.Key != ""; !ok { // may be none at all, or a group whose members stand on their own
			return false
		}
		b = append(b, ',')
		if b, ok = appendPlain(b, a.Key); !ok {
			return false
		}
		b = append(b, ':')
		b, ok = h.value(b, a.Value)
		return ok
	})
	return append(b, "}\n"...), ok
}

func (h *plainJSON) value(b []byte, v slog.Value) ([]byte, bool) {
	switch v.Kind() {
	case slog.KindString:
		return h.text(b, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10), true
	case slog.KindDuration:
		return strconv.AppendInt(b, int64(v.Duration()), 10), true
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool()), true
	default:
		return b, false
	}
}

func (h *plainJSON) text(b []byte, s string) ([]byte, bool) { return appendPlain(b, h.mask(s)) }

// appendPlain appends a text that is a JSON string as it stands; false for any other.
func appendPlain(b []byte, s string) ([]byte, bool) {
	if !plainjson.Text(s) {
		return b, false
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), true
}
