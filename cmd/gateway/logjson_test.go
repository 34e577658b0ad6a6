package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/mask"
)

// TestPlainLinesAreThoseOfSlog holds lines against slog's own handler, whatever is in them.
func TestPlainLinesAreThoseOfSlog(t *testing.T) {
	var own, theirs bytes.Buffer
	h := &hidden{}
	h.masker.Store(mask.New([]string{"s3cr3t", "INFO", "a\"b\\c"}))
	logger := newLogger(&own, logConfig{}, slog.LevelDebug, h)
	if _, ok := logger.Handler().(*plainJSON); !ok {
		t.Fatalf("the handler is a %T", logger.Handler())
	}
	other := slog.NewJSONHandler(&theirs, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: mask.Attr(h.masker.Load)})
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		own.Reset()
		theirs.Reset()
		r := slog.NewRecord(time.Unix(rapid.Int64Range(0, 1<<37).Draw(t, "time"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")),
			slog.Level(rapid.IntRange(-8, 12).Draw(t, "level")), text(t), 0)
		if rapid.IntRange(0, 9).Draw(t, "no time") == 0 {
			r.Time = time.Time{}
		}
		for range rapid.IntRange(0, 12).Draw(t, "attributes") {
			r.AddAttrs(attribute(t))
		}
		if _, ok := logger.Handler().(*plainJSON).line(nil, r); ok {
			plain++
		}
		if err := errors.Join(logger.Handler().Handle(t.Context(), r), other.Handle(t.Context(), r)); err != nil {
			t.Fatal(err)
		}
		if own.String() != theirs.String() {
			t.Fatalf("wrote\n%s, and slog\n%s", own.String(), theirs.String())
		}
	})
	if plain == 0 {
		t.Error("no line was plain")
	}
}

func text(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"request", "", "s3cr3t", "see s3cr3t&<b>", "a\"b\\c", "\x7f", "\x00", "\u2028", "名", "\xff", "level INFO"}),
		rapid.StringMatching(`[ -~]{0,40}`), rapid.String(),
	).Draw(t, "text")
}

func attribute(t *rapid.T) slog.Attr {
	key := rapid.SampledFrom([]string{"request_id", "path", "status", "time", "level", "msg", "", "a\"b", "s3cr3t"}).Draw(t, "key")
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0:
		return slog.Int64(key, rapid.Int64().Draw(t, "int"))
	case 1:
		return slog.Duration(key, time.Duration(rapid.Int64().Draw(t, "duration")))
	case 2:
		return slog.Bool(key, rapid.Bool().Draw(t, "bool"))
	case 3:
		return slog.Any(key, rapid.SampledFrom([]any{nil, errors.New("key=s3cr3t"), []int{1}, slog.LevelWarn, &hidden{}}).Draw(t, "any"))
	case 4:
		return slog.Group(key, slog.String("a", text(t)))
	case 5:
		return slog.Float64(key, rapid.Float64().Draw(t, "float"))
	case 6:
		return slog.Time(key, time.Unix(0, 0))
	}
	return slog.String(key, text(t))
}
