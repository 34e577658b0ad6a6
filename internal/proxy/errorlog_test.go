package proxy

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mask"
)

// Package net/http has words of its own, such as those of a panic that nobody recovered: they go to the masked log.
func TestTheServersOwnWordsAreMasked(t *testing.T) {
	var logs bytes.Buffer
	m := mask.New([]string{"hunter2-hunter2"})
	s := &Server{log: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: mask.Attr(func() *mask.Masker { return m })}))}
	front := httptest.NewUnstartedServer(nil)
	front.Config = s.server(t.Context(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the key is hunter2-hunter2") }))
	front.Start()
	if resp, err := front.Client().Get(front.URL); err == nil {
		_ = resp.Body.Close()
		t.Error("the panic has a reply")
	}
	front.Close()
	if text := logs.String(); !strings.Contains(text, "http: panic serving") || !strings.Contains(text, "the key is ***") || strings.Contains(text, "hunter2") {
		t.Errorf("the log has %s", text)
	}
}
