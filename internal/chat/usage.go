package chat

import (
	"encoding/json"
	"math/big"
	"strconv"
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

// maxDigits are so few that a sum of two such numbers is an int64.
const maxDigits = 18

// addNumbers is exact for whole numbers and for decimals of any length that a provider may send.
func addNumbers(a, b string) json.RawMessage {
	if len(a)+len(b) > 200 {
		return json.RawMessage(a)
	}
	if len(a) <= maxDigits && len(b) <= maxDigits { // nearly always
		if x, err := strconv.ParseInt(a, 10, 64); err == nil {
			if y, err := strconv.ParseInt(b, 10, 64); err == nil {
				return strconv.AppendInt(nil, x+y, 10)
			}
		}
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
	var t Tokens
	take := func(to *int64, v gjson.Result) { *to = max(*to, v.Int()) }
	gjson.ParseBytes(usage).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "prompt_tokens", "input_tokens":
			take(&t.Prompt, v)
		case "completion_tokens", "output_tokens":
			take(&t.Completion, v)
		case "prompt_tokens_details", "input_tokens_details":
			take(&t.Cached, v.Get("cached_tokens"))
		case "total_tokens":
			take(&t.Total, v)
		}
		return true
	})
	t.Total = max(t.Total, t.Prompt+t.Completion)
	return t
}
