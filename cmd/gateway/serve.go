package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate"
	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/mask"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/proxy"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/httptool"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "", "configuration file (default $GATEWAY_CONFIG, else "+defaultFile+")")
}

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve clients until SIGTERM",
		Example: "  gateway serve -c gateway.yaml",
		Args:    cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadSettings(*path)
		if err != nil {
			return err
		}
		return errors.Join(serve(cmd.Context(), c), c.close())
	}
	return cmd
}

// serve runs the gateway of a configuration until ctx ends.
func serve(ctx context.Context, c *checked) error {
	g, err := newGateway(c)
	if err != nil {
		return err
	}
	defer g.close()
	l, err := listen(ctx, c.Server)
	if err != nil {
		return err
	}
	for _, w := range c.warnings {
		g.log.Warn("configuration", slog.String("warning", w.String()))
	}
	stop := g.mcp.start(ctx)
	defer stop()
	g.log.Info("listening", slog.String("address", l.Main.Addr().String()), slog.String("version", version), slog.Int("tools", len(g.tools.All())))
	return g.server.Serve(ctx, l, time.Duration(c.Server.ShutdownGrace))
}

func listen(ctx context.Context, c proxy.Config) (proxy.Listeners, error) {
	var l proxy.Listeners
	var err error
	var lc net.ListenConfig
	if l.Main, err = lc.Listen(ctx, "tcp", c.Listen); err != nil {
		return l, fmt.Errorf("server.listen: %w", err)
	}
	if c.AdminListen == "" {
		return l, nil
	}
	if l.Admin, err = lc.Listen(ctx, "tcp", c.AdminListen); err != nil {
		_ = l.Main.Close()
		return l, fmt.Errorf("server.admin_listen: %w", err)
	}
	return l, nil
}

// gateway is everything that serves, wired together.
type gateway struct {
	log       *slog.Logger
	registry  *prometheus.Registry
	upstreams map[string]*upstream.Client
	tools     *registry.Set
	transport *tellingTransport
	stubs     *stubs // nil but for gateway test
	stores    *stores
	mcp       *mcpServers
	site      *proxy.Site
	server    *proxy.Server
	after     func() error // closes what the gateway does not own; nil for nothing
}

// newGateway wires what a checked configuration asks for. It opens no connection.
func newGateway(c *checked) (*gateway, error) { return newGatewayWith(c, nil) }

// newGatewayWith is newGateway with stubs that may stand in for tools.
func newGatewayWith(c *checked, s *stubs) (*gateway, error) {
	masker := mask.New(c.secrets)
	g := &gateway{
		stubs:     s,
		log:       newLogger(c.Log, masker),
		registry:  prometheus.NewRegistry(),
		upstreams: map[string]*upstream.Client{},
		transport: &tellingTransport{Transport: httptool.NewTransport()},
	}
	g.stores = newStores(g.registry)
	g.registerCommon()
	breakers := breaker.NewMetrics(g.registry)
	upstreamMetrics := upstream.NewMetrics(g.registry)
	for name, u := range c.Upstreams.All() {
		client, err := upstream.NewClient(name, &u, upstreamMetrics, breakers.Changed)
		if err != nil {
			return nil, err
		}
		g.upstreams[name] = client
	}
	var err error
	options := registry.Options{
		Env:         tool.Env{Transport: g.transport},
		TextErrors:  c.ErrorFormat == "text",
		Mask:        masker,
		Logger:      g.log,
		Metrics:     registry.NewMetrics(g.registry),
		OnBreaker:   breakers.Changed,
		Definitions: c.tools,
		Writes:      g.stores.writes,

		Confirmations: g.stores.confirm,
	}
	if s != nil {
		options = s.options(options)
	}
	if g.tools, err = registry.NewSet(options); err != nil {
		return nil, err
	}
	if g.mcp, err = newMCPServers(c, g); err != nil {
		return nil, err
	}
	if g.site, err = g.newSite(c, masker); err != nil {
		return nil, err
	}
	g.server = proxy.New(g.site, proxy.Options{
		Logger:   g.log,
		Metrics:  proxy.NewMetrics(g.registry),
		Gatherer: g.registry,
		Store:    trace.NewStore(c.Trace.Keep, time.Duration(c.Trace.TTL)),
		Version:  version,
		OpenAPI:  toolgate.OpenAPI,
		Turns:    g.stores.turns,
		Replies:  g.stores.replies,
	})
	return g, nil
}

// newSite is the part of a configuration that requests are served by.
func (g *gateway) newSite(c *checked, masker *mask.Masker) (*proxy.Site, error) {
	endpoints, err := proxy.NewEndpoints(c.Server.Passthrough)
	if err != nil {
		return nil, err
	}
	return &proxy.Site{
		Keys:         auth.NewKeys(&c.Auth),
		Trust:        auth.NewTrust(c.Server.TrustedProxies, c.Auth.TrustedHeaders),
		Models:       g.models(c),
		Tools:        g.tools,
		Endpoints:    endpoints,
		Streaming:    c.Streaming,
		MaxBody:      int64(c.Server.MaxBody),
		MaxInflight:  c.Server.MaxInflight,
		MCP:          c.Server.MCP,
		CORSOrigins:  c.Server.CORSOrigins,
		TraceContent: c.Trace.Content,
		Memory:       c.Memory == "held",
		Mask:         masker,
		Ready:        g.mcp.ready,
		Introduce:    g.mcp.introduce(),
	}, nil
}

// models is the table of models. Without any in the file, every name goes to the only upstream.
func (g *gateway) models(c *checked) *models.Table {
	first := g.upstreams[c.Upstreams.Keys()[0]]
	other := upstream.NewRoutes(upstream.NewRoute(first, "", 0))
	var list []*models.Model
	for name, m := range c.Models.All() {
		model := models.New(name, &m, g.upstreams, c.limits)
		if name == models.Any {
			other = model.Routes
		}
		list = append(list, model)
	}
	if c.Models.Len() == 0 {
		list = append(list, models.New(models.Any, &models.Config{Upstream: first.Name()}, g.upstreams, c.limits))
	}
	return models.NewTable(list, other)
}

// registerCommon registers what is of no part of the gateway.
func (g *gateway) registerCommon() {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gateway_build_info", Help: "1, by version."}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	reload := prometheus.NewGauge(prometheus.GaugeOpts{Name: "gateway_config_reload_success", Help: "Whether the last reading of the configuration succeeded."})
	reload.Set(1)
	g.registry.MustRegister(build, reload, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func (g *gateway) close() {
	if g.tools != nil {
		g.tools.Close()
	}
	for _, u := range g.upstreams {
		u.Close()
	}
	g.transport.CloseIdleConnections()
	g.stores.close()
	if g.after != nil {
		if err := g.after(); err != nil {
			g.log.Warn("closing", slog.Any("err", err))
		}
	}
}

func newLogger(c logConfig, m *mask.Masker) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil { // the file's check allows known levels alone
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(os.Stderr, opts)
	if c.Format == "text" {
		h = slog.NewTextHandler(os.Stderr, opts)
	}
	return slog.New(mask.Handler(h, func() *mask.Masker { return m }))
}
