package exectool

import (
	"bytes"
	"errors"
	"strings"
)

var errTooMuch = errors.New("the program writes too much")

// bounded keeps what is written, up to a limit. The write that would pass it fails, and full is called once.
type bounded struct {
	kept  bytes.Buffer // no embedding: its ReadFrom knows no limit
	limit int
	full  func()
	over  bool // the limit was reached; for use once nobody writes any more
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.over {
		return 0, errTooMuch
	}
	if b.kept.Len()+len(p) > b.limit {
		b.over = true
		b.full()
		return 0, errTooMuch
	}
	return b.kept.Write(p)
}

// tail keeps the last bytes of what is written, up to a limit.
type tail struct {
	kept  []byte
	limit int
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.limit):]...)
	if extra := len(t.kept) - t.limit; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

// String is what was kept, as text without blanks around it.
func (t *tail) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
}
