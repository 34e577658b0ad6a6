package trace

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Store keeps runs that have ended, for use by many goroutines at once.
type Store interface {
	// Add takes in a run that has ended. It does not wait.
	Add(r *Run)
	// Get is the run with that id, if it is kept and may be seen; else the error is ErrNotKept.
	Get(ctx context.Context, id string, who Access) (*Run, error)
	// List is a part of the runs that are asked for. The query was checked.
	List(ctx context.Context, q Query) (Page, error)
	// Limit changes how many runs are kept and for how long.
	Limit(keep int, ttl time.Duration)
}

// Access says whose runs may be seen.
type Access struct {
	Caller   string // whose, unless Everyone is set; "" are those who are asked for no key
	Everyone bool
}

func (a Access) sees(r *Run) bool { return a.Everyone || r.Caller == a.Caller }

// ErrNotKept is the error of a run that never was, is no longer kept, or may not be seen.
var ErrNotKept = errors.New("no such run is kept")

// Memory keeps the newest runs in the process.
type Memory struct {
	ttl  time.Duration
	now  func() time.Time
	mu   sync.Mutex
	ring []*Run // the oldest one is overwritten
	next int
}

// NewMemory keeps up to keep runs, each for at most ttl. With keep 0 it keeps none.
func NewMemory(keep int, ttl time.Duration) *Memory {
	return &Memory{ttl: ttl, now: time.Now, ring: make([]*Run, keep)}
}

// Limit changes how many runs are kept and for how long. Of those that are there the newest stay.
func (s *Memory) Limit(keep int, ttl time.Duration) {
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
	runs = runs[max(len(runs)-keep, 0):]
	s.ring, s.next = make([]*Run, keep), 0
	if copy(s.ring, runs) < keep {
		s.next = len(runs)
	}
}

// Add takes in a run that has ended.
func (s *Memory) Add(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) == 0 {
		return
	}
	s.ring[s.next] = r
	s.next = (s.next + 1) % len(s.ring)
}

// Get is the run with that id, if it is kept and may be seen.
func (s *Memory) Get(_ context.Context, id string, who Access) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.ring { // runs are added far more often than asked for
		if r != nil && r.ID == id && who.sees(r) && !s.over(r) {
			return r, nil
		}
	}
	return nil, ErrNotKept
}

func (s *Memory) over(r *Run) bool { return s.now().Sub(r.Start) > s.ttl }

// List is a part of the runs that are asked for.
func (s *Memory) List(_ context.Context, q Query) (Page, error) {
	s.mu.Lock()
	var runs []*Run
	for _, r := range s.ring {
		if r != nil && (q.Before == "" || r.ID < q.Before) && !s.over(r) && q.takes(r) {
			runs = append(runs, r)
		}
	}
	s.mu.Unlock()
	return q.page(runs), nil
}
