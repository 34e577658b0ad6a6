package mcptool

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/toolgate/toolgate/internal/tool"
)

// orderedSchema is a schema as JSON that is the same each time. The SDK has lost the order of the server's keys, which
// tells a model what comes first: properties stand as `required` lists them, the others after these by name.
func orderedSchema(v any) json.RawMessage {
	var b bytes.Buffer
	writeOrdered(&b, v)
	return b.Bytes()
}

func writeOrdered(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		required, _ := v["required"].([]any)
		writeObject(b, v, nil, func(key string, value any) {
			if properties, ok := value.(map[string]any); ok && key == "properties" {
				writeObject(b, properties, required, func(_ string, value any) { writeOrdered(b, value) })
				return
			}
			writeOrdered(b, value)
		})
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeOrdered(b, item)
		}
		b.WriteByte(']')
	default:
		b.Write(tool.EncodeJSON(v))
	}
}

func writeObject(b *bytes.Buffer, m map[string]any, first []any, value func(key string, value any)) {
	rank := map[string]int{}
	for i, name := range first {
		if key, ok := name.(string); ok {
			rank[key] = i - len(first)
		}
	}
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y string) int {
		if d := rank[x] - rank[y]; d != 0 {
			return d
		}
		if x < y {
			return -1
		}
		return 1
	})
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(tool.EncodeJSON(key))
		b.WriteByte(':')
		value(key, m[key])
	}
	b.WriteByte('}')
}
