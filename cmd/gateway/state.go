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
	asked   *state.Memory // which calls wait for a confirmation, and which have one
	writes  *registry.Writes
	confirm *registry.Confirmations
}

func newStores(reg prometheus.Registerer) *stores {
	s := &stores{
		turns:   state.NewMemory(state.Limits{}),
		replies: state.NewMemory(state.Limits{}),
		calls:   state.NewMemory(state.Limits{}),
		asked:   state.NewMemory(state.Limits{}),
	}
	s.writes = registry.NewWrites(s.calls)
	s.confirm = registry.NewConfirmations(s.asked)
	state.NewMetrics(reg, map[string]*state.Memory{"turns": s.turns, "replies": s.replies, "writes": s.calls, "confirmations": s.asked})
	return s
}

func (s *stores) close() {
	s.turns.Close()
	s.replies.Close()
	s.calls.Close()
	s.asked.Close()
}
