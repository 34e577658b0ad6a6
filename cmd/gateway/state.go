package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolgate/toolgate/internal/state"
)

// stores are what outlives a request, and a reload too.
type stores struct {
	turns *state.Memory // held for a conversation's next request
}

func newStores(reg prometheus.Registerer) *stores {
	s := &stores{turns: state.NewMemory(state.Limits{})}
	state.NewMetrics(reg, map[string]*state.Memory{"turns": s.turns})
	return s
}

func (s *stores) close() { s.turns.Close() }
