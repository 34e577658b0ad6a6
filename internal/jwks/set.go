package jwks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What bounds the readings and the waits for them.
const (
	leastStale  = time.Hour // how long keys are good at least that can't be read again
	staleRounds = 3         // or so many times the time between readings

	firstRetry = time.Second // after a failure; doubled with each further one
	lastRetry  = 30 * time.Second

	askEvery = 10 * time.Second // readings out of turn, asked for by tokens whose key is not known: anybody can write
	askBurst = 3                // such a token

	patience   = 5 * time.Second // of who waits for a reading
	maxWaiting = 128             // who wait for one
)

// ErrUnavailable is that there are no keys, or none that have been read lately enough.
var ErrUnavailable = errors.New("the keys of the identity provider are not known")

// Options tunes a Set.
type Options struct {
	Refresh time.Duration // between readings; above 0
	Logger  *slog.Logger  // default discards
}

// Set is a provider's key set, read again and again while somebody uses it. It is for many goroutines.
type Set struct {
	source Source // nil: the keys are fixed
	opts   Options
	stale  time.Duration
	asks   *rate.Limiter
	ask    chan struct{} // to run: read now

	mu      sync.Mutex
	keys    *Keys         // nil before the first reading that succeeded
	at      time.Time     // of the last one that did
	flight  chan struct{} // closed at the end of the reading that is asked for or under way; nil without
	waiting int
	failing int  // readings that failed since one succeeded
	told    bool // that the keys are too old

	users int
	end   context.CancelFunc // of run
	ended chan struct{}
}

// New makes a Set of a source. It reads nothing before Start.
func New(source Source, o Options) *Set {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Set{
		source: source, opts: o, stale: max(leastStale, staleRounds*o.Refresh),
		asks: rate.NewLimiter(rate.Every(askEvery), askBurst), ask: make(chan struct{}, 1),
	}
}

// Fixed is a Set whose keys stay as they are.
func Fixed(keys *Keys) *Set { return &Set{keys: keys} }

// Start keeps the set fresh until stop is called: the first to call Start begins that, and the last to call stop ends it
// and waits for its end. The end of ctx does not.
func (s *Set) Start(ctx context.Context) (stop func()) {
	if s.source == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users++; s.users == 1 {
		ctx, s.end = context.WithCancel(context.WithoutCancel(ctx)) // requests that end after SIGTERM want keys still
		ended := make(chan struct{})
		s.ended = ended
		s.flight = make(chan struct{}) // who asks before the first reading waits for it
		go func() {                    // ends with the last user
			defer close(ended)
			s.run(ctx)
		}()
	}
	return sync.OnceFunc(s.leave)
}

func (s *Set) leave() {
	s.mu.Lock()
	s.users--
	end, ended, last := s.end, s.ended, s.users == 0
	s.mu.Unlock()
	if last {
		end()
		<-ended
	}
}

func (s *Set) run(ctx context.Context) {
	for {
		wait := s.read(ctx)
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			s.land()
			return
		case <-t.C:
		case <-s.ask:
			t.Stop()
		}
	}
}

// land lets those go who wait for a reading.
func (s *Set) land() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != nil {
		close(s.flight)
		s.flight = nil
	}
}

// read reads the set once, and says when to do so again.
func (s *Set) read(ctx context.Context) (wait time.Duration) {
	s.mu.Lock()
	if s.flight == nil {
		s.flight = make(chan struct{})
	}
	select {
	case <-s.ask: // this is the reading that was asked for
	default:
	}
	s.mu.Unlock()
	defer s.land()

	keys, skipped, err := s.Read(ctx)
	if ctx.Err() != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failing++
		s.tell(err)
		return min(s.opts.Refresh, lastRetry, firstRetry<<min(s.failing-1, 10))
	}
	again := s.failing > 0 && s.keys != nil
	s.at, s.failing, s.told = time.Now(), 0, false
	if s.keys == nil || s.keys.sum != keys.sum {
		s.keys = keys
		s.opts.Logger.Info("keys of the identity provider", slog.Int("keys", keys.Len()), slog.Any("skipped", skipped))
	} else if again {
		s.opts.Logger.Info("the keys of the identity provider can be read again")
	}
	return s.opts.Refresh
}

// tell logs a failure that says something new.
func (s *Set) tell(err error) {
	old := s.keys != nil && time.Since(s.at) > s.stale
	switch {
	case s.failing == 1 && s.keys == nil:
		s.opts.Logger.Warn("the keys of the identity provider can't be read: tokens are refused until they can", slog.Any("err", err))
	case s.failing == 1 && !old:
		s.opts.Logger.Warn("the keys of the identity provider can't be read: those that are known stay good for a while",
			slog.Time("until", s.at.Add(s.stale)), slog.Any("err", err))
	case old && !s.told:
		s.told = true
		s.opts.Logger.Warn("the keys of the identity provider are too old: tokens are refused until they can be read", slog.Any("err", err))
	}
}

// Read reads the set from its source once and changes nothing.
func (s *Set) Read(ctx context.Context) (keys *Keys, skipped []string, err error) {
	if s.source == nil {
		return s.keys, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	data, err := s.source(ctx)
	if err != nil {
		return nil, nil, err
	}
	return Parse(data)
}

// Keys are the keys in force: the same pointer while they are the same. The error is ErrUnavailable.
func (s *Set) Keys() (*Keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current()
}

func (s *Set) current() (*Keys, error) {
	if s.keys == nil || s.source != nil && time.Since(s.at) > s.stale {
		return nil, ErrUnavailable
	}
	return s.keys, nil
}

// Renew is Keys after a reading that was asked for, for a token whose key is not among those in force. It is one reading
// for all who ask at the same time. As anybody can make such tokens, there are few such readings in a time, few wait, and
// not for long: others get the keys in force at once.
func (s *Set) Renew(ctx context.Context) (*Keys, error) {
	s.mu.Lock()
	if s.source == nil || s.users == 0 || s.waiting >= maxWaiting || s.flight == nil && !s.asks.Allow() {
		defer s.mu.Unlock()
		return s.current()
	}
	if s.flight == nil {
		s.flight = make(chan struct{})
		select {
		case s.ask <- struct{}{}:
		default: // it is asked already
		}
	}
	flight := s.flight
	s.waiting++
	s.mu.Unlock()

	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-flight:
	case <-t.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	return s.current()
}
