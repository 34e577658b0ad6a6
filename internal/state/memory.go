package state

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"
)

// Limits bounds what a Store in memory keeps.
type Limits struct {
	Bytes   int // of keys and values together; default 64 MiB
	Entries int // default 100,000
}

const (
	defaultBytes   = 64 << 20
	defaultEntries = 100_000
	overhead       = 128 // bytes, about, that an entry costs beside its key and value
)

// Memory is a Store of this process.
type Memory struct {
	kept  *otter.Cache[string, entry]
	hints *otter.Cache[uint64, time.Duration] // how long each is kept, by its hash
	seed  maphash.Seed                        // nobody outside can make two hints that are the same
}

type entry struct {
	value []byte
	ttl   time.Duration
}

// NewMemory makes a Store in memory. Close ends it.
func NewMemory(l Limits) *Memory {
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Entries <= 0 {
		l.Entries = defaultEntries
	}
	least := max(l.Bytes/l.Entries, overhead) // so that the weight bounds the count too
	return &Memory{seed: maphash.MakeSeed(), hints: otter.Must(&otter.Options[uint64, time.Duration]{
		MaximumSize:      l.Entries, // as there may be for each entry
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[uint64, time.Duration]) time.Duration { return e.Value }),
	}), kept: otter.Must(&otter.Options[string, entry]{
		MaximumWeight: uint64(l.Bytes), //nolint:gosec // it is positive
		Weigher: func(key string, e entry) uint32 {
			return uint32(min(max(len(key)+len(e.value)+overhead, least), 1<<30))
		},
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, entry]) time.Duration { return e.Value.ttl }),
		StatsRecorder:    stats.NewCounter(),
	})}
}

// Close ends what the store runs by itself.
func (m *Memory) Close() {
	m.kept.StopAllGoroutines()
	m.hints.StopAllGoroutines()
}

// Note notes a hint.
func (m *Memory) Note(hint []byte, ttl time.Duration) { m.hints.Set(maphash.Bytes(m.seed, hint), ttl) }

// Noted says whether a hint may have been noted.
func (m *Memory) Noted(hint []byte) bool {
	_, ok := m.hints.GetIfPresent(maphash.Bytes(m.seed, hint))
	return ok
}

// Len is about how many entries there are.
func (m *Memory) Len() int { return m.kept.EstimatedSize() }

// Get is the value of a key.
func (m *Memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	e, ok := m.kept.GetIfPresent(key)
	return e.value, ok, nil
}

// Put sets a value.
func (m *Memory) Put(_ context.Context, key string, value []byte, ttl time.Duration) error {
	m.kept.Set(key, entry{slices.Clone(value), ttl})
	return nil
}

// Claim sets a value where the key has none.
func (m *Memory) Claim(_ context.Context, key string, value []byte, ttl time.Duration) ([]byte, bool, error) {
	held, claimed := m.kept.SetIfAbsent(key, entry{slices.Clone(value), ttl})
	if claimed {
		return nil, true, nil
	}
	return held.value, false, nil
}

// Swap sets a value where the key has the value old.
func (m *Memory) Swap(_ context.Context, key string, old, value []byte, ttl time.Duration) (bool, error) {
	swapped := false
	m.kept.Compute(key, func(e entry, found bool) (entry, otter.ComputeOp) {
		switch {
		case !found || !bytes.Equal(e.value, old):
			swapped = false
			return e, otter.CancelOp
		case value == nil:
			swapped = true
			return entry{}, otter.InvalidateOp
		}
		swapped = true
		return entry{slices.Clone(value), ttl}, otter.WriteOp
	})
	return swapped, nil
}

// Delete takes a key away.
func (m *Memory) Delete(_ context.Context, key string) error {
	m.kept.Invalidate(key)
	return nil
}

// Metrics are what there is to see of stores in memory.
type Metrics struct {
	stores map[string]*Memory
	size   *prometheus.Desc
	gone   *prometheus.Desc
}

// NewMetrics registers the metrics of stores, by what they keep.
func NewMetrics(reg prometheus.Registerer, stores map[string]*Memory) *Metrics {
	m := &Metrics{
		stores: stores,
		size:   prometheus.NewDesc("gateway_state_entries", "What is kept in memory, by kind.", []string{"kind"}, nil),
		gone:   prometheus.NewDesc("gateway_state_evictions_total", "What had to go before its time as memory is bounded, by kind.", []string{"kind"}, nil),
	}
	reg.MustRegister(m)
	return m
}

// Describe tells the registry of the metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.size
	ch <- m.gone
}

// Collect gives the metrics' values.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for kind, s := range m.stores {
		ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(s.kept.EstimatedSize()), kind)
		ch <- prometheus.MustNewConstMetric(m.gone, prometheus.CounterValue, float64(s.kept.Stats().Evictions), kind)
	}
}
