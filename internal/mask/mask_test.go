package mask

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const secret = "s3cr3t-Key-77"

func TestTextMasks(t *testing.T) {
	m := New([]string{secret, "s3cr3t", "abc", ""})
	for _, tt := range []struct{ name, text, want string }{
		{"a configured secret", "bad key s3cr3t-Key-77!", "bad key ***!"},
		{"the longer one of two that overlap", "s3cr3t-Key-77 and s3cr3t", "*** and ***"},
		{"not what is too short to be one", "abc abcdef", "abc abcdef"},
		{"key parameters", `Get "http://x/y?api_key=hidden&q=1": EOF`, `Get "http://x/y?api_key=***&q=1": EOF`},
		{"token and password parameters", "a?access_token=t1&password=p1&x=2", "a?access_token=***&password=***&x=2"},
		{"Authorization values", "Authorization: Bearer abcdef123456", "Authorization: Bearer ***"},
		{"passwords in URLs", "dial postgres://svc:pa55@db.internal:5432/prod", "dial postgres://svc:***@db.internal:5432/prod"},
		{"keys in JSON", `{"api_key":"abc\"def","n":1}`, `{"api_key":"***","n":1}`},
		{"keys of OpenAI's form", "Incorrect API key provided: sk-proj-abc***", "Incorrect API key provided: ***"},
		{"nothing else", "the key is under the mat, token by token", "the key is under the mat, token by token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := m.Text(tt.text); got != tt.want {
				t.Errorf("Text() = %q, want %q", got, tt.want)
			}
		})
	}
	var none *Masker
	if got := none.Text("Bearer abcdef123456 " + secret); got != "Bearer *** "+secret {
		t.Errorf("a nil Masker: %q", got)
	}
}

func TestHandlerMasksWhateverIsLogged(t *testing.T) {
	var out bytes.Buffer
	var m *Masker // the secrets become known later, as with a reload
	l := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: Attr(func() *Masker { return m })}))
	m = New([]string{secret})
	l.With("base", secret).WithGroup("g").Info("with "+secret, "text", secret, slog.Group("in", "deep", secret),
		"err", fmt.Errorf("get http://x?token=t0ken-1: %w", errors.New(secret)), "n", 5)
	for _, hidden := range []string{secret, "t0ken-1"} {
		if strings.Contains(out.String(), hidden) {
			t.Errorf("the log has %s: %s", hidden, out.String())
		}
	}
	if !strings.Contains(out.String(), `"n":5`) {
		t.Errorf("the log lacks a plain attribute: %s", out.String())
	}
}
