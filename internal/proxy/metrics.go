package proxy

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/limit"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/series"
)

// Metrics counts what clients ask for. The model label has configured names, or other; the key label those of keys.
type Metrics struct {
	requests   *series.Of[requestLabels, prometheus.Counter]
	duration   *series.Of[string, prometheus.Observer] // by route
	firstToken prometheus.Histogram
	runs       *series.Of[runLabels, prometheus.Counter]
	steps      prometheus.Histogram
	inFlight   prometheus.Gauge

	connections prometheus.Gauge
	used        *series.Of[string, used] // by model
	rejections  *prometheus.CounterVec
}

type requestLabels struct {
	route, model string
	status       int
}

type runLabels struct{ model, stop string }

// used is what runs of a model have used.
type used struct{ prompt, completion, cached, cost prometheus.Counter }

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	seconds := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_requests_total", Help: "Requests of clients, by route, model and status.",
	}, []string{"route", "model", "code"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gateway_request_duration_seconds", Help: "Time from a request's header to the end of its reply.", Buckets: seconds,
	}, []string{"route"})
	runs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_runs_total", Help: "Runs that ended, by model and stop reason.",
	}, []string{"model", "stop"})
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_tokens_total", Help: "Tokens of runs, by model and kind: prompt, completion, cached (part of prompt).",
	}, []string{"model", "kind"})
	cost := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_cost_total", Help: "Cost of runs by the configured price, in the operator's currency.",
	}, []string{"model"})
	m := &Metrics{
		requests: series.By(func(l requestLabels) prometheus.Counter {
			return requests.WithLabelValues(l.route, l.model, strconv.Itoa(l.status))
		}),
		duration: series.By(func(route string) prometheus.Observer { return duration.WithLabelValues(route) }),
		runs:     series.By(func(l runLabels) prometheus.Counter { return runs.WithLabelValues(l.model, l.stop) }),
		used: series.By(func(model string) used {
			of := func(kind string) prometheus.Counter { return tokens.WithLabelValues(model, kind) }
			return used{of("prompt"), of("completion"), of("cached"), cost.WithLabelValues(model)}
		}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gateway_time_to_first_token_seconds", Help: "Time from a request to the first text of its streamed answer, or where it is passed through to its first bytes.", Buckets: seconds,
		}),
		steps: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gateway_run_steps", Help: "Model calls of a run.", Buckets: []float64{1, 2, 3, 4, 6, 8, 12, 16, 24},
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_runs_in_flight", Help: "Runs under way.",
		}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_connections", Help: "Connections of clients that are open.",
		}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_limit_rejections_total", Help: "Requests refused by a limit, by key and limit.",
		}, []string{"key", "limit"}),
	}
	reg.MustRegister(requests, duration, m.firstToken, runs, m.steps, m.inFlight, tokens, cost, m.rejections, m.connections)
	return m
}

// known makes the series of a model exist from the start.
func (m *Metrics) known(model string) {
	for _, stop := range loop.Stops() {
		m.runs.With(runLabels{model, string(stop)})
	}
	m.used.With(model)
}

// knownKeys makes the series of keys' refusals exist from the start.
func (m *Metrics) knownKeys(names []string) {
	m.rejections.WithLabelValues("", maxInflight) // of nobody in particular
	m.rejections.WithLabelValues("", maxConnections)
	for _, name := range names {
		m.rejections.WithLabelValues(name, maxInflight)
		for _, l := range limit.Names() {
			m.rejections.WithLabelValues(name, string(l))
		}
	}
}

// ended counts a run.
func (m *Metrics) ended(model, stop string, steps int, t chat.Tokens, cost float64) {
	m.runs.With(runLabels{model, stop}).Inc()
	m.steps.Observe(float64(steps))
	u := m.used.With(model)
	u.prompt.Add(float64(t.Prompt))
	u.completion.Add(float64(t.Completion))
	u.cached.Add(float64(t.Cached))
	u.cost.Add(cost)
}
