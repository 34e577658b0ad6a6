package main

import (
	"bytes"
	"fmt"
	"slices"
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

func (w *writes) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func TestLogLinesGoOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to writes
		b := newLogBuffered(&to)
		_, _ = fmt.Fprintln(b, "one")
		_, _ = fmt.Fprintln(b, "two")
		if got := to.seen(); len(got) != 0 {
			t.Fatalf("%q went out at once", got)
		}
		time.Sleep(logWait)
		synctest.Wait()
		if got := to.seen(); len(got) != 1 || got[0] != "one\ntwo\n" {
			t.Fatalf("%q went out, want both lines by one write", got)
		}
		_, _ = fmt.Fprintln(b, "three")
		b.flush()
		if got := to.seen(); len(got) != 2 || got[1] != "three\n" {
			t.Errorf("%q went out, want the third line by the flush", got)
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
	if got := strings.Join(to.seen(), ""); got != half+half+long {
		t.Errorf("%d bytes went out, want all %d in their order", len(got), len(half+half+long))
	}
	if got := to.seen(); len(got) != 3 {
		t.Errorf("%d writes, want 3", len(got))
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
	for _, w := range to.seen() {
		all.WriteString(w)
	}
	if got := strings.Count(all.String(), "a line that is whole\n"); got != 4000 {
		t.Errorf("%d lines, want 4000", got)
	}
}
