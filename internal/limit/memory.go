package limit

import (
	"context"
	"maps"
	"sync"
	"time"
)

// minute is what the rates of the file are by.
const minute = time.Minute

// maxDebt bounds how far a rate can be overspent, so that a provider's absurd count of tokens does not shut a key out
// for good.
const maxDebt = time.Hour

// sweepAt is how many rates are remembered before those that are full again are looked for and forgotten. It bounds
// what names that are no longer in the file leave behind; what is not full stays.
const sweepAt = 4096

// Level is what is left of a rate.
type Level struct {
	OK        bool          // what was asked for was there, and has been taken
	Remaining int64         // 0 where more was spent than there was
	Reset     time.Duration // until all of it is there again
	Retry     time.Duration // until what was asked for is there; 0 with OK
}

// Memory keeps rates and places in the process's memory. It is for many goroutines. Names of rates and of places are
// apart.
type Memory struct {
	now func() time.Time // its differences are what counts: a monotonic clock

	mu     sync.Mutex
	full   map[string]time.Time // by name of a rate: when all of it will be there again
	places map[string]int64     // by name: how many are taken
	days   map[string]day       // by name of a sum
}

// day is a sum of one day, by UTC.
type day struct {
	n   int64 // days since the epoch
	sum int64
}

// NewMemory makes a Memory by a clock, which is time.Now but in tests.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, full: map[string]time.Time{}, places: map[string]int64{}, days: map[string]day{}}
}

// Take takes cost of a rate if so much is left; else it takes nothing. With cost 0 it takes nothing either and is OK
// while anything is left. A rate that nobody took of is full: a whole minute's worth can be had at once, and comes back
// evenly. Its error is for stores that are reached over a network; Memory has none.
func (m *Memory) Take(_ context.Context, name string, perMinute, cost int64) (Level, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	owed := m.owed(name, now)
	wanted := worth(max(cost, 1), perMinute)
	if over := owed + wanted - minute; over > 0 {
		l := level(owed, perMinute)
		l.Retry = over
		return l, nil
	}
	if cost > 0 {
		owed = m.owe(name, now, owed+wanted)
	}
	l := level(owed, perMinute)
	l.OK = true
	return l, nil
}

// Spend takes cost of a rate whether it is there or not. What is missing has to come back before anything can be taken.
func (m *Memory) Spend(_ context.Context, name string, perMinute, cost int64) (Level, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	l := level(m.owe(name, now, m.owed(name, now)+worth(cost, perMinute)), perMinute)
	l.OK = true
	return l, nil
}

// owed is how long it takes until the rate is full again: 0 where it is, a minute where it is empty.
func (m *Memory) owed(name string, now time.Time) time.Duration {
	full, ok := m.full[name]
	if !ok {
		return 0
	}
	return max(full.Sub(now), 0)
}

func (m *Memory) owe(name string, now time.Time, owed time.Duration) time.Duration {
	owed = min(owed, minute+maxDebt)
	if _, there := m.full[name]; !there && len(m.full) >= sweepAt {
		for other, full := range m.full {
			if !full.After(now) {
				delete(m.full, other)
			}
		}
	}
	m.full[name] = now.Add(owed)
	return owed
}

// Today adds to a sum that begins at 0 each day at midnight, by UTC, and gives what it is then and how long it is until
// midnight.
func (m *Memory) Today(_ context.Context, name string, add int64) (sum int64, left time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, left := dayOf(m.now())
	d, there := m.days[name]
	if d.n != n {
		d = day{n: n}
	}
	if d.sum = min(d.sum+add, maxSum); add > 0 {
		if !there && len(m.days) >= sweepAt {
			maps.DeleteFunc(m.days, func(_ string, d day) bool { return d.n != n })
		}
		m.days[name] = d
	}
	return d.sum, left, nil
}

// maxSum bounds what a provider's absurd counts can add up to. It is exact as a floating point number too.
const maxSum = 1 << 52

// dayOf is the day of a time, and how long it is until the next one.
func dayOf(now time.Time) (n int64, left time.Duration) {
	const length = int64(24 * time.Hour / time.Second)
	n = now.Unix() / length
	return n, time.Unix((n+1)*length, 0).Sub(now)
}

// worth is how long cost takes to come back. It is never rounded up: perMinute times the worth of one fits in a minute.
func worth(cost, perMinute int64) time.Duration {
	return time.Duration(min(float64(cost)/float64(perMinute)*float64(minute), float64(minute+maxDebt)))
}

func level(owed time.Duration, perMinute int64) Level {
	left := float64(max(minute-owed, 0)) / float64(minute) * float64(perMinute)
	return Level{Remaining: int64(left + 1e-6), Reset: owed} // what floating point takes away is no request
}

// Enter takes one of most places, if one is free; leave gives it back, and is called once.
func (m *Memory) Enter(_ context.Context, name string, most int64) (leave func(), ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.places[name] >= most {
		return nil, false, nil
	}
	m.places[name]++
	return func() { m.leave(name) }, true, nil
}

func (m *Memory) leave(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.places[name]--; m.places[name] == 0 {
		delete(m.places, name)
	}
}
