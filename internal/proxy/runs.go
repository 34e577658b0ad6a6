package proxy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/trace"
)

// runList is a part of the runs, the newest first.
type runList struct {
	Object  string          `json:"object"`
	Data    []trace.Summary `json:"data"`
	HasMore bool            `json:"has_more"`
	Next    string          `json:"next,omitempty"` // before, of the next part
}

// runs lists the caller's runs, or those of all for a key that may see them.
func (s *Server) runs(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r.URL.RawQuery, time.Now())
	if err != nil {
		return err
	}
	q.Access = access(r)
	page, err := s.opts.Store.List(r.Context(), q)
	if err != nil {
		return stateProblem(err)
	}
	list := runList{Object: "list", Data: make([]trace.Summary, len(page.Runs)), HasMore: page.Next != "", Next: page.Next}
	for i, run := range page.Runs {
		list.Data[i] = run.Summary()
	}
	return writeTagged(w, r, list)
}

// run shows the trace of a run that the caller may see.
func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	run, err := s.opts.Store.Get(r.Context(), chi.URLParam(r, "id"), access(r))
	switch {
	case errors.Is(err, trace.ErrNotKept):
		return &Error{Status: http.StatusNotFound, Type: invalidRequest, Code: "run_not_found", Message: "there is no such run, or it is no longer kept, or it is another key's"}
	case err != nil:
		return stateProblem(err)
	}
	return writeJSON(w, run)
}

// access says whose runs the request's caller may see.
func access(r *http.Request) trace.Access {
	caller := info(r).caller
	return trace.Access{Caller: caller.ID, Everyone: caller.SeesAll}
}

// The parameters of a list of runs.
var queryNames = []string{"model", "stop", "tool", "since", "limit", "before"}

// readQuery reads the parameters of a list of runs. What can't be meant is an error that says what would be right: a
// filter that is not understood would show runs that nobody asked for.
func readQuery(raw string, now time.Time) (trace.Query, error) {
	var q trace.Query
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Message: "the query can't be read: " + err.Error()}
	}
	for name, v := range values {
		if !slices.Contains(queryNames, name) {
			return q, badQuery(name, "there is no parameter %q: want some of %s%s", name, strings.Join(queryNames, ", "), didYouMean(name, queryNames))
		}
		if len(v) > 1 {
			return q, badQuery(name, "%s stands there %d times: want it once", name, len(v))
		}
	}
	q = trace.Query{Model: values.Get("model"), Stop: values.Get("stop"), Tool: values.Get("tool"), Before: values.Get("before")}
	if stops := stopNames(); q.Stop != "" && !slices.Contains(stops, q.Stop) {
		return q, badQuery("stop", "there is no stop reason %q: want one of %s%s", q.Stop, strings.Join(stops, ", "), didYouMean(q.Stop, stops))
	}
	if text := values.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > trace.MaxPage {
			return q, badQuery("limit", "limit is %q: want a number from 1 to %d", text, trace.MaxPage)
		}
	}
	if text := values.Get("since"); text != "" {
		if q.Since, err = readSince(text, now); err != nil {
			return q, badQuery("since", "since is %q: want how long ago, such as 15m or 2h, or a time as RFC 3339 has it, such as %s", text, now.UTC().Format(time.RFC3339))
		}
	}
	if err := q.Check(); err != nil {
		return q, badQuery("before", "before is %q: %s", q.Before, err)
	}
	return q, nil
}

// readSince reads a time, or how long ago it is.
func readSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	// A + that was not escaped in the address has become a blank.
	return time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+"))
}

func stopNames() []string {
	var names []string
	for _, s := range loop.Stops() {
		names = append(names, string(s))
	}
	return names
}

func badQuery(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

func didYouMean(name string, among []string) string {
	if near := suggest.Nearest(name, among, 1); len(near) > 0 {
		return fmt.Sprintf("; did you mean %s?", near[0])
	}
	return ""
}

// writeTagged is writeJSON for what is asked for again and again: who has the same already is told just that.
func writeTagged(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`
	h := w.Header()
	h.Set("Etag", tag)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Authorization")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	_, err = w.Write(append(b, '\n'))
	return gone(err)
}
