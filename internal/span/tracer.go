package span

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/toolgate/toolgate/internal/outbound"
)

// Options is what a Tracer is made with. Logger and Registry are required.
type Options struct {
	Endpoint string            // base address of an OTLP receiver over HTTP
	Headers  map[string]string // of each request to it
	Sample   float64           // share of traces that are kept, where no client has decided
	Version  string            // of the gateway
	Every    time.Duration     // how long a span waits for others; default 5s
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

const (
	defaultEvery = 5 * time.Second
	maxWaiting   = 4096 // spans; further ones are dropped
	maxBatch     = 512
	// maxExport is how long one batch is tried for.
	maxExport = 10 * time.Second
	// maxFarewell is how long the process waits for its last spans.
	maxFarewell = 2 * time.Second
)

// Tracer makes spans and sends them. It is for many goroutines at once. A nil one makes none.
type Tracer struct {
	otel     oteltrace.Tracer
	provider *sdktrace.TracerProvider
	sends    *delivery
}

// New makes a tracer. It opens no connection; whoever makes it closes it.
func New(o Options) (*Tracer, error) {
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	to, err := tracesAt(o.Endpoint)
	if err != nil {
		return nil, err
	}
	exporter := otlptracehttp.NewUnstarted( // over HTTP there is nothing to start
		otlptracehttp.WithEndpointURL(to),
		otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: patient{outbound.NewTransport(outbound.Dialer{Timeout: 5 * time.Second}, nil)},
			Timeout:   maxExport,
			// Its headers are for the one who was named.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 2 * time.Second, MaxElapsedTime: maxExport,
		}),
	)
	about, err := describe(o.Version)
	if err != nil {
		return nil, err
	}
	t, d := &Tracer{}, newDelivery(exporter, o)
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Sample))),
		sdktrace.WithSpanProcessor(d.processor(o.Every)),
	)
	t.sends = d
	t.otel = t.provider.Tracer("github.com/toolgate/toolgate", oteltrace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// describe is what all spans have in common. What the environment says, OTEL_SERVICE_NAME for one, wins.
func describe(version string) (*resource.Resource, error) {
	own := []attribute.KeyValue{attribute.String("service.name", "toolgate"), attribute.String("service.version", version)}
	if host, err := os.Hostname(); err == nil {
		own = append(own, attribute.String("host.name", host))
	}
	about, err := resource.Merge(resource.Default(), resource.NewSchemaless(own...))
	if err == nil {
		about, err = resource.Merge(about, resource.Environment())
	}
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}

// tracesAt is where traces go below a base address (OpenTelemetry, "OTLP Exporter Configuration", endpoint URLs for
// OTLP/HTTP). An address that says so itself is left alone.
func tracesAt(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("trace.otlp_endpoint: %w", err)
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1", "traces")
	}
	return u.String(), nil
}

// Close sends what waits, for two seconds at most. It has a time of its own, as the process has been told to end by then.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	defer t.sends.stop()
	// The sending is ended before the wait for it is, so that what could not be sent is counted and logged first.
	defer time.AfterFunc(maxFarewell, t.sends.stop).Stop()
	ctx, cancel := context.WithTimeout(context.Background(), maxFarewell+time.Second)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
}
