package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/mcptool"
)

// mcpServers are the MCP servers of a gateway, whose tools come and go.
type mcpServers struct {
	list     []*mcptool.Server
	personal []*mcptool.Server // those with a session for each identity
	prefix   map[string]string // by server
	fields   map[string][]string
	set      *registry.Set
	log      *slog.Logger
	told     sync.Map // server → whether its warnings have been logged
}

// newMCPServers makes the servers of a checked configuration. Nothing is started.
func newMCPServers(c *checked, g *gateway) (*mcpServers, error) {
	m := &mcpServers{prefix: map[string]string{}, fields: map[string][]string{}, set: g.tools, log: g.log}
	for name, config := range c.MCPServers.All() {
		m.prefix[name] = name + "__"
		if config.Prefix != nil {
			m.prefix[name] = *config.Prefix
		}
		m.fields[name] = config.CallerFields()
		s, err := mcptool.New(name, &config, mcptool.Options{
			Logger: g.log, Transport: g.transport, OnTools: m.changed, ClientVersion: version,
		})
		if err != nil {
			return nil, fmt.Errorf("mcp_servers.%s: %w", name, err)
		}
		m.list = append(m.list, s)
		if len(config.Forward) > 0 || len(config.CallerFields()) > 0 {
			m.personal = append(m.personal, s)
		}
	}
	return m, nil
}

// changed puts what a server has now into the registry.
func (m *mcpServers) changed(server string, tools []mcptool.Tool) {
	_, told := m.told.LoadOrStore(server, true)
	found := make([]registry.Found, 0, len(tools))
	for _, t := range tools {
		if !told && len(t.Warnings) > 0 {
			m.log.Warn("tool of an MCP server", slog.String("server", server), slog.String("tool", t.ID), slog.String("warning", strings.Join(t.Warnings, "; ")))
		}
		effect := tool.Write
		if t.ReadOnly {
			effect = tool.Read
		}
		found = append(found, registry.Found{
			Name: t.Name, ID: m.prefix[server] + t.ID, Kind: "mcp", Description: t.Description, Schema: t.Schema, Effect: effect,
			Idempotent: t.Idempotent, Set: t.Set, Tool: m.server(server).Caller(t), Breaker: "mcp:" + server, Fields: m.fields[server],
		})
	}
	m.set.Replace(server, found)
}

func (m *mcpServers) server(name string) *mcptool.Server {
	for _, s := range m.list {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// start runs the servers until stop is called, which waits for their end.
func (m *mcpServers) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, s := range m.list {
		wg.Go(func() { s.Run(ctx) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// introduce lets servers that have sessions by identity, and list nothing for nobody, get to know who asks. It is nil
// where there is no such server.
func (m *mcpServers) introduce() func(context.Context, map[string]any, http.Header) {
	if len(m.personal) == 0 {
		return nil
	}
	return func(ctx context.Context, caller map[string]any, header http.Header) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		for _, s := range m.personal {
			if s.Ready() {
				continue
			}
			if err := s.Introduce(ctx, tool.Call{Caller: caller, Headers: header}); err != nil {
				m.log.Warn("MCP server", slog.String("server", s.Name()), slog.Any("err", err))
			}
		}
	}
}

// ready is nil once every required server is up.
func (m *mcpServers) ready() error {
	var down []string
	for _, s := range m.list {
		if s.Required() && !s.Ready() {
			down = append(down, s.Name())
		}
	}
	if len(down) > 0 {
		return fmt.Errorf("not up: %s", strings.Join(down, ", "))
	}
	return nil
}

// settle waits, for a command, until each server is up or has failed, and at most for a while.
func (m *mcpServers) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		var waiting, failed []string
		for _, s := range m.list {
			switch err := s.Err(); {
			case s.Ready():
			case err != nil && !errors.Is(err, mcptool.ErrNotYet):
				failed = append(failed, fmt.Sprintf("%s: %s", s.Name(), err))
			default:
				waiting = append(waiting, s.Name())
			}
		}
		if len(waiting) == 0 && len(failed) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			failed = append(failed, waiting...)
			return errors.New("MCP servers that are not up: " + strings.Join(failed, ", "))
		case <-time.After(20 * time.Millisecond):
			if len(waiting) == 0 {
				return errors.New("MCP servers that are not up: " + strings.Join(failed, ", "))
			}
		}
	}
}
