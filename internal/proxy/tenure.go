package proxy

import "sync/atomic"

// tenure is the time that a site is held: by the server while it is in force, and by each request that began with it
// until that has ended.
type tenure struct {
	site  *Site
	holds atomic.Int64
	over  chan struct{} // closed when nobody holds it any more
}

func newTenure(site *Site) *tenure {
	t := &tenure{site: site, over: make(chan struct{})}
	t.holds.Store(1)
	return t
}

// hold holds the site unless its tenure is over. Whoever gets true calls release once.
func (t *tenure) hold() bool {
	for {
		n := t.holds.Load()
		if n == 0 {
			return false
		}
		if t.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (t *tenure) release() {
	if t.holds.Add(-1) == 0 {
		close(t.over)
	}
}

// Use replaces the site for requests to come. The channel, nil for the first site, is closed when the last request that
// began with the replaced one has ended. A site is used once.
func (s *Server) Use(site *Site) (over <-chan struct{}) {
	for _, m := range site.Models.Named() {
		s.metrics.known(m.Label)
	}
	s.metrics.known("other")
	s.metrics.knownKeys(site.Keys.Names())
	site.cors = newCORS(site.CORSOrigins)
	old := s.tenure.Swap(newTenure(site))
	if old == nil {
		return nil
	}
	old.release()
	return old.over
}

// take holds the site in force, for a request that begins.
func (s *Server) take() *tenure {
	for {
		if t := s.tenure.Load(); t.hold() {
			return t
		} // it was replaced just now, and nobody had it
	}
}
