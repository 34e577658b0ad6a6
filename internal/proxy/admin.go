package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolgate/toolgate/internal/registry"
)

var errNotReady = &Error{Status: http.StatusServiceUnavailable, Type: serverError, Code: "not_ready", Message: "the gateway is shutting down"}

// health mounts what tells that the process lives.
func (s *Server) health(r chi.Router) {
	r.Get("/healthz", s.routed(routeHealth, func(w http.ResponseWriter, _ *http.Request) error {
		return writeText(w, "ok\n")
	}))
}

// admin mounts the operator's endpoints. What tells of tools and runs asks for a key, like /v1; the page that shows it,
// which knows nothing by itself, does not.
func (s *Server) admin(r chi.Router) {
	r.Get("/readyz", s.routed(routeHealth, func(w http.ResponseWriter, r *http.Request) error {
		if s.down.Load() {
			return errNotReady
		}
		if ready := info(r).site.Ready; ready != nil {
			if err := ready(); err != nil {
				return &Error{Status: http.StatusServiceUnavailable, Type: serverError, Code: "not_ready", Message: "the gateway is not ready yet", Err: err}
			}
		}
		return writeText(w, "ready\n")
	}))
	metrics := promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true})
	r.Get("/metrics", s.routed(routeHealth, func(w http.ResponseWriter, r *http.Request) error {
		metrics.ServeHTTP(w, r)
		return nil
	}))
	r.Get("/openapi.yaml", s.routed(routeAdmin, func(w http.ResponseWriter, _ *http.Request) error {
		if s.opts.OpenAPI == nil {
			return errNoEndpoint
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, err := w.Write(s.opts.OpenAPI)
		return gone(err)
	}))
	s.page(r)
	r.Route("/gateway", func(r chi.Router) {
		r.Use(s.authenticate)
		r.Get("/tools", s.routed(routeAdmin, s.tools))
		r.Get("/runs", s.routed(routeAdmin, s.runs))
		r.Get("/runs/{id}", s.routed(routeAdmin, s.run))
		r.Get("/approvals", s.routed(routeAdmin, s.approvals))
		r.Post("/approvals/{id}", s.routed(routeAdmin, s.approve))
	})
}

// profiles mounts Go's profiles, which only an admin listener has.
func (s *Server) profiles(r chi.Router) {
	r.HandleFunc("/debug/pprof/*", pprof.Index)
	r.HandleFunc("/debug/pprof/profile", pprof.Profile)
	r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	r.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

func writeText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte(text))
	return gone(err)
}

func writeJSON(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(b, '\n'))
	return gone(err)
}

// gone is the failure to write a reply: the client has left.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Status: statusClientGone, Code: "canceled", Message: "the client left", Err: err}
}

// toolInfo is one tool as /gateway/tools shows it.
type toolInfo struct {
	Name        string          `json:"name"`
	Kind        string          `json:"kind"`
	Effect      string          `json:"effect"`
	Ending      string          `json:"ending,omitempty"`
	Confirm     string          `json:"confirm"`
	After       string          `json:"confirm_after,omitempty"`
	Untrusted   bool            `json:"untrusted,omitempty"`
	Breaker     string          `json:"breaker"`
	Calls       int64           `json:"calls"`  // since the process has started
	Failed      int64           `json:"failed"` // of them
	Declaration json.RawMessage `json:"declaration"`
}

// tools lists what the caller's model sees. The query's model says which one; without it it is the first.
func (s *Server) tools(w http.ResponseWriter, r *http.Request) error {
	i := info(r)
	m, err := modelFor(i, r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	view := i.site.view(i.caller, m)
	list := make([]toolInfo, 0, view.Len())
	for _, t := range view.Tools() {
		list = append(list, describe(view, t))
	}
	return writeTagged(w, r, map[string]any{"object": "list", "data": list})
}

func describe(view *registry.View, t *registry.Tool) toolInfo {
	calls, failed := view.Counts(t)
	return toolInfo{
		Name: t.Name, Kind: t.Kind, Effect: string(t.Effect), Ending: string(t.Ending), Confirm: t.Confirm(), After: t.ConfirmAfter(),
		Untrusted: t.Untrusted(), Breaker: t.Breaker().String(), Calls: calls, Failed: failed, Declaration: t.Declaration(),
	}
}
