package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

// reloader reads the configuration again when it is asked to and when its files change, and puts what it asks for in the
// place of what is in force.
type reloader struct {
	g     *gateway
	from  source
	first startedWith
	watch *watcher
	pace  pace

	shutdownGrace atomic.Int64  // of the configuration in force
	ending        chan struct{} // closed when no request is served any more
	retiring      sync.WaitGroup
}

// startedWith is what the process keeps as it was at its start.
type startedWith struct {
	listen, adminListen, logFormat string
	state                          stateConfig
	traces                         string // where they go, and with which headers
	sample                         float64
}

func startOf(c *checked) startedWith {
	return startedWith{c.Server.Listen, c.Server.AdminListen, c.Log.Format, c.State, c.Trace.target(), c.Trace.Sample}
}

// pace is how fast things are done. Tests have their own.
type pace struct {
	calm   time.Duration // files are read once they have not changed for so long: they may be half written
	look   time.Duration // between looks at the files, for changes of which the system does not tell
	settle time.Duration // how long what is new may take to be there before it is used
	cut    time.Duration // at the end of the process, for requests that have been cut off
}

var usualPace = pace{calm: 200 * time.Millisecond, look: 5 * time.Second, settle: connectTimeout, cut: time.Second}

// newReloader is for a gateway whose configuration was read from f.
func newReloader(g *gateway, from source, f *config.File) *reloader {
	r := &reloader{g: g, from: from, first: startOf(g.config), watch: newWatcher(g.log), pace: usualPace, ending: make(chan struct{})}
	r.shutdownGrace.Store(int64(g.config.Server.ShutdownGrace))
	r.watch.follow(f.Uses())
	return r
}

// start begins to look for changes. That ends with ctx. stop waits for it and for the ends of the generations that were
// replaced; it is called when no request is served any more.
func (r *reloader) start(ctx context.Context, asked <-chan os.Signal) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		r.run(ctx, asked)
	}()
	return func() {
		cancel()
		<-ended
		close(r.ending)
		r.retiring.Wait()
		r.watch.close()
	}
}

// grace is how long running requests have at the end of the process.
func (r *reloader) grace() time.Duration { return time.Duration(r.shutdownGrace.Load()) }

func (r *reloader) run(ctx context.Context, asked <-chan os.Signal) {
	look := time.NewTicker(r.pace.look)
	defer look.Stop()
	var due <-chan time.Time
	var last map[string]config.Sum // as the files were at the last look, where that was a change
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			due, last = nil, nil
			r.reload(ctx, "SIGHUP")
			continue
		case <-r.watch.events():
			if due == nil { // a folder in which much happens must not put it off
				due = time.After(r.pace.calm)
			}
			continue
		case err := <-r.watch.errors():
			r.g.log.Warn("watching the configuration", slog.Any("err", err)) // such as an overflow: there may be a change
		case <-due:
		case <-look.C:
			if due != nil {
				continue
			}
		}
		due = nil
		now, changed := r.watch.look()
		switch {
		case !changed:
			last = nil
		case !maps.Equal(now, last):
			last, due = now, time.After(r.pace.calm)
		default:
			last = nil
			r.reload(ctx, "file")
		}
	}
}

// reload reads the configuration and puts it in force, unless it has a fault.
func (r *reloader) reload(ctx context.Context, why string) {
	begin := time.Now()
	f := r.from.read()
	err := r.use(ctx, f)
	if ctx.Err() != nil {
		return
	}
	r.watch.follow(f.Uses())
	if err != nil {
		r.tell(err)
		r.g.metrics.reloaded.Set(0)
		return
	}
	r.g.metrics.reloaded.Set(1)
	r.g.metrics.reloadedAt.SetToCurrentTime()
	r.g.log.Info("configuration reloaded", slog.String("reason", why), slog.Int("models", r.g.config.Models.Len()),
		slog.Int("tools", len(r.g.tools.All())), slog.Duration("duration", time.Since(begin)))
}

// tell logs why the configuration in force stays, each fault by itself.
func (r *reloader) tell(err error) {
	var faults config.Problems
	if !errors.As(err, &faults) {
		r.g.log.Error("configuration not reloaded: the one in force stays", slog.Any("err", err))
		return
	}
	for _, p := range faults {
		r.g.log.Error("configuration", slog.String("fault", p.String()))
	}
	r.g.log.Error("configuration not reloaded: the one in force stays", slog.Int("faults", len(faults)))
}

// use puts a configuration in force.
func (r *reloader) use(ctx context.Context, f *config.File) error {
	c, err := check(f)
	if err != nil {
		return err
	}
	if c.unguarded(r.first.listen) {
		return fmt.Errorf("server.listen stays %s until the next start, which is reached from other machines, and no auth is configured", r.first.listen)
	}
	old := r.g.generation
	next, err := r.g.newGeneration(c, old)
	if err != nil {
		return errors.Join(err, c.close())
	}
	next.after = c.close
	next.start(ctx)
	settled, cancel := context.WithTimeout(ctx, r.pace.settle)
	defer cancel()
	_ = next.mcp.settle(settled) // a server that is not there is logged, and keeps nobody from the rest
	if ctx.Err() != nil {        // the process ends
		r.retire(next, nil)
		return ctx.Err()
	}
	r.g.generation = next
	r.g.level.Set(c.Log.level())
	r.g.stores.runs.Limit(c.Trace.Keep, time.Duration(c.Trace.TTL))
	r.shutdownGrace.Store(int64(c.Server.ShutdownGrace))
	over := r.g.server.Use(next.site)
	next.breakers.show(old.breakers)
	r.g.warn()
	r.warnFixed()
	r.retire(old, over)
	return nil
}

// warn logs what should be looked at in the configuration in force.
func (g *gateway) warn() {
	for _, w := range g.config.warnings {
		g.log.Warn("configuration", slog.String("warning", w.String()))
	}
}

const nextStart = "a changed key takes effect at the next start"

// warnFixed logs what the process keeps in spite of the configuration in force.
func (r *reloader) warnFixed() {
	first, now := r.first, startOf(r.g.config)
	for _, key := range []struct{ name, first, now string }{
		{"server.listen", first.listen, now.listen},
		{"server.admin_listen", first.adminListen, now.adminListen},
		{"log.format", first.logFormat, now.logFormat},
	} {
		if key.first != key.now {
			r.g.log.Warn(nextStart, slog.String("key", key.name))
		}
	}
	if first.state != now.state {
		r.g.log.Warn(nextStart, slog.String("key", "state"))
	}
	if first.traces != now.traces {
		r.g.log.Warn(nextStart, slog.String("key", "trace.otlp_endpoint"))
	}
	if first.sample != now.sample {
		r.g.log.Warn(nextStart, slog.String("key", "trace.sample"))
	}
}

// retire closes a generation when its last request has ended, which over tells, nil for none. No run takes longer than
// the generation allows. A stream that is only passed through may: it needs nothing that is closed.
func (r *reloader) retire(n *generation, over <-chan struct{}) {
	if over == nil {
		done := make(chan struct{})
		close(done)
		over = done
	}
	late := n.longestRun() + time.Duration(n.config.Server.ShutdownGrace)
	r.retiring.Go(func() { // ends with the last request, or a while after the process is told to
		select {
		case <-over:
		case <-time.After(late):
			r.g.log.Info("a replaced configuration still has requests after the longest time that a run may take: its tools are closed")
		case <-r.ending:
			r.last(over)
		}
		n.close(r.g.log)
		select {
		case <-over:
		case <-r.ending:
		}
		n.closeIdle() // what was in use before
		r.g.hidden.remove(n)
	})
}

// last waits a moment for requests that have been cut off.
func (r *reloader) last(over <-chan struct{}) {
	select {
	case <-over:
	case <-time.After(r.pace.cut):
	}
}
