package loop

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/budget"
)

// Calls side by side run on goroutines of their own, where a panic would end the process in place of the request.
func TestADefectInACallSideBySideIsThatOfItsRequest(t *testing.T) {
	w := newWorld(t)
	w.says("", `look {"id":1}`, `peek {}`)
	r := w.prepare(budget.Default(), `{"model":"m","messages":[{"role":"user","content":"Go"}]}`)
	var asked atomic.Int64
	r.Now = func() time.Time {
		if len(w.asks) == 1 && asked.Add(1) > 1 { // past the step of the model
			panic("the clock is broken")
		}
		return time.Now()
	}
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "the clock is broken") || !strings.Contains(fmt.Sprint(v), "defect_test.go") {
			t.Errorf("recovered %v, want the panic with where it was", v)
		}
	}()
	_, err := r.Do(t.Context())
	t.Errorf("Do() = %v, want a panic", err)
}
