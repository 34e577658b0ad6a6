package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// shortestSecret is the length from which a text is masked: shorter ones stand by chance in too many others.
const shortestSecret = 6

// Secrets are the values that must not show in logs and messages: what came from the environment and from files, what
// stands in Secret fields that have been decoded so far, passwords and credentials in URLs, and headers, items of a
// query and variables of an `env` whose name tells of a credential. Left out are texts of five characters or fewer, plain
// http URLs without user and query, addresses to listen on, and the defaults of ${NAME:-default}, which stand in the file.
func (f *File) Secrets() []string { return sortedKeys(f.secrets) }

func (f *File) addSecret(s string) {
	if len(s) >= shortestSecret {
		f.secrets[s] = true
	}
}

// addOutside remembers what a substitution brought in, unless it is an address that may be shown.
func (f *File) addOutside(s string) (added bool) {
	if u, err := url.Parse(s); err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
		u.Host != "" && u.User == nil && u.RawQuery == "" {
		return false
	}
	if listens.MatchString(s) {
		return false
	}
	f.addSecret(s)
	return true
}

// listens is an address to listen on, which the log tells.
var listens = regexp.MustCompile(`^(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\]|localhost)?:\d{1,5}$`)

// secretName are names of environment variables that say that they hold a secret.
var secretName = regexp.MustCompile(`(?i)(^|_)([A-Z0-9]*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIAL)S?|PASS|PAT)[0-9]*(_|$)`)

// FailSecrets reports what of a text, or of a list of texts, is a secret, for a place where others than the gateway can
// read it: ${file:PATH}, and ${NAME} with a name that says so. Other variables, such as ${HOME}, may stand there. remedy
// says where it belongs. A password in a URL is only warned of: some programs take it nowhere else.
func (n *Node) FailSecrets(remedy string) {
	for _, item := range n.Items() {
		item.FailSecrets(remedy)
	}
	if n.Kind() != String {
		return
	}
	for _, o := range n.outside {
		switch {
		case len(o.value) < shortestSecret || o.plain:
		case o.name == "":
			n.Fail("a ${file:...} is a secret: %s", remedy)
			return
		case secretName.MatchString(o.name) && o.name != "PWD": // the shell's own is a folder
			n.Fail("${%s} is a secret by its name: %s", o.name, remedy)
			return
		}
	}
	if userInfo.MatchString(n.text) {
		n.Warn("the address has a password: %s", remedy)
	}
}

var userInfo = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#@:]*:([^\s/?#]+)@`)

var cookieValue = regexp.MustCompile(`[^\s;=]+=([^\s;]+)`)

var urlItem = regexp.MustCompile(`[?&]([^=&#\s]+)=([^&#\s{}]+)`)

// telling are names of headers and items of a query that hold a credential.
var telling = regexp.MustCompile(`(?i)auth|cookie|key|token|secret|passw|pwd|credential|signature|session`)

// word is a text that is no credential though its name says so: "Auth-Mode: required" is to garble no other text.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z _./-]{0,19}$`)

// addCredentials remembers the values that are credentials by their name, of a whole document.
func (f *File) addCredentials(n *Node, path []string) {
	for _, c := range n.children {
		f.addCredentials(c, append(slices.Clip(path), c.key))
	}
	switch {
	case n.kind != String || strings.Contains(n.text, "{") || word.MatchString(n.text): // a placeholder is none
	case credential(path) && (path[len(path)-2] != "env" || secretName.MatchString(path[len(path)-1])):
		f.addSecret(n.text)
		for _, m := range cookieValue.FindAllStringSubmatch(n.text, -1) {
			f.addSecret(m[1])
		}
		if _, alone, ok := strings.Cut(n.text, " "); ok { // of Bearer and the like
			f.addSecret(alone)
		}
	}
}

// credential says whether what stands at a path is one by its name: any variable of an env, and what telling finds. The
// first two of a path are a part of the file and a name of the user's in it; what is below parameters are arguments.
func credential(path []string) bool {
	if len(path) < 4 || slices.Contains(path[2:], "parameters") {
		return false
	}
	key, in := path[len(path)-1], path[len(path)-2]
	switch in {
	case "env":
		return true
	case "headers", "query":
		return telling.MatchString(key)
	}
	return false
}

// addPasswords remembers the passwords and credentials of the URLs in a scalar, as written and decoded.
func (f *File) addPasswords(text string) {
	if !strings.Contains(text, "://") {
		return
	}
	var found []string
	for _, m := range userInfo.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	for _, m := range urlItem.FindAllStringSubmatch(text, -1) {
		if telling.MatchString(m[1]) && !word.MatchString(m[2]) {
			found = append(found, m[2])
		}
	}
	for _, s := range found {
		f.addSecret(s)
		if plain, err := url.PathUnescape(s); err == nil {
			f.addSecret(plain)
		}
	}
}
