package prompted

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/internal/chat"
)

// Found is what Find makes of a turn's text.
type Found struct {
	Calls  []chat.Call // nil where the text is an answer. One that can't be read has no name, or arguments that are no JSON
	Before string      // the text before the first call, or the answer; without marks
	Said   string      // the text up to the end of the last call: what follows, such as a result made up, is left out
	MadeUp bool        // there is no call, and what stands in the tags of a result
}

// maxTries bounds how many places of one text are tried.
const maxTries = 200

// Find reads the calls in a text of a model that was asked to write calls as text: with marks anywhere, and as JSON of
// known tools, bare or in a code fence. Thoughts in front are not looked at.
func (r *Reader) Find(text string) Found {
	from := thoughts(text)
	looked := text
	if len(looked) > longest {
		looked = looked[:longest]
	}
	f := Found{}
	at, end := from, from
	for range maxTries {
		i := r.candidate(looked[at:])
		if i < 0 {
			break
		}
		at += i
		calls, rest := r.callsAt(looked[at:])
		if calls == nil {
			at++
			continue
		}
		if f.Calls == nil {
			f.Before = looked[:at]
		} else if strings.Contains(looked[end:at], responseOpen) { // what follows a result made up is made up too
			break
		}
		f.Calls = append(f.Calls, inChat(calls)...)
		at = len(looked) - len(rest)
		end = at
	}
	if f.Calls == nil {
		return Found{Before: Answer(text), Said: text, MadeUp: strings.Contains(text[from:], responseOpen)}
	}
	before, _, _ := strings.Cut(f.Before, responseOpen) // a result made up is no word to the user
	f.Before = Answer(openedFence.ReplaceAllString(before, ""))
	f.Said = strings.TrimRight(text[:end], blanks)
	return f
}

// openedFence is the opening of a code fence that had the calls in it.
var openedFence = regexp.MustCompile("```[a-z_]*\\s*$")

// The marks of thoughts, as Qwen, DeepSeek and others write them.
const thoughtsOpen, thoughtsClose = "<think>", "</think>"

// thoughts is where the text behind a model's thoughts begins, which servers without a parser for them leave in the
// text. Thoughts that have no end are all of it.
func thoughts(text string) int {
	end := strings.Index(text, thoughtsClose)
	switch begun := strings.HasPrefix(strings.TrimLeft(text, blanks), thoughtsOpen); {
	case begun && end < 0:
		return len(text)
	case end < 0, !begun && strings.Contains(text[:end], tagOpen): // the end of thoughts is part of an argument
		return 0
	}
	return end + len(thoughtsClose)
}

// AfterThoughts is the text behind a model's thoughts.
func AfterThoughts(text string) string { return text[thoughts(text):] }

// candidate is the next place where calls may begin, -1 without one.
func (r *Reader) candidate(text string) int {
	for from := 0; ; {
		i := strings.IndexAny(text[from:], starts)
		if i < 0 {
			return -1
		}
		if from += i; r.mayBegin(text[from:]) {
			return from
		}
		from++
	}
}

// starts are the characters with which calls begin: those of marks, of JSON, of a fence and of functools[.
const starts = "<[{`f"

// callsAt reads the calls that text begins with, nil where it begins with none.
func (r *Reader) callsAt(text string) (calls []call, rest string) {
	if f := formAt(text); f != nil {
		calls, rest, err := f.read(text[len(f.open):])
		if err == nil {
			return calls, rest
		}
		body, rest, _ := strings.Cut(text[len(f.open):], f.closing)
		return []call{broken(body)}, rest
	}
	if strings.HasPrefix(text, fence) {
		_, body, ok := strings.Cut(text, "\n")
		if !ok {
			return nil, ""
		}
		body = strings.TrimLeft(body, blanks)
		if formAt(body) != nil {
			calls, rest = r.callsAt(body)
		} else {
			calls, rest = r.bare(body)
		}
		return calls, after(rest, fence)
	}
	return r.bare(text)
}

// bare reads JSON that text begins with, as far as it is calls of known tools.
func (r *Reader) bare(text string) (all []call, rest string) {
	rest = text
	for {
		next := strings.TrimLeft(rest, blanks)
		if next == "" || next[0] != '{' && (next[0] != '[' || all != nil) {
			return all, rest
		}
		calls, behind, err := callsIn(next, true)
		if err != nil || !r.knows(calls) {
			return all, rest
		}
		all, rest = append(all, calls...), behind
	}
}

// What can be made out of a call that is no JSON.
var (
	brokenName      = regexp.MustCompile(`"(?:name|function|tool_name)"\s*:\s*"([^"\\]{1,64})"`)
	brokenArguments = regexp.MustCompile(`"(?:arguments|parameters)"\s*:\s*`)
)

// broken is a call that can't be read: its name where one is to be seen, and its arguments as they are, which are no
// JSON, so that the model is told where.
func broken(body string) call {
	c := call{}
	if m := brokenName.FindStringSubmatch(body); m != nil {
		c.name = m[1]
	}
	arguments := strings.TrimSpace(body)
	if at := brokenArguments.FindStringIndex(body); c.name != "" && at != nil {
		arguments = strings.TrimSpace(body[at[1]:])
		if shorter, ok := strings.CutSuffix(arguments, "}"); ok && json.Valid([]byte(strings.TrimSpace(shorter))) { // the fault lies elsewhere
			arguments = strings.TrimSpace(shorter)
		}
	}
	if c.name == "" || json.Valid([]byte(arguments)) && !strings.HasPrefix(arguments, "{") {
		arguments = "{" + arguments // no JSON, whatever it was
	}
	c.arguments = chat.Quote(arguments)
	return c
}

// strays are marks that are no part of an answer: small models repeat them around it.
var strays = []string{responseOpen, responseClose, tagClose, "</tools>"}

var withoutStrays = func() *strings.Replacer {
	var pairs []string
	for _, mark := range strays {
		pairs = append(pairs, mark, "")
	}
	return strings.NewReplacer(pairs...)
}()

// Answer is a text without marks that are no part of an answer. Thoughts in front stay as they are.
func Answer(text string) string {
	at := thoughts(text)
	return text[:at] + withoutStrays.Replace(trimTokens(text[at:]))
}

// trimTokens takes special tokens off the end of a turn, and leaves the blanks before them.
func trimTokens(text string) string {
	for {
		bare := strings.TrimRight(text, blanks)
		shorter := bare
		for _, t := range endTokens {
			shorter = strings.TrimSuffix(shorter, t)
		}
		if shorter == bare {
			return text
		}
		text = shorter
	}
}

// trimEnd takes blanks and special tokens off the end of a turn.
func trimEnd(text string) string { return strings.TrimRight(trimTokens(text), blanks) }
