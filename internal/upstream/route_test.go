package upstream

import (
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/toolgate/toolgate/internal/chat"
)

func TestRoutesAreDrawnInProportion(t *testing.T) {
	r := NewRoutes(Route{model: "a", weight: 1}, Route{model: "b", weight: 3}, Route{model: "c"}, Route{model: "d", weight: 6})
	r.draw = rand.New(rand.NewPCG(1, 2)).IntN
	const draws = 10_000
	first := map[string]float64{}
	for range draws {
		order := r.order()
		first[order[0].model]++
		if len(order) != 4 {
			t.Fatalf("%d routes are tried, want each once", len(order))
		}
	}
	for model, share := range map[string]float64{"a": .1, "b": .3, "c": 0, "d": .6} {
		if got := first[model] / draws; math.Abs(got-share) > .02 {
			t.Errorf("%s is the first in %.3f of all, want %.1f", model, got, share)
		}
	}
}

func TestRoutesWithoutWeightsAreTriedInOrder(t *testing.T) {
	r := NewRoutes(Route{model: "a"}, Route{model: "b"})
	r.draw = func(int) int { t.Error("something is drawn"); return 0 }
	if order := r.order(); order[0].model != "a" || order[1].model != "b" {
		t.Errorf("order %v", order)
	}
}

func TestStreamsFallBackBeforeTheirFirstByte(t *testing.T) {
	for name, bad := range map[string]http.HandlerFunc{
		"a status":                  status(503, ""),
		"a reset":                   cut,
		"an error as first event":   events(`{"error":{"message":"overloaded"}}`),
		"a stream of nothing":       events("[DONE]"),
		"an error that is no event": status(200, `{"error":{"message":"overloaded"}}`),
		"a cut before any event": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": wait\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, _ := script(t, bad)
			second, n := script(t, events(`{"choices":[{"delta":{"content":"Right"},"finish_reason":"stop"}]}`, "[DONE]"))
			once := "retry: {attempts: 1}\n"
			a := ask(t, streamed)
			shown := ""
			a.OnChunk = func(c *chat.Chunk) error { shown += c.Text; return nil }
			reply, err := NewRoutes(NewRoute(client(t, first.URL, once), "", 0), NewRoute(client(t, second.URL, once), "", 0)).Ask(t.Context(), a)
			if err != nil || reply.Turn.Text != "Right" || shown != "Right" || n.Load() != 1 {
				t.Errorf("Ask() = %v, %v; shown %q", reply, err, shown)
			}
		})
	}
}

func TestPassFallsBackBeforeItsFirstByte(t *testing.T) {
	bad, _ := script(t, status(503, ""))
	base, got := listens(t)
	routes := NewRoutes(NewRoute(client(t, bad.URL, "retry: {attempts: 1}\n"), "small", 0), NewRoute(configuredAt(t, base, ""), "large", 0))
	resp, err := routes.Pass(t.Context(), Pass{Method: http.MethodPost, Request: request(t, m(hi))})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if want := `{"model":"large","messages":[` + hi + `]}`; (*got)[0].body != want {
		t.Errorf("the next route gets %s, want %s", (*got)[0].body, want)
	}
}
