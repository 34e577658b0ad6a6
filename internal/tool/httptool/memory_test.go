package httptool

import (
	"errors"
	"testing"
)

// A program that would take all memory ends long before.
func TestProgramsAreBoundedInMemory(t *testing.T) {
	f, err := newFilter("[range(1e9)]")
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	if _, err = f.text(t.Context(), nil); !errors.Is(err, errMemory) {
		t.Errorf("the program ends with %v", err)
	}
	if after := heap(); after > before+4*maxGrowth {
		t.Errorf("the heap grew by %d MiB", (after-before)>>20)
	}
}
