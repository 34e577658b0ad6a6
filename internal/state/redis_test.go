package state

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/toolgate/toolgate/internal/breaker"
	"github.com/toolgate/toolgate/internal/state/redistest"
)

// connected is a Redis of a test's own server, with what it logs.
func connected(t *testing.T, s *redistest.Server) (*Redis, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	r, err := NewRedis(RedisOptions{
		URL: s.URL, Prefix: "test:", Logger: slog.New(slog.NewTextHandler(log, nil)), Registry: prometheus.NewRegistry(),
		OnBreaker: func(string, breaker.State) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, log
}

func TestRedis(t *testing.T) {
	r, _ := connected(t, redistest.Start(t))
	suite(t, r.Store("things"))
}

// Two kinds have their own keys, and two processes the same ones.
func TestRedisIsSharedByKind(t *testing.T) {
	s := redistest.Start(t)
	one, _ := connected(t, s)
	two, _ := connected(t, s)
	if err := one.Store("a").Put(t.Context(), "k", []byte("v"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if v, ok, err := two.Store("a").Get(t.Context(), "k"); string(v) != "v" || !ok || err != nil {
		t.Errorf("another process has %q, %v, %v", v, ok, err)
	}
	if _, ok, err := two.Store("b").Get(t.Context(), "k"); ok || err != nil {
		t.Errorf("another kind has it: %v, %v", ok, err)
	}
	keys, err := s.Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || keys[0] != "test:a:k" {
		t.Errorf("keys: %v, %v", keys, err)
	}
}

// A claim that was made though its answer was lost is the claimer's own when it asks again.
func TestClaimAgainIsTheSameClaim(t *testing.T) {
	r, _ := connected(t, redistest.Start(t))
	for range 2 {
		if held, claimed, err := r.Store("a").Claim(t.Context(), "k", []byte("mine"), time.Minute); !claimed || err != nil {
			t.Errorf("Claim() = %q, %v, %v", held, claimed, err)
		}
	}
}

// While Redis is gone nobody waits for it, and when it is back it is used again, with what it had.
func TestRedisGoneAndBack(t *testing.T) {
	for name, how := range map[string]struct{ end, begin func(s *redistest.Server) }{
		"killed":  {(*redistest.Server).Kill, (*redistest.Server).Start},
		"hanging": {(*redistest.Server).Hang, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			r, log := connected(t, s)
			store := r.Store("things")
			if err := store.Put(t.Context(), "k", []byte("v"), time.Hour); err != nil {
				t.Fatal(err)
			}
			how.end(s)
			for range failuresToOpen {
				if _, _, err := store.Get(t.Context(), "k"); err == nil {
					t.Error("a Redis that is gone answers")
				}
			}
			_, _, err := store.Get(t.Context(), "k")
			if _, ok := errors.AsType[*breaker.Open](err); !ok {
				t.Errorf("Get() = %v, want that it is not asked", err)
			}
			if n := testutil.ToFloat64(r.errors.WithLabelValues("things")); n != failuresToOpen+1 {
				t.Errorf("%v errors are counted", n)
			}
			how.begin(s)
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				v, ok, err := store.Get(t.Context(), "k")
				if err == nil {
					if string(v) != "v" || !ok {
						t.Errorf("after it came back: %q, %v", v, ok)
					}
					break
				}
				if time.Now().After(end) {
					t.Fatal(err)
				}
			}
			if n := strings.Count(log.String(), "redis fails"); n != 1 || strings.Count(log.String(), "redis answers again") != 1 {
				t.Errorf("the log:\n%s", log)
			}
			if strings.Contains(log.String(), "127.0.0.1") {
				t.Errorf("the log has the address:\n%s", log)
			}
		})
	}
}

// Who leaves does not count against Redis.
func TestWhoLeavesIsNoFailure(t *testing.T) {
	r, log := connected(t, redistest.Start(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range failuresToOpen + 1 {
		if _, _, err := r.Store("a").Get(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("Get() = %v", err)
		}
	}
	if _, _, err := r.Store("a").Get(t.Context(), "k"); err != nil || log.Len() > 0 {
		t.Errorf("Get() = %v; %s", err, log)
	}
}

func TestRedisRefusesWhatIsTooLarge(t *testing.T) {
	r, _ := connected(t, redistest.Start(t))
	if err := r.Store("a").Put(t.Context(), "k", make([]byte, maxValue+1), time.Minute); err == nil {
		t.Error("it is put")
	}
}

func TestCheckWarnsOfARedisThatForgets(t *testing.T) {
	s := redistest.Start(t)
	r, _ := connected(t, s)
	if warnings, err := r.Check(t.Context()); len(warnings) > 0 || err != nil {
		t.Errorf("Check() = %q, %v", warnings, err)
	}
	for name, value := range map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru", "appendonly": "no"} {
		if err := s.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	warnings, err := r.Check(t.Context())
	if len(warnings) != 2 || !strings.Contains(warnings[0], "allkeys-lru") || !strings.Contains(warnings[1], "appendonly yes") || err != nil {
		t.Errorf("Check() = %q, %v", warnings, err)
	}
	s.Kill()
	if _, err := r.Check(t.Context()); err == nil {
		t.Error("a Redis that is gone is fine")
	}
}

func TestRedisURL(t *testing.T) {
	for _, url := range []string{"redis://h", "redis://u:p@h:1/2", "rediss://h:6380", "unix:///tmp/redis.sock"} {
		if err := ParseRedisURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"", "h:6379", "http://h", "redis://h/x", "redis://u:secret@h:port"} {
		if err := ParseRedisURL(url); err == nil || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
