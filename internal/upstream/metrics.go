package upstream

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what goes to providers.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_upstream_requests_total",
			Help: "Attempts of requests to an upstream, by status or, without a reply, kind of failure.",
		}, []string{"upstream", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_upstream_duration_seconds",
			Help:    "Time from an attempt's start to the header of its reply.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"upstream"}),
	}
	reg.MustRegister(m.requests, m.duration)
	return m
}

// known makes the series of an upstream exist from the start.
func (m *Metrics) known(name string) {
	m.requests.WithLabelValues(name, "200")
	m.duration.WithLabelValues(name)
}
