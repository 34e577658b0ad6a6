package span

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// The headers of W3C Trace Context.
const (
	headerParent = "Traceparent"
	headerState  = "Tracestate"
)

// w3c reads and writes them. What does not fit the specification is as if it were not there.
var w3c propagation.TraceContext

// Traced says whether a client sent a trace along.
func Traced(h http.Header) bool { return len(h[headerParent]) > 0 }

// Begin begins the span of a request that a client sent, in the client's trace where its header names one. It is sampled
// as the client's is. Without a tracer, which is nil, there is no span, and what the client sent is kept for Traceparent.
// content says whether arguments and results belong in spans.
func (t *Tracer) Begin(ctx context.Context, h http.Header, name string, content bool) (context.Context, *Span) {
	ctx = w3c.Extract(ctx, propagation.HeaderCarrier(h))
	if t == nil {
		sent := oteltrace.SpanContextFromContext(ctx)
		if !sent.IsValid() {
			return ctx, nil
		}
		return With(ctx, &Span{parent: parentOf(sent)}), nil
	}
	_, o := t.otel.Start(ctx, fit(name, maxName), oteltrace.WithSpanKind(oteltrace.SpanKindServer))
	s := &Span{tracer: t, otel: o, content: content}
	return With(ctx, s), s
}

// Traceparent is what a request that is made within ctx says of its trace, as the header of that name has it; "" where it
// is part of none.
func Traceparent(ctx context.Context) string {
	s := From(ctx)
	switch {
	case s == nil:
		return ""
	case s.otel == nil:
		return s.parent
	}
	return parentOf(s.otel.SpanContext())
}

// parentOf is written anew, so that nothing that a client put there goes on but ids.
func parentOf(c oteltrace.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & oteltrace.FlagsSampled).String()
}

// Inject puts the span of ctx into the header of a request to a provider, in the place of what the client sent. Where
// nobody traces the header stays as it is.
func Inject(ctx context.Context, h http.Header) {
	s := From(ctx)
	if s == nil || s.otel == nil {
		return
	}
	h[headerParent] = []string{parentOf(s.otel.SpanContext())}
	delete(h, headerState)
	if state := s.otel.SpanContext().TraceState().String(); state != "" {
		h[headerState] = []string{state}
	}
}
