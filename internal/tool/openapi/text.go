package openapi

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// maxDescription is how long a description may be, in characters.
const maxDescription = 1000

// cut shortens s to limit characters, at the end of a word where one is near.
func cut(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	short := string(r[:limit-1])
	if i := strings.LastIndexAny(short, " \n"); i > len(short)*3/4 {
		short = short[:i]
	}
	return strings.TrimRight(short, " \n,;:") + "…"
}

// scrubber takes out of the texts of a document what the configuration would take for its own: passwords in addresses,
// which would be masked everywhere from then on, and the service's host, which no model may read.
type scrubber struct {
	host *regexp.Regexp // nil where the name of the host may be a plain word
}

func newScrubber(host string) scrubber {
	if !strings.ContainsAny(host, ".:") {
		return scrubber{}
	}
	return scrubber{regexp.MustCompile(`(?i)(?:[a-z][a-z0-9+.-]*://)?(?:[^\s/@()\[\]]*@)?\[?` + regexp.QuoteMeta(host) +
		`\]?(?::[0-9]+)?(?:/[^\s()\[\]"'<>]*)?`)}
}

var (
	credentials = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/?#]*@`)
	control     = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]+`)
)

// words is a text for people, of up to maxDescription characters.
func (s scrubber) words(text string) string {
	text = control.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), " ")
	text = credentials.ReplaceAllString(text, "$1")
	if s.host != nil {
		text = s.host.ReplaceAllString(text, "the service")
	}
	return cut(strings.TrimSpace(text), maxDescription)
}

// tells says whether a value holds what words takes out.
func (s scrubber) tells(v *jsontree.Value) bool {
	return holdsPassword(v) || s.host != nil && s.host.Match(v.JSON())
}

// holdsPassword says whether a text in v has an address with credentials.
func holdsPassword(v *jsontree.Value) bool {
	switch v.Kind {
	case jsontree.String:
		return strings.Contains(v.Text, "@") && credentials.MatchString(v.Text)
	case jsontree.List:
		return slices.ContainsFunc(v.Items, holdsPassword)
	case jsontree.Object:
		return slices.ContainsFunc(v.Members, func(m jsontree.Member) bool { return holdsPassword(m.Value) })
	default:
		return false
	}
}

// printable is a JSON text without characters that a file of the configuration may not have.
func printable(json []byte) []byte {
	return bytes.ReplaceAll(json, []byte("\x7f"), []byte(`\u007f`))
}
