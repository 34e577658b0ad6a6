package trace

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/internal/state"
)

const (
	runsKind = "runs"
	// maxQueue is how many runs wait to be sent. More, while Redis is slow, stay in this process alone.
	maxQueue = 1000
	// flushTime is how long the end of the process waits for them.
	flushTime = 2 * time.Second
	// maxRun bounds what is kept of a run, in bytes: with trace.content it can be large.
	maxRun = 4 << 20
)

// Redis keeps the newest runs of any number of processes, and this process's own in its memory too. Those are found at
// once, others a moment after they have ended.
type Redis struct {
	own     *Memory
	redis   *state.Redis
	log     *slog.Logger
	dropped prometheus.Counter
	queue   chan *Run
	ended   chan struct{}

	mu     sync.Mutex
	keep   int
	ttl    time.Duration
	sends  bool // since the first run
	closed bool
}

// NewRedis keeps up to keep runs, each for at most ttl. With keep 0 it keeps none. Close ends it.
func NewRedis(r *state.Redis, keep int, ttl time.Duration, log *slog.Logger, reg prometheus.Registerer) *Redis {
	s := &Redis{own: NewMemory(keep, ttl), redis: r, log: log, keep: keep, ttl: ttl, queue: make(chan *Run, maxQueue), ended: make(chan struct{})}
	s.dropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_state_runs_dropped_total", Help: "Runs that did not get to Redis as it was too slow or too far away.",
	})
	reg.MustRegister(s.dropped)
	return s
}

// Close sends what waits, for two seconds at most.
func (s *Redis) Close() {
	s.mu.Lock()
	s.closed = true
	sends := s.sends
	s.mu.Unlock()
	close(s.queue)
	if sends {
		<-s.ended
	}
}

// Limit changes how many runs are kept and for how long.
func (s *Redis) Limit(keep int, ttl time.Duration) {
	s.own.Limit(keep, ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep, s.ttl = keep, ttl
}

// Add takes in a run that has ended.
func (s *Redis) Add(r *Run) {
	s.own.Add(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.keep == 0 {
		return
	}
	if !s.sends {
		s.sends = true
		go s.send() // ends with Close
	}
	select {
	case s.queue <- r:
	default:
		s.dropped.Inc()
	}
}

func (s *Redis) send() {
	defer close(s.ended)
	for r := range s.queue {
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			s.flush(r)
			return
		}
		s.put(context.Background(), r)
	}
}

// flush sends r and all that waits behind it.
func (s *Redis) flush(r *Run) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	s.put(ctx, r)
	for r := range s.queue {
		s.put(ctx, r)
	}
}

// putRun keeps a run, puts its id at the end of the list by time, and takes the oldest away where there are too many.
var putRun = redis.NewScript(`
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[4])
if over > 0 then
  local gone = redis.call('ZPOPMIN', KEYS[2], over)
  for i = 1, #gone, 2 do redis.call('DEL', ARGV[6] .. gone[i]) end
end
return 1`)

func (s *Redis) put(ctx context.Context, r *Run) {
	s.mu.Lock()
	keep, ttl := s.keep, s.ttl
	s.mu.Unlock()
	if keep == 0 {
		return
	}
	at, err := begun(r.ID) // by which the ids are in order too
	if err != nil {
		at = r.Start
	}
	value, err := json.Marshal(r)
	if err == nil && len(value) > maxRun {
		err = errTooLarge
	}
	if err == nil {
		err = s.redis.Do(ctx, runsKind, func(ctx context.Context, c redis.Cmdable) error {
			return putRun.Run(ctx, c, []string{s.key(r.ID), s.newest()}, value, ttl.Milliseconds(), at.UnixMilli(), keep, r.ID, s.key("")).Err()
		})
	}
	if err != nil {
		s.dropped.Inc()
		s.log.Debug("a run did not get to redis", slog.String("run_id", r.ID), slog.Any("err", err))
	}
}

var errTooLarge = errors.New("the record of the run is too large")

func (s *Redis) key(id string) string { return s.redis.Key(runsKind, "id "+id) }

// newest is the key of the ids by the time that their runs began.
func (s *Redis) newest() string { return s.redis.Key(runsKind, "newest") }

// Get is the run with that id, if it is kept and may be seen.
func (s *Redis) Get(ctx context.Context, id string, who Access) (*Run, error) {
	if r, err := s.own.Get(ctx, id, who); err == nil {
		return r, nil
	}
	var value []byte
	err := s.redis.Do(ctx, runsKind, func(ctx context.Context, c redis.Cmdable) (err error) {
		value, err = c.Get(ctx, s.key(id)).Bytes()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return nil, ErrNotKept
	}
	if err != nil {
		return nil, err
	}
	r := &Run{}
	if err := json.Unmarshal(value, r); err != nil {
		return nil, err
	}
	if !who.sees(r) {
		return nil, ErrNotKept
	}
	return r, nil
}

const (
	// listChunk is how many runs are read at once, and maxListed how many are looked at for one page.
	listChunk = 100
	maxListed = 2000
)

// List is a part of the runs that are asked for. It may have fewer than there are, with a Next, where few of many are
// asked for.
func (s *Redis) List(ctx context.Context, q Query) (Page, error) {
	page, last := Page{}, q.Before
	from, until := "+inf", "-inf"
	if !q.Since.IsZero() { // an id is made once its run has begun, never before
		until = strconv.FormatInt(q.Since.UnixMilli(), 10)
	}
	if q.Before != "" {
		at, err := begun(q.Before)
		if err != nil {
			return page, err
		}
		from = strconv.FormatInt(at.UnixMilli(), 10)
	}
	for offset := int64(0); offset < maxListed; offset += listChunk {
		ids, runs, err := s.chunk(ctx, from, until, offset)
		if err != nil {
			return Page{}, err
		}
		for i, r := range runs {
			if q.Before != "" && ids[i] >= q.Before {
				continue
			}
			last = ids[i]
			if r == nil || !q.takes(r) {
				continue
			}
			if page.Runs = append(page.Runs, r); len(page.Runs) == q.limit() {
				page.Next = last
				return page, nil
			}
		}
		if len(ids) < listChunk {
			return page, nil
		}
	}
	page.Next = last
	return page, nil
}

// chunk is some of the runs, the newest first, between two times; nil of those that are gone.
func (s *Redis) chunk(ctx context.Context, from, until string, offset int64) (ids []string, runs []*Run, err error) {
	var values []any
	err = s.redis.Do(ctx, runsKind, func(ctx context.Context, c redis.Cmdable) (err error) {
		ids, err = c.ZRevRangeByScore(ctx, s.newest(), &redis.ZRangeBy{Min: until, Max: from, Offset: offset, Count: listChunk}).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		keys := make([]string, len(ids))
		for i, id := range ids {
			keys[i] = s.key(id)
		}
		values, err = c.MGet(ctx, keys...).Result()
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	runs = make([]*Run, len(ids))
	for i, v := range values {
		text, ok := v.(string)
		r := &Run{}
		if ok && json.Unmarshal([]byte(text), r) == nil {
			runs[i] = r
		}
	}
	return ids, runs, nil
}
