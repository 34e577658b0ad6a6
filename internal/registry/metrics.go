package registry

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/tool"
)

// Metrics counts calls of tools. The tool label has configured names, or other for what a model made up; the outcome
// is ok or one of the gateway's own codes.
type Metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	counts   sync.Map // name of a tool → *counts; like the series it stays where a reload takes the tool away
}

// counts are of one tool, since the process has started.
type counts struct{ calls, failed atomic.Int64 }

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

// count counts a call.
func (m *Metrics) count(name, outcome string) {
	m.calls.WithLabelValues(name, outcome).Inc()
	c := m.countsOf(name)
	c.calls.Add(1)
	if o := Code(outcome); outcome != "ok" && o != Skipped && o != ConfirmationRequired {
		c.failed.Add(1)
	}
}

func (m *Metrics) countsOf(name string) *counts {
	c, ok := m.counts.Load(name)
	if !ok {
		c, _ = m.counts.LoadOrStore(name, &counts{})
	}
	return c.(*counts) //nolint:forcetypeassert // nothing else is stored
}

// known makes the usual series of a tool exist from the start, so that a first failure shows in a rate.
func (m *Metrics) known(name string) {
	for _, outcome := range []string{
		"ok", string(InvalidArguments), string(tool.Timeout), string(tool.Unavailable), string(tool.Failed), string(tool.InvalidResult), string(tool.Business),
	} {
		m.calls.WithLabelValues(name, outcome)
	}
	m.duration.WithLabelValues(name)
}
