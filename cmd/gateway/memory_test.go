package main

import "testing"

func TestTheHeapGrowsByARoomThatIsBounded(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, 800}, {4 << 20, 800}, {12 << 20, 400}, {24 << 20, 200}, {48 << 20, 100}, {1 << 30, 100},
	} {
		got := collectPercent(tt.live)
		if got != tt.want {
			t.Errorf("with %d MiB alive the heap grows by %d%%, want %d%%", tt.live>>20, got, tt.want)
		}
	}
}
