package registry

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/tool"
)

// sharedResults are results of reads that other processes with the same configuration have too. That one can't be had or
// kept there is no failure of a call. A nil one has none.
type sharedResults struct {
	store state.Store
	of    string // the configuration: another one may mean something else by the same call
	log   *slog.Logger
}

// sharedResult is what the store has under a call's key.
type sharedResult struct {
	Text  string    `json:"text"`
	Until time.Time `json:"until"`
}

func (s *sharedResults) get(ctx context.Context, key string) (result tool.Result, left time.Duration, ok bool) {
	if s == nil {
		return tool.Result{}, 0, false
	}
	value, ok, err := s.store.Get(ctx, state.Key(s.of, key))
	if err != nil || !ok {
		return tool.Result{}, 0, false
	}
	var r sharedResult
	if err := json.Unmarshal(value, &r); err != nil {
		s.log.Warn("a kept result can't be read", slog.Any("err", err))
		return tool.Result{}, 0, false
	}
	left = time.Until(r.Until)
	return tool.Result{Text: r.Text}, left, left > 0
}

func (s *sharedResults) put(ctx context.Context, key string, result tool.Result, ttl time.Duration) {
	if s == nil {
		return
	}
	value, err := json.Marshal(sharedResult{result.Text, time.Now().Add(ttl).Round(0)})
	if err == nil {
		err = s.store.Put(ctx, state.Key(s.of, key), value, ttl)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug("a result could not be kept for other processes", slog.Any("err", err))
	}
}
