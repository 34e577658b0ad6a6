package main

import (
	"os"
	"runtime"
	"runtime/debug"
	rt "runtime/metrics"
)

// A gateway's live heap is a few megabytes, and each request leaves some kilobytes behind: by Go's default of one
// collection for each doubling, a busy one would collect all the time. So that the heap grows by collectRoom between two
// collections, where that is more.
const (
	collectRoom  = 48 << 20 // bytes
	collectMost  = 800      // percent, beyond which nothing is gained
	collectUsual = 100      // percent, Go's default
)

// collectLess keeps the collector at that as the live heap changes. An operator who sets GOGC has the last word.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectMost)
		(&heapWatch{percent: collectMost}).watch()
	}
}

// heapWatch looks at the live heap after each collection, whose first sign is that it is collected itself.
type heapWatch struct{ percent int }

func (c *heapWatch) watch() {
	runtime.SetFinalizer(c, func(c *heapWatch) {
		sample := []rt.Sample{{Name: "/gc/heap/live:bytes"}}
		rt.Read(sample)
		if next := collectPercent(sample[0].Value.Uint64()); next*4 < c.percent*3 || next*3 > c.percent*4 { // each change stops the world
			c.percent = next
			debug.SetGCPercent(next)
		}
		c.watch()
	})
}

// collectPercent is by how much a live heap of that many bytes may grow.
func collectPercent(live uint64) int {
	return int(min(max(collectRoom*100/max(live, 1), collectUsual), collectMost))
}
