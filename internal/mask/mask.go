// Package mask takes secrets out of every text that leaves the gateway: logs, error messages, traces.
package mask

import (
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

// Attr is for slog.HandlerOptions.ReplaceAttr: it masks the message and every attribute, of configured secrets, and
// errors of whatever looks like one too. masker, which is called for each, says by what.
func Attr(masker func() *Masker) func(groups []string, a slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		switch a.Value.Kind() {
		case slog.KindString:
			text := a.Value.String()
			if masked := masker().Known(text); masked != text {
				return slog.String(a.Key, masked)
			}
		case slog.KindAny:
			switch v := a.Value.Any().(type) {
			case error:
				return slog.String(a.Key, masker().Text(v.Error()))
			case slog.Level: // as it is written anyway, without a look at its type
				return slog.String(a.Key, v.String())
			}
		}
		return a
	}
}
