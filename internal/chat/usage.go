package chat

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// What a provider writes is added up with each step of a run: a usage object has about fifteen leaves, two deep.
const (
	maxUsage      = 64 << 10 // bytes; a larger one counts as none
	maxUsageDepth = 8        // objects in each other that are added up
	maxExponent   = 100      // of a number; 1e1000000 is short, and its digits are a million
)

// AddUsage is the sum of two usage objects, every numeric leaf of either. A leaf that only one has is taken over, as
// is one that is no number. Either may be nil.
func AddUsage(a, b json.RawMessage) json.RawMessage {
	if len(b) == 0 || len(b) > maxUsage {
		return a
	}
	if len(a) == 0 || len(a) > maxUsage {
		return b
	}
	return addObjects(a, b, maxUsageDepth)
}

// addObjects goes as deep as depth says.
func addObjects(a, b []byte, depth int) []byte {
	ours, err := Scan(a)
	if err != nil {
		return b
	}
	theirs, err := Scan(b)
	if err != nil {
		return a
	}
	sum := make([]byte, 0, len(a)+len(b))
	end := 0 // of what is taken over of a
	for _, m := range ours {
		for i, other := range theirs {
			if other.Name == m.Name {
				sum = append(append(sum, a[end:m.Value.Start]...), addValues(m.Value.of(a), other.Value.of(b), depth-1)...)
				end = m.Value.End
				theirs = slices.Delete(theirs, i, i+1)
				break
			}
		}
	}
	closing := bytes.LastIndexByte(a, '}')
	sum = append(sum, a[end:closing]...)
	for i, m := range theirs {
		if i > 0 || len(ours) > 0 {
			sum = append(sum, ',')
		}
		sum = append(sum, b[m.Key:m.Value.End]...)
	}
	return append(sum, '}')
}

// addValues is the sum of two values as they are written.
func addValues(a, b []byte, depth int) []byte {
	switch {
	case a[0] == '{' && b[0] == '{' && depth > 0:
		return addObjects(a, b, depth)
	case isNumber(a) && isNumber(b):
		return addNumbers(string(a), string(b))
	case string(b) == "null":
		return a
	}
	return b
}

func isNumber(b []byte) bool { return b[0] == '-' || '0' <= b[0] && b[0] <= '9' }

// maxDigits are so few that a sum of two such numbers is an int64.
const maxDigits = 18

// addNumbers is exact for whole numbers and for decimals of any length that a provider may send.
func addNumbers(a, b string) json.RawMessage {
	if len(a)+len(b) > 200 || !isShort(a) || !isShort(b) {
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
	digits, _ := x.FloatPrec()
	return json.RawMessage(x.FloatString(digits))
}

// isShort says whether a number has about as many digits as it is written with.
func isShort(number string) bool {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return true
	}
	exponent, err := strconv.Atoi(number[at+1:])
	return err == nil && -maxExponent <= exponent && exponent <= maxExponent
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
