package loop

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"unicode/utf8"
)

// shortest is what a result is shortened to at least, in characters.
const shortest = 400

// relieve makes the conversation shorter, as the model's context is full, and says whether it could: turns of earlier
// answers go, and results are cut.
func (s *state) relieve(ctx context.Context) bool {
	forgot := s.forget(ctx)
	return s.shorten() || forgot
}

// shorten cuts the oldest results of the run's tools until all of them together are half as long, as the model's context
// is full. The newest one is cut last, and by no more than is needed. It says whether there was anything to cut.
func (s *state) shorten() bool {
	total := 0
	for _, r := range s.results {
		for _, one := range r.results {
			total += len(one.text)
		}
	}
	left := total / 2    // bytes to be cut
	enough := total / 10 // what may be left of them: the newest result is not cut for a little
	count := 0
	for i := range s.results {
		r := &s.results[i]
		results := slices.Clone(r.results)
		cut := 0
		for j, one := range results {
			if left <= enough {
				break
			}
			short := shortened(one.text, max(shortest, len(one.text)-left))
			if len(short) >= len(one.text) {
				continue
			}
			left -= len(one.text) - len(short)
			results[j].text = short
			cut++
		}
		if cut == 0 {
			continue
		}
		count += cut
		r.results = results
		s.after[r.at] = r.message()
	}
	if count == 0 {
		return false
	}
	s.Record.Shortened += count
	s.Record.Notes = append(s.Record.Notes, fmt.Sprintf("step %d: the model's context was full; %d of the oldest tool results were shortened and the step was asked once more", s.step+1, count))
	s.Logger.Info("the model's context is full: tool results shortened", slog.String("run_id", s.Record.ID), slog.Int("step", s.step+1), slog.Int("results", count))
	return true
}

// shortened is the beginning of text, about length bytes, with a last line that says how much is missing.
func shortened(text string, length int) string {
	if len(text) <= length {
		return text
	}
	for length > 0 && !utf8.RuneStart(text[length]) {
		length--
	}
	missing := utf8.RuneCountInString(text[length:])
	return fmt.Sprintf("%s\n[shortened: the last %d characters are missing, as the conversation had grown too long]", text[:length], missing)
}
