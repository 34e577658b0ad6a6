package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/trace"
)

// mcpHandler serves the registered tools to MCP clients over streamable HTTP (MCP, "Streamable HTTP"): the same tools
// that the caller's model sees, with the same checks, permissions and traces. It keeps no session, so that any replica
// can answer any request.
func (s *Server) mcpHandler() http.Handler {
	return mcp.NewStreamableHTTPHandler(s.mcpServer, &mcp.StreamableHTTPOptions{Stateless: true})
}

// mcp reads the request whole, under the body limit, before it goes to the SDK.
func (s *Server) mcp(sdk http.Handler) http.HandlerFunc {
	return s.routed(routeMCP, func(w http.ResponseWriter, r *http.Request) error {
		if !info(r).site.MCP {
			return errNoEndpoint
		}
		if _, err := modelFor(info(r), r.URL.Query().Get("model")); err != nil {
			return err
		}
		body, err := readBody(w, r, info(r).site.MaxBody)
		if err != nil {
			return err
		}
		r.Body = bodyOf(body)
		sdk.ServeHTTP(w, r)
		return nil
	})
}

// mcpServer is the server for one request: what its caller sees, of the query's model or of the first one.
func (s *Server) mcpServer(r *http.Request) *mcp.Server {
	i := info(r)
	m, err := modelFor(i, r.URL.Query().Get("model"))
	if err != nil { // mcp has asked the same
		return nil
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "toolgate", Version: s.opts.Version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	view := i.site.view(i.caller, m)
	for _, t := range view.Tools() {
		c := mcpCaller{Server: s, info: i, model: m, view: view, key: r.Header.Get(headerIdempotent), header: r.Header}
		server.AddTool(&mcp.Tool{
			Name:        t.Name,
			Description: t.Description(),
			InputSchema: t.Parameters(),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.Effect == tool.Read, IdempotentHint: t.Effect == tool.Read},
		}, c.call)
	}
	return server
}

// mcpCaller makes the calls of one request.
type mcpCaller struct {
	*Server
	info  *requestInfo
	model *models.Model
	view  *registry.View
	key   string

	header http.Header // of the client's request
}

// call makes one call as a run of its own. What a model would read of a failure is the result, marked as an error.
func (c mcpCaller) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if c.info.tenure.hold() { // the SDK makes calls in goroutines of its own, which may outlast the request
		defer c.info.tenure.release()
	}
	record := trace.NewRun(time.Now())
	record.RequestID, record.Caller, record.Model, record.Offered = c.info.requestID, c.info.caller.ID, c.model.Name, c.view.Len()
	key := c.key
	if key == "" {
		key = record.ID
	}
	p := c.view.Prepare(req.Params.Name, req.Params.Arguments)
	var seen registry.Observation
	stop := loop.Completed
	if p.Refusal != nil {
		seen = *p.Refusal
	} else {
		limits := c.info.caller.Budget.Narrow(c.model.Limits)
		timed, cancel := context.WithTimeout(ctx, limits.Time)
		defer cancel()
		var err error
		seen, err = c.view.Run(span.With(timed, c.info.span), p, registry.Scope{RunID: record.ID, Key: key, CallID: record.ID, Caller: record.Caller, Attempt: 1, Headers: c.header})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			stop, seen = loop.TimedOut, c.view.Refuse(registry.Interrupted, "interrupted: the time budget ran out")
		case err != nil:
			stop, seen = loop.Canceled, c.view.Refuse(registry.Interrupted, "interrupted")
		}
	}
	c.mcpEnded(record, p.Name, seen, stop)
	result := &mcp.CallToolResult{IsError: !seen.OK(), Content: []mcp.Content{&mcp.TextContent{Text: seen.Text}}}
	result.Meta = mcp.Meta{"toolgate/run": record.ID}
	if text := strings.TrimSpace(seen.Text); seen.OK() && strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		result.StructuredContent = json.RawMessage(text)
	}
	return result, nil
}

// mcpEnded completes the record of a call, and counts it.
func (c mcpCaller) mcpEnded(record *trace.Run, name string, seen registry.Observation, stop loop.Stop) {
	record.Took = time.Since(record.Start)
	record.Stop = string(stop)
	outcome := trace.OK
	if !seen.OK() {
		outcome = string(seen.Code)
	}
	call := trace.Call{Step: 1, Name: name, Took: record.Took, Outcome: outcome}
	if c.info.site.TraceContent {
		call.Result = seen.Text
	}
	record.Calls = []trace.Call{call}
	c.view.Count(name, seen)
	c.metrics.ended(c.model.Label, record.Stop, 0, chat.Tokens{}, 0)
	c.opts.Store.Add(record)
}
