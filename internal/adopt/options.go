package adopt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// request is what a curl command asks for.
type request struct {
	method   string
	url      string
	headers  []pair
	query    []string // items, escaped, that options add to the url
	data     []string
	hasData  bool
	json     bool // --json
	get      bool // -G
	head     bool
	user     string // name:password
	hasUser  bool
	bearer   string
	timeout  string
	redirect bool
	notes    []string
}

type pair struct{ name, value string }

// option is one of curl's.
type option struct {
	long  string
	short byte // 0 for none
	value bool // it takes a value
	do    func(r *request, v string) error
}

func ignore(*request, string) error { return nil }

// leave drops an option, and says what to do about it.
func leave(name, advice string) func(*request, string) error {
	return func(r *request, _ string) error {
		r.note(name + " is left out: " + advice)
		return nil
	}
}

// refuse is for what no tool can do.
func refuse(name, advice string) func(*request, string) error {
	return func(*request, string) error { return fmt.Errorf("%s can't be carried over: %s", name, advice) }
}

func (r *request) note(text string) {
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// options are curl's, after `curl --help all`. One that is missing is a fault by its name.
func options(stdin string) []option {
	body := func(name string, raw bool) func(*request, string) error {
		return func(r *request, v string) error { return r.addData(name, v, raw, stdin) }
	}
	const noFiles = "a tool sends no files; want a service that takes JSON, or an exec tool"
	const tls = "set http.tls (see docs/outbound.md)"
	return []option{
		{"request", 'X', true, func(r *request, v string) error { r.method = strings.ToUpper(v); return nil }},
		{"url", 0, true, (*request).setURL},
		{"header", 'H', true, (*request).addHeader},
		{"data", 'd', true, body("-d", false)},
		{"data-ascii", 0, true, body("--data-ascii", false)},
		{"data-binary", 0, true, body("--data-binary", false)},
		{"data-raw", 0, true, body("--data-raw", true)},
		{"data-urlencode", 0, true, (*request).addEncoded},
		{"json", 0, true, func(r *request, v string) error { r.json = true; return r.addData("--json", v, false, stdin) }},
		{"url-query", 0, true, func(r *request, v string) error {
			item, err := encoded("--url-query", v)
			r.query = append(r.query, item)
			return err
		}},
		{"get", 'G', false, func(r *request, _ string) error { r.get = true; return nil }},
		{"head", 'I', false, func(r *request, _ string) error { r.head = true; return nil }},
		{"user", 'u', true, func(r *request, v string) error { r.user, r.hasUser = v, true; return nil }},
		{"oauth2-bearer", 0, true, func(r *request, v string) error { r.bearer = v; return nil }},
		{"max-time", 'm', true, (*request).setTimeout},
		{"location", 'L', false, func(r *request, _ string) error { r.redirect = true; return nil }},
		{"location-trusted", 0, false, func(r *request, _ string) error { r.redirect = true; return nil }},

		{"form", 'F', true, refuse("-F (a multipart form)", noFiles)},
		{"form-string", 0, true, refuse("--form-string (a multipart form)", noFiles)},
		{"upload-file", 'T', true, refuse("-T (an upload)", noFiles)},
		{"next", ':', false, refuse("--next", "a tool is one request; import each by itself")},
		{"config", 'K', true, refuse("-K", "write its options into the command")},
		{"unix-socket", 0, true, refuse("--unix-socket", "a tool needs a service at a host and port")},
		{"digest", 0, false, refuse("--digest", "a tool signs in by basic, bearer, a header or the query")},
		{"ntlm", 0, false, refuse("--ntlm", "a tool signs in by basic, bearer, a header or the query")},
		{"negotiate", 0, false, refuse("--negotiate", "a tool signs in by basic, bearer, a header or the query")},
		{"aws-sigv4", 0, true, refuse("--aws-sigv4", "a tool signs in by basic, bearer, a header or the query")},

		{"cookie", 'b', true, leave("--cookie", "a tool keeps no session; if the service wants it, set http.headers.cookie to an environment reference")},
		{"cookie-jar", 'c', true, leave("--cookie-jar", "a tool keeps no session")},
		{"insecure", 'k', false, leave("--insecure", "certificates are always checked; for an authority of your own, "+tls)},
		{"cacert", 0, true, leave("--cacert", tls+": ca_file")},
		{"cert", 'E', true, leave("--cert", tls+": cert_file, key_file")},
		{"key", 0, true, leave("--key", tls+": cert_file, key_file")},
		{"proxy", 'x', true, leave("--proxy", "what goes out goes to the address of the tool itself (see docs/outbound.md)")},
		{"resolve", 0, true, leave("--resolve", "write the address into the url, and the name as the header Host")},
		{"connect-to", 0, true, leave("--connect-to", "write the address into the url, and the name as the header Host")},
		{"retry", 0, true, leave("--retry", "set `retry` of the tool")},
		{"user-agent", 'A', true, leave("--user-agent", "if the service wants one, set http.headers.user-agent")},
		{"referer", 'e', true, leave("--referer", "if the service wants one, set http.headers.referer")},

		{"silent", 's', false, ignore},
		{"show-error", 'S', false, ignore},
		{"verbose", 'v', false, ignore},
		{"include", 'i', false, ignore},
		{"show-headers", 0, false, ignore},
		{"fail", 'f', false, ignore},
		{"fail-with-body", 0, false, ignore},
		{"compressed", 0, false, ignore},
		{"no-buffer", 'N', false, ignore},
		{"globoff", 'g', false, ignore},
		{"progress-bar", '#', false, ignore},
		{"no-progress-meter", 0, false, ignore},
		{"basic", 0, false, ignore},
		{"output", 'o', true, ignore},
		{"remote-name", 'O', false, ignore},
		{"write-out", 'w', true, ignore},
		{"dump-header", 'D', true, ignore},
		{"connect-timeout", 0, true, ignore},
		{"http1.0", '0', false, ignore},
		{"http1.1", 0, false, ignore},
		{"http2", 0, false, ignore},
		{"http3", 0, false, ignore},
		{"tlsv1.2", 0, false, ignore},
		{"tlsv1.3", 0, false, ignore},
		{"ipv4", '4', false, ignore},
		{"ipv6", '6', false, ignore},
		{"disable", 'q', false, ignore},
		{"path-as-is", 0, false, ignore},
		{"retry-delay", 0, true, ignore},
		{"retry-max-time", 0, true, ignore},
	}
}

// readOptions reads the arguments of a curl. All faults are told at once.
func readOptions(c command) (*request, error) {
	known := options(c.stdin)
	r := &request{notes: c.notes}
	var faults []error
	plain := false // after --
	for i := 0; i < len(c.args); i++ {
		arg := c.args[i]
		// next is the value of an option that has none in its own word.
		next := func(name string) (string, bool) {
			if i++; i < len(c.args) {
				return c.args[i], true
			}
			faults = append(faults, fmt.Errorf("%s wants a value", name))
			return "", false
		}
		run := func(o option, v string) { faults = append(faults, o.do(r, v)) }
		switch {
		case arg == "--" && !plain:
			plain = true
		case plain || len(arg) < 2 || arg[0] != '-':
			faults = append(faults, r.setURL(arg))
		case strings.HasPrefix(arg, "--"):
			at := slices.IndexFunc(known, func(o option) bool { return o.long == arg[2:] })
			switch {
			case at < 0:
				faults = append(faults, fmt.Errorf("%s is not known here: leave it out if the request does not need it", arg))
			case !known[at].value:
				run(known[at], "")
			default:
				if v, ok := next(arg); ok {
					run(known[at], v)
				}
			}
		default:
			for j := 1; j < len(arg); j++ { // -sXPOST is -s -X POST
				at := slices.IndexFunc(known, func(o option) bool { return o.short == arg[j] })
				if at < 0 {
					faults = append(faults, fmt.Errorf("-%c is not known here: leave it out if the request does not need it", arg[j]))
					break
				}
				if !known[at].value {
					run(known[at], "")
					continue
				}
				v, ok := arg[j+1:], true
				if v == "" {
					v, ok = next("-" + arg[j:])
				}
				if ok {
					run(known[at], v)
				}
				break
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r, r.settle()
}

// settle decides what follows from several options.
func (r *request) settle() error {
	if r.url == "" {
		return errors.New("the command has no URL")
	}
	if r.get {
		r.query = append(r.query, r.data...)
		r.data, r.hasData = nil, false
	}
	if r.method == "" {
		switch {
		case r.head:
			r.method = "HEAD"
		case r.hasData:
			r.method = "POST"
		default:
			r.method = "GET"
		}
	}
	switch r.method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return nil
	}
	return fmt.Errorf("-X %s can't be carried over: a tool sends GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS", r.method)
}

func (r *request) setURL(text string) error {
	if r.url != "" {
		return errors.New("the command has two URLs: a tool is one request; import each by itself")
	}
	if !strings.Contains(text, "://") && !strings.HasPrefix(text, "${") {
		text = "http://" + text // as curl does; a variable has a scheme of its own: $BASE_URL/path
	}
	r.url = text
	return nil
}

func (r *request) addHeader(text string) error {
	if strings.HasPrefix(text, "@") {
		return errors.New("-H @FILE can't be carried over: write the headers into the command")
	}
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		name, value = strings.TrimSuffix(text, ";"), ""
	}
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if value != "" { // "Name:" takes away a header of curl's own
		r.headers = append(r.headers, pair{name, value})
	}
	return nil
}

func (r *request) addData(name, v string, raw bool, stdin string) error {
	r.hasData = true
	switch {
	case raw || !strings.HasPrefix(v, "@"):
	case v == "@-" && stdin != "":
		v = stdin
	default:
		return fmt.Errorf("%s @FILE can't be carried over: write the data into the command", name)
	}
	r.data = append(r.data, v)
	return nil
}

func (r *request) addEncoded(v string) error {
	item, err := encoded("--data-urlencode", v)
	r.data, r.hasData = append(r.data, item), true
	return err
}

// encoded is an item of a form: CONTENT, =CONTENT or NAME=CONTENT.
func encoded(option, v string) (string, error) {
	name, content, ok := strings.Cut(v, "=")
	switch {
	case !ok && strings.Contains(v, "@"):
		return "", fmt.Errorf("%s with a file can't be carried over: write the data into the command", option)
	case !ok:
		return url.QueryEscape(v), nil
	case name == "":
		return url.QueryEscape(content), nil
	}
	return name + "=" + url.QueryEscape(content), nil
}

func (r *request) setTimeout(v string) error {
	d, err := time.ParseDuration(v + "s")
	if err != nil || d <= 0 {
		return fmt.Errorf("-m %s: want seconds", v)
	}
	r.timeout = d.String()
	return nil
}

// basicPair reads what an Authorization header holds after "Basic ".
func basicPair(text string) (string, bool) {
	plain, err := base64.StdEncoding.DecodeString(text)
	return string(plain), err == nil && strings.Contains(string(plain), ":")
}
