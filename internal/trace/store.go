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
