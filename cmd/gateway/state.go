package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/limit"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/trace"
)

// stateConfig is the section `state`.
type stateConfig struct {
	Backend string        `yaml:"backend" enum:"memory,redis" doc:"memory: of this process. redis: any number of gateways share idempotency, held turns, approvals, limits, runs and cached results."`
	URL     config.Secret `yaml:"url" doc:"Of Redis: redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss:// for TLS, or unix:///PATH."`
	Prefix  string        `yaml:"prefix" doc:"Of all keys in Redis. Gateways that share nothing want other ones."`
	OnError limit.OnError `yaml:"on_error" enum:"open,closed" doc:"What becomes of the limits of keys while Redis does not answer. open: each gateway counts by itself; closed: keys with limits get 503."`
}

const (
	backendMemory = "memory"
	backendRedis  = "redis"
)

func (c *stateConfig) setDefaults() {
	*c = stateConfig{Backend: backendMemory, Prefix: "toolgate:", OnError: limit.FailOpen}
}

// Check reports what can't work.
func (c *stateConfig) Check(n *config.Node) {
	switch {
	case c.Backend == backendRedis:
		if err := state.ParseRedisURL(c.URL.Reveal()); err != nil {
			n.FailKey("url", "%s", err)
		}
	case c.Backend == backendMemory && c.URL != "":
		n.FailKey("url", "state is kept in memory, which has no address: want backend: redis, or no url")
	}
}

// stores are what outlives a request, and a reload too.
type stores struct {
	turns   state.Store // held for a conversation's next request
	replies state.Store // to requests with an Idempotency-Key
	results state.Store // of reads, for other processes; nil where there are none
	writes  *registry.Writes
	confirm *registry.Confirmations
	limits  *limit.Limiter
	runs    trace.Store
	redis   *state.Redis // nil without

	close func()
}

// What is kept, as metrics and the keys of Redis name it.
const (
	keptTurns         = "turns"
	keptReplies       = "replies"
	keptWrites        = "writes"
	keptConfirmations = "confirmations"
	keptResults       = "results"
)

// newMemoryStores keeps all of it in the process.
func newMemoryStores(c *checked, reg prometheus.Registerer) *stores {
	byKind := map[string]*state.Memory{}
	for _, kind := range []string{keptTurns, keptReplies, keptWrites, keptConfirmations} {
		byKind[kind] = state.NewMemory(state.Limits{})
	}
	state.NewMetrics(reg, byKind)
	return &stores{
		turns:   byKind[keptTurns],
		replies: byKind[keptReplies],
		writes:  registry.NewWrites(byKind[keptWrites]),
		confirm: registry.NewConfirmations(byKind[keptConfirmations]),
		limits:  limit.New(limit.NewMemory(time.Now)),
		runs:    trace.NewMemory(c.Trace.Keep, time.Duration(c.Trace.TTL)),
		close: func() {
			for _, s := range byKind {
				s.Close()
			}
		},
	}
}

// newRedisStores keeps it where other processes have it too. It opens no connection.
func newRedisStores(c *checked, reg prometheus.Registerer, log *slog.Logger, onBreaker func(string, breaker.State)) (*stores, error) {
	r, err := state.NewRedis(state.RedisOptions{URL: c.State.URL.Reveal(), Prefix: c.State.Prefix, Logger: log, Registry: reg, OnBreaker: onBreaker})
	if err != nil {
		return nil, err
	}
	limits := limit.NewRedis(r, log)
	runs := trace.NewRedis(r, c.Trace.Keep, time.Duration(c.Trace.TTL), log, reg)
	var counted limit.Store = limits
	if c.State.OnError == limit.FailOpen {
		counted = limit.NewFallback(limits, limit.NewMemory(time.Now))
	}
	return &stores{
		turns:   r.Store(keptTurns),
		replies: r.Store(keptReplies),
		results: r.Store(keptResults),
		writes:  registry.NewWrites(r.Store(keptWrites)),
		confirm: registry.NewConfirmations(r.Store(keptConfirmations)),
		limits:  limit.New(counted),
		runs:    runs,
		redis:   r,
		close: func() {
			runs.Close()
			limits.Close()
			if err := r.Close(); err != nil {
				log.Warn("closing redis", slog.Any("err", err))
			}
		},
	}, nil
}

// look tells the log what is to be known of Redis at the start. That it does not answer keeps nobody from serving.
func (s *stores) look(ctx context.Context, log *slog.Logger) {
	if s.redis == nil {
		return
	}
	warnings, err := s.redis.Check(ctx)
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		log.Warn("redis does not answer yet; what the gateways share is not there until it does")
	default:
		log.Info("redis is there")
	}
	for _, w := range warnings {
		log.Warn("state", slog.String("warning", w))
	}
}
