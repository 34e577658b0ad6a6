package registry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
)

// Who confirms the calls of a tool.
const (
	ConfirmNone     = "none"
	ConfirmUser     = "user"     // the model asks the user, and calls again after a new message of the user's
	ConfirmApproval = "approval" // somebody decides by the approval's id
)

const (
	confirmedFor = 15 * time.Minute // from the question, or from the approval, to the call
	waitsFor     = 24 * time.Hour   // for somebody to decide
	usedKept     = writeKept        // so that a repetition of the call under its key is known

	maxSummary = 300    // characters of arguments in what the model reads
	maxShown   = 16_000 // characters of them for who decides
	maxListed  = 200    // approvals in the list of those that wait
)

// Confirmations knows which calls were asked about and which may be made, each once. It outlives a Set.
type Confirmations struct{ store state.Store }

// NewConfirmations keeps what it knows in store.
func NewConfirmations(store state.Store) *Confirmations { return &Confirmations{store} }

// Said is how far the user has come in a conversation.
type Said struct {
	Messages int    `json:"messages"` // of the user's
	Last     string `json:"last"`     // a digest of the last one
}

// after says whether the user has said something since. A conversation of one message is a beginning, which answers no
// question; a longer one may have lost its oldest messages.
func (s Said) after(asked Said) bool {
	return s.Messages > asked.Messages || s.Last != asked.Last && s.Messages > 1
}

// Approval is a call that waits for somebody to decide, or that was decided on.
type Approval struct {
	ID        string    `json:"id"`
	Tool      string    `json:"tool"`
	Arguments string    `json:"arguments"` // a JSON text without those that the gateway fills; a long one is cut
	Sum       string    `json:"sha256"`    // of all arguments
	Caller    string    `json:"caller"`    // who the call was made for
	RunID     string    `json:"run_id"`
	Asked     time.Time `json:"asked"`
	Until     time.Time `json:"until"`
	State     decision  `json:"state"`
	By        string    `json:"by,omitempty"` // of a call that was made: its key
}

// decision is what became of an approval.
type decision string

const (
	waits    decision = "waiting"
	approved decision = "approved"
	denied   decision = "denied"
	used     decision = "used" // it was approved, and the call was made
)

// Approved says whether the call was approved, be it made or not.
func (a *Approval) Approved() bool { return a.State == approved || a.State == used }

// question is what is known of a call that its user was asked about.
type question struct {
	Said  Said      `json:"said"` // when it was asked
	Until time.Time `json:"until"`
	Used  bool      `json:"used,omitempty"` // it was answered, and the call was made
	By    string    `json:"by,omitempty"`   // under this key
}

var errContended = errors.New("too many others change the confirmation at the same time")

// tries bounds how often a value that others change too is read again.
const tries = 20

// Confirm says whether a call may be made now: nil where it may, else what the model reads of it. A confirmation that
// there is is used up by it. Where ctx ends before, it returns ctx's cause.
func (v *View) Confirm(ctx context.Context, p *Prepared, s Scope) (*Observation, error) {
	t := p.Tool
	if t.Confirm() == ConfirmNone || p.confirmed || s.Confirmed || !t.confirms(s) {
		return nil, nil
	}
	shown := v.shown(t, p.args)
	c := v.set.opts.Confirmations
	if c == nil {
		return v.unconfirmed(t, shown, ""), nil
	}
	call := tool.Call{Args: p.args, Caller: v.caller, RunID: s.RunID}
	by := "" // nobody else's
	if t.Effect == tool.Write && v.set.opts.Writes != nil {
		by = idempotencyKey(s, call, t.Name) // made before under the same key it is not made again
	}
	fields := v.Identity()
	var seen *Observation
	var err error
	if t.Confirm() == ConfirmUser {
		var may bool
		if may, err = c.answered(ctx, state.Key("user", s.Caller, fields, t.Name, p.Canonical), s.Said, by); !may {
			seen = v.unconfirmed(t, shown, "")
		}
	} else {
		sum := sha256.Sum256(call.JSON())
		a := &Approval{Tool: t.Name, Arguments: clip(shown, maxShown), Sum: hex.EncodeToString(sum[:]), Caller: s.Caller, RunID: s.RunID}
		var isNew bool
		a, isNew, err = c.decided(ctx, state.Key("approval", s.Caller, fields, t.Name, p.Canonical), a, by)
		switch {
		case err != nil:
		case a.State == waits:
			if isNew {
				v.set.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "approval wanted", slog.String("run_id", s.RunID), slog.String("call_id", s.CallID),
					slog.String("caller", s.Caller), slog.String("tool", t.Name), slog.String("arguments_sha256", a.Sum), slog.String("approval", a.ID))
			}
			seen = v.unconfirmed(t, shown, a.ID)
			seen.Waits = a
		case a.State == denied:
			o := v.set.failure(Denied, "not run: the call "+t.Name+" "+clip(shown, maxSummary)+" was not approved; do not make it again, but tell the user", false, string(Denied))
			seen = &o
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil: // nobody can say whether it was confirmed
		v.set.opts.Logger.Error("state of confirmations can't be reached", slog.String("run_id", s.RunID), slog.String("tool", t.Name), slog.Any("err", err))
		o := v.set.failure(Code(tool.Unavailable), "not run: the gateway can't tell at present whether this call was confirmed; try again later", true, string(tool.Unavailable))
		return &o, nil
	}
	p.confirmed = seen == nil
	return seen, nil
}

// confirms says whether a call is to be confirmed as things stand. Outside of a run nobody knows what the caller has read,
// so there it is.
func (t *Tool) confirms(s Scope) bool {
	return t.ConfirmAfter() == "" || s.Tainted || s.Conversation == nil
}

// unconfirmed is what the model reads of a call that is still to be confirmed: by the user or, with the id of an
// approval, by somebody else.
func (v *View) unconfirmed(t *Tool, shown, id string) *Observation {
	text := "not run: ask the user to confirm the call " + t.Name + " " + clip(shown, maxSummary) + "; once the user has agreed, call it again with the same arguments"
	switch {
	case id != "":
		text = "not run: the call " + t.Name + " " + clip(shown, maxSummary) + " waits for the approval " + id + "; once it has been given, call it again with the same arguments"
	case t.Confirm() == ConfirmApproval:
		text = "not run: the call " + t.Name + " " + clip(shown, maxSummary) + " needs an approval, which can't be given here"
	}
	o := v.set.failure(ConfirmationRequired, text, false, string(ConfirmationRequired))
	return &o
}

// shown is the arguments for people and models: those that the gateway fills are none of their business.
func (v *View) shown(t *Tool, args map[string]any) string {
	own := maps.Clone(args)
	for name := range t.config.Bind.All() {
		delete(own, name)
	}
	if own == nil {
		own = map[string]any{}
	}
	return string(tool.EncodeJSON(own))
}

// clip is the beginning of a text, in characters.
func clip(s string, limit int) string {
	n := 0
	for at := range s {
		if n == limit {
			return s[:at] + "…"
		}
		n++
	}
	return s
}

// answered says whether the user has been asked about a call and has said something since, which serves once: for the
// call with the key by. Else the user is asked from now on.
func (c *Confirmations) answered(ctx context.Context, key string, said Said, by string) (bool, error) {
	for range tries {
		old, found, err := c.store.Get(ctx, key)
		if err != nil {
			return false, err
		}
		now := time.Now()
		var there question
		known := found && json.Unmarshal(old, &there) == nil && now.Before(there.Until)
		next, kept, may := question{Said: said, Until: now.Add(confirmedFor).Round(0)}, confirmedFor, false
		switch {
		case !known:
		case there.Used && there.By != "" && there.By == by:
			return true, nil
		case there.Used:
		case said.after(there.Said):
			next, kept, may = question{Used: true, By: by, Until: now.Add(usedKept).Round(0)}, usedKept, true
		default:
			return false, nil
		}
		if done, err := c.change(ctx, key, old, found, encode(next), kept); done || err != nil {
			return may && err == nil, err
		}
	}
	return false, errContended
}

// change sets a value where the key has the one that was found, or none.
func (c *Confirmations) change(ctx context.Context, key string, old []byte, found bool, value []byte, kept time.Duration) (bool, error) {
	if found {
		return c.store.Swap(ctx, key, old, value, kept)
	}
	_, done, err := c.store.Claim(ctx, key, value, kept)
	return done, err
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts, numbers, times and booleans always encode
	}
	return b
}

func idKey(id string) string { return state.Key("id", id) }

// listKey has the ids of the approvals that wait.
var listKey = state.Key("waiting")

// decided is the approval of a call: one that waits or was decided on. An approved one is used by the call with the key
// by, which is to be made then. Where there is none, want becomes one that waits, and isNew.
func (c *Confirmations) decided(ctx context.Context, key string, want *Approval, by string) (a *Approval, isNew bool, err error) {
	for range tries {
		id, found, err := c.store.Get(ctx, key)
		if err != nil {
			return nil, false, err
		}
		there, raw, err := c.read(ctx, string(id))
		if err != nil {
			return nil, false, err
		}
		switch {
		case there == nil:
		case there.State == waits, there.State == denied, there.State == used && there.By != "" && there.By == by:
			return there, false, nil
		case there.State == approved:
			next := *there
			next.State, next.By, next.Until = used, by, time.Now().Add(usedKept).Round(0)
			done, err := c.store.Swap(ctx, idKey(next.ID), raw, encode(next), usedKept)
			if done || err != nil {
				return &next, false, err
			}
			continue
		}
		now := time.Now()
		next := *want
		next.ID, next.State, next.Asked, next.Until = "apr_"+rand.Text(), waits, now.Round(0), now.Add(waitsFor).Round(0)
		if err := c.store.Put(ctx, idKey(next.ID), encode(next), waitsFor); err != nil {
			return nil, false, err
		}
		done, err := c.change(ctx, key, id, found, []byte(next.ID), waitsFor+confirmedFor+usedKept)
		if done && err == nil {
			return &next, true, c.list(ctx, func(ids []string) []string { return append(ids, next.ID) })
		}
		if e := c.store.Delete(ctx, idKey(next.ID)); err != nil || e != nil {
			return nil, false, errors.Join(err, e)
		}
	}
	return nil, false, errContended
}

// read is the approval with that id, nil where there is none or its time is over.
func (c *Confirmations) read(ctx context.Context, id string) (*Approval, []byte, error) {
	if id == "" {
		return nil, nil, nil
	}
	raw, ok, err := c.store.Get(ctx, idKey(id))
	if err != nil || !ok {
		return nil, nil, err
	}
	a := &Approval{}
	if err := json.Unmarshal(raw, a); err != nil {
		return nil, nil, err
	}
	if !time.Now().Before(a.Until) {
		return nil, nil, nil
	}
	return a, raw, nil
}

// list changes the list of approvals that wait. The oldest make room.
func (c *Confirmations) list(ctx context.Context, edit func(ids []string) []string) error {
	for range tries {
		old, found, err := c.store.Get(ctx, listKey)
		if err != nil {
			return err
		}
		var ids []string
		_ = json.Unmarshal(old, &ids) // what can't be read is a list of none
		if ids = edit(ids); len(ids) > maxListed {
			ids = ids[len(ids)-maxListed:]
		}
		if done, err := c.change(ctx, listKey, old, found, encode(ids), waitsFor); done || err != nil {
			return err
		}
	}
	return errContended
}

// The failures of Decide.
var (
	ErrNoApproval = errors.New("no such approval waits")
	ErrDecided    = errors.New("the approval was decided otherwise")
)

// Decide approves a call that waits, or denies it. To decide the same once more is none.
func (c *Confirmations) Decide(ctx context.Context, id string, approve bool) (*Approval, error) {
	for range tries {
		a, raw, err := c.read(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case a == nil:
			return nil, ErrNoApproval
		case a.State != waits && a.Approved() != approve:
			return nil, ErrDecided
		case a.State != waits:
			return a, nil
		}
		next := *a
		next.State, next.Until = denied, time.Now().Add(confirmedFor).Round(0)
		if approve {
			next.State = approved
		}
		done, err := c.store.Swap(ctx, idKey(id), raw, encode(next), confirmedFor)
		if err != nil {
			return nil, err
		}
		if done {
			return &next, c.list(ctx, func(ids []string) []string {
				return slices.DeleteFunc(ids, func(other string) bool { return other == id })
			})
		}
	}
	return nil, errContended
}

// Waiting are the newest approvals that wait, the oldest first.
func (c *Confirmations) Waiting(ctx context.Context) ([]*Approval, error) {
	value, _, err := c.store.Get(ctx, listKey)
	if err != nil {
		return nil, err
	}
	var ids []string
	_ = json.Unmarshal(value, &ids) // as in list
	var list []*Approval
	for _, id := range ids {
		a, _, err := c.read(ctx, id)
		if err != nil {
			return nil, err
		}
		if a != nil && a.State == waits {
			list = append(list, a)
		}
	}
	return list, nil
}
