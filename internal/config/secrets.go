package config

import (
	"net/url"
	"regexp"
	"strings"
)

// shortestSecret is the length from which a text is masked: shorter ones stand by chance in too many others.
const shortestSecret = 6

// Secrets are the values that must not show in logs and messages: what came from the environment and from files, what
// stands in Secret fields that have been decoded so far, and passwords in URLs. Left out are texts of five characters
// or fewer, plain http URLs without user and query, and the defaults of ${NAME:-default}, which stand in the file.
func (f *File) Secrets() []string { return sortedKeys(f.secrets) }

func (f *File) addSecret(s string) {
	if len(s) >= shortestSecret {
		f.secrets[s] = true
	}
}

// addOutside remembers what a substitution brought in.
func (f *File) addOutside(s string) {
	if u, err := url.Parse(s); err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
		u.Host != "" && u.User == nil && u.RawQuery == "" {
		return
	}
	f.addSecret(s)
}

var userInfo = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#@:]*:([^\s/?#]+)@`)

// addPasswords remembers the passwords of the URLs in a scalar, as written and decoded.
func (f *File) addPasswords(text string) {
	if !strings.Contains(text, "://") {
		return
	}
	for _, m := range userInfo.FindAllStringSubmatch(text, -1) {
		f.addSecret(m[1])
		if plain, err := url.PathUnescape(m[1]); err == nil {
			f.addSecret(plain)
		}
	}
}
