package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/tool"
)

// A panic on a goroutine of its own, as calls of a cached tool have, would end the process.
func TestAToolThatPanicsFailsItsCallAlone(t *testing.T) {
	for _, more := range []string{"", ", cache: 1m", ", retry: 2", ", effect: write"} {
		var logs bytes.Buffer
		calls := 0
		s := newSet(t, "a: {description: A., fake: x"+more+"}", func(context.Context, tool.Call) (tool.Result, error) {
			calls++
			panic("connect to postgres://u:s3cr3t@db with s3cr3t")
		}, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{ReplaceAttr: mask.Attr(func() *mask.Masker { return mask.New([]string{"s3cr3t"}) })}))
		})
		t.Cleanup(s.Close)
		v := s.View(nil, nil)
		seen, err := v.Run(t.Context(), v.Prepare("a", json.RawMessage("{}")), Scope{RunID: "r", Key: "k", Attempt: 1})
		if err != nil || !strings.Contains(seen.Text, "tool failed: InternalError") || strings.Contains(seen.Text, "s3cr3t") {
			t.Errorf("%q: the model reads %q, %v", more, seen.Text, err)
		}
		if calls != 1 {
			t.Errorf("%q: the tool was called %d times", more, calls)
		}
		if text := logs.String(); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "the tool panicked: connect to postgres://u:***@db") || !strings.Contains(text, "panic_test.go") {
			t.Errorf("%q: the log has %s", more, text)
		}
	}
}
