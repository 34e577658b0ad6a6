package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/proxy"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/upstream"
)

// generation is what one configuration asks for. A reload makes the next one; this one is closed when the last request
// that began with it has ended.
type generation struct {
	config    *checked
	upstreams map[string]*upstream.Client
	tools     *registry.Set
	mcp       *mcpServers
	keySet    *keySet // nil without auth.jwt
	site      *proxy.Site
	breakers  *breakers
	stop      func()       // ends what start began; nil before
	after     func() error // closes what the generation does not own; nil for nothing
}

// newGeneration makes what a configuration asks for, and takes over what of old, nil for none, stays as it is. It opens
// no connection.
func (g *gateway) newGeneration(c *checked, old *generation) (*generation, error) {
	n := &generation{config: c, upstreams: map[string]*upstream.Client{}, breakers: newBreakers(g.metrics.breakers)}
	g.hidden.add(n, c.secrets)
	if err := n.build(c, g, old); err != nil {
		n.close(g.log)
		g.hidden.remove(n)
		return nil, err
	}
	return n, nil
}

// start runs what the generation keeps up by itself, until it is closed.
func (n *generation) start(ctx context.Context) {
	stops := []func(){n.mcp.start(ctx)}
	if n.keySet != nil {
		stops = append(stops, n.keySet.Start(ctx))
	}
	n.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (n *generation) close(log *slog.Logger) {
	if n.stop != nil {
		n.stop()
	}
	if n.tools != nil {
		n.tools.Close()
	}
	n.closeIdle()
	if n.after != nil {
		if err := n.after(); err != nil {
			log.Warn("closing", slog.Any("err", err))
		}
	}
}

// closeIdle drops the connections to providers that nobody uses.
func (n *generation) closeIdle() {
	for _, u := range n.upstreams {
		u.Close()
	}
}

// longestRun is the most time that a run of the generation may take.
func (n *generation) longestRun() time.Duration {
	longest := n.config.limits.Time
	for _, m := range append(slices.Clone(n.site.Models.Named()), n.site.Models.Any()) {
		if m != nil {
			longest = max(longest, m.Limits.Time)
		}
	}
	return longest
}

// hidden is what the log hides: the secrets of all generations that still serve somebody.
type hidden struct {
	masker atomic.Pointer[mask.Masker]

	mu sync.Mutex
	of map[*generation][]string
}

func newHidden() *hidden {
	h := &hidden{of: map[*generation][]string{}}
	h.masker.Store(mask.New(nil))
	return h
}

func (h *hidden) add(n *generation, secrets []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[n] = secrets
	h.publish()
}

func (h *hidden) remove(n *generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, n)
	h.publish()
}

func (h *hidden) publish() {
	all := map[string]bool{}
	for _, secrets := range h.of {
		for _, s := range secrets {
			all[s] = true
		}
	}
	h.masker.Store(mask.New(slices.Sorted(maps.Keys(all))))
}

// breakers are the states of a generation's breakers. The metric shows those of the generation in force: what an old
// one's do with its last requests says nothing about requests to come.
type breakers struct {
	metric *breaker.Metrics

	mu     sync.Mutex
	states map[string]breaker.State
	shown  bool
}

func newBreakers(m *breaker.Metrics) *breakers {
	return &breakers{metric: m, states: map[string]breaker.State{}}
}

// changed is for breaker.Options.OnChange.
func (b *breakers) changed(name string, s breaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[name] = s
	if b.shown {
		b.metric.Changed(name, s)
	}
}

// show makes the metric follow b in place of old, which may be nil. Breakers that are no more vanish from it.
func (b *breakers) show(old *breakers) {
	gone := old.hide()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = true
	for name, s := range b.states {
		delete(gone, name)
		b.metric.Changed(name, s)
	}
	for name := range gone {
		b.metric.Forget(name)
	}
}

// hide ends what show began, and gives the names.
func (b *breakers) hide() map[string]breaker.State {
	if b == nil {
		return map[string]breaker.State{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = false
	return maps.Clone(b.states)
}
