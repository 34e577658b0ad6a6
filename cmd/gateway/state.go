package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/state"
)

// stores are what outlives a request, and a reload too.
type stores struct {
	turns   *state.Memory // held for a conversation's next request
	replies *state.Memory // to requests with an Idempotency-Key
	calls   *state.Memory // what came of write calls
	writes  *registry.Writes
}

func newStores(reg prometheus.Registerer) *stores {
	s := &stores{
		turns:   state.NewMemory(state.Limits{}),
		replies: state.NewMemory(state.Limits{}),
		calls:   state.NewMemory(state.Limits{}),
	}
	s.writes = registry.NewWrites(s.calls)
	state.NewMetrics(reg, map[string]*state.Memory{"turns": s.turns, "replies": s.replies, "writes": s.calls})
	return s
}

func (s *stores) close() {
	s.turns.Close()
	s.replies.Close()
	s.calls.Close()
}
