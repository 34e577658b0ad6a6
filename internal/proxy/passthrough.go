package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/upstream"
)

// pure are endpoints whose requests change nothing at the provider, so that one that failed can be made again.
var pure = map[string]bool{"completions": true, "embeddings": true, "moderations": true, "rerank": true}

// pass handles an endpoint that is passed through, its bytes untouched both ways.
func (s *Server) pass(w http.ResponseWriter, r *http.Request) error {
	i := info(r)
	below := strings.TrimPrefix(r.URL.Path, "/v1/")
	if below == "chat/completions" {
		return errNoMethod
	}
	if !i.site.Endpoints.Has(r.Method, below) {
		return noEndpoint(r.URL.Path)
	}
	body, err := readBody(w, r, i.site.MaxBody)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(below, "/")
	p := upstream.Pass{
		Method:    r.Method,
		Path:      strings.TrimPrefix(r.URL.EscapedPath(), "/v1/"),
		Query:     r.URL.RawQuery,
		Header:    i.toProvider(r.Header, false),
		ClientKey: bearer(r),
		Body:      body,
		Once:      r.Method != http.MethodGet && r.Method != http.MethodHead && !pure[below] && first != "audio" && first != "images",
	}
	routes, price, err := s.routesFor(i, r, &p)
	if err != nil {
		return err
	}
	return s.forward(w, r, routes, price, p)
}

// routesFor finds where a request goes, and what it costs: by its model, where its body names one.
func (s *Server) routesFor(i *requestInfo, r *http.Request, p *upstream.Pass) (*upstream.Routes, budget.Price, error) {
	var free budget.Price
	if len(p.Body) > 0 && isJSON(r.Header.Get("Content-Type")) {
		req, err := chat.ParseObject(p.Body)
		if err != nil {
			return nil, free, err
		}
		if req.Model != "" {
			m, err := modelFor(i, req.Model)
			if err != nil {
				return nil, free, err
			}
			p.Request = req
			return m.Routes, m.Price, nil
		}
	}
	// A key that is limited to some models must not reach others by a request that hides its model, as forms do.
	if !i.caller.Models.All() {
		return nil, free, &Error{
			Status: http.StatusNotFound, Type: invalidRequest, Param: "model", Code: "model_not_found",
			Message: "this key may use certain models only, and the request's model can't be told",
		}
	}
	return i.site.Models.Other(), free, nil
}

// forward makes the request and passes its reply on as it comes.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, routes *upstream.Routes, price budget.Price, p upstream.Pass) error {
	resp, err := routes.Pass(r.Context(), p)
	var refused *upstream.Error
	if errors.As(err, &refused) && (refused.Kind == upstream.Refused || refused.Kind == upstream.Busy) && refused.Body != nil {
		return passRefusal(w, info(r), refused)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var asked []byte
	if p.Path == "completions" || p.Path == "responses" { // what else there is costs by other measures than its text
		asked = p.Body
	}
	defer s.metered(r, resp, asked, price)()
	copyReply(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	if err := copyBody(w, resp, nil); err != nil {
		problem(&upstream.Error{Kind: upstream.Broken, Began: true, Err: err}).log(r.Context(), s.log, info(r))
		// An orderly end would hide that something is missing: the client's connection breaks off like the provider's did.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// passRefusal passes on a provider's refusal as it is, but for a configured secret that it might repeat.
func passRefusal(w http.ResponseWriter, i *requestInfo, e *upstream.Error) error {
	copyReply(w.Header(), e.Header)
	h := w.Header()
	h.Del("Content-Encoding")
	h.Del("Content-Length")
	w.WriteHeader(e.Status)
	_, err := w.Write([]byte(i.site.Mask.Known(string(e.Body)))) //nolint:gosec // the provider's own reply and content type, as from the provider itself
	return gone(err)
}

// copyBuffer is how much is passed on at once. A larger one gained nothing.
const copyBuffer = 8 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// copyBody passes a body on. A stream is flushed as often as bytes come, so that none of them wait for more. began, if it
// is not nil, is told of the first.
func copyBody(w http.ResponseWriter, resp *http.Response, began func()) error {
	patience := newPatience(w)
	flush := resp.ContentLength < 0
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := resp.Body.Read(buf[:])
		if n > 0 {
			if began != nil {
				began()
				began = nil
			}
			patience.begin()
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			if flush {
				if ferr := patience.rc.Flush(); ferr != nil {
					return ferr
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
