package registry

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts calls of tools. The tool label has configured names, or other for what a model made up; the outcome
// is ok or one of the gateway's own codes.
type Metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_tool_calls_total",
			Help: "Calls of gateway tools that models made, refused ones among them, by outcome.",
		}, []string{"tool", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_tool_duration_seconds",
			Help:    "Time of a tool call with all its attempts.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"tool"}),
	}
	reg.MustRegister(m.calls, m.duration)
	return m
}

// known makes the series of a tool exist from the start.
func (m *Metrics) known(name string) {
	m.calls.WithLabelValues(name, "ok")
	m.duration.WithLabelValues(name)
}
