package upstream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/series"
)

// Metrics counts what goes to providers.
type Metrics struct {
	requests *series.Of[requestLabels, prometheus.Counter]
	duration *series.Of[string, prometheus.Observer] // by upstream
}

type requestLabels struct{ upstream, code string }

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_upstream_requests_total",
		Help: "Attempts of requests to an upstream, by status or, without a reply, kind of failure.",
	}, []string{"upstream", "code"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gateway_upstream_duration_seconds",
		Help:    "Time from an attempt's start to the header of its reply.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
	}, []string{"upstream"})
	reg.MustRegister(requests, duration)
	return &Metrics{
		requests: series.By(func(l requestLabels) prometheus.Counter { return requests.WithLabelValues(l.upstream, l.code) }),
		duration: series.By(func(upstream string) prometheus.Observer { return duration.WithLabelValues(upstream) }),
	}
}

// known makes the series of an upstream exist from the start.
func (m *Metrics) known(name string) {
	m.requests.With(requestLabels{name, "200"})
	m.duration.With(name)
}
