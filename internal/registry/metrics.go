package registry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/series"
	"github.com/toolgate/toolgate/internal/tool"
)

// Metrics counts calls of tools. The tool label has configured names, or other for what a model made up; the outcome
// is ok or one of the gateway's own codes.
type Metrics struct {
	calls    *series.Of[callLabels, prometheus.Counter]
	duration *series.Of[string, prometheus.Observer] // by tool
	counts   *series.Of[string, *counts]             // by tool; like the series they stay where a reload takes it away
}

type callLabels struct{ tool, outcome string }

// counts are of one tool, since the process has started.
type counts struct{ calls, failed atomic.Int64 }

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_tool_calls_total",
		Help: "Calls of gateway tools that models made, refused ones among them, by outcome.",
	}, []string{"tool", "outcome"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gateway_tool_duration_seconds",
		Help:    "Time of a tool call with all its attempts.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"tool"})
	reg.MustRegister(calls, duration)
	return &Metrics{
		calls:    series.By(func(l callLabels) prometheus.Counter { return calls.WithLabelValues(l.tool, l.outcome) }),
		duration: series.By(func(tool string) prometheus.Observer { return duration.WithLabelValues(tool) }),
		counts:   series.By(func(string) *counts { return &counts{} }),
	}
}

// count counts a call.
func (m *Metrics) count(name, outcome string) {
	m.calls.With(callLabels{name, outcome}).Inc()
	c := m.counts.With(name)
	c.calls.Add(1)
	if o := Code(outcome); outcome != "ok" && o != Skipped && o != ConfirmationRequired {
		c.failed.Add(1)
	}
}

// known makes the usual series of a tool exist from the start, so that a first failure shows in a rate.
func (m *Metrics) known(name string) {
	for _, outcome := range []string{
		"ok", string(InvalidArguments), string(tool.Timeout), string(tool.Unavailable), string(tool.Failed), string(tool.InvalidResult), string(tool.Business),
	} {
		m.calls.With(callLabels{name, outcome})
	}
	m.duration.With(name)
}
