package series

import (
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCountsArriveWhereTheLabelsSay(t *testing.T) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x_total", Help: "What is counted here."}, []string{"a", "b"})
	type labels struct{ a, b string }
	s := By(func(l labels) prometheus.Counter { return vec.WithLabelValues(l.a, l.b) })
	s.With(labels{"1", "3"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				s.With(labels{"1", "2"}).Inc()
			}
		})
	}
	wg.Wait()
	if n := testutil.ToFloat64(vec.WithLabelValues("1", "2")); n != 400 {
		t.Errorf("counted %g, want 400", n)
	}
	if n := testutil.CollectAndCount(vec); n != 2 {
		t.Errorf("%d series, want 2", n)
	}
	if n := testing.AllocsPerRun(100, func() { s.With(labels{"1", "2"}).Inc() }); n > 0 {
		t.Errorf("%g allocations, want none", n)
	}
}
