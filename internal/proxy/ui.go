package proxy

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/toolgate/toolgate/internal/ui"
)

// page mounts the runs page. Its files hold no data, so they ask for no key; what they show does.
func (s *Server) page(r chi.Router) {
	pages := ui.New()
	serve := func(name func(*http.Request) string) http.HandlerFunc {
		return s.routed(routeAdmin, func(w http.ResponseWriter, r *http.Request) error {
			if !pages.Serve(w, r, name(r)) {
				return errNoEndpoint
			}
			return nil
		})
	}
	r.Get("/gateway/ui", serve(func(*http.Request) string { return ui.Index }))
	r.Get("/gateway/ui/{file}", serve(func(r *http.Request) string {
		if name := chi.URLParam(r, "file"); name != ui.Index { // whose paths would be wrong there
			return name
		}
		return ""
	}))
	r.Get("/gateway/ui/", s.routed(routeAdmin, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Location", "../ui") // relative, as a proxy may have the gateway below a path of its own
		w.WriteHeader(http.StatusMovedPermanently)
		return nil
	}))
}
