package proxy_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/trace"
)

const headerApproval = "X-Gateway-Approval"

// A stream says what waits in its header, as nothing was sent before, and in the trace at its end.
func TestAStreamSaysWhatWaits(t *testing.T) {
	front := describedServer(t)
	resp, body := fetch(t, front, chatPath, ask("m", "wire", `,"stream":true`), nil)
	id := resp.Header.Get(headerApproval)
	if id == "" || !strings.Contains(resp.Trailer.Get(trace.Header), `approval="`+id+`"`) || !bytes.Contains(body, []byte(`approval="`+id+`"`)) {
		t.Errorf("approval %q, trailer %q:\n%s", id, resp.Trailer.Get(trace.Header), body)
	}
	if bytes.Contains(body, []byte("tool_calls")) || !bytes.Contains(body, []byte(`wire {\"amount\":5}`)) || !bytes.Contains(body, []byte(`"finish_reason":"stop"`)) {
		t.Errorf("the stream is\n%s", body)
	}
}

// Equal calls of several choices wait for one approval, and each choice says so.
func TestChoicesWaitForTheSameApproval(t *testing.T) {
	front := describedServer(t)
	for _, more := range []string{`,"n":2`, `,"n":2,"stream":true`} {
		resp, body := fetch(t, front, chatPath, ask("m", "wire", more), nil)
		id := resp.Header.Get(headerApproval)
		if resp.StatusCode != http.StatusOK || id == "" || strings.Contains(id, ",") {
			t.Fatalf("%s: %d, approval %q", more, resp.StatusCode, id)
		}
		if n := bytes.Count(body, []byte("Approval: "+id)); n != 2 {
			t.Errorf("%s: %d choices say what waits:\n%s", more, n, body)
		}
	}
}

// A request with an Idempotency-Key that ended with what waits goes on when it is sent again, rather than to say so for a
// day.
func TestARepeatedRequestGoesOnAfterTheApproval(t *testing.T) {
	front := describedServer(t)
	key := map[string]string{"Idempotency-Key": "order-7"}
	resp, _ := fetch(t, front, chatPath, ask("m", "wire", ""), key)
	id := resp.Header.Get(headerApproval)
	if resp, _ = fetch(t, front, chatPath, ask("m", "wire", ""), key); resp.Header.Get(headerApproval) != id {
		t.Errorf("the same call waits for %q and %q", id, resp.Header.Get(headerApproval))
	}
	_, _ = fetch(t, front, "/gateway/approvals/"+id, `{"approve":true}`, nil)
	resp, body := fetch(t, front, chatPath, ask("m", "wire", ""), key)
	if resp.Header.Get(headerApproval) != "" || !strings.Contains(resp.Header.Get(trace.Header), `("wire";ms=`) || strings.Contains(resp.Header.Get(trace.Header), "failed=1") {
		t.Errorf("after the approval: %v: %s", resp.Header, body)
	}
}

// Of many who decide at once in both ways, all get the same decision or 409.
func TestDecisionsAtOnce(t *testing.T) {
	front := describedServer(t)
	resp, _ := fetch(t, front, chatPath, ask("m", "wire", ""), nil)
	id := resp.Header.Get(headerApproval)
	var mu sync.Mutex
	decided := map[bool]int{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := `{"approve":true}`
			if i%2 == 0 {
				body = `{"approve":false}`
			}
			resp, got := fetch(t, front, "/gateway/approvals/"+id, body, nil)
			mu.Lock()
			defer mu.Unlock()
			switch resp.StatusCode {
			case http.StatusOK:
				decided[gjson.GetBytes(got, "approved").Bool()]++
			case http.StatusConflict:
			default:
				t.Errorf("%d: %s", resp.StatusCode, got)
			}
		})
	}
	wg.Wait()
	if len(decided) != 1 || decided[true]+decided[false] != 4 {
		t.Errorf("decided %v, want four times the same", decided)
	}
}
