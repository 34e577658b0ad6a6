package proxy

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/auth"
	"github.com/toolgate/toolgate/internal/config"
)

// Config is the section `server`.
type Config struct {
	Listen         string          `yaml:"listen" doc:"Address to listen on. One that is not loopback needs auth."`
	AdminListen    string          `yaml:"admin_listen" doc:"Address for metrics, readiness, /gateway/* and pprof alone; without it they are on listen."`
	MaxBody        config.Size     `yaml:"max_body" min:"1" doc:"Largest request body; larger is 413."`
	Passthrough    []string        `yaml:"passthrough" doc:"Endpoints below /v1 that are passed through, such as embeddings, audio/* or POST responses."`
	MCP            bool            `yaml:"mcp" doc:"Serve the tools to MCP clients too, at /mcp."`
	MaxInflight    int             `yaml:"max_inflight" min:"1" doc:"Requests at once; more get 503 with Retry-After."`
	MaxConnections int             `yaml:"max_connections" min:"0" doc:"Connections at once on listen; more get 503 with Retry-After. 0 is half of the files that the process may have open, at most 16384."`
	ShutdownGrace  config.Duration `yaml:"shutdown_grace" doc:"How long running requests may end after SIGTERM."`
	CORSOrigins    []string        `yaml:"cors_origins" doc:"Origins of browsers that may call."`
	TrustedProxies []auth.Network  `yaml:"trusted_proxies" doc:"Networks or addresses whose X-Forwarded-For and auth.trusted_headers are believed."`
}

// SetDefaults sets what the file need not say.
func (c *Config) SetDefaults() {
	*c = Config{
		Listen:        "127.0.0.1:8080",
		MaxBody:       20 << 20,
		Passthrough:   []string{"completions", "embeddings", "moderations", "audio/*", "images/*", "rerank", "POST responses", "models"},
		MCP:           true,
		MaxInflight:   1024,
		ShutdownGrace: config.Duration(30 * time.Second),
	}
}

// Check reports what can't work.
func (c *Config) Check(n *config.Node) {
	for key, addr := range map[string]string{"listen": c.Listen, "admin_listen": c.AdminListen} {
		if addr == "" && key != "listen" {
			continue
		}
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			n.FailKey(key, "want HOST:PORT, such as 127.0.0.1:8080")
			continue
		}
		if p, err := strconv.Atoi(port); err == nil && (p < 0 || p > 65535) {
			n.FailKey(key, "want a port from 0 to 65535, got %s", port)
		}
	}
	if _, err := NewEndpoints(c.Passthrough); err != nil {
		n.Get("passthrough").Fail("%s", err)
	}
}

// Loopback says whether an address is reached from this machine alone.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// StreamingConfig is the section `streaming`.
type StreamingConfig struct {
	Hold      Hold            `yaml:"hold" doc:"Characters of a turn's text held back until it is clear that it is the answer; all; 0."`
	KeepAlive config.Duration `yaml:"keep_alive" min:"1ms" doc:"An SSE comment is sent after so long without anything else."`
	Progress  Progress        `yaml:"progress" enum:"off,comment,reasoning" doc:"How running tools show in a stream: comment as SSE comments, reasoning as reasoning_content, which chat clients display."`
}

// SetDefaults sets what the file need not say.
func (c *StreamingConfig) SetDefaults() {
	*c = StreamingConfig{Hold: 200, KeepAlive: config.Duration(10 * time.Second), Progress: progressOff}
}

// Progress is how running tools show in a stream.
type Progress string

// The ways in which they show.
const (
	progressOff       Progress = "off"
	progressComment   Progress = "comment"
	progressReasoning Progress = "reasoning"
)

// Hold is a number of characters, or holdAll.
type Hold int

// holdAll holds back all text until the turn has ended.
const holdAll Hold = -1

// DecodeNode reads a number or "all".
func (h *Hold) DecodeNode(n *config.Node) {
	if n.Text() == "all" {
		*h = holdAll
		return
	}
	v, err := strconv.Atoi(n.Text())
	if err != nil || v < 0 {
		n.Fail("want a number of characters or all, got %q", n.Text())
		return
	}
	*h = Hold(v)
}

// ConfigSchema is the JSON Schema of a Hold.
func (Hold) ConfigSchema() any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "integer", "minimum": 0},
		map[string]any{"const": "all"},
	}}
}
