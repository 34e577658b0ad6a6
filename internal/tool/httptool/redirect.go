package httptool

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/internal/tool"
)

// maxHops is how many redirects are followed.
const maxHops = 5

// send sends a request and follows redirects on its own host where the plan says so. Its credentials and headers never
// go to another host. A redirect that is not followed is the reply. The caller closes the reply's body.
func (t *client) send(ctx context.Context, out *outgoing) (*http.Response, error) {
	for hops := 0; ; hops++ {
		reply, err := t.transport.RoundTrip(out.request(ctx, t.replay))
		if err != nil {
			if hops == 0 && !t.replay && dialing(err) {
				return nil, &unreached{err}
			}
			return nil, err
		}
		if !t.plan.sameHost {
			return reply, nil
		}
		next, ok := out.redirected(reply)
		if !ok {
			return reply, nil
		}
		drain(reply)
		if hops == maxHops {
			return nil, &tool.Error{
				Class: tool.Failed, Type: tool.TypeRedirect, Status: reply.StatusCode,
				Err: fmt.Errorf("%s %s: more than %d redirects", out.method, out.url.Host, maxHops),
			}
		}
		out = next
	}
}

// redirected is the request that a reply asks for instead, if it is a redirect on the same scheme, host and port.
func (o *outgoing) redirected(reply *http.Response) (*outgoing, bool) {
	keep := false // the method and the body
	switch reply.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		keep = true
	default:
		return nil, false
	}
	location := reply.Header.Get("Location")
	if location == "" {
		return nil, false
	}
	to, err := o.url.Parse(location)
	if err != nil || !tool.SameHost(to, o.url) {
		return nil, false
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	to.Host = o.url.Host
	next := &outgoing{method: o.method, url: to, header: o.header.Clone(), host: o.host, body: o.body}
	if !keep {
		if next.method != http.MethodHead {
			next.method = http.MethodGet
		}
		next.body = nil
		for name := range next.header {
			if strings.HasPrefix(name, "Content-") {
				delete(next.header, name)
			}
		}
	}
	return next, true
}

// drain reads what may be left of a reply, as long as it is little, so that its connection can be used again.
func drain(reply *http.Response) {
	_, _ = io.CopyN(io.Discard, reply.Body, 64<<10)
	_ = reply.Body.Close()
}
