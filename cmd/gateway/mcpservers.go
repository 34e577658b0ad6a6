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

// mcpServers are the MCP servers of a generation, whose tools come and go.
type mcpServers struct {
	list []*mcpServer
	set  *registry.Set
	log  *slog.Logger
	feed *sync.Mutex
}

// mcpServer is one MCP server. It runs as long as a generation has it: across reloads, while its configuration stays as
// it is.
type mcpServer struct {
	*mcptool.Server
	entry    string // its configuration
	prefix   string
	fields   []string // of the caller, that it needs
	personal bool     // it has a session for each identity
	// untrusted says that its tools are, as long as the file does not say otherwise of one.
	untrusted bool
	log       *slog.Logger

	// feed guards what follows. All servers of all generations have the same: what the file sets for a tool is decoded
	// from nodes of the file, which are for one at a time.
	feed  *sync.Mutex
	tools []mcptool.Tool // as it told last
	told  bool           // whether it has
	users map[*mcpServers]bool
	end   context.CancelFunc // of its Run
	ended chan struct{}
}

// newMCPServers makes the servers of a checked configuration, which bring their tools into set. A server of old, nil for
// none, whose configuration is the same is taken over. Nothing is started.
func newMCPServers(c *checked, set *registry.Set, old *mcpServers, o mcptool.Options) (*mcpServers, error) {
	m := &mcpServers{set: set, log: o.Logger, feed: &sync.Mutex{}}
	if old != nil {
		m.feed = old.feed
	}
	for name, config := range c.MCPServers.All() {
		node := c.MCPServers.Node(name)
		entry := node.Dir() + "\n" + config.TLS.Key() + "\n" + string(node.JSON())
		s := old.server(name)
		if s == nil || s.entry != entry {
			s = &mcpServer{
				entry: entry, prefix: name + "__", untrusted: config.Untrusted, fields: config.CallerFields(), log: o.Logger, feed: m.feed, users: map[*mcpServers]bool{},
				personal: len(config.Forward) > 0 || len(config.CallerFields()) > 0,
			}
			if config.Prefix != nil {
				s.prefix = *config.Prefix
			}
			o.OnTools = s.changed
			var err error
			if s.Server, err = mcptool.New(name, &config, o); err != nil {
				return nil, fmt.Errorf("mcp_servers.%s: %w", name, err)
			}
		}
		m.list = append(m.list, s)
	}
	return m, nil
}

func (m *mcpServers) server(name string) *mcpServer {
	if m == nil {
		return nil
	}
	for _, s := range m.list {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// changed takes what a server has now, for all that use it.
func (s *mcpServer) changed(_ string, tools []mcptool.Tool) {
	s.feed.Lock()
	defer s.feed.Unlock()
	for _, t := range tools {
		if !s.told && len(t.Warnings) > 0 {
			s.log.Warn("tool of an MCP server", slog.String("server", s.Name()), slog.String("tool", t.ID), slog.String("warning", strings.Join(t.Warnings, "; ")))
		}
	}
	s.tools, s.told = tools, true
	for m := range s.users {
		m.offer(s)
	}
}

// offer puts what a server has now into the registry.
func (m *mcpServers) offer(s *mcpServer) {
	found := make([]registry.Found, 0, len(s.tools))
	for _, t := range s.tools {
		effect := tool.Write
		if t.ReadOnly {
			effect = tool.Read
		}
		found = append(found, registry.Found{
			Name: t.Name, ID: s.prefix + t.ID, Kind: "mcp", Description: t.Description, Schema: t.Schema, Effect: effect,
			Idempotent: t.Idempotent, Untrusted: s.untrusted, Set: t.Set, Tool: s.Caller(t), Breaker: "mcp:" + s.Name(), Fields: s.fields,
		})
	}
	m.set.Replace(s.Name(), found)
}

// join makes m a user of the server, which runs from its first user on to its last.
func (s *mcpServer) join(ctx context.Context, m *mcpServers) {
	s.feed.Lock()
	defer s.feed.Unlock()
	s.users[m] = true
	if s.told {
		m.offer(s)
	}
	if s.end != nil {
		return
	}
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx)) // requests that end after SIGTERM call it still
	s.ended = make(chan struct{})
	go func() { // ends with the last user
		defer close(s.ended)
		s.Run(ctx)
	}()
}

// leave ends what join began. The last user waits for the server's end.
func (s *mcpServer) leave(m *mcpServers) {
	s.feed.Lock()
	delete(s.users, m)
	last := len(s.users) == 0
	s.feed.Unlock()
	if last {
		s.end()
		<-s.ended
	}
}

// start runs the servers until stop is called, which waits for the end of those that nobody else has. The end of ctx
// does not stop them.
func (m *mcpServers) start(ctx context.Context) (stop func()) {
	for _, s := range m.list {
		s.join(ctx, m)
	}
	return func() {
		var wg sync.WaitGroup
		for _, s := range m.list {
			wg.Go(func() { s.leave(m) })
		}
		wg.Wait()
	}
}

// introduce lets servers that have sessions by identity, and list nothing for nobody, get to know who asks. It is nil
// where there is no such server.
func (m *mcpServers) introduce() func(context.Context, map[string]any, http.Header) {
	var personal []*mcpServer
	for _, s := range m.list {
		if s.personal {
			personal = append(personal, s)
		}
	}
	if len(personal) == 0 {
		return nil
	}
	return func(ctx context.Context, caller map[string]any, header http.Header) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		for _, s := range personal {
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
