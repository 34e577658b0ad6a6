// Package mask takes secrets out of every text that leaves the gateway: logs, error messages, traces.
package mask

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// Mask stands in place of a secret.
const Mask = "***"

// Masker knows the configured secrets. A nil Masker masks only what looks like one. Immutable.
type Masker struct {
	known *strings.Replacer
}

// shortest is the length from which a secret is masked wherever it stands; a shorter one would garble other text.
const shortest = 4

// New makes a masker of secrets.
func New(secrets []string) *Masker {
	all := slices.Clone(secrets)
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // one that holds another goes first
	var pairs []string
	for _, s := range slices.Compact(all) {
		if len(s) >= shortest {
			pairs = append(pairs, s, Mask)
		}
	}
	return &Masker{known: strings.NewReplacer(pairs...)}
}

// looksSecret finds values of key, token, secret and password parameters, Authorization values, and passwords in URLs.
var looksSecret = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?i)([?&;]|\b)([\w-]*(?:key|token|secret|password|passwd|pwd|signature)[\w-]*=)[^&\s"'<>;]+`), "${1}${2}" + Mask},
	{regexp.MustCompile(`(?i)("[\w-]*(?:key|token|secret|password)[\w-]*"\s*:\s*")(?:[^"\\]|\\.)*"`), "${1}" + Mask + `"`},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w~+/.=-]{6,}`), "${1} " + Mask},
	{regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@"']*):[^\s/@"']+@`), "${1}:" + Mask + "@"},
	{regexp.MustCompile(`\bsk-[\w*-]{3,}`), Mask},
}

// Text is s with every configured secret, and what looks like one, masked.
func (m *Masker) Text(s string) string {
	s = m.Known(s)
	for _, l := range looksSecret {
		s = l.re.ReplaceAllString(s, l.to)
	}
	return s
}

// Known is s with the configured secrets masked.
func (m *Masker) Known(s string) string {
	if m == nil {
		return s
	}
	return m.known.Replace(s)
}

// Handler is h with every text masked: messages and short attributes of configured secrets, errors of whatever looks
// like one too. masker, which is called for each text, says by what.
func Handler(h slog.Handler, masker func() *Masker) slog.Handler { return handler{h, masker} }

type handler struct {
	next   slog.Handler
	masker func() *Masker
}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, h.masker().Known(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, masked)
}

func (h handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.masker().Known(v.String()))
	case slog.KindGroup:
		group := slices.Clone(v.Group())
		for i := range group {
			group[i] = h.attr(group[i])
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.String(a.Key, h.masker().Text(err.Error()))
		}
	}
	return a
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return handler{h.next.WithAttrs(masked), h.masker}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.next.WithGroup(name), h.masker}
}
