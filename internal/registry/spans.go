package registry

import (
	"context"

	"github.com/toolgate/toolgate/internal/span"
	"github.com/toolgate/toolgate/internal/tool"
)

// traced is run with a span around it: OpenTelemetry's execute_tool.
func (v *View) traced(ctx context.Context, p Prepared, s Scope) (seen Observation, err error) {
	ctx, traced := span.Start(ctx, span.Internal, "execute_tool", p.Tool.Name)
	if traced == nil {
		return v.run(ctx, p, s)
	}
	defer traced.End()
	if traced.Recording() {
		traced.Text("gen_ai.operation.name", "execute_tool")
		traced.Text("gen_ai.tool.name", p.Tool.Name)
		traced.Text("gen_ai.tool.call.id", s.CallID)
		traced.Text("gen_ai.tool.type", toolType(p.Tool.Kind))
		traced.Text("toolgate.tool.kind", p.Tool.Kind)
		traced.Text("toolgate.run_id", s.RunID)
	}
	if traced.Content() {
		traced.Text("gen_ai.tool.call.arguments", v.set.opts.Mask.Known(p.Canonical))
	}
	seen, err = v.run(ctx, p, s)
	outcome := seen.Class
	if err != nil {
		outcome = string(Interrupted)
	}
	traced.Text("toolgate.outcome", outcome)
	if err != nil || !seen.OK() {
		traced.Fail(outcome)
	}
	if traced.Content() {
		traced.Text("gen_ai.tool.call.result", v.set.opts.Mask.Known(seen.Text))
	}
	return seen, err
}

// toolType is what the conventions call a tool that the gateway calls by itself: one that asks a store of data, or any
// other.
func toolType(kind string) string {
	if kind == "sql" || kind == "table" {
		return "datastore"
	}
	return "function"
}

// tellAttempt notes an attempt that failed in the span of its call.
func tellAttempt(ctx context.Context, err error) {
	span.From(ctx).Event("toolgate.attempt_failed", "", string(tool.AsError(err).Class))
}
