package adopt

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Variable is an environment variable that the definition takes a value from.
type Variable struct {
	Name string
	For  string // what it stands in for, such as "the header X-API-Key"
}

var (
	// shellVariable is a value that the command itself takes from a variable.
	shellVariable = regexp.MustCompile(`^\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))$`)
	anyVariable   = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	// known are tokens that say by their beginning what they are: OpenAI, Stripe, GitHub, GitLab, Slack, AWS, Google, JWT.
	known = regexp.MustCompile(`\b(?:sk-[\w-]{16,}|[srp]k_(?:live|test)_\w{8,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)`)
	words = regexp.MustCompile(`[A-Z]+(?:[a-z]+)?|[a-z]+|[0-9]+`)
)

// strong are words that make a name a secret's wherever it stands, weak ones only in headers and the query.
var (
	strong = []string{"secret", "password", "passwd", "passphrase", "apikey", "credential", "credentials", "pwd"}
	weak   = []string{"key", "token", "auth", "authorization", "appid", "jwt", "signature", "sig", "session", "bearer"}
	// harmless are words before a weak one: page_token, sort_key.
	harmless = []string{"page", "next", "continuation", "sync", "sort", "order", "primary", "partition", "public", "idempotency", "issue", "project", "cursor", "foreign"}
)

// secretName says whether a value of that name is a secret. In a body a bare "key" is mostly none.
func secretName(name string, inBody bool) bool {
	list := words.FindAllString(name, -1)
	for i, w := range list {
		w = strings.ToLower(w)
		if slices.Contains(strong, w) {
			return true
		}
		before := ""
		if i > 0 {
			before = strings.ToLower(list[i-1])
		}
		if slices.Contains(weak, w) && !slices.Contains(harmless, before) && (!inBody || w == "token" || w == "key" && slices.Contains([]string{"api", "access", "private", "auth"}, before)) {
			return true
		}
	}
	return false
}

// secretText says whether a text holds what is known to be a secret.
func secretText(s string) bool { return known.MatchString(s) }

// random says whether a segment of a path looks drawn by lot, as the tokens of webhooks are.
func random(s string) bool {
	return len(s) >= 20 && strings.ContainsFunc(s, unicode.IsUpper) && strings.ContainsFunc(s, unicode.IsLower) && strings.ContainsFunc(s, unicode.IsDigit)
}

// prefixOf is the beginning of the names of a host's variables: GITHUB of api.github.com.
func prefixOf(host string) string {
	if m := anyVariable.FindStringSubmatch(host); m != nil && m[0] == host {
		return strings.TrimSuffix(strings.TrimSuffix(m[1], "_URL"), "_HOST")
	}
	host = strings.ToLower(host)
	labels := strings.Split(host, ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		labels = []string{"host", strings.Trim(host, "[]")}
	} else if len(labels) > 1 {
		labels = labels[:len(labels)-1]
		if n := len(labels); n > 1 && slices.Contains([]string{"co", "com", "org", "net", "gov", "ac"}, labels[n-1]) {
			labels = labels[:n-1]
		}
		for len(labels) > 1 && (labels[0] == "api" || labels[0] == "www") {
			labels = labels[1:]
		}
	}
	return variableName(strings.Join(labels, "_"))
}

var notInVariable = regexp.MustCompile(`[^A-Z0-9]+`)

func variableName(s string) string {
	s = strings.Trim(notInVariable.ReplaceAllString(strings.ToUpper(s), "_"), "_")
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "HOST_" + s
	}
	return s
}
