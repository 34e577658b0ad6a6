package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
	"github.com/toolgate/toolgate/internal/tool"
)

// MaxArguments is the size, in bytes, up to which the arguments of a call are read.
const MaxArguments = 1 << 20

// noArguments is the canonical text of a call without arguments.
const noArguments = "{}"

// ReadArguments reads a call's arguments leniently: raw is the JSON value that stood under `arguments` (a string that
// holds JSON, an object, null) or nil. Numbers become json.Number.
//
// canonical is the arguments as a JSON object: compact, keys sorted, <, > and & as they are. However an argument
// object was written, its canonical text is the same, with one exception: numbers keep their spelling, so that 5, 5.0
// and 5e0 are three texts (a model that repeats itself repeats the spelling; coercion comes later). It is what the
// provider is shown of the call when the conversation is sent back, and never broken JSON: after an error it is "{}".
//
// Taken as well as a plain JSON object: nothing at all, null and blanks (no arguments), an object that is not in a
// string, one in a string in the string (some providers encode twice), `{}` before or after the object (the first
// piece of some streams), a code fence around it, special tokens of a chat template behind it.
//
// Nothing else is repaired, since a guess may act where the model meant something else. The error is for the model to
// read: it says where and what, and names no Go type. A key that stands twice in an object is one too: else one
// reader might check the first and another act on the second. At most MaxArguments bytes and jsontree.MaxDepth
// levels.
func ReadArguments(raw json.RawMessage) (args map[string]any, canonical string, err error) {
	args, err = decodeArguments(raw)
	if err != nil {
		return nil, noArguments, err
	}
	return args, string(tool.EncodeJSON(args)), nil
}

// decodeArguments is ReadArguments without the canonical text.
func decodeArguments(raw json.RawMessage) (map[string]any, error) {
	if len(raw) > MaxArguments {
		return nil, fmt.Errorf("arguments must be smaller than %d MiB", MaxArguments>>20)
	}
	object, err := readArguments(raw)
	if err != nil {
		return nil, err
	}
	if object == nil {
		return map[string]any{}, nil
	}
	return object.Any().(map[string]any), nil
}

// readArguments is the object in raw, nil when there is none.
func readArguments(raw []byte) (*jsontree.Value, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' {
		return objectIn(string(raw), 0)
	}
	text, err := jsontree.Parse(raw)
	if err != nil {
		return nil, forModel(err)
	}
	return objectIn(text.Text, 1)
}

// objectIn is the object that stands in text, nil when the text says that there is none. It may stand in up to
// unwraps further strings.
func objectIn(text string, unwraps int) (*jsontree.Value, error) {
	inner, from := undress(text)
	r := jsontree.NewReader(inner)
	var found *jsontree.Value
	for r.More() {
		v, err := r.Next()
		switch {
		case err != nil && found != nil:
			return nil, errors.New("arguments must be one JSON object, with no text after it")
		case err != nil:
			return nil, forModel(shift(err, utf8.RuneCountInString(text[:from])))
		case v.Kind == jsontree.Null && found == nil && !r.More():
			return nil, nil
		case v.Kind == jsontree.String && found == nil && unwraps > 0 && !r.More():
			return objectIn(v.Text, unwraps-1)
		case v.Kind != jsontree.Object:
			return nil, fmt.Errorf("arguments must be one JSON object, got %v", v.Kind)
		case len(v.Members) == 0:
		case found != nil:
			return nil, errors.New("arguments must be one JSON object, got two")
		default:
			found = v
		}
	}
	return found, nil
}

// Special tokens of chat templates: <|call|> (harmony, ChatML), <｜tool▁call▁end｜> (DeepSeek), </s>, </tool_call>.
const specialToken = `(?:<\|[^<>|]*\|>|<｜[^<>｜]*｜>|</s>|</tool_call>)` //nolint:gosec // no credential: a token of a model's

var (
	tokensAtEnd = regexp.MustCompile(`(?:\s*` + specialToken + `)+\s*$`)
	fenceStart  = regexp.MustCompile("^```[A-Za-z0-9]*\\s*")
)

// undress takes what models put around JSON off text: white space, a code fence, special tokens behind it. from is
// where in text the rest starts.
func undress(text string) (inner string, from int) {
	inner = withoutTokens(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "\uFEFF")))
	if fence := fenceStart.FindString(inner); fence != "" {
		inner = withoutTokens(strings.TrimSpace(strings.TrimSuffix(inner[len(fence):], "```")))
	}
	// What was taken off in front is blanks and a fence: neither holds the first character of JSON.
	return inner, max(strings.Index(text, inner), 0)
}

// withoutTokens looks for tokens only where one may end: a scan by the expression costs, and most texts have none.
func withoutTokens(text string) string {
	if !strings.HasSuffix(text, ">") {
		return text
	}
	if at := tokensAtEnd.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	return text
}

// shift moves the place of err by the characters that were taken off in front, to where the model wrote it.
func shift(err error, by int) error {
	var syntax *jsontree.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	return &jsontree.SyntaxError{Char: syntax.Char + by, Reason: syntax.Reason}
}

// forModel is an error of jsontree in words about arguments.
func forModel(err error) error {
	var twice *jsontree.DuplicateError
	var deep *jsontree.DepthError
	switch {
	case errors.As(err, &twice):
		return fmt.Errorf("the argument %q stands twice", short(twice.Path))
	case errors.As(err, &deep):
		return fmt.Errorf("arguments must not be %w", deep)
	default:
		return err
	}
}

// short bounds what is repeated of the model's own text.
func short(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Prefixes that models put before a tool's name, from the names of namespaces in their training.
var namePrefixes = []string{"functions.", "function.", "tools.", "default_api.", "default_api:"}

var (
	tokensAtStart = regexp.MustCompile(`^(?:\s*` + specialToken + `)+`)
	anyToken      = regexp.MustCompile(`<\||<｜|` + specialToken)
)

// longestName is how many bytes a name may have, with what stands around it, to be looked at any further. Tools have at
// most 64.
const longestName = 256

// NormalizeName is the known tool that a model's spelling means: name without the prefixes of a namespace, blanks,
// quotes, a pair of parentheses and special tokens with all that follows them ("get_weather<|channel|>commentary").
// Where that gives no known name, it is name as it came.
func NormalizeName(name string, known func(string) bool) string {
	if known(name) {
		return name
	}
	bare := name
	if strings.Contains(name, "<") { // else there is no token, which looking for costs
		bare = tokensAtStart.ReplaceAllString(name, "")
		if at := anyToken.FindStringIndex(bare); at != nil {
			bare = bare[:at[0]]
		}
	}
	if len(bare) > longestName {
		return name
	}
	for {
		bare = strings.Trim(bare, " \t\r\n\"'`")
		if known(bare) {
			return bare
		}
		shorter := strings.TrimSuffix(bare, "()")
		for _, p := range namePrefixes {
			shorter = strings.TrimPrefix(shorter, p)
		}
		if shorter == bare {
			return name
		}
		bare = shorter
	}
}
