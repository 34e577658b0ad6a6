package span

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Where nobody traces, nothing is paid for it.
func TestWithoutATracerNothingIsAllocated(t *testing.T) {
	ctx := t.Context()
	header := http.Header{"Authorization": {"Bearer x"}}
	var sink int
	allocs := testing.AllocsPerRun(100, func() {
		under, s := Start(ctx, Client, "chat", "model")
		s.Text("gen_ai.request.model", "model")
		s.Number("n", 3)
		s.Event("refused", "tool", "why")
		s.Fail("503")
		Inject(under, header)
		sink += len(Traceparent(under)) + len(s.TraceID())
		s.End()
		if s.Recording() || s.Content() || Traced(header) {
			t.Error("there is a span")
		}
	})
	if allocs != 0 || sink != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

func BenchmarkStartWithoutATracer(b *testing.B) {
	b.ReportAllocs()
	ctx := b.Context()
	for b.Loop() {
		_, s := Start(ctx, Client, "chat", "model")
		s.End()
	}
}

func newTestTracer(t *testing.T, to sdktrace.SpanExporter) (*Tracer, *delivery, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	d := newDelivery(to, Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Registry: prometheus.NewRegistry()})
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(d.processor(time.Hour)))
	return &Tracer{otel: p.Tracer("test"), provider: p, sends: d}, d, log
}

// exporterFunc is an exporter.
type exporterFunc func(ctx context.Context, n int) error

func (f exporterFunc) ExportSpans(ctx context.Context, s []sdktrace.ReadOnlySpan) error {
	return f(ctx, len(s))
}
func (exporterFunc) Shutdown(context.Context) error { return nil }

func TestMoreSpansThanMayWaitAreDroppedAndCounted(t *testing.T) {
	began, release := make(chan struct{}, 100), make(chan struct{})
	tracer, d, _ := newTestTracer(t, exporterFunc(func(context.Context, int) error {
		began <- struct{}{}
		<-release
		return nil
	}))
	for range maxWaiting + 100 { // the exporter holds the first batch
		_, s := tracer.Begin(t.Context(), nil, "request", false)
		s.End()
	}
	<-began
	close(release)
	tracer.Close()
	sent, lost := testutil.ToFloat64(d.spans.WithLabelValues(exported)), testutil.ToFloat64(d.spans.WithLabelValues(dropped))
	if lost == 0 || sent+lost != maxWaiting+100 {
		t.Errorf("%v exported and %v dropped, want %d in all, some dropped", sent, lost, maxWaiting+100)
	}
}

func TestAnEndpointThatIsDownIsToldOfOnce(t *testing.T) {
	down := errors.New("connection refused")
	tracer, d, log := newTestTracer(t, exporterFunc(func(context.Context, int) error { return down }))
	send := func() {
		_, s := tracer.Begin(t.Context(), nil, "request", false)
		s.End()
		if err := tracer.provider.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	send()
	send()
	down = nil
	send()
	tracer.Close()
	if strings.Count(log.String(), "do not reach") != 1 || strings.Count(log.String(), "reach trace.otlp_endpoint again") != 1 {
		t.Errorf("the log says:\n%s", log)
	}
	if f, e := testutil.ToFloat64(d.spans.WithLabelValues(failed)), testutil.ToFloat64(d.spans.WithLabelValues(exported)); f != 2 || e != 1 {
		t.Errorf("%v failed and %v exported, want 2 and 1", f, e)
	}
}

// What is being tried when the process ends is given up after two seconds, and told of before Close returns.
func TestTheLastSpansAreToldOfWhenTheyAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, d, log := newTestTracer(t, exporterFunc(func(ctx context.Context, _ int) error {
			<-ctx.Done() // tries on
			return ctx.Err()
		}))
		for range maxBatch + 1 { // two batches
			_, s := tracer.Begin(t.Context(), nil, "request", false)
			s.End()
		}
		begin := time.Now()
		tracer.Close()
		if took := time.Since(begin); took != maxFarewell {
			t.Errorf("Close took %v, want %v", took, maxFarewell)
		}
		if n := testutil.ToFloat64(d.spans.WithLabelValues(failed)); n != maxBatch+1 || strings.Count(log.String(), "do not reach") != 1 {
			t.Errorf("%v failed, want %d; the log says:\n%s", n, maxBatch+1, log)
		}
	})
}

// A connection that can't be made is worth another attempt, as the exporter sees it; a request whose time is over is not.
func TestAReceiverThatIsNotReachedIsAskedAgain(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	transport := &http.Transport{}
	for name, tt := range map[string]struct {
		ctx  context.Context
		want bool
	}{"refused": {t.Context(), true}, "over": {over, false}} {
		req, err := http.NewRequestWithContext(tt.ctx, http.MethodPost, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: patient{transport}}).Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		e, ok := errors.AsType[*url.Error](err)
		if !ok || e.Temporary() != tt.want {
			t.Errorf("%s: %v is temporary: %v, want %v", name, err, !tt.want, tt.want)
		}
	}
}

func TestTextsFitIntoASpan(t *testing.T) {
	for text, want := range map[string]string{
		"as it is": "as it is", "\xffbad": "\uFFFDbad", strings.Repeat("é", maxName): strings.Repeat("é", maxName/2),
		"x" + strings.Repeat("é", maxName): "x" + strings.Repeat("é", maxName/2-1),
	} {
		if got := fit(text, maxName); got != want || !utf8.ValidString(got) {
			t.Errorf("fit(%.20q…) = %.20q… of %d bytes, want %d", text, got, len(got), len(want))
		}
	}
}

func TestWhereTracesGo(t *testing.T) {
	for base, want := range map[string]string{
		"http://127.0.0.1:4318":          "http://127.0.0.1:4318/v1/traces",
		"http://127.0.0.1:4318/":         "http://127.0.0.1:4318/v1/traces",
		"https://host/otel":              "https://host/otel/v1/traces",
		"https://host/custom/v1/traces":  "https://host/custom/v1/traces",
		"https://host/v1/traces/further": "https://host/v1/traces/further/v1/traces",
	} {
		if got, err := tracesAt(base); got != want || err != nil {
			t.Errorf("tracesAt(%s) = %s, %v, want %s", base, got, err, want)
		}
	}
}
