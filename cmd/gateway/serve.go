package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate"
	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/jwks"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/proxy"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/mcptool"
	"github.com/toolgate/toolgate/internal/upstream"
)

func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "", "configuration file (default $GATEWAY_CONFIG, else "+defaultFile+")")
}

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve clients until SIGTERM",
		Long: `Serve clients until SIGTERM.

The configuration is read again when one of its files changes, and at SIGHUP. A valid one replaces the old one whole for
requests to come, and those under way end on the old one. An invalid one changes nothing: its faults go to the log, and
gateway_config_reload_success becomes 0. A changed server.listen, server.admin_listen, log.format,
trace.otlp_endpoint, trace.otlp_headers or trace.sample takes effect at the next start.`,
		Example: "  gateway serve -c gateway.yaml",
		Args:    noArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asked := make(chan os.Signal, 1) // several at once ask for one reading
		signal.Notify(asked, syscall.SIGHUP)
		defer signal.Stop(asked)
		from, err := sourceOf(*path)
		if err != nil {
			return err
		}
		return serve(cmd.Context(), from, asked)
	}
	return cmd
}

// serve runs the gateway of a configuration until ctx ends. Where asked brings something, it is read again.
func serve(ctx context.Context, from source, asked <-chan os.Signal) error {
	collectLess()
	f := from.read()
	c, err := check(f)
	if err != nil {
		return err
	}
	out := newLogBuffered(os.Stderr)
	defer out.flush()
	g, err := newGatewayWith(c, wiring{shared: true, log: out})
	if err != nil {
		return errors.Join(err, c.close())
	}
	defer g.close()
	g.after = c.close
	l, err := listen(ctx, c.Server)
	if err != nil {
		return err
	}
	g.warn()
	g.start(ctx)
	go g.stores.look(ctx, g.log) // ends within seconds
	g.log.Info("listening", slog.String("address", l.Main.Addr().String()), slog.String("version", version), slog.Int("tools", len(g.tools.All())))
	r := newReloader(g, from, f)
	stop := r.start(ctx, asked)
	defer stop()
	return g.server.Serve(ctx, l, r.grace)
}

func listen(ctx context.Context, c proxy.Config) (proxy.Listeners, error) {
	var l proxy.Listeners
	var err error
	var lc net.ListenConfig
	if l.Main, err = lc.Listen(ctx, "tcp", c.Listen); err != nil {
		return l, listenError("server.listen", err)
	}
	if c.AdminListen == "" {
		return l, nil
	}
	if l.Admin, err = lc.Listen(ctx, "tcp", c.AdminListen); err != nil {
		_ = l.Main.Close()
		return l, listenError("server.admin_listen", err)
	}
	return l, nil
}

// listenError says what to do where an address can't be had.
func listenError(key string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %w: another process serves there, maybe a gateway: stop it, or set another address", key, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %w: it is no address of this machine", key, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %w: ports below 1024 may be kept for root: set another", key, err)
	}
	return fmt.Errorf("%s: %w", key, err)
}

// gateway is everything that serves, wired together: what lives as long as the process, and the generation in force.
type gateway struct {
	log       *slog.Logger
	level     *slog.LevelVar // of log
	hidden    *hidden        // in log
	registry  *prometheus.Registry
	metrics   metrics
	transport *tellingTransport
	stubs     *stubs // nil but for gateway test
	stores    *stores
	tracer    *span.Tracer // nil where nobody traces
	untrace   func()       // sends the last spans
	server    *proxy.Server
	*generation
}

// metrics are made once: they count on across reloads.
type metrics struct {
	breakers   *breaker.Metrics
	upstream   *upstream.Metrics
	registry   *registry.Metrics
	proxy      *proxy.Metrics
	reloaded   prometheus.Gauge // whether the last reading succeeded
	reloadedAt prometheus.Gauge // when one did
}

// newGateway wires what a checked configuration asks for. It opens no connection.
func newGateway(c *checked) (*gateway, error) { return newGatewayWith(c, wiring{}) }

// wiring is what differs between commands.
type wiring struct {
	stubs  *stubs    // may stand in for tools; nil for none
	shared bool      // what outlives a request is where the file says; without it in memory
	log    io.Writer // where the log goes; nil for stderr
}

// newGatewayWith is newGateway for a command that wants more than to look at the configuration.
func newGatewayWith(c *checked, w wiring) (*gateway, error) {
	if w.log == nil {
		w.log = os.Stderr
	}
	g := &gateway{
		stubs:     w.stubs,
		level:     &slog.LevelVar{},
		hidden:    newHidden(),
		registry:  prometheus.NewRegistry(),
		transport: newTellingTransport(),
		untrace:   func() {},
	}
	g.level.Set(c.Log.level())
	g.log = newLogger(w.log, c.Log, g.level, g.hidden)
	g.registerCommon()
	g.metrics = newMetrics(g.registry)
	var err error
	if w.shared && c.State.Backend == backendRedis {
		if g.stores, err = newRedisStores(c, g.registry, g.log, g.metrics.breakers.Changed); err != nil {
			return nil, err
		}
	} else {
		g.stores = newMemoryStores(c, g.registry)
	}
	if g.generation, err = g.newGeneration(c, nil); err != nil {
		g.stores.close()
		return nil, err
	}
	if w.shared {
		if g.tracer, err = c.Trace.tracer(g.log, g.registry); err != nil {
			g.close()
			return nil, err
		}
		g.untrace = g.tracer.Close
	}
	g.breakers.show(nil)
	g.server = proxy.New(g.site, proxy.Options{
		Logger:   g.log,
		Metrics:  g.metrics.proxy,
		Gatherer: g.registry,
		Store:    g.stores.runs,
		Version:  version,
		Tracer:   g.tracer,

		Confirmations: g.stores.confirm,
		OpenAPI:       toolgate.OpenAPI,
		Turns:         g.stores.turns,
		Replies:       g.stores.replies,
		Limits:        g.stores.limits,
	})
	return g, nil
}

// build makes the parts of a generation.
func (n *generation) build(c *checked, g *gateway, old *generation) error {
	masker := mask.New(c.secrets)
	for name, u := range c.Upstreams.All() {
		client, err := upstream.NewClient(name, &u, g.metrics.upstream, n.breakers.changed)
		if err != nil {
			return err
		}
		n.upstreams[name] = client
	}
	var err error
	options := registry.Options{
		Env:         tool.Env{Transport: g.transport},
		TextErrors:  c.ErrorFormat == "text",
		Mask:        masker,
		Logger:      g.log,
		Metrics:     g.metrics.registry,
		OnBreaker:   n.breakers.changed,
		Definitions: c.tools,
		Writes:      g.stores.writes,
		Results:     g.stores.results,
		Fingerprint: c.print,

		Confirmations: g.stores.confirm,
	}
	if g.stubs != nil {
		options = g.stubs.options(options)
	}
	if n.tools, err = registry.NewSet(options); err != nil {
		return err
	}
	var before *mcpServers
	if old != nil {
		before = old.mcp
	}
	n.keySet = newKeySet(c.Auth.JWT, old, jwks.Options{Logger: g.log})
	if n.mcp, err = newMCPServers(c, n.tools, before, mcptool.Options{Logger: g.log, Transport: g.transport, ClientVersion: version}); err != nil {
		return err
	}
	n.site, err = n.newSite(c, masker)
	return err
}

// newSite is the part of a configuration that requests are served by.
func (n *generation) newSite(c *checked, masker *mask.Masker) (*proxy.Site, error) {
	endpoints, err := proxy.NewEndpoints(c.Server.Passthrough)
	if err != nil {
		return nil, err
	}
	return &proxy.Site{
		Keys:           auth.NewKeys(&c.Auth, n.tokens()),
		Trust:          auth.NewTrust(c.Server.TrustedProxies, c.Auth.TrustedHeaders),
		Models:         n.models(c),
		Tools:          n.tools,
		Endpoints:      endpoints,
		Streaming:      c.Streaming,
		MaxBody:        int64(c.Server.MaxBody),
		MaxInflight:    c.Server.MaxInflight,
		MaxConnections: c.Server.MaxConnections,
		MCP:            c.Server.MCP,
		CORSOrigins:    c.Server.CORSOrigins,
		TraceContent:   c.Trace.Content,
		Memory:         c.Memory == "held",
		Guard:          c.Guard == "mark",
		Mask:           masker,
		Ready:          n.mcp.ready,
		Introduce:      n.mcp.introduce(),
	}, nil
}

// models is the table of models. Without any in the file, every name goes to the only upstream.
func (n *generation) models(c *checked) *models.Table {
	first := n.upstreams[c.Upstreams.Keys()[0]]
	other := upstream.NewRoutes(upstream.NewRoute(first, "", 0))
	var list []*models.Model
	for name, m := range c.Models.All() {
		model := models.New(name, &m, n.upstreams, c.limits)
		if name == models.Any {
			other = model.Routes
		}
		list = append(list, model)
	}
	if c.Models.Len() == 0 {
		list = append(list, models.New(models.Any, &models.Config{Upstream: first.Name()}, n.upstreams, c.limits))
	}
	return models.NewTable(list, other)
}

// registerCommon registers what is of no part of the gateway.
func (g *gateway) registerCommon() {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gateway_build_info", Help: "1, by version."}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	g.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		breakers: breaker.NewMetrics(reg),
		upstream: upstream.NewMetrics(reg),
		registry: registry.NewMetrics(reg),
		proxy:    proxy.NewMetrics(reg),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_config_reload_success", Help: "Whether the last reading of the configuration succeeded.",
		}),
		reloadedAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_config_last_reload_success_timestamp_seconds", Help: "When the configuration in force was read.",
		}),
	}
	reg.MustRegister(m.reloaded, m.reloadedAt)
	m.reloaded.Set(1)
	m.reloadedAt.SetToCurrentTime()
	return m
}

func (g *gateway) close() {
	g.generation.close(g.log)
	g.untrace() // no more spans end
	g.transport.CloseIdleConnections()
	g.stores.close()
}

func (c logConfig) level() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil { // the file's check allows known levels alone
		return slog.LevelInfo
	}
	return level
}

func newLogger(to io.Writer, c logConfig, level slog.Leveler, h *hidden) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: mask.Attr(h.masker.Load)}
	if c.Format == "text" {
		return slog.New(slog.NewTextHandler(to, opts))
	}
	return slog.New(&plainJSON{
		Handler: slog.NewJSONHandler(to, opts), to: to,
		mask: func(text string) string { return h.masker.Load().Known(text) },
	})
}
