package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes records each write of its own.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(b))
	return len(b), nil
}

func TestLogLinesGoOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to writes
		b := newLogBuffered(&to)
		_, _ = fmt.Fprintln(b, "one")
		_, _ = fmt.Fprintln(b, "two")
		if len(to.all) != 0 {
			t.Fatalf("%q went out at once", to.all)
		}
		time.Sleep(logWait)
		synctest.Wait()
		if len(to.all) != 1 || to.all[0] != "one\ntwo\n" {
			t.Fatalf("%q went out, want both lines by one write", to.all)
		}
		_, _ = fmt.Fprintln(b, "three")
		b.flush()
		if len(to.all) != 2 || to.all[1] != "three\n" {
			t.Errorf("%q went out, want the third line by the flush", to.all)
		}
	})
}

func TestLogHoldsNoMoreThanItsBuffer(t *testing.T) {
	var to writes
	b := newLogBuffered(&to)
	long := strings.Repeat("x", logBuffer+1) + "\n"
	half := strings.Repeat("y", logBuffer*2/3) + "\n"
	_, _ = fmt.Fprint(b, half)
	_, _ = fmt.Fprint(b, half)
	_, _ = fmt.Fprint(b, long)
	b.flush()
	if got := strings.Join(to.all, ""); got != half+half+long {
		t.Errorf("%d bytes went out, want all %d in their order", len(got), len(half+half+long))
	}
	if len(to.all) != 3 {
		t.Errorf("%d writes, want 3", len(to.all))
	}
}

func TestLogLinesOfManyStayWhole(t *testing.T) {
	var to writes
	b := newLogBuffered(&to)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				_, _ = fmt.Fprintln(b, "a line that is whole")
			}
		})
	}
	wg.Wait()
	b.flush()
	var all bytes.Buffer
	for _, w := range to.all {
		all.WriteString(w)
	}
	if got := strings.Count(all.String(), "a line that is whole\n"); got != 4000 {
		t.Errorf("%d lines, want 4000", got)
	}
}
