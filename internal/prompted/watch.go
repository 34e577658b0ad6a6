package prompted

import "strings"

// Watch follows the text of one turn as it comes, and says how much of it may be shown.
type Watch interface {
	// Add takes in the next piece of the text. It gives how many bytes of all of it, from its beginning, can be no part
	// of calls, whatever follows. That never becomes less.
	Add(text string) int
}

// Watch is for a text that Read is going to read: all of it is calls, or nothing is.
func (r *Reader) Watch() Watch { return &headWatch{reader: r} }

// WatchFor is for a text that Find is going to read: what stands before calls may be shown.
func (r *Reader) WatchFor() Watch { return &partWatch{reader: r} }

// headWatch looks at the beginning of a text.
type headWatch struct {
	reader *Reader
	head   []byte
	size   int
	clear  bool // it is an answer
}

func (w *headWatch) Add(text string) int {
	w.size += len(text)
	if w.clear {
		return w.size
	}
	if len(w.head) <= 4*looked { // blanks in front may be many
		w.head = append(w.head, text...)
	}
	if w.reader.MayBe(string(w.head)) {
		return 0
	}
	w.clear, w.head = true, nil
	return w.size
}

// partWatch goes through a text from its safe beginning to the next place where calls may begin.
type partWatch struct {
	reader *Reader
	safe   int
	tail   string // behind it
	state  watchState
}

type watchState int

const (
	beginning watchState = iota // it may begin with thoughts
	thinking
	reading
	stopped // calls have begun, or what can't be told from them
)

func (w *partWatch) Add(text string) int {
	if w.state == stopped {
		return w.safe
	}
	w.tail += text
	if w.state == beginning {
		const open = "<think>"
		switch t := strings.TrimLeft(w.tail, " \t\r\n"); {
		case strings.HasPrefix(t, open):
			w.state = thinking
		case strings.HasPrefix(open, t):
			return w.safe
		default:
			w.state = reading
		}
	}
	if w.state == thinking {
		w.think()
	}
	if w.state == reading {
		w.read()
	}
	return w.safe
}

// think shows thoughts up to their end, which may be in pieces.
func (w *partWatch) think() {
	const closing = "</think>"
	if i := strings.Index(w.tail, closing); i >= 0 {
		w.show(i + len(closing))
		w.state = reading
		return
	}
	w.show(len(w.tail) - partial(w.tail, closing))
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

func (w *partWatch) show(n int) {
	w.safe += n
	w.tail = w.tail[n:]
}

func (w *partWatch) read() {
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
func (w *partWatch) begins() bool {
	if w.reader.mayBegin(w.tail) {
		return true
	}
	for _, mark := range strays {
		if strings.HasPrefix(w.tail, mark) || strings.HasPrefix(mark, w.tail) {
			return true
		}
	}
	for _, mark := range endTokens {
		if strings.HasPrefix(w.tail, mark) || strings.HasPrefix(mark, w.tail) {
			return true
		}
	}
	return false
}
