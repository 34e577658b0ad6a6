package prompted

import "strings"

// Watch follows the text of one reply as it comes, and says how much of it may be shown. Thoughts in front always may.
type Watch struct {
	reader *Reader
	whole  bool // calls are all of the text behind the thoughts, or there are none
	safe   int
	tail   string // what came behind it, while that matters
	size   int
	state  watchState
}

type watchState int

const (
	beginning watchState = iota // it may begin with thoughts
	thinking
	reading
	waiting // only the end of the text can tell
	free    // it is an answer
	stopped // calls have begun, or what can't be told from them
)

// Watch is for a text that Read is going to read.
func (r *Reader) Watch() *Watch { return &Watch{reader: r, whole: true} }

// WatchFor is for a text that Find is going to read: what stands before calls may be shown.
func (r *Reader) WatchFor() *Watch { return &Watch{reader: r} }

// Add takes in the next piece of the text. It gives how many bytes of all of it, from its beginning, can be no part of
// calls, whatever follows. That never becomes less.
func (w *Watch) Add(text string) int {
	w.size += len(text)
	switch w.state {
	case free:
		w.safe = w.size
		return w.safe
	case waiting:
		if w.size-w.safe > longest {
			w.state, w.safe = free, w.size
		}
		return w.safe
	case stopped:
		return w.safe
	case beginning, thinking, reading:
	}
	w.tail += text
	if w.state == beginning {
		switch t := strings.TrimLeft(w.tail, blanks); {
		case strings.HasPrefix(t, thoughtsOpen):
			w.state = thinking
		case strings.HasPrefix(thoughtsOpen, t):
			return w.safe
		default:
			w.state = reading
		}
	}
	if w.state == thinking {
		w.think()
	}
	switch {
	case w.state == reading && w.whole:
		w.head()
	case w.state == reading:
		w.parts()
	}
	return w.safe
}

func (w *Watch) show(n int) {
	w.safe += n
	w.tail = w.tail[n:]
}

// think shows thoughts up to their end, which may come in pieces.
func (w *Watch) think() {
	if i := strings.Index(w.tail, thoughtsClose); i >= 0 {
		w.show(i + len(thoughtsClose))
		w.state = reading
		return
	}
	w.show(len(w.tail) - partial(w.tail, thoughtsClose))
}

// partial is how many bytes at the end of text may be the beginning of mark.
func partial(text, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}

// head shows nothing until it is clear that the text is an answer, and then all of it.
func (w *Watch) head() {
	switch {
	case len(w.tail) > longest || !w.reader.MayBe(w.tail):
		w.state, w.safe, w.tail = free, w.size, ""
	case len(strings.TrimLeft(w.tail, blanks)) > looked:
		w.state, w.tail = waiting, ""
	}
}

// parts shows what comes before the next place where calls may begin.
func (w *Watch) parts() {
	for {
		i := strings.IndexAny(w.tail, starts)
		if i < 0 {
			w.show(len(w.tail))
			return
		}
		w.show(i)
		if w.begins() {
			if len(w.tail) > looked || formAt(w.tail) != nil {
				w.state, w.tail = stopped, ""
			}
			return
		}
		w.show(1)
	}
}

// begins says whether calls, or a mark that is no part of an answer, may begin here.
func (w *Watch) begins() bool {
	if w.reader.mayBegin(w.tail) {
		return true
	}
	for _, marks := range [][]string{strays, endTokens} {
		for _, mark := range marks {
			if strings.HasPrefix(w.tail, mark) || strings.HasPrefix(mark, w.tail) {
				return true
			}
		}
	}
	return false
}
