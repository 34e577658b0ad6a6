package proxy

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/toolgate/toolgate/internal/registry"
)

// headerApproval is on a reply in whose run a call waits for an approval: its id.
const headerApproval = "X-Gateway-Approval"

// withApproval is a list of ids with another one. Equal calls of several choices wait for the same one.
func withApproval(list, id string) string {
	switch {
	case id == "" || slices.Contains(strings.Split(list, ", "), id):
		return list
	case list == "":
		return id
	}
	return list + ", " + id
}

// maxDecision bounds the body of a decision.
const maxDecision = 64 << 10

var (
	errNoApproval = &Error{Status: http.StatusNotFound, Type: invalidRequest, Code: "approval_not_found", Message: "there is no such approval, or its time is over"}
	errDecided    = &Error{Status: http.StatusConflict, Type: invalidRequest, Code: "approval_decided", NoRetry: true, Message: "the approval was decided otherwise before"}
	errMayNot     = &Error{Status: http.StatusForbidden, Type: invalidRequest, Code: "not_allowed", Message: "the key may not decide on approvals"}
	errNoDecision = &Error{Status: http.StatusBadRequest, Type: invalidRequest, Param: "approve", Message: `want a JSON object that says {"approve": true} or {"approve": false}`}
)

// approvalInfo is an approval that waits, as /gateway/approvals shows it.
type approvalInfo struct {
	ID        string    `json:"id"`
	Tool      string    `json:"tool"`
	Arguments string    `json:"arguments"`
	Caller    string    `json:"caller,omitempty"`
	RunID     string    `json:"run_id"`
	Asked     time.Time `json:"asked_at"`
	Until     time.Time `json:"expires_at"`
}

// approvals lists what waits: all of it for keys that may decide, else what the key's own runs wait for.
func (s *Server) approvals(w http.ResponseWriter, r *http.Request) error {
	list, caller := []approvalInfo{}, info(r).caller
	if c := s.opts.Confirmations; c != nil {
		waiting, err := c.Waiting(r.Context())
		if err != nil {
			return stateProblem(err)
		}
		for _, a := range waiting {
			if caller.Approves || a.Caller == caller.ID {
				list = append(list, approvalInfo{a.ID, a.Tool, a.Arguments, a.Caller, a.RunID, a.Asked.UTC(), a.Until.UTC()})
			}
		}
	}
	return writeTagged(w, r, map[string]any{"object": "list", "data": list, "may_decide": caller.Approves})
}

// approve decides on a call that waits.
func (s *Server) approve(w http.ResponseWriter, r *http.Request) error {
	i := info(r)
	if !i.caller.Approves {
		return errMayNot
	}
	if err := wantJSON(r); err != nil {
		return err
	}
	body, err := readBody(w, r, min(maxDecision, i.site.MaxBody))
	if err != nil {
		return err
	}
	var decision struct {
		Approve *bool `json:"approve"`
	}
	if json.Unmarshal(body, &decision) != nil || decision.Approve == nil {
		return errNoDecision
	}
	if s.opts.Confirmations == nil {
		return errNoApproval
	}
	a, err := s.opts.Confirmations.Decide(r.Context(), chi.URLParam(r, "id"), *decision.Approve)
	switch {
	case errors.Is(err, registry.ErrNoApproval):
		return errNoApproval
	case errors.Is(err, registry.ErrDecided):
		return errDecided
	case err != nil:
		return stateProblem(err)
	}
	s.log.LogAttrs(r.Context(), slog.LevelInfo, "approval", slog.String("request_id", i.requestID), slog.String("approval", a.ID),
		slog.String("by", i.caller.ID), slog.Bool("approved", a.Approved()), slog.String("tool", a.Tool),
		slog.String("arguments_sha256", a.Sum), slog.String("caller", a.Caller), slog.String("run_id", a.RunID))
	return writeJSON(w, map[string]any{"id": a.ID, "tool": a.Tool, "approved": a.Approved()})
}
