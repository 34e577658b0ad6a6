package sqltool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/tool"
)

// null is a value that is not there.
const null = "null"

// jsonText is a text as JSON. What is no UTF-8 in it is replaced.
func jsonText(s string) string { return string(tool.EncodeJSON(s)) }

// jsonBool is a truth value as JSON.
func jsonBool(b bool) string { return strconv.FormatBool(b) }

// jsonFloat is a number as JSON, which has none for infinity and for what is no number.
func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return `"Infinity"`
	case math.IsInf(f, -1):
		return `"-Infinity"`
	case math.IsNaN(f):
		return `"NaN"`
	}
	return string(tool.EncodeJSON(f))
}

// jsonNumber is the text of a number as JSON, digit by digit, or as a JSON text where it is none in JSON.
func jsonNumber(s string) string {
	if s != "" && (s[0] == '-' || isDigit(s[0])) && json.Valid([]byte(s)) {
		return s
	}
	return jsonText(s)
}

// jsonInline is a JSON text as part of another one.
func jsonInline(s string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		return jsonText(s)
	}
	return b.String()
}

// jsonTime is a moment as RFC 3339.
func jsonTime(t time.Time) string { return jsonText(t.Format(time.RFC3339Nano)) }

// shortBlob is up to how many bytes of a binary value are shown.
const shortBlob = 256

// jsonBlob is a binary value as a JSON text: as it is if it is one for reading, else marked as base64, or only its size
// where that would be long and tell nobody anything.
func jsonBlob(data []byte) string {
	switch {
	case utf8.Valid(data) && !bytes.ContainsFunc(data, notForReading):
		return jsonText(string(data))
	case len(data) <= shortBlob:
		return jsonText("base64:" + base64.StdEncoding.EncodeToString(data))
	}
	return jsonText(fmt.Sprintf("[binary, %d bytes]", len(data)))
}

func notForReading(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) || r == utf8.RuneError
}

// argument is a value of a call as one of nil, bool, string, json.Number and, for lists, []any. An object is the text of
// its JSON.
func argument(v any) any {
	switch v := v.(type) {
	case nil, bool, string, json.Number, []any:
		return v
	case float64:
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	case int, int64, uint64:
		return json.Number(fmt.Sprint(v))
	}
	return string(tool.EncodeJSON(v))
}
