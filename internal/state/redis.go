package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/internal/breaker"
)

// RedisName is Redis as metrics and errors name it.
const RedisName = "redis"

const (
	// answerWithin bounds one exchange with Redis, the wait for a connection included. It is long for a server that is
	// well, and short for a client that waits for a reply.
	answerWithin = time.Second
	dialWithin   = time.Second
	// After so many exchanges in a row without an answer, Redis is not asked for a while, so that requests do not wait.
	failuresToOpen = 3
	openFor        = time.Second
	// maxValue bounds what is put in one key. Nothing that is kept is larger, but for turns with very large results.
	maxValue = 16 << 20
)

// Redis is a server that any number of processes share. It is for many goroutines.
type Redis struct {
	client  *redis.Client
	prefix  string
	log     *slog.Logger
	breaker *breaker.Breaker
	errors  *prometheus.CounterVec
	lost    atomic.Bool // the last exchange failed: the log says so once
}

// silent keeps the library from writing to stderr by itself, past the log and what that hides: its errors are told by Do.
type silent struct{}

// Printf writes nothing.
func (silent) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(silent{}) }

// RedisOptions tells how a Redis is reached. All is required.
type RedisOptions struct {
	URL       string // as ParseRedisURL takes it
	Prefix    string // of all keys
	Logger    *slog.Logger
	Registry  prometheus.Registerer
	OnBreaker func(name string, s breaker.State)
}

// ParseRedisURL checks an address: redis://[user:password@]host[:port][/database], rediss:// for TLS, or
// unix://[user:password@]/path.sock[?db=n].
func ParseRedisURL(url string) error {
	if url == "" {
		return errors.New("is missing: want redis://host:6379/0, or rediss:// for TLS")
	}
	if _, err := redis.ParseURL(url); err != nil {
		return errors.New("is no address of Redis: want redis://[user:password@]host[:port][/database], rediss:// for TLS, or unix:///path.sock")
	}
	return nil
}

// NewRedis makes a Redis. It opens no connection; Close ends it.
func NewRedis(o RedisOptions) (*Redis, error) {
	opts, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, ParseRedisURL(o.URL) // the library's own error repeats the address
	}
	opts.DialTimeout = dialWithin
	opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = answerWithin, answerWithin, answerWithin
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = -1 // of a command whose answer was lost nobody knows whether it was carried out
	opts.DialerRetries = 1
	opts.ClientName = "toolgate"
	r := &Redis{client: redis.NewClient(opts), prefix: o.Prefix, log: o.Logger, errors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_state_errors_total", Help: "Exchanges with Redis that failed, by what they were for.",
	}, []string{"kind"})}
	o.Registry.MustRegister(r.errors)
	r.breaker = breaker.New(breaker.Options{Name: RedisName, Failures: failuresToOpen, OpenFor: openFor, OnChange: o.OnBreaker})
	o.OnBreaker(RedisName, breaker.Closed) // its series exists from the start
	return r, nil
}

// Close drops the connections.
func (r *Redis) Close() error { return r.client.Close() }

// Key is a key of a kind of things, as it stands in Redis.
func (r *Redis) Key(kind, key string) string { return r.prefix + kind + ":" + key }

// Do is one exchange, for a kind of things. It takes a second at most, and fails at once while Redis does not answer.
// That a key is not there, which is redis.Nil, is no failure.
func (r *Redis) Do(ctx context.Context, kind string, exchange func(ctx context.Context, c redis.Cmdable) error) error {
	r.errors.WithLabelValues(kind)
	done, err := r.breaker.Allow()
	if err != nil {
		r.errors.WithLabelValues(kind).Inc()
		return fmt.Errorf("redis does not answer: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err = exchange(within, r.client)
	var refused redis.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		done(breaker.Success)
		if r.lost.CompareAndSwap(true, false) {
			r.log.Info("redis answers again")
		}
		return err
	case ctx.Err() != nil: // who asked has left
		done(breaker.Ignored)
		return context.Cause(ctx)
	case errors.As(err, &refused): // it is there, and says why not
		done(breaker.Ignored)
	default:
		done(breaker.Failure)
	}
	r.errors.WithLabelValues(kind).Inc()
	if r.lost.CompareAndSwap(false, true) {
		r.log.Error("redis fails: what the gateways share can't be reached", slog.Any("err", plainError(err)))
	}
	return fmt.Errorf("redis: %w", plainError(err))
}

// plainError is an error without the address that it was about, which may hold more than the log should have.
func plainError(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// Check looks whether Redis answers, and whether it would throw away what must be kept. The warnings are for the log.
func (r *Redis) Check(ctx context.Context) (warnings []string, err error) {
	err = r.Do(ctx, "check", func(ctx context.Context, c redis.Cmdable) error { return c.Ping(ctx).Err() })
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	err = r.Do(ctx, "check", func(ctx context.Context, c redis.Cmdable) error {
		for _, name := range []string{"maxmemory", "maxmemory-policy", "appendonly", "save"} {
			values, err := c.ConfigGet(ctx, name).Result()
			if err != nil {
				return err
			}
			set[name] = values[name]
		}
		return nil
	})
	if err != nil {
		return nil, nil // a hosted one may not show its settings
	}
	if set["maxmemory"] != "0" && set["maxmemory-policy"] != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("redis has maxmemory-policy %s: when it is full, it forgets which write calls were made, and they may be made again; want noeviction", set["maxmemory-policy"]))
	}
	if set["appendonly"] != "yes" {
		warnings = append(warnings, "redis has appendonly no: when it is restarted, it forgets which write calls were made, and they may be made again; want appendonly yes")
	}
	return warnings, nil
}

// Store is the Store of one kind of things.
func (r *Redis) Store(kind string) *RedisStore { return &RedisStore{redis: r, kind: kind} }

// RedisStore is a Store that any number of processes share.
type RedisStore struct {
	redis *Redis
	kind  string
}

// Get is the value of a key.
func (s *RedisStore) Get(ctx context.Context, key string) (value []byte, ok bool, err error) {
	err = s.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		value, err = c.Get(ctx, s.key(key)).Bytes()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return value, err == nil, err
}

// Put sets a value.
func (s *RedisStore) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := fits(value); err != nil {
		return err
	}
	return s.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		return c.Set(ctx, s.key(key), value, atLeast(ttl)).Err()
	})
}

// claim sets a value where there is none, and gives the one that is there. That which is to be set may be there too: of an
// attempt whose answer was lost.
var claim = redis.NewScript(`
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false`)

// Claim sets a value where the key has none.
func (s *RedisStore) Claim(ctx context.Context, key string, value []byte, ttl time.Duration) (held []byte, claimed bool, err error) {
	if err := fits(value); err != nil {
		return nil, false, err
	}
	var text string
	err = s.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		text, err = claim.Run(ctx, c, []string{s.key(key)}, value, millis(ttl)).Text()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return nil, true, nil
	}
	return []byte(text), false, err
}

var swap = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[3] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1`)

// Swap sets a value where the key has the value old.
func (s *RedisStore) Swap(ctx context.Context, key string, old, value []byte, ttl time.Duration) (swapped bool, err error) {
	if err := fits(value); err != nil {
		return false, err
	}
	kept := ""
	if value != nil {
		kept = millis(ttl)
	}
	err = s.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		swapped, err = swap.Run(ctx, c, []string{s.key(key)}, old, value, kept).Bool()
		return err
	})
	return swapped, err
}

// Delete takes a key away.
func (s *RedisStore) Delete(ctx context.Context, key string) error {
	return s.do(ctx, func(ctx context.Context, c redis.Cmdable) error { return c.Del(ctx, s.key(key)).Err() })
}

func (s *RedisStore) key(key string) string { return s.redis.Key(s.kind, key) }

func (s *RedisStore) do(ctx context.Context, exchange func(ctx context.Context, c redis.Cmdable) error) error {
	return s.redis.Do(ctx, s.kind, exchange)
}

func fits(value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("redis: a value of %d bytes, want at most %d", len(value), maxValue)
	}
	return nil
}

// atLeast is a time that Redis takes: whole milliseconds, and not 0, which would be for ever.
func atLeast(ttl time.Duration) time.Duration {
	return max(ttl.Truncate(time.Millisecond), time.Millisecond)
}

func millis(ttl time.Duration) string { return strconv.FormatInt(atLeast(ttl).Milliseconds(), 10) }
