package span

import "net/http"

// patient has the exporter try again where a receiver can't be reached, as after the replies that ask for it: "If the
// client cannot connect to the server, the client SHOULD retry the connection using an exponential backoff strategy"
// (OTLP 1.9, OTLP/HTTP Connection). By itself the exporter goes on only after errors that call themselves temporary, and
// a refused connection does not: each restart of a collector would cost the spans of that moment.
type patient struct{ http.RoundTripper }

// RoundTrip sends the request. A request whose time is over stays over.
func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.RoundTripper.RoundTrip(r)
	if err != nil && r.Context().Err() == nil {
		err = unreached{err}
	}
	return resp, err
}

// unreached is an error that says of itself what url.Error.Temporary asks for.
type unreached struct{ error }

func (e unreached) Unwrap() error { return e.error }

// Temporary says that it may go better in a moment.
func (unreached) Temporary() bool { return true }
