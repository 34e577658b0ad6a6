package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/retry"
	"github.com/toolgate/toolgate/internal/tool"
)

// Prepared is a model's call, read and checked. Exactly one of Tool and Refusal says what becomes of it.
type Prepared struct {
	Name      string       // of the tool; where there is none, what the model wrote, in characters that every API allows
	Tool      *Tool        // nil where the call is not to run
	Refusal   *Observation // why not
	Canonical string       // equal for equal arguments, however they are written
	Echo      string       // the arguments as the provider is to read them again, a JSON text

	args      map[string]any
	confirmed bool // it may be made, where its tool wants that confirmed
}

// Prepare reads a call of the model's: its name and the JSON value under arguments. A tool that the caller or the model
// may not use is as one that is not there, so that nobody finds out by asking; only one that this request has left out is
// told from it.
func (v *View) Prepare(name string, arguments json.RawMessage) Prepared {
	name = NormalizeName(name, func(n string) bool { return v.byName[n] != nil || v.may[n] != nil })
	args, err := decodeArguments(arguments)
	p := Prepared{Name: sendable(name), args: args}
	p.Echo, p.Canonical = echo(arguments, args, err)
	t := v.byName[name]
	switch {
	case t == nil && v.may[name] != nil:
		p.refuse(v.set.failure(NotAllowed, "the tool "+name+" is not allowed here", false, string(NotAllowed)))
	case t == nil:
		p.refuse(v.set.failure(UnknownTool, v.unknown(name), false, string(UnknownTool)))
	case err != nil:
		p.refuse(v.set.failure(InvalidArguments, "invalid arguments for "+name+": "+err.Error(), false, string(InvalidArguments)))
	default:
		v.check(&p, t)
	}
	if p.Canonical == "" {
		p.Canonical = string(tool.EncodeJSON(p.args))
	}
	return p
}

func (p *Prepared) refuse(o Observation) { p.Refusal = &o }

func (v *View) unknown(name string) string {
	if len(v.list) == 0 {
		return fmt.Sprintf("there is no tool %s", strconv.Quote(Cut(name, 64)))
	}
	return fmt.Sprintf("there is no tool %s; the nearest are: %s", strconv.Quote(Cut(name, 64)), strings.Join(v.nearest(name), ", "))
}

// check completes the arguments and holds them against the schema.
func (v *View) check(p *Prepared, t *Tool) {
	for name, b := range t.config.Bind.All() {
		delete(p.args, name) // whatever the model wrote there
		if value := b.from(v.caller); value != nil {
			p.args[name] = value
		}
	}
	if t.config.Coerce {
		p.args = t.schema.Coerce(p.args) // before the defaults: a null or a text in the place of an object has none yet
	}
	t.schema.FillDefaults(p.args)
	faults := t.schema.Validate(p.args)
	if len(faults) == 0 {
		p.Tool, p.Canonical = t, string(tool.EncodeJSON(p.args))
		return
	}
	for name := range t.config.Bind.All() {
		for _, f := range faults {
			if strings.HasPrefix(f, name+":") || strings.HasPrefix(f, name+".") {
				v.set.opts.Logger.Error("bound argument does not fit the tool's schema", slog.String("tool", t.Name), slog.String("err", f))
				p.refuse(v.set.failure(Code(tool.Failed), "tool failed: "+tool.TypeInternal, false, string(tool.Failed)))
				return
			}
		}
	}
	p.refuse(v.set.failure(InvalidArguments, "invalid arguments for "+t.Name+": "+strings.Join(faults, "; "), false, string(InvalidArguments)))
}

func (b Binding) from(caller map[string]any) any {
	if b.caller != "" {
		return caller[b.caller]
	}
	return b.value
}

var notSendable = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// sendable is a name that every provider takes back in a history.
func sendable(name string) string {
	if FitName(name) { // as that of every tool
		return name
	}
	name = notSendable.ReplaceAllString(name, "_")
	if len(name) > 64 {
		name = name[:64]
	}
	if name == "" {
		return "_"
	}
	return name
}

// echo is the arguments' text for the provider: the model's own where it is an object's JSON, else what was read. The
// canonical text is there too where it is known already.
func echo(raw json.RawMessage, args map[string]any, err error) (text, canonical string) {
	if err != nil {
		canonical = string(raw)
	}
	if json.Unmarshal(raw, &text) == nil {
		if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
			return text, canonical
		}
	}
	if err != nil {
		return "{}", canonical
	}
	canonical = string(tool.EncodeJSON(args))
	return canonical, canonical
}

// Scope is the run that a call belongs to.
type Scope struct {
	RunID   string
	Key     string // the client's Idempotency-Key, else the run's id
	CallID  string
	Caller  string // who asks, unlike every other; cached results are for the same one alone
	Attempt int    // which of the equal calls of the run it is, from 1

	Said      Said // what the user has said so far; nothing outside of a conversation
	Confirmed bool // by who makes the call: nobody is asked
	Tainted   bool // an untrusted tool has answered in the conversation, which its model has read

	Headers      map[string][]string    // of the client's request, for tools that forward some
	Conversation func() json.RawMessage // the run's messages so far; nil outside of a run
	Tell         func(lines ...string)  // told what the tool sends; nil where nobody looks
}

// Run makes a prepared call where it is confirmed, a write under its key only where it has not been made before. Where
// ctx ends before the call does, it returns ctx's cause; whatever else happens is an observation.
func (v *View) Run(ctx context.Context, p Prepared, s Scope) (Observation, error) {
	return v.traced(ctx, p, s)
}

func (v *View) run(ctx context.Context, p Prepared, s Scope) (Observation, error) {
	t := p.Tool
	if seen, err := v.Confirm(ctx, &p, s); seen != nil || err != nil {
		if seen == nil {
			seen = &Observation{}
		}
		return *seen, err
	}
	call := tool.Call{Args: p.args, Caller: v.caller, RunID: s.RunID, Headers: s.Headers, Conversation: s.Conversation, Tell: s.Tell}
	if t.Effect == tool.Write {
		call.IdempotencyKey = idempotencyKey(s, call, t.Name)
		return v.write(ctx, t, call, s)
	}
	made := v.make(ctx, t, call, s)
	return made.seen, made.ended
}

// made is what came of a call.
type made struct {
	seen    Observation
	failure *tool.Error // nil of a good one
	ended   error       // the cause, where ctx ended before the call; seen is empty then
}

// make makes a call.
func (v *View) make(ctx context.Context, t *Tool, call tool.Call, s Scope) made {
	start := time.Now()
	result, err := v.set.result(ctx, t, call, s.Caller)
	took := time.Since(start)
	v.set.opts.Metrics.duration.With(t.Name).Observe(took.Seconds())
	if err == nil {
		return made{seen: t.good(result)}
	}
	v.set.opts.Logger.Warn("tool call failed",
		slog.String("run_id", s.RunID), slog.String("call_id", s.CallID), slog.String("tool", t.Name),
		slog.Duration("duration", took), slog.Any("err", err))
	failure := tool.AsError(err)
	if ctx.Err() != nil {
		return made{failure: failure, ended: context.Cause(ctx)}
	}
	return made{seen: t.failed(v.set, failure, call), failure: failure}
}

// result is what a call brings, or what an equal call of the same caller has brought within the tool's cache.
func (s *Set) result(ctx context.Context, t *Tool, c tool.Call, caller string) (tool.Result, error) {
	ttl := time.Duration(t.config.Cache)
	if ttl <= 0 {
		return t.call(ctx, c)
	}
	key := string(tool.EncodeJSON([]any{t.Name, caller, c.Caller, c.Args}))
	return s.cache.do(ctx, key, ttl, func(ctx context.Context) (tool.Result, error) { return t.call(ctx, c) })
}

// call is every attempt of a call. Its failure is NotDone where that holds for all of them.
func (t *Tool) call(ctx context.Context, c tool.Call) (tool.Result, error) {
	reached := false
	result, err := retry.Do(ctx, t.policy, func(err error) (bool, time.Duration) {
		e := tool.AsError(err)
		return e.Repeatable() && ctx.Err() == nil, e.RetryAfter
	}, func(ctx context.Context, _ int) (tool.Result, error) {
		result, err := t.attempt(ctx, c)
		reached = reached || err == nil || !tool.AsError(err).NotDone
		if err != nil && t.policy.Attempts > 1 {
			tellAttempt(ctx, err)
		}
		return result, err
	})
	if e, ok := errors.AsType[*tool.Error](err); ok && reached && e.NotDone {
		own := *e
		own.NotDone = false
		return result, &own
	}
	return result, err
}

// errTimeout is the cause of an attempt's own deadline.
var errTimeout = errors.New("the tool's timeout has passed")

func (t *Tool) attempt(outer context.Context, c tool.Call) (tool.Result, error) {
	ctx, cancel := context.WithTimeoutCause(outer, time.Duration(t.config.Timeout), errTimeout)
	defer cancel()
	if t.slots != nil {
		if err := t.place(ctx); err != nil {
			return tool.Result{}, &tool.Error{Class: tool.Unavailable, Type: tool.TypeBusy, NotDone: true, Err: fmt.Errorf("all %d places are taken: %w", t.config.Concurrency, err)}
		}
		defer t.slots.Release(1)
	}
	done, err := t.breaker.Allow()
	if err != nil {
		e := &tool.Error{Class: tool.Unavailable, Type: tool.TypeCircuitOpen, NotDone: true, Err: err}
		if open, ok := errors.AsType[*breaker.Open](err); ok {
			e.RetryAfter = open.RetryAfter
		}
		return tool.Result{}, e
	}
	result, err := t.callImpl(ctx, c)
	switch {
	case err == nil:
		done(breaker.Success)
	case outer.Err() != nil: // the run ended, which says nothing about the tool
		done(breaker.Ignored)
	case tool.AsError(err).Transient():
		done(breaker.Failure)
	default:
		done(breaker.Success)
	}
	return result, err
}

// callImpl makes the call. A tool that panics has failed with a defect: it may run on a goroutine of its own, where nobody
// above would stop it from ending the process, with whatever is in its words on stderr.
func (t *Tool) callImpl(ctx context.Context, c tool.Call) (result tool.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &tool.Error{Class: tool.Failed, Type: tool.TypeInternal, Err: fmt.Errorf("the tool panicked: %v\n%s", v, debug.Stack())}
		}
	}()
	return t.impl.Call(ctx, c)
}

// place waits for one of the tool's places, to be released. It gives up a little before the attempt's timeout: calls
// that started together end together, and a place that the last moment brings would send what nobody waits for.
func (t *Tool) place(ctx context.Context) error {
	if t.slots.TryAcquire(1) {
		return nil
	}
	wait := time.Duration(t.config.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, wait-wait/20, errTimeout)
	defer cancel()
	return t.slots.Acquire(ctx, 1)
}

// decodeJSON is the value of a JSON text, with the numbers as they are written; nil for what is none.
func decodeJSON(b []byte) any {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// Counts are the calls of a tool that models have made since the process has started, and those among them of which
// the model read a failure; one that waits for a confirmation is none.
func (v *View) Counts(t *Tool) (calls, failed int64) {
	c := v.set.opts.Metrics.counts.With(t.Name)
	return c.calls.Load(), c.failed.Load()
}

// Count is what the metrics learn of a call that the model made.
func (v *View) Count(name string, o Observation) {
	if v.set.now.Load().byName[name] == nil {
		name = "other"
	}
	v.set.opts.Metrics.count(name, o.Class)
}
