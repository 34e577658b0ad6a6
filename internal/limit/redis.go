package limit

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/internal/state"
)

// limitsKind is what is kept in Redis, as its keys and the metrics name it.
const limitsKind = "limits"

// Of a place in Redis. Whoever holds it says so again and again; the place of a process that died is free after a while.
const (
	placeHeld  = 30 * time.Second
	placeRenew = 10 * time.Second
	leaveTime  = time.Second
)

// Redis keeps rates, sums and places for any number of processes. It is for many goroutines, and counts by the clock of
// the server, so that the processes' own need not agree.
type Redis struct {
	redis *state.Redis
	log   *slog.Logger

	mu     sync.Mutex
	held   map[string]string // tokens of the places that this process holds → their keys
	timer  *time.Timer       // of the next renewal
	closed bool
}

// NewRedis makes a Redis. Close ends it.
func NewRedis(r *state.Redis, log *slog.Logger) *Redis {
	s := &Redis{redis: r, log: log, held: map[string]string{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(placeRenew, s.renew)
	return s
}

// Close ends what the store does by itself.
func (s *Redis) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.timer.Stop()
}

// takeScript is Take and Spend. Times are in microseconds: when the rate is full, a cost's worth, a minute, the most that
// can be owed. Of the cost nothing is taken where it is 0, nor, unless it is forced, where it is not there.
var takeScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local worth, wanted, minute, most, forced = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local owed = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') - now, 0)
local over = owed + wanted - minute
if over > 0 and not forced then return {0, owed, over} end
if worth > 0 then
  owed = math.min(owed + worth, most)
  redis.call('SET', KEYS[1], string.format('%.0f', now + owed), 'PX', math.ceil(owed / 1000) + 1000)
end
return {1, owed, 0}`)

// Take is as Memory's.
func (s *Redis) Take(ctx context.Context, name string, perMinute, cost int64) (Level, error) {
	return s.rate(ctx, name, perMinute, cost, max(cost, 1), "0")
}

// Spend is as Memory's.
func (s *Redis) Spend(ctx context.Context, name string, perMinute, cost int64) (Level, error) {
	return s.rate(ctx, name, perMinute, cost, cost, "1")
}

func (s *Redis) rate(ctx context.Context, name string, perMinute, cost, wanted int64, forced string) (Level, error) {
	got, err := s.run(ctx, takeScript, name, micros(worth(cost, perMinute)), micros(worth(wanted, perMinute)), micros(minute), micros(minute+maxDebt), forced)
	if err != nil {
		return Level{}, err
	}
	if len(got) != 3 {
		return Level{}, errReply
	}
	l := level(time.Duration(got[1])*time.Microsecond, perMinute)
	l.OK, l.Retry = got[0] == 1, time.Duration(got[2])*time.Microsecond
	return l, nil
}

// todayScript adds to the sum of the day by UTC, of which it keeps the number.
var todayScript = redis.NewScript(`
local t = redis.call('TIME')
local length = 86400
local n = math.floor(t[1] / length)
local d = redis.call('HMGET', KEYS[1], 'day', 'sum')
local sum = 0
if d[1] and tonumber(d[1]) == n then sum = tonumber(d[2]) end
local add = tonumber(ARGV[1])
if add > 0 then
  sum = math.min(sum + add, tonumber(ARGV[2]))
  redis.call('HSET', KEYS[1], 'day', n, 'sum', string.format('%.0f', sum))
  redis.call('EXPIRE', KEYS[1], 2 * length)
end
return {sum, (n + 1) * length - t[1]}`)

// Today is as Memory's.
func (s *Redis) Today(ctx context.Context, name string, add int64) (sum int64, left time.Duration, err error) {
	got, err := s.run(ctx, todayScript, name, strconv.FormatInt(add, 10), strconv.FormatInt(maxSum, 10))
	if err != nil {
		return 0, 0, err
	}
	if len(got) != 2 {
		return 0, 0, errReply
	}
	return got[0], time.Duration(got[1]) * time.Second, nil
}

// enterScript takes a place: a token that is there until a time. What was not renewed is gone.
var enterScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return {0} end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1}`)

// Enter is as Memory's. The place of a process that died is free half a minute later.
func (s *Redis) Enter(ctx context.Context, name string, most int64) (leave func(), ok bool, err error) {
	token := rand.Text()
	got, err := s.run(ctx, enterScript, "at once "+name, token, strconv.FormatInt(most, 10), strconv.FormatInt(placeHeld.Milliseconds(), 10))
	if err != nil {
		return nil, false, err
	}
	if len(got) != 1 {
		return nil, false, errReply
	}
	if got[0] != 1 {
		return nil, false, nil
	}
	key := s.redis.Key(limitsKind, "at once "+name)
	s.mu.Lock()
	s.held[token] = key
	s.mu.Unlock()
	return func() { s.leave(token, key) }, true, nil //nolint:contextcheck // it is left though the request be canceled
}

// leave gives a place back. Where Redis does not answer, it goes by its time.
func (s *Redis) leave(token, key string) {
	s.mu.Lock()
	delete(s.held, token)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = s.redis.Do(ctx, limitsKind, func(ctx context.Context, c redis.Cmdable) error { return c.ZRem(ctx, key, token).Err() })
}

// renewScript holds places for longer: those that are still there, and those that a restart of Redis lost.
var renewScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {1}`)

// renew renews all places, and does so again after a while.
func (s *Redis) renew() {
	if err := s.renewAll(context.Background()); err != nil {
		s.log.Warn("places of the limit concurrent were not renewed", slog.Any("err", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.timer.Reset(placeRenew)
	}
}

func (s *Redis) renewAll(ctx context.Context) error {
	s.mu.Lock()
	tokens := map[string][]any{} // by key
	for token, key := range s.held {
		tokens[key] = append(tokens[key], token)
	}
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(tokens)) {
		for some := range slices.Chunk(tokens[key], 1000) {
			args := append([]any{placeHeld.Milliseconds()}, some...)
			err := s.redis.Do(ctx, limitsKind, func(ctx context.Context, c redis.Cmdable) error {
				return renewScript.Run(ctx, c, []string{key}, args...).Err()
			})
			if err != nil {
				return err
			}
			s.forgetLeft(ctx, key, some)
		}
	}
	return nil
}

// forgetLeft takes the places away that were left while they were renewed.
func (s *Redis) forgetLeft(ctx context.Context, key string, tokens []any) {
	var left []any
	s.mu.Lock()
	for _, token := range tokens {
		if _, held := s.held[token.(string)]; !held { // they are texts
			left = append(left, token)
		}
	}
	s.mu.Unlock()
	if len(left) > 0 {
		_ = s.redis.Do(ctx, limitsKind, func(ctx context.Context, c redis.Cmdable) error { return c.ZRem(ctx, key, left...).Err() })
	}
}

var errReply = errors.New("redis gave another reply than the script's")

func (s *Redis) run(ctx context.Context, script *redis.Script, name string, args ...any) (got []int64, err error) {
	err = s.redis.Do(ctx, limitsKind, func(ctx context.Context, c redis.Cmdable) error {
		got, err = script.Run(ctx, c, []string{s.redis.Key(limitsKind, name)}, args...).Int64Slice()
		return err
	})
	return got, err
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
