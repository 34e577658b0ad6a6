package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// A million digits written as 1e1000000 were written out, and thousands of objects in each other were each read anew.
func TestUsageThatMultipliesTheWorkIsNotAddedUp(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)
	large := `{"a":"` + strings.Repeat("x", maxUsage) + `"}`
	const usual = `{"a":2}`
	for name, tt := range map[string]struct{ a, b, want string }{
		"exponent":             {`{"a":1e1000000}`, usual, `{"a":1e1000000}`},
		"exponent below zero":  {`{"a":1}`, `{"a":1e-1000000}`, `{"a":1}`},
		"exponent of no int":   {`{"a":1}`, `{"a":1e99999999999999999999}`, `{"a":1}`},
		"deep":                 {deep, deep, deep},
		"large":                {large, usual, usual},
		"large and the second": {usual, large, usual},
		"large and the only":   {"", large, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(AddUsage(json.RawMessage(tt.a), json.RawMessage(tt.b))); got != tt.want {
				t.Errorf("AddUsage() = %.100s, want %.100s", got, tt.want)
			}
		})
	}
}

func FuzzAddUsage(f *testing.F) {
	f.Add(`{"cost":1e-20,"n":1}`, `{"cost":1e-20,"details":{"n":2}}`)
	f.Add(`{"a":1e1000000,"b":-0}`, `{"b":-0.0,"a":{"a":null}}`)
	f.Add(`{"details":{"n":0.5}}`, ` {"details":{"n":1.5,"m":"x"}} `)
	f.Fuzz(func(t *testing.T, a, b string) {
		if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) {
			return
		}
		sum := AddUsage(json.RawMessage(a), json.RawMessage(b))
		if !json.Valid(sum) {
			t.Errorf("%s and %s is %s, which is no JSON", a, b, sum)
		}
		if most := maxExponent * (len(a) + len(b)); len(sum) > most {
			t.Errorf("%d bytes of %d and %d", len(sum), len(a), len(b))
		}
	})
}
