//go:build e2e

package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// cutter is an address that leads to another one, and cuts the first connection.
type cutter struct {
	url      string
	listener net.Listener
	now      chan struct{} // closed: the first connection is cut, if it still is
	wg       sync.WaitGroup
}

// newCutter leads to an address. Of the first connection it lets the request through, and of its reply nothing.
func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{url: "http://" + l.Addr().String(), listener: l, now: make(chan struct{})}
	c.wg.Go(func() { // ends with the listener
		for first := true; ; first = false {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(to, "http://"))
			if err != nil {
				in.Close()
				continue
			}
			context.AfterFunc(t.Context(), func() { // an SDK may keep its connection for the next request
				in.Close()
				out.Close()
			})
			c.lead(in, out, first)
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.wg.Wait()
	})
	return c
}

// lead copies both ways until one side ends; of the first connection the way back ends with its first byte.
func (c *cutter) lead(in, out net.Conn, first bool) {
	ended := make(chan struct{})
	c.wg.Go(func() {
		_, _ = io.Copy(out, in)
		out.Close()
	})
	c.wg.Go(func() {
		defer close(ended)
		if first {
			_, _ = out.Read(make([]byte, 1))
		} else {
			_, _ = io.Copy(in, out)
		}
		in.Close()
		out.Close()
	})
	if first {
		c.wg.Go(func() {
			select {
			case <-c.now:
				in.Close()
				out.Close()
			case <-ended:
			}
		})
	}
}

// testCutOff cuts the connection after a note has been kept: while the model is still at work, and when the reply is
// there. The SDK sends the request again by itself, with the same key.
func (w *world) testCutOff(t *testing.T, m mode) {
	for _, when := range []string{"at once", "and think"} {
		t.Run(when, func(t *testing.T) {
			note := string(m) + "-" + strings.ReplaceAll(when, " ", "-")
			c := newCutter(t, w.url)
			j := w.job(m, "assistant", "Take note "+note+" "+when)
			j.BaseURL, j.Key = c.url+"/v1", "key-of-"+note
			if when == "and think" {
				c.wg.Go(func() { // ends when the note is there, or the test's time is over
					for end := time.Now().Add(patience); w.service.callsFor(note) == 0 && time.Now().Before(end); {
						time.Sleep(time.Millisecond)
					}
					close(c.now)
				})
			}

			got := w.do(t, j)

			if got.Error != nil || got.Text != "Note "+note+" is kept." {
				t.Errorf("answer = %q, %+v", got.Text, got.Error)
			}
			if n := w.service.callsFor(note); n != 1 {
				t.Errorf("the note was kept %d times, want once", n)
			}
		})
	}
}

// testWriteNotRepeated lets the model fail after a write. Without a key the status is one that no SDK repeats; with one
// it is the model's, and who asks again by himself writes nothing again.
func (w *world) testWriteNotRepeated(t *testing.T, m mode) {
	for key, status := range map[string]int{"": w.wrote, "fallen-" + string(m): http.StatusBadGateway} {
		note := string(m) + "-fall" + key
		j := w.job(m, "assistant", "Take note "+note+" and fall")
		j.Key = key

		got := w.do(t, j).Error

		if got == nil || got.Status != status || got.Code != "upstream_error" {
			t.Errorf("key %q: error = %+v, want %d upstream_error", key, got, status)
		}
		if n := len(w.model.requests(j.Prompt)); n != 2 {
			t.Errorf("key %q: the model was asked %d times, want 2, by one request", key, n)
		}
		if key != "" {
			w.do(t, j)
			if n := len(w.model.requests(j.Prompt)); n != 4 {
				t.Errorf("key %q: the model was asked %d times, want 4, by two requests", key, n)
			}
		}
		if n := w.service.callsFor(note); n != 1 {
			t.Errorf("key %q: the note was kept %d times, want once", key, n)
		}
	}
}
