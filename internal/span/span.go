// Package span owns OpenTelemetry: the spans of a request, where they go, and what of a trace goes on to others. Nobody
// else imports it. Who makes a span needs nothing but its context; where nobody traces, that is a look at the context and
// no more.
package span

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Kind says on which side of a call a span is.
type Kind int

// The kinds.
const (
	Internal Kind = iota
	Client
)

// Span is one that is under way. Its methods are for many goroutines at once, and a nil one does nothing. What it is told
// leaves the process: no address with a query, no header, no statement and no text of an error belongs there.
type Span struct {
	tracer  *Tracer // nil for what a client sent, which is only passed on
	otel    oteltrace.Span
	start   time.Time
	content bool
	// What a client sent, where there is no tracer.
	parent string
}

type key struct{}

// From is the span of ctx; nil where there is none.
func From(ctx context.Context) *Span {
	s, _ := ctx.Value(key{}).(*Span)
	return s
}

// With is ctx with s as the span that further ones are begun below.
func With(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	if s.otel != nil {
		ctx = oteltrace.ContextWithSpan(ctx, s.otel)
	}
	return context.WithValue(ctx, key{}, s)
}

// Start begins a span below that of ctx; its name is name and, behind a blank, what it is of. Where nobody traces there
// is none, which is nil.
func Start(ctx context.Context, kind Kind, name, of string) (context.Context, *Span) {
	above := From(ctx)
	if above == nil || above.tracer == nil {
		return ctx, nil
	}
	if of != "" {
		name += " " + of
	}
	as := oteltrace.SpanKindInternal
	if kind == Client {
		as = oteltrace.SpanKindClient
	}
	_, o := above.tracer.otel.Start(ctx, fit(name, maxName), oteltrace.WithSpanKind(as))
	s := &Span{tracer: above.tracer, otel: o, start: time.Now(), content: above.content}
	return With(ctx, s), s
}

// maxName and maxValue bound what one span may hold, in bytes.
const (
	maxName  = 200
	maxValue = 16 << 10
)

// fit is a text that OTLP can carry: valid UTF-8, as one wrong byte would cost all spans that are sent together, and not
// longer than limit.
func fit(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Recording says whether what the span is told goes anywhere, so that it is worth finding out.
func (s *Span) Recording() bool { return s != nil && s.otel != nil && s.otel.IsRecording() }

// Content says whether arguments and results belong in it.
func (s *Span) Content() bool { return s.Recording() && s.content }

// Text sets an attribute. An empty one is left out.
func (s *Span) Text(name, value string) {
	if value != "" && s.Recording() {
		s.otel.SetAttributes(attribute.String(name, fit(value, maxValue)))
	}
}

// List sets an attribute that is a list of one.
func (s *Span) List(name, value string) {
	if value != "" && s.Recording() {
		s.otel.SetAttributes(attribute.StringSlice(name, []string{fit(value, maxValue)}))
	}
}

// Number sets an attribute. 0 is left out.
func (s *Span) Number(name string, value int64) {
	if value != 0 && s.Recording() {
		s.otel.SetAttributes(attribute.Int64(name, value))
	}
}

// Yes sets an attribute that is true.
func (s *Span) Yes(name string) {
	if s.Recording() {
		s.otel.SetAttributes(attribute.Bool(name, true))
	}
}

// Elapsed sets an attribute to the seconds since the span began.
func (s *Span) Elapsed(name string) {
	if s.Recording() {
		s.otel.SetAttributes(attribute.Float64(name, time.Since(s.start).Seconds()))
	}
}

// Event notes what happened, with what it was about and why, where they are not empty.
func (s *Span) Event(name, about, why string) {
	if !s.Recording() {
		return
	}
	var of []attribute.KeyValue
	if about != "" {
		of = append(of, attribute.String("gen_ai.tool.name", fit(about, maxName)))
	}
	if why != "" {
		of = append(of, attribute.String("error.type", fit(why, maxName)))
	}
	s.otel.AddEvent(name, oteltrace.WithAttributes(of...))
}

// Fail says that it ended in a failure. why is of a closed list.
func (s *Span) Fail(why string) {
	if s.Recording() {
		s.otel.SetAttributes(attribute.String("error.type", fit(why, maxName)))
		s.otel.SetStatus(codes.Error, "")
	}
}

// Rename gives it the name that is only known now.
func (s *Span) Rename(name string) {
	if s.Recording() {
		s.otel.SetName(fit(name, maxName))
	}
}

// End ends it. What it is told afterwards is lost.
func (s *Span) End() {
	if s != nil && s.otel != nil {
		s.otel.End()
	}
}

// TraceID is the id of its trace, "" where nobody traces.
func (s *Span) TraceID() string {
	if s == nil || s.otel == nil {
		return ""
	}
	return s.otel.SpanContext().TraceID().String()
}
