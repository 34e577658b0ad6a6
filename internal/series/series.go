// Package series keeps the series of metrics at hand by their labels. To have Prometheus's client find one costs more
// than to count in it, and a request counts in ten.
package series

import "sync"

// Of are the series of one metric, or what a caller counts together, by their labels. There are as many as the metric has,
// so that labels come from closed lists as they do there. It is for many goroutines.
type Of[K comparable, S any] struct {
	find func(K) S

	mu    sync.RWMutex
	found map[K]S
}

// By makes one; find is asked once for each labels, and must not use it.
func By[K comparable, S any](find func(K) S) *Of[K, S] {
	return &Of[K, S]{find: find, found: map[K]S{}}
}

// With is the series with those labels. It exists from then on.
func (o *Of[K, S]) With(labels K) S {
	o.mu.RLock()
	s, ok := o.found[labels]
	o.mu.RUnlock()
	if ok {
		return s
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok = o.found[labels]; !ok {
		s = o.find(labels)
		o.found[labels] = s
	}
	return s
}
