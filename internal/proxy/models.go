package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/upstream"
)

// modelFor is the model of that name, if the caller may use it. Without a name it is the first one.
func modelFor(i *requestInfo, name string) (*models.Model, error) {
	table := i.site.Models
	if name == "" {
		for _, m := range append(table.Named()[:len(table.Named()):len(table.Named())], table.Any()) {
			if m != nil && i.caller.Models.Has(m.Name) {
				return m, nil
			}
		}
		return nil, noModel(name)
	}
	m := table.Find(name)
	if m == nil || !i.caller.Models.Has(name) {
		return nil, noModel(name)
	}
	i.model = m.Label
	return m, nil
}

// noModel says the same of a model that is not there and of one that the caller may not use.
func noModel(name string) error {
	if r := []rune(name); len(r) > 100 {
		name = string(r[:100]) + "…"
	}
	return &Error{
		Status: http.StatusNotFound, Type: invalidRequest, Param: "model", Code: "model_not_found",
		Message: fmt.Sprintf("the model %q does not exist or this key has no access to it; GET /v1/models lists those that it has", name),
	}
}

// viewKey tells apart the views that a Set keeps. Both pointers live as long as their Site; a caller of one request has
// no such view, which would be kept for nobody, and be that of others if only its key told it apart.
type viewKey struct {
	caller *auth.Caller
	model  *models.Model
}

// view is what a caller's model sees of the tools.
func (s *Site) view(c *auth.Caller, m *models.Model) *registry.View {
	var key any
	if !c.Passing {
		key = viewKey{c, m}
	}
	return s.Tools.View(key, c.Fields, c.Tools, m.Tools)
}

// modelObject is a model of the gateway's own in OpenAI's shape.
func modelObject(name string) json.RawMessage {
	return json.RawMessage(`{"id":` + string(chat.Quote(name)) + `,"object":"model","created":0,"owned_by":"toolgate"}`)
}

// models lists the configured names and, where any name is taken, the upstream's models too.
func (s *Server) models(w http.ResponseWriter, r *http.Request) error {
	i := info(r)
	list := []json.RawMessage{}
	seen := map[string]bool{}
	for _, m := range i.site.Models.Named() {
		seen[m.Name] = true
		if i.caller.Models.Has(m.Name) {
			list = append(list, modelObject(m.Name))
		}
	}
	if wild := i.site.Models.Any(); wild != nil {
		theirs, err := s.upstreamModels(r, wild.Routes)
		if err != nil && len(list) == 0 {
			return err
		}
		if err != nil {
			problem(err).log(r.Context(), s.log, i)
		}
		for _, m := range theirs {
			if id := m.Get("id").String(); !seen[id] && i.caller.Models.Has(id) {
				list = append(list, json.RawMessage(m.Raw))
			}
		}
	}
	return writeJSON(w, map[string]any{"object": "list", "data": list})
}

// maxModels bounds a provider's list of models.
const maxModels = 8 << 20

func (s *Server) upstreamModels(r *http.Request, routes *upstream.Routes) ([]gjson.Result, error) {
	resp, err := routes.Pass(r.Context(), upstream.Pass{
		Method: http.MethodGet, Path: "models", Header: http.Header{"Accept": {"application/json"}}, ClientKey: bearer(r),
	})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil || !json.Valid(body) {
		return nil, &upstream.Error{Kind: upstream.Broken, Status: resp.StatusCode, Err: fmt.Errorf("list of models: %w", err)}
	}
	return gjson.GetBytes(body, "data").Array(), nil
}

// model shows one model: a configured one, else the upstream's where any name is taken. A name that a provider might read
// as another endpoint is none. It is looked up as the provider reads it, without escapes.
func (s *Server) model(w http.ResponseWriter, r *http.Request) error {
	i := info(r)
	name := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	if !isShortest(name) {
		return noModel(name)
	}
	m, err := modelFor(i, name)
	if err != nil {
		return err
	}
	if m.Name == name {
		return writeJSON(w, modelObject(name))
	}
	return s.forward(w, r, m.Routes, budget.Price{}, upstream.Pass{
		Method: http.MethodGet, Path: strings.TrimPrefix(r.URL.EscapedPath(), "/v1/"), Query: r.URL.RawQuery,
		Header: i.toProvider(r.Header, false), ClientKey: bearer(r),
	})
}
