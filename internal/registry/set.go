package registry

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/retry"
	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
)

// Definitions are the tools of a file, checked and not yet made.
type Definitions struct {
	list []*definition
}

type definition struct {
	at     *config.Node // the mapping that it is an entry of
	spec   tool.Spec
	common Config
	kind   string
	config tool.Config
	schema *schema.Schema
}

// Read reads the mapping `tools`, and reports what is wrong to its nodes. named are the schemas that parameters may
// refer to. It does no I/O but for files that parameters name.
func Read(n *config.Node, kinds []tool.Kind, named map[string]json.RawMessage) *Definitions {
	d := &Definitions{}
	d.Add(n, kinds, named)
	return d
}

// Add reads a further mapping of tools, such as that made of an OpenAPI document.
func (d *Definitions) Add(n *config.Node, kinds []tool.Kind, named map[string]json.RawMessage) {
	if n != nil && n.Kind() != config.Mapping && n.Kind() != config.Null {
		n.Fail("want a mapping of tool names to tools")
		return
	}
	for _, name := range n.Keys() {
		if !FitName(name) {
			n.FailKey(name, "%q is no name for a tool: want 1 to 64 of a-z, A-Z, 0-9, _ and -", name)
		}
		for _, other := range d.list {
			if other.spec.Name == name {
				n.FailKey(name, "another tool has the name %q", name)
			}
		}
		if def := readTool(name, n.Get(name), kinds, named); def != nil {
			def.at = n
			d.list = append(d.list, def)
		}
	}
}

func readTool(name string, n *config.Node, kinds []tool.Kind, named map[string]json.RawMessage) *definition {
	keys := make([]string, len(kinds))
	var chosen []tool.Kind
	for i, k := range kinds {
		keys[i] = k.Name
		if n.Get(k.Name) != nil {
			chosen = append(chosen, k)
		}
	}
	def := &definition{}
	n.DecodeKnown(&def.common, keys...)
	if def.common.Description == "" && !n.Misspelt("description") {
		n.Fail("description is missing: the model chooses tools by it")
	}
	switch {
	case len(chosen) == 0 && n.Misspelt(keys...):
		return nil // the key of its kind is reported
	case len(chosen) == 0:
		n.Fail("want what the tool does: one of %s", strings.Join(keys, ", "))
		return nil
	case len(chosen) > 1:
		n.FailKey(chosen[1].Name, "stands beside %s: a tool is exactly one of %s", chosen[0].Name, strings.Join(keys, ", "))
		return nil
	}
	def.schema = schema.FromNode(def.common.Parameters, named)
	at := n.Get(chosen[0].Name)
	def.kind, def.config = chosen[0].Name, chosen[0].New()
	at.Decode(def.config)
	if def.schema == nil { // reported
		return nil
	}
	def.spec = tool.Spec{
		Name:       name,
		Params:     def.params(),
		Effect:     tool.Effect(def.common.Effect),
		Idempotent: def.common.Idempotent,
	}
	if def.spec.Effect == "" {
		def.spec.Effect = def.config.DefaultEffect()
	}
	def.config.Check(at, def.spec)
	def.common.checkErrors(def.spec.Params)
	def.common.checkBind(def.spec.Params)
	if def.spec.Effect == tool.Write && def.common.Cache > 0 {
		n.FailKey("cache", cacheWrite)
	}
	if def.spec.Effect == tool.Write && def.common.Retry.Policy().Attempts > 1 && !def.common.Idempotent {
		n.FailKey("retry", writeRetry)
	}
	if def.spec.Effect != tool.Write && def.common.Confirm.After != "" {
		n.FailKey("confirm", readAfter)
	}
	return def
}

const readAfter = "only a write is confirmed after untrusted: want confirm: user or confirm: approval, of each call, or effect: write"

const cacheWrite = "only a read can be cached: a write that is not made is not done"

const writeRetry = "a write tool is only tried again with `idempotent: true`, which says that its service honours the idempotency key"

func (d *definition) params() map[string]tool.Param {
	params := map[string]tool.Param{}
	for _, p := range d.schema.Properties() {
		_, bound := d.common.Bind.Get(p)
		params[p] = tool.Param{Optional: d.schema.Optional(p), Bound: bound}
	}
	return params
}

// Names are the names of the tools, in the order of the file.
func (d *Definitions) Names() []string {
	names := make([]string, len(d.list))
	for i, def := range d.list {
		names[i] = def.spec.Name
	}
	return names
}

// CheckSecrets reports tools whose description or schema would tell the model a secret or the host of their own
// service.
func (d *Definitions) CheckSecrets(secrets []string) {
	for _, def := range d.list {
		seen := def.common.Description + " " + string(def.schema.JSON())
		at := def.at.Get(def.spec.Name)
		for _, s := range secrets {
			if len(s) > 3 && strings.Contains(seen, s) {
				at.FailKey("description", "the description or a parameter holds a configured secret, which the model would read")
				break
			}
		}
		for _, host := range def.config.Hosts() {
			if telling(host) && strings.Contains(strings.ToLower(seen), strings.ToLower(host)) {
				at.FailKey("description", "the description or a parameter names the tool's own host %s, which the model would read", host)
				break
			}
		}
	}
}

// telling says whether a host's name would tell a model something. One without a dot, such as that of a service in the
// same cluster, may be a plain word of the description too.
func telling(host string) bool { return strings.ContainsAny(host, ".:") }

// CheckTime warns of tools whose attempts and back-off together do not fit into a run.
func (d *Definitions) CheckTime(run time.Duration) {
	for _, def := range d.list {
		p := def.common.Retry.Policy()
		total := time.Duration(def.common.Timeout)*time.Duration(max(p.Attempts, 1)) + p.Waits()
		if total >= run {
			def.at.Get(def.spec.Name).Warn("its attempts and back-off may take %s, which is not below max_seconds (%s): a slow service ends the run", total, run)
		}
	}
}

// Options is what a Set is made with.
type Options struct {
	Env         tool.Env
	TextErrors  bool // a failed call reads as its message alone
	Mask        *mask.Masker
	Logger      *slog.Logger // required
	Metrics     *Metrics     // required
	OnBreaker   func(string, breaker.State)
	Definitions *Definitions
	Writes      *Writes // what is known of write calls; nil makes each one whenever it is asked for
	// Results are results of reads that other processes with the same Fingerprint have too; nil where there are none.
	Results     state.Store
	Fingerprint string // of all that the tools are made from
	// Confirmations is what is known of calls that want one; without it they are not made.
	Confirmations *Confirmations
	// EnvOf, if it is not nil, is the Env of a tool in place of Env, and Wrap what is put around each tool; both are for
	// commands that look into calls or stand in for them.
	EnvOf func(tool string) tool.Env
	Wrap  func(name string, t tool.Tool) tool.Tool
}

// Set is all tools of a configuration: those of the file, which never change, and those of sources such as MCP servers,
// which come and go. A reload makes a new one.
type Set struct {
	opts  Options
	now   atomic.Pointer[snapshot]
	cache *cache // made with the first tool that has one

	mu       sync.Mutex
	file     []*Tool                     // in the file's order
	sources  map[string][]*Tool          // by source, each in the order of names
	breakers map[string]*breaker.Breaker // by name; some tools share one
}

// snapshot is the tools at one time. Immutable but for the views that it keeps.
type snapshot struct {
	list   []*Tool
	byName map[string]*Tool
	views  sync.Map // key of a view → *View; bounded by keys × models
}

// Tool is one tool, ready to be called.
type Tool struct {
	Name   string // as models call it
	ID     string // as keys and models are permitted it; differs from Name where that had to be shortened
	Kind   string
	Effect tool.Effect
	Ending tool.Ending // of a good result

	idempotent   bool // its service honours the idempotency key
	config       *Config
	schema       *schema.Schema
	impl         tool.Tool
	declaration  []byte // as it stands in a request's tools
	parameters   json.RawMessage
	callerFields []string // without which it is not offered
	policy       retry.Policy
	breaker      *breaker.Breaker
	slots        *semaphore.Weighted // nil without a limit
}

// NewSet makes the tools of a file.
func NewSet(o Options) (*Set, error) {
	s := &Set{opts: o, sources: map[string][]*Tool{}, breakers: map[string]*breaker.Breaker{}}
	for _, def := range o.Definitions.list {
		t, err := s.newTool(def)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", def.spec.Name, err)
		}
		s.file = append(s.file, t)
	}
	s.publish()
	return s, nil
}

// Close ends what the set runs by itself.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache != nil {
		s.cache.close()
	}
}

// publish makes what is in the set now what requests to come see.
func (s *Set) publish() {
	next := &snapshot{byName: map[string]*Tool{}}
	lists := [][]*Tool{s.file}
	for _, source := range slices.Sorted(maps.Keys(s.sources)) {
		lists = append(lists, s.sources[source])
	}
	for _, t := range slices.Concat(lists...) {
		if next.byName[t.Name] != nil {
			s.opts.Logger.Warn("two tools have one name; the later one is left out", slog.String("tool", t.Name), slog.String("kind", t.Kind))
			continue
		}
		next.list = append(next.list, t)
		next.byName[t.Name] = t
	}
	s.now.Store(next)
}

func (s *Set) newTool(def *definition) (*Tool, error) {
	env := s.opts.Env
	if s.opts.EnvOf != nil {
		env = s.opts.EnvOf(def.spec.Name)
	}
	impl, err := def.config.Build(def.spec, env)
	if err != nil {
		return nil, err
	}
	if s.opts.Wrap != nil {
		impl = s.opts.Wrap(def.spec.Name, impl)
	}
	s.opts.Metrics.known(def.spec.Name)
	c := &def.common
	t := &Tool{
		Name:   def.spec.Name,
		ID:     def.spec.Name,
		Kind:   def.kind,
		Effect: def.spec.Effect,
		config: c,
		schema: def.schema,
		impl:   impl,
		policy: c.Retry.Policy(),

		idempotent: def.spec.Idempotent,
	}
	if c.Final {
		t.Ending = tool.Final
	}
	if e, ok := def.config.(tool.Ender); ok {
		t.Ending = e.Ending()
	}
	t.breaker = s.breakerOf(def)
	if c.Cache > 0 && s.cache == nil {
		s.cache = newCache(s.shared())
	}
	if c.Concurrency > 0 {
		t.slots = semaphore.NewWeighted(int64(c.Concurrency))
	}
	var bound []string
	for name, b := range c.Bind.All() {
		bound = append(bound, name)
		if b.caller != "" {
			t.callerFields = append(t.callerFields, b.caller)
		}
	}
	for _, e := range c.Errors.All() {
		t.callerFields = append(t.callerFields, e.message.CallerFields()...)
	}
	if f, ok := def.config.(tool.CallerNamer); ok {
		t.callerFields = append(t.callerFields, f.CallerFields()...)
	}
	slices.Sort(t.callerFields)
	t.callerFields = slices.Compact(t.callerFields)
	t.parameters = def.schema.Hide(bound...).JSON()
	t.declaration = declaration(t.Name, c.Description, t.parameters)
	return t, nil
}

// shared are the results that other processes have too, nil for none.
func (s *Set) shared() *sharedResults {
	if s.opts.Results == nil {
		return nil
	}
	return &sharedResults{s.opts.Results, s.opts.Fingerprint, s.opts.Logger}
}

// breakerOf is the tool's breaker: its own, or the one that it shares, which the first tool that has it sets.
func (s *Set) breakerOf(def *definition) *breaker.Breaker {
	name := "tool:" + def.spec.Name
	if shared, ok := def.config.(tool.BreakerSharer); ok {
		name = shared.SharedBreaker()
	}
	b := s.breakers[name]
	if b == nil {
		b = breaker.New(breaker.Options{
			Name:     name,
			Failures: def.common.Breaker.Failures,
			OpenFor:  time.Duration(def.common.Breaker.OpenFor),
			OnChange: s.opts.OnBreaker,
		})
		s.breakers[name] = b
		if s.opts.OnBreaker != nil {
			s.opts.OnBreaker(name, breaker.Closed) // its series exists from the start
		}
	}
	return b
}

// declaration is a tool as a request's tools have it.
func declaration(name, description string, parameters json.RawMessage) []byte {
	b := append([]byte(`{"type":"function","function":{"name":`), chat.Quote(name)...)
	b = append(append(b, `,"description":`...), chat.Quote(description)...)
	b = append(append(b, `,"parameters":`...), parameters...)
	return append(b, '}', '}')
}

// All are the tools as they are now: those of the file, in its order, then those of each source.
func (s *Set) All() []*Tool { return s.now.Load().list }

// Declaration is the tool as a model sees it, a JSON text.
func (t *Tool) Declaration() json.RawMessage { return t.declaration }

// Breaker is the state of the tool's breaker.
func (t *Tool) Breaker() breaker.State { return t.breaker.State() }

// Description is the tool's description, for people.
func (t *Tool) Description() string { return t.config.Description }

// Confirm is who confirms a call before it is made: ConfirmNone, ConfirmUser or ConfirmApproval.
func (t *Tool) Confirm() string { return t.config.Confirm.By }

// ConfirmAfter is "untrusted" where that holds only once an untrusted tool has answered, "" where it always does.
func (t *Tool) ConfirmAfter() string { return t.config.Confirm.After }

// Untrusted says whether strangers may have written what the tool returns.
func (t *Tool) Untrusted() bool { return t.config.Untrusted }

// CallerFields are the fields of the caller without which the tool is not offered.
func (t *Tool) CallerFields() []string { return t.callerFields }

// Parameters is the JSON Schema of the arguments that callers see.
func (t *Tool) Parameters() json.RawMessage { return t.parameters }
