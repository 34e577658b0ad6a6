package schema

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// For the race detector: all that a request does with a schema, by many at once.
func TestASchemaServesManyAtOnce(t *testing.T) {
	s := parse(t, `{"properties":{"t":{"$ref":"#/$defs/T"},"c":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["t"],
		"$defs":{"T":{"type":"object","properties":{"v":{"type":"integer","default":1},"t":{"$ref":"#/$defs/T"}},"required":["v"]}}}`)
	shown := string(s.JSON())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				args := s.Coerce(arguments(t, `{"t":{"t":{"v":"2"}},"c":"x"}`))
				s.FillDefaults(args)
				if got := s.Validate(args); cmp.Diff(got, []string{"c: must be an integer or null, got a string"}) != "" {
					t.Errorf("Validate = %q", got)
				}
				if strings.Contains(string(s.Hide("t").JSON()), "$defs") || !s.Optional("c") || string(s.JSON()) != shown {
					t.Error("the schema is not what it was")
				}
			}
		})
	}
	wg.Wait()
}
