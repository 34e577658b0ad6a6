package chat

import (
	"encoding/json"
	"math/big"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// AddUsage is the sum of two usage objects, every numeric leaf of either. A leaf that only one has is taken over, as
// is one that is no number. Either may be nil.
func AddUsage(a, b json.RawMessage) json.RawMessage {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	sum := []byte(a)
	gjson.ParseBytes(b).ForEach(func(key, v gjson.Result) bool {
		path := escapePath(key.Str)
		old := gjson.GetBytes(sum, path)
		value := json.RawMessage(v.Raw)
		switch {
		case v.IsObject() && old.IsObject():
			value = AddUsage(json.RawMessage(old.Raw), value)
		case v.Type == gjson.Number && old.Type == gjson.Number:
			value = addNumbers(old.Raw, v.Raw)
		case v.Type == gjson.Null && old.Exists():
			return true
		}
		if next, err := sjson.SetRawBytes(sum, path, value); err == nil {
			sum = next
		}
		return true
	})
	return sum
}

// addNumbers is exact for whole numbers and for decimals of any length that a provider may send.
func addNumbers(a, b string) json.RawMessage {
	if len(a)+len(b) > 200 {
		return json.RawMessage(a)
	}
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	if !okX || !okY {
		return json.RawMessage(a)
	}
	x.Add(x, y)
	if x.IsInt() {
		return json.RawMessage(x.Num().String())
	}
	return json.RawMessage(strings.TrimRight(x.FloatString(12), "0"))
}

// escapePath makes a key one step of a gjson path.
func escapePath(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if strings.IndexByte(`.*?|#@!{}[]()=<>%\:`, key[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(key[i])
	}
	return b.String()
}

// Tokens are the counts of a usage object that budgets and metrics use.
type Tokens struct{ Prompt, Completion, Cached, Total int64 }

// ReadTokens reads the counts of a usage object, of chat completions or with the names of the Responses API; what is
// missing counts 0. Negative counts do too.
func ReadTokens(usage json.RawMessage) Tokens {
	v := gjson.ParseBytes(usage)
	n := func(path string) int64 { return max(v.Get(path).Int(), 0) }
	t := Tokens{
		Prompt:     max(n("prompt_tokens"), n("input_tokens")),
		Completion: max(n("completion_tokens"), n("output_tokens")),
		Cached:     max(n("prompt_tokens_details.cached_tokens"), n("input_tokens_details.cached_tokens")),
		Total:      n("total_tokens"),
	}
	t.Total = max(t.Total, t.Prompt+t.Completion)
	return t
}
