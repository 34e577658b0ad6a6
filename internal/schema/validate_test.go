package schema

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestMessagesSayWhatWouldBeRight(t *testing.T) {
	for name, c := range map[string]struct {
		schema, args string
		want         []string
	}{
		"a valid value":             {`{"properties":{"a":{"type":"string"}}}`, `{"a":"x"}`, nil},
		"a pattern":                 {`{"properties":{"cep":{"type":"string","pattern":"^\\d{8}$"}}}`, `{"cep":"01001-000"}`, []string{`cep: does not match pattern '^\d{8}$'`}},
		"an enum":                   {`{"properties":{"lang":{"enum":["pt","en"]}}}`, `{"lang":"de"}`, []string{`lang: must be one of "pt", "en"`}},
		"an enum with null":         {`{"properties":{"lang":{"type":["string","null"],"enum":["pt",null,1.50]}}}`, `{"lang":"de"}`, []string{`lang: must be one of "pt", null, 1.50`}},
		"an enum of one":            {`{"properties":{"lang":{"enum":["<pt>"]}}}`, `{"lang":"de"}`, []string{`lang: must be "<pt>"`}},
		"a constant":                {`{"properties":{"v":{"const":{"a":[1]}}}}`, `{"v":2}`, []string{`v: must be {"a":[1]}`}},
		"a minimum":                 {`{"properties":{"top":{"type":"integer","minimum":1}}}`, `{"top":0}`, []string{`top: must be at least 1`}},
		"a maximum with a fraction": {`{"properties":{"n":{"maximum":1.10}}}`, `{"n":2}`, []string{`n: must be at most 1.1`}},
		"a minimum beyond floats":   {`{"properties":{"n":{"minimum":9007199254740993}}}`, `{"n":9007199254740992}`, []string{`n: must be at least 9007199254740993`}},
		"exclusive bounds":          {`{"properties":{"a":{"exclusiveMinimum":1},"b":{"exclusiveMaximum":1e3}}}`, `{"a":1,"b":1000}`, []string{`a: must be more than 1`, `b: must be less than 1000`}},
		"a multiple":                {`{"properties":{"n":{"multipleOf":0.01}}}`, `{"n":0.001}`, []string{`n: must be a multiple of 0.01`}},
		"a missing one":             {`{"properties":{"cep":{}},"required":["cep"]}`, `{}`, []string{`cep: is required`}},
		"a missing one further in":  {`{"properties":{"address":{"type":"object","properties":{"state":{}},"required":["state"]}}}`, `{"address":{}}`, []string{`address.state: is required`}},
		"an item":                   {`{"properties":{"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}}}`, `{"items":[{"id":1},{"id":"x"},{}]}`, []string{`items[1].id: must be an integer, got a string`, `items[2].id: is required`}},
		"lists in lists":            {`{"properties":{"m":{"items":{"items":{"type":"number"}}}}}`, `{"m":[[1],[2,null]]}`, []string{`m[1][1]: must be a number, got null`}},
		"an integer":                {`{"properties":{"n":{"type":"integer"}}}`, `{"n":"five"}`, []string{`n: must be an integer, got a string`}},
		"a fraction":                {`{"properties":{"n":{"type":"integer"}}}`, `{"n":5.5}`, []string{`n: must be an integer, got a number with a fraction`}},
		"types":                     {`{"properties":{"a":{"type":"string"},"b":{"type":"boolean"},"c":{"type":"array"},"d":{"type":"object"},"e":{"type":"null"}}}`, `{"a":true,"b":{},"c":null,"d":[],"e":1}`, []string{`a: must be a string, got a boolean`, `b: must be a boolean, got an object`, `c: must be a list, got null`, `d: must be an object, got a list`, `e: must be null, got a number`}},
		"one of several types":      {`{"properties":{"a":{"type":["null","integer","string","number"]}}}`, `{"a":[]}`, []string{`a: must be a string, a number or null, got a list`}},
		"an unknown argument":       {`{"properties":{"a":{}},"additionalProperties":false}`, `{"x":1,"a":1,"b":2}`, []string{`b: is not a known argument`, `x: is not a known argument`}},
		"an unevaluated argument":   {`{"allOf":[{"properties":{"a":{}}}],"properties":{"a":{}},"unevaluatedProperties":false}`, `{"x":1,"a":1}`, []string{`x: is not a known argument`}},
		"formats": {
			`{"properties":{"a":{"format":"date"},"b":{"format":"date-time"},"c":{"format":"time"},"d":{"format":"email"},"e":{"format":"uuid"},"f":{"format":"uri"},"g":{"format":"ipv4"},"h":{"format":"ipv6"}}}`,
			`{"a":"x","b":"2024-01-01 10:00","c":"x","d":"x","e":"x","f":"x","g":"x","h":"x"}`,
			[]string{`a: is not a valid date`, `b: is not a valid date-time`, `c: is not a valid time`, `d: is not a valid email`, `e: is not a valid uuid`, `f: is not a valid uri`, `g: is not a valid ipv4`, `h: is not a valid ipv6`},
		},
		"good formats": {
			`{"properties":{"a":{"format":"date"},"b":{"format":"date-time"},"c":{"format":"time"},"d":{"format":"email"},"e":{"format":"uuid"},"f":{"format":"uri"},"g":{"format":"ipv4"},"h":{"format":"ipv6"}}}`,
			`{"a":"2024-02-29","b":"2024-02-29T10:00:00Z","c":"10:00:00Z","d":"a@b.c","e":"f81d4fae-7dec-11d0-a765-00a0c91e6bf6","f":"https://x/y","g":"127.0.0.1","h":"::1"}`, nil,
		},
		"formats that are only words":     {`{"properties":{"a":{"format":"hostname"},"b":{"format":"regex"},"c":{"format":"int32"},"d":{"format":"duration"}}}`, `{"a":"-","b":"(","c":1.5,"d":"x"}`, nil},
		"lengths":                         {`{"properties":{"a":{"minLength":1},"b":{"minLength":3},"c":{"maxLength":1}}}`, `{"a":"","b":"ãé","c":"ãé"}`, []string{`a: must not be empty`, `b: must have at least 3 characters, got 2`, `c: must have at most 1 character, got 2`}},
		"numbers of items":                {`{"properties":{"a":{"minItems":1},"b":{"maxItems":1},"c":{"uniqueItems":true}}}`, `{"a":[],"b":[1,2],"c":[1,2,1.0]}`, []string{`a: must have at least 1 item, got 0`, `b: must have at most 1 item, got 2`, `c: must not have the same item twice: 0 and 2 are equal`}},
		"numbers of properties":           {`{"properties":{"a":{"minProperties":2},"b":{"maxProperties":0}}}`, `{"a":{},"b":{"x":1}}`, []string{`a: must have at least 2 properties, got 0`, `b: must have at most 0 properties, got 1`}},
		"of the arguments themselves":     {`{"minProperties":1}`, `{}`, []string{`must have at least 1 property, got 0`}},
		"contains":                        {`{"properties":{"a":{"contains":{"const":1}},"b":{"contains":{"const":1},"minContains":2},"c":{"contains":{"const":1},"maxContains":1}}}`, `{"a":[2],"b":[1],"c":[1,1]}`, []string{`a: must have an item of the kind that the schema asks for`, `b: must have at least 2 items of the kind that the schema asks for, got 1`, `c: must have at most 1 item of the kind that the schema names, got 2`}},
		"items too many":                  {`{"properties":{"a":{"prefixItems":[{}],"items":false}}}`, `{"a":[1,2]}`, []string{`a[1]: is one item too many`}},
		"a name":                          {`{"properties":{"a":{"propertyNames":{"pattern":"^x"}}}}`, `{"a":{"b c":1}}`, []string{`a."b c": is not a valid name: does not match pattern '^x'`}},
		"what is forbidden":               {`{"properties":{"a":false}}`, `{"a":1}`, []string{`a: is not allowed`}},
		"what is excluded":                {`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"x"}`, []string{`a: is what the schema excludes`}},
		"one that needs another":          {`{"properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{`b: is required beside a`}},
		"one that needs another, draft 7": {`{"properties":{"a":{},"b":{}},"dependencies":{"a":["b"]}}`, `{"a":1}`, []string{`b: is required beside a`}},
		"a condition":                     {`{"properties":{"a":{},"b":{}},"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]}}`, `{"a":1}`, []string{`b: is required`}},
		"the order of the schema":         {`{"properties":{"z":{"type":"string"},"m":{"type":"object","properties":{"y":{},"b":{}},"required":["b","y"]},"a":{"type":"string"}},"required":["a","z"]}`, `{"m":{}}`, []string{`z: is required`, `m.y: is required`, `m.b: is required`, `a: is required`}},
		"a fault told twice once":         {`{"properties":{"a":{"type":"string"}},"allOf":[{"properties":{"a":{"type":"string"}}}]}`, `{"a":1}`, []string{`a: must be a string, got a number`}},
		"odd names":                       {`{"additionalProperties":{"type":"string"}}`, `{"a.b":1,"":2,"x\n":3,"日本":4}`, []string{`"": must be a string, got a number`, `"a.b": must be a string, got a number`, `"x\n": must be a string, got a number`, `日本: must be a string, got a number`}},
		"a number like no other":          {`{"properties":{"n":{"minimum":1}}}`, `{"n":[{"x":1}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse(t, c.schema).Validate(value(t, c.args))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Validate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChoicesAreToldInOneLine(t *testing.T) {
	for name, c := range map[string]struct{ schema, arg, want string }{
		"another type than all":       {`{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`, `[]`, `p: must be a string, an integer or null, got a list`},
		"an optional one":             {`{"anyOf":[{"type":"string","pattern":"^a"},{"type":"null"}]}`, `"b"`, `p: does not match pattern '^a'`},
		"an optional object":          {`{"oneOf":[{"type":"object","properties":{"x":{"type":"string"}}},{"type":"null"}]}`, `{"x":1}`, `p.x: must be a string, got a number`},
		"constants":                   {`{"oneOf":[{"const":"a","description":"A"},{"const":"b"},{"enum":["c","d"]}]}`, `"x"`, `p: must be one of "a", "b", "c", "d"`},
		"the branch of a tag":         {`{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["x"]},{"properties":{"kind":{"const":"b"},"y":{"type":"string"}},"required":["y"]}]}`, `{"kind":"b"}`, `p.y: is required`},
		"a tag that is none":          {`{"oneOf":[{"properties":{"kind":{"const":"a"}},"required":["x"]},{"properties":{"kind":{"const":"b"}},"required":["y"]}]}`, `{"kind":"c"}`, `p.kind: must be one of "a", "b"`},
		"forms":                       {`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, `p: fits none of its forms: a: is required; or b: is required`},
		"forms with several faults":   {`{"anyOf":[{"required":["a","c"]},{"minProperties":2}]}`, `{}`, `p: fits none of its forms: a: is required, c: is required; or must have at least 2 properties, got 0`},
		"forms that say the same":     {`{"anyOf":[{"minLength":3},{"minLength":3,"title":"x"}]}`, `"a"`, `p: must have at least 3 characters, got 1`},
		"more than one":               {`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, `5`, `p: fits more than one of the forms that exclude each other`},
		"choices in choices":          {`{"anyOf":[{"anyOf":[{"type":"string"},{"type":"boolean"}]},{"type":"null"}]}`, `1`, `p: must be a string, a boolean or null, got a number`},
		"paths in forms are relative": {`{"anyOf":[{"items":{"type":"string"}},{"maxItems":1}]}`, `[1,2]`, `p: fits none of its forms: [0]: must be a string, got a number, [1]: must be a string, got a number; or must have at most 1 item, got 2`},
		"a format or a pattern":       {`{"anyOf":[{"format":"date"},{"pattern":"^today$"}]}`, `"x"`, `p: fits none of its forms: is not a valid date; or does not match pattern '^today$'`},
		"an integer that is a text":   {`{"anyOf":[{"type":"integer","minimum":1},{"type":"string","maxLength":1}]}`, `"ab"`, `p: must have at most 1 character, got 2`},
		"a part within a choice":      {`{"anyOf":[{"allOf":[{"minLength":2},{"pattern":"x"}]},{"type":"null"}]}`, `"a"`, `p: does not match pattern 'x' | p: must have at least 2 characters, got 1`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, `{"properties":{"p":`+c.schema+`}}`)
			got := strings.Join(s.Validate(value(t, `{"p":`+c.arg+`}`)), " | ")
			if got != c.want {
				t.Errorf("Validate = %s\nwant       %s", got, c.want)
			}
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	s := parse(t, `{"properties":{"l":{"items":{"type":"string"}},"e":{"enum":[`+repeated(200, `"value %d"`)+`]}},"additionalProperties":false}`)
	args := arguments(t, `{"l":[`+repeated(5000, "%d")+`]}`)
	got := s.Validate(args)
	if len(got) != maxFaults || got[0] != "l[0]: must be a string, got a number" || got[19] != "l[19]: must be a string, got a number" {
		t.Errorf("%d faults, %q first, want the first 20", len(got), got[0])
	}
	long := map[string]any{"e": strings.Repeat("é", 5000), strings.Repeat("é", 5000): 1, "": nil}
	for _, line := range s.Validate(long) {
		if n := utf8.RuneCountInString(line); n > maxFault {
			t.Errorf("a fault of %d characters, want at most %d", n, maxFault)
		}
		if strings.Contains(line, strings.Repeat("é", 65)) {
			t.Errorf("%s repeats what the model wrote", line)
		}
	}
	secret := parse(t, `{"properties":{"a":{"type":"integer"},"b":{"pattern":"^x$"},"c":{"maxLength":1},"d":{"enum":["x"]},"e":{"format":"date"},"f":{"anyOf":[{"const":1},{"maxLength":2}]}}}`)
	for _, line := range secret.Validate(arguments(t, `{"a":"s3cret","b":"s3cret","c":"s3cret","d":"s3cret","e":"s3cret","f":"s3cret"}`)) {
		if strings.Contains(line, "s3cret") {
			t.Errorf("%s repeats the value", line)
		}
	}
}

// The library panics on an exponent over a million where there is a minimum, and on such numbers in long unique lists.
func TestNumbersOutOfBoundsAreFaultsAndNoPanics(t *testing.T) {
	s := parse(t, `{"properties":{"n":{"type":"number","minimum":1,"multipleOf":0.1},"l":{"uniqueItems":true}}}`)
	for _, number := range []string{"1e99999999", "-1e-99999999", "1e99999999999999999999", "1" + strings.Repeat("0", 2000)} {
		args := map[string]any{"n": numberOf(number)}
		if got := s.Validate(args); cmp.Diff(got, []string{"n: is a number out of all bounds"}) != "" {
			t.Errorf("Validate(%.20s) = %q", number, got)
		}
		list := make([]any, 30)
		for i := range list {
			list[i] = numberOf(number)
		}
		if got := s.Validate(map[string]any{"l": list}); cmp.Diff(got, []string{"l[0]: is a number out of all bounds"}) != "" {
			t.Errorf("Validate of a list of %.20s = %q", number, got)
		}
	}
	if got := s.Validate(map[string]any{"n": numberOf("1e9999")}); got != nil {
		t.Errorf("Validate(1e9999) = %q, want none", got)
	}
}

// Each level of such a schema doubles the work; 60 levels would take until the end of days.
func TestSchemasThatMultiplyTheWorkAreNotChecked(t *testing.T) {
	s := parse(t, `{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"allOf":[{"items":{"$ref":"#/$defs/A"}},{"items":{"$ref":"#/$defs/A"}}]}}}`)
	nested := func(n int) map[string]any {
		return arguments(t, `{"a":`+strings.Repeat("[", n)+strings.Repeat("]", n)+`}`)
	}
	start := time.Now()
	if got := s.Validate(nested(8)); got != nil {
		t.Errorf("Validate of 8 levels = %q, want none", got)
	}
	got := s.Validate(nested(60))
	if cmp.Diff(got, []string{"the arguments are too many and too deep to be checked"}) != "" {
		t.Errorf("Validate of 60 levels = %q", got)
	}
	args := nested(60)
	s.FillDefaults(args)
	s.Coerce(args)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	many := parse(t, `{"properties":{"l":{"items":{"properties":{`+repeated(30, `"p%d":{"type":"string"}`)+`}}}}}`)
	if got := many.Validate(arguments(t, `{"l":[`+repeated(20000, `{"p%d":"x"}`)+`]}`)); got != nil {
		t.Errorf("Validate of a long list = %q, want none", got)
	}
	knot := `{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`
	for i := range 30 {
		knot += fmt.Sprintf(`"d%d":{"properties":{"x":{"$ref":"#/$defs/d0"}},"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%[2]d"}]},`, i, i+1)
	}
	tied := parse(t, knot+`"d30":{"properties":{"x":{"$ref":"#/$defs/d0"}}}}}`)
	if got := tied.Validate(arguments(t, `{"a":{"x":{}}}`)); cmp.Diff(got, []string{"the arguments are too many and too deep to be checked"}) != "" {
		t.Errorf("Validate of a knot = %q", got)
	}
}
