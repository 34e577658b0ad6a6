package span

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// delivery sends spans in the background, counts what became of them, and tells once that they do not arrive. The SDK
// says neither: its queue drops silently, and its failures go to a handler of the whole process, one for each batch.
type delivery struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	spans   *prometheus.CounterVec
	waiting atomic.Int64
	failing atomic.Bool
	life    context.Context // ends with stop
	stop    context.CancelFunc
}

// What becomes of a span.
const (
	exported = "exported"
	failed   = "failed"  // it could not be sent
	dropped  = "dropped" // too many waited
)

func newDelivery(to sdktrace.SpanExporter, o Options) *delivery {
	d := &delivery{SpanExporter: to, log: o.Logger, spans: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_trace_spans_total", Help: "Spans for the OTLP endpoint, by outcome: exported, failed, dropped as too many waited.",
	}, []string{"outcome"})}
	d.life, d.stop = context.WithCancel(context.Background())
	o.Registry.MustRegister(d.spans)
	for _, outcome := range []string{exported, failed, dropped} {
		d.spans.WithLabelValues(outcome)
	}
	return d
}

// processor takes spans as they end. It never waits.
func (d *delivery) processor(every time.Duration) sdktrace.SpanProcessor {
	return &queue{
		SpanProcessor: sdktrace.NewBatchSpanProcessor(d,
			sdktrace.WithMaxQueueSize(maxWaiting), sdktrace.WithMaxExportBatchSize(maxBatch),
			sdktrace.WithBatchTimeout(every), sdktrace.WithExportTimeout(maxExport)),
		delivery: d,
	}
}

type queue struct {
	sdktrace.SpanProcessor
	delivery *delivery
}

// OnEnd takes a span, or drops it. As no more wait than the SDK has places for, the SDK drops none.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	d := q.delivery
	if !s.SpanContext().IsSampled() {
		return
	}
	if d.waiting.Add(1) > maxWaiting {
		d.waiting.Add(-1)
		d.spans.WithLabelValues(dropped).Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// ExportSpans sends a batch. It reports no error: nobody could do anything about it.
func (d *delivery) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	n := len(spans)
	defer d.waiting.Add(-int64(n))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)() //nolint:contextcheck // the end of the process ends it too
	if err := d.SpanExporter.ExportSpans(ctx, spans); err != nil {
		if !d.failing.Swap(true) {
			d.log.Warn("spans do not reach trace.otlp_endpoint; nothing more is said of it until they do", slog.Any("err", err))
		}
		d.spans.WithLabelValues(failed).Add(float64(n)) // last: who waits for the count finds the line
		return nil
	}
	d.spans.WithLabelValues(exported).Add(float64(n))
	if d.failing.Swap(false) {
		d.log.Info("spans reach trace.otlp_endpoint again")
	}
	return nil
}
