package schema

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestFillDefaults(t *testing.T) {
	for name, c := range map[string]struct{ schema, in, want string }{
		"an absent one":                   {`{"properties":{"lang":{"default":"pt"},"n":{"default":1.50}}}`, `{"n":2}`, `{"lang":"pt","n":2}`},
		"null that the schema refuses":    {`{"properties":{"lang":{"type":"string","default":"pt"}}}`, `{"lang":null}`, `{"lang":"pt"}`},
		"null that the schema takes":      {`{"properties":{"lang":{"type":["string","null"],"default":"pt"}}}`, `{"lang":null}`, `{"lang":null}`},
		"a required one":                  {`{"properties":{"lang":{"default":"pt"}},"required":["lang"]}`, `{}`, `{"lang":"pt"}`},
		"in an object that is there":      {`{"properties":{"a":{"properties":{"x":{"default":1}}}}}`, `{"a":{}}`, `{"a":{"x":1}}`},
		"in an object that is not":        {`{"properties":{"a":{"properties":{"x":{"default":1}}}}}`, `{}`, `{}`},
		"in the items of a list":          {`{"properties":{"l":{"items":{"properties":{"x":{"default":1}}}}}}`, `{"l":[{},{"x":2}]}`, `{"l":[{"x":1},{"x":2}]}`},
		"in a default":                    {`{"properties":{"a":{"default":{},"properties":{"x":{"default":1}}}}}`, `{}`, `{"a":{"x":1}}`},
		"in a part":                       {`{"allOf":[{"properties":{"a":{"default":1}},"minProperties":0}]}`, `{}`, `{"a":1}`},
		"in the only branch that fits":    {`{"properties":{"a":{"anyOf":[{"type":"object","properties":{"x":{"default":1}}},{"type":"null"}]}}}`, `{"a":{}}`, `{"a":{"x":1}}`},
		"not where the branch is open":    {`{"anyOf":[{"properties":{"a":{"default":1}}},{"properties":{"b":{"default":2}}}]}`, `{}`, `{}`},
		"in an object by a pattern":       {`{"additionalProperties":{"properties":{"x":{"default":1}}}}`, `{"k":{}}`, `{"k":{"x":1}}`},
		"a default within itself ends":    {`{"properties":{"t":{"$ref":"#/$defs/T"}},"$defs":{"T":{"properties":{"t":{"$ref":"#/$defs/T","default":{}}}}}}`, `{"t":{}}`, `{"t":{"t":{"t":{}}}}`},
		"a default of null":               {`{"properties":{"a":{"default":null}}}`, `{}`, `{"a":null}`},
		"no default of what is not there": {`{"default":{"a":1},"properties":{"a":{}}}`, `{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			args := arguments(t, c.in)
			parse(t, c.schema).FillDefaults(args)
			if got := string(tool.EncodeJSON(args)); got != c.want {
				t.Errorf("FillDefaults = %s, want %s", got, c.want)
			}
		})
	}
}

func TestDefaultsAreNotSharedBetweenCalls(t *testing.T) {
	s := parse(t, `{"properties":{"a":{"type":"array","default":[{"x":1}]}}}`)
	one, two := map[string]any{}, map[string]any{}
	s.FillDefaults(one)
	one["a"].([]any)[0].(map[string]any)["x"] = "changed"
	s.FillDefaults(two)
	if got := string(tool.EncodeJSON(two)); got != `{"a":[{"x":1}]}` {
		t.Errorf("the second call's default is %s", got)
	}
}

// Thirty schemas that fill each other in have 30! orders to do so.
func TestDefaultsThatMultiplyAreBounded(t *testing.T) {
	all := repeated(30, `"p%d":{"$ref":"#/$defs/d%[1]d","default":{}}`)
	s := parse(t, `{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`+strings.ReplaceAll(repeated(30, `"d%d":{"properties":{ALL}}`), "ALL", all)+`}}`)
	args := arguments(t, `{"a":{}}`)
	s.FillDefaults(args)
	if size := len(tool.EncodeJSON(args)); size > 1<<20 {
		t.Errorf("defaults grew to %d bytes", size)
	}
}
