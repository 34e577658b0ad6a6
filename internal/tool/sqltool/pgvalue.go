package sqltool

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/toolgate/toolgate/internal/tool"
)

// postgresArgument is an argument as the text that PostgreSQL reads for a parameter of a type, nil for NULL.
func postgresArgument(v any, oid uint32) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []byte(v)
	case json.Number:
		return []byte(v.String())
	case []any:
		switch oid {
		case pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID, pgtype.UnknownOID:
			return tool.EncodeJSON(v)
		}
		return []byte(arrayLiteral(v))
	}
	return tool.EncodeJSON(v)
}

var arrayEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayLiteral is a list as an array in PostgreSQL's notation, every element in quotes (PostgreSQL, 8.15.2).
func arrayLiteral(list []any) string {
	parts := make([]string, len(list))
	for i, v := range list {
		switch v := argument(v).(type) {
		case nil:
			parts[i] = "NULL"
		case []any:
			parts[i] = arrayLiteral(v)
		default:
			parts[i] = `"` + arrayEscaper.Replace(string(postgresArgument(v, pgtype.TextOID))) + `"`
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// voidOID is the type of what a function returns that returns nothing.
const voidOID = 2278

// postgresWriter writes the text of a value of a type as JSON. element is the type's of an array's elements, else 0.
func postgresWriter(oid, element uint32) func(string) string {
	if element != 0 {
		delimiter := byte(',')
		if element == pgtype.BoxOID { // the one type of PostgreSQL's own whose values have commas
			delimiter = ';'
		}
		return func(text string) string { return jsonArray(text, delimiter, postgresWriter(element, 0)) }
	}
	switch oid {
	case pgtype.BoolOID:
		return func(text string) string { return jsonBool(text == "t") }
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		return jsonNumber
	case pgtype.JSONOID, pgtype.JSONBOID:
		return jsonInline
	case pgtype.TimestampOID, pgtype.TimestamptzOID:
		return func(text string) string { return jsonText(rfc3339(text)) }
	case pgtype.ByteaOID:
		return bytea
	case voidOID:
		return func(string) string { return null }
	}
	return jsonText
}

// rfc3339 is a timestamp in PostgreSQL's ISO style, such as "2026-01-02 03:04:05.6+00", in the other's. A timestamp
// without a zone stays without one. What RFC 3339 can't say stays as it is: infinity, years before 1 and after 9999,
// zones with seconds.
func rfc3339(s string) string {
	if len(s) < len("2006-01-02 15:04:05") || s[10] != ' ' || strings.HasSuffix(s, " BC") {
		return s
	}
	date, clock := s[:10], s[11:]
	at := strings.LastIndexAny(clock, "+-")
	if at < 0 {
		return date + "T" + clock
	}
	zone := clock[at:]
	switch {
	case zone == "+00":
		zone = "Z"
	case len(zone) == len("+00"):
		zone += ":00"
	case len(zone) != len("+00:00"):
		return s
	}
	return date + "T" + clock[:at] + zone
}

// bytea is a binary value from its text, \x and hexadecimal digits.
func bytea(text string) string {
	data, err := hex.DecodeString(strings.TrimPrefix(text, `\x`))
	if err != nil {
		return jsonText(text)
	}
	return jsonBlob(data)
}

var errArray = errors.New("this is no array")

// jsonArray is the text of an array (PostgreSQL, 8.15.6) as a JSON list, of lists where it has more dimensions. Bounds
// that begin elsewhere than at 1 are left out. A text that is no array stays a text.
func jsonArray(text string, delimiter byte, element func(string) string) string {
	body := text
	if strings.HasPrefix(body, "[") {
		_, body, _ = strings.Cut(body, "=")
	}
	var b strings.Builder
	r := arrayReader{body, delimiter, element}
	if err := r.list(&b); err != nil || r.rest != "" {
		return jsonText(text)
	}
	return b.String()
}

type arrayReader struct {
	rest      string
	delimiter byte
	element   func(string) string
}

// list reads {...}.
func (r *arrayReader) list(b *strings.Builder) error {
	if !r.take('{') {
		return errArray
	}
	b.WriteByte('[')
	if r.take('}') {
		b.WriteByte(']')
		return nil
	}
	for {
		if err := r.item(b); err != nil {
			return err
		}
		switch {
		case r.take(r.delimiter):
			b.WriteByte(',')
		case r.take('}'):
			b.WriteByte(']')
			return nil
		default:
			return errArray
		}
	}
}

func (r *arrayReader) item(b *strings.Builder) error {
	switch {
	case strings.HasPrefix(r.rest, "{"):
		return r.list(b)
	case r.take('"'):
		text, err := r.quoted()
		if err != nil {
			return err
		}
		b.WriteString(r.element(text))
		return nil
	}
	n := strings.IndexAny(r.rest, string(r.delimiter)+"}")
	if n < 0 {
		return errArray
	}
	if text := r.rest[:n]; text == "NULL" { // the word itself would be in quotes
		b.WriteString(null)
	} else {
		b.WriteString(r.element(text))
	}
	r.rest = r.rest[n:]
	return nil
}

// quoted reads up to the closing quote.
func (r *arrayReader) quoted() (string, error) {
	var text strings.Builder
	for i := 0; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == '"':
			r.rest = r.rest[i+1:]
			return text.String(), nil
		case c == '\\' && i+1 < len(r.rest):
			i++
			text.WriteByte(r.rest[i])
		default:
			text.WriteByte(c)
		}
	}
	return "", errArray
}

func (r *arrayReader) take(c byte) bool {
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}
