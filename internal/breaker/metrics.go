package breaker

import "github.com/prometheus/client_golang/prometheus"

// Metrics shows the state of every breaker.
type Metrics struct{ state *prometheus.GaugeVec }

// NewMetrics registers the gauge with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gateway_breaker_state",
		Help: "State of a breaker: 0 closed, 1 half open, 2 open.",
	}, []string{"name"})}
	reg.MustRegister(m.state)
	return m
}

// Forget takes the series of a breaker away.
func (m *Metrics) Forget(name string) { m.state.DeleteLabelValues(name) }

// Changed is for Options.OnChange.
func (m *Metrics) Changed(name string, s State) { m.state.WithLabelValues(name).Set(float64(s)) }
