package trace

import (
	"sync"
	"time"
)

// Store keeps the newest runs in memory, for use by many goroutines at once.
type Store struct {
	ttl  time.Duration
	now  func() time.Time
	mu   sync.Mutex
	ring []*Run // the oldest one is overwritten
	next int
	byID map[string]*Run
}

// NewStore keeps up to keep runs, each for at most ttl. With keep 0 it keeps none.
func NewStore(keep int, ttl time.Duration) *Store {
	return &Store{ttl: ttl, now: time.Now, ring: make([]*Run, keep), byID: map[string]*Run{}}
}

// Limit changes how many runs are kept and for how long. Of those that are there the newest stay.
func (s *Store) Limit(keep int, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl = ttl
	if keep == len(s.ring) {
		return
	}
	var runs []*Run // from the oldest on
	for i := range s.ring {
		if r := s.ring[(s.next+i)%len(s.ring)]; r != nil {
			runs = append(runs, r)
		}
	}
	for len(runs) > keep {
		delete(s.byID, runs[0].ID)
		runs = runs[1:]
	}
	s.ring, s.next = make([]*Run, keep), 0
	if copy(s.ring, runs) < keep {
		s.next = len(runs)
	}
}

// Add takes in a run that has ended.
func (s *Store) Add(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) == 0 {
		return
	}
	if old := s.ring[s.next]; old != nil {
		delete(s.byID, old.ID)
	}
	s.ring[s.next] = r
	s.byID[r.ID] = r
	s.next = (s.next + 1) % len(s.ring)
}

// Get is the run with that id, if it is kept and was made by that caller.
func (s *Store) Get(id, caller string) (*Run, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byID[id]
	if r == nil || r.Caller != caller || s.now().Sub(r.Start) > s.ttl {
		return nil, false
	}
	return r, true
}
