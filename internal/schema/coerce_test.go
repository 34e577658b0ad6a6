package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
	"github.com/toolgate/toolgate/internal/tool"
)

func TestCoerce(t *testing.T) {
	const big = "123456789012345678901234567890"
	for name, c := range map[string]struct{ schema, in, want string }{
		"a string that is an integer":             {`{"type":"integer"}`, `"5"`, `5`},
		"a negative one with zeros":               {`{"type":"integer"}`, `"-007"`, `-7`},
		"an integer with a fraction of zero":      {`{"type":"integer"}`, `"5.0"`, `5`},
		"5.0 where an integer is wanted":          {`{"type":"integer"}`, `5.0`, `5`},
		"5e2 where an integer is wanted":          {`{"type":"integer"}`, `5e2`, `500`},
		"1200e-2 where an integer is wanted":      {`{"type":"integer"}`, `1200e-2`, `12`},
		"-0.0 where an integer is wanted":         {`{"type":"integer"}`, `-0.0`, `0`},
		"5.0 where any number is wanted":          {`{"type":"number"}`, `5.0`, `5.0`},
		"5.5 where an integer is wanted":          {`{"type":"integer"}`, `5.5`, `5.5`},
		"a fraction in a string":                  {`{"type":"integer"}`, `"5.5"`, `"5.5"`},
		"a large integer":                         {`{"type":"integer"}`, `"` + big + `"`, big},
		"a large integer with a fraction of zero": {`{"type":"integer"}`, big + `.000`, big},
		"a number that would be endless":          {`{"type":"integer"}`, `1e9999`, `1e9999`},
		"an exponent in a string":                 {`{"type":"integer"}`, `"1e2"`, `"1e2"`},
		"other spellings of numbers":              {`{"items":{"type":"number"}}`, `["1,5","+5",".5","5.","0x1F","","1_000","٣","NaN"]`, `["1,5","+5",".5","5.","0x1F","","1_000","٣","NaN"]`},
		"a number in a string":                    {`{"type":"number"}`, `"1.50"`, `1.50`},
		"booleans":                                {`{"items":{"type":"boolean"}}`, `["true","YES","No","False"," true ","1","on",1,0]`, `[true,true,false,false,true,"1","on",1,0]`},
		"a postcode stays a string":               {`{"type":"string"}`, `"01234"`, `"01234"`},
		"a number is made no string":              {`{"type":"string"}`, `1234`, `1234`},
		"a string where both are taken":           {`{"type":["integer","string"]}`, `"5"`, `"5"`},
		"a string where null or an integer is":    {`{"type":["integer","null"]}`, `"5"`, `5`},
		"a string where anything is taken":        {`{}`, `" 5 "`, `"5"`},
		"numbers of an enum":                      {`{"enum":[1,2]}`, `"2"`, `2`},
		"a constant that is a boolean":            {`{"const":true}`, `"yes"`, `true`},
		"a lone value":                            {`{"type":"array","items":{"type":"string"}}`, `"a"`, `["a"]`},
		"a lone number in a string":               {`{"type":"array","items":{"type":"integer"}}`, `"5"`, `[5]`},
		"a lone object":                           {`{"type":"array"}`, `{"a":1}`, `[{"a":1}]`},
		"a list in a string":                      {`{"type":"array","items":{"type":"integer"}}`, `" [1, \"2\"] "`, `[1,2]`},
		"half a list in a string":                 {`{"type":"array"}`, `"[1,"`, `["[1,"]`},
		"an object in a string":                   {`{"type":"object","properties":{"n":{"type":"integer"}}}`, `"{\"n\":\"1\",\"x\":2}"`, `{"n":1}`},
		"an object in a string with a key twice":  {`{"type":"object"}`, `"{\"n\":1,\"n\":2}"`, `"{\"n\":1,\"n\":2}"`},
		"a list in a list":                        {`{"type":"array","items":{"type":"array"}}`, `1`, `[[1]]`},
		"a lone value for a list of itself":       {`{"type":"array","items":{"$ref":"#/properties/p"}}`, `1`, `1`},
		"in it":                                   {`{"type":"array","items":{"$ref":"#/properties/p"}}`, `[1,[]]`, `[1,[]]`},
		"a lone value for lists of each other":    {`{"type":"array","items":{"type":"array","items":{"$ref":"#/properties/p"}}}`, `{"a":1}`, `{"a":1}`},
		"a lone value for a list that may end":    {`{"type":"array","items":{"anyOf":[{"type":"integer"},{"$ref":"#/properties/p"}]}}`, `"1"`, `[1]`},
		"null is no lone value":                   {`{"type":"object","properties":{"l":{"type":"array"}},"required":["l"]}`, `{"l":null}`, `{"l":null}`},
		"null where it is optional":               {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["string","null"]},"c":{},"d":{"enum":["x"]},"e":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":null,"b":null,"c":null,"d":null,"e":null}`, `{"b":null,"c":null,"e":null}`},
		"null where it is required":               {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"a":null}`, `{"a":null}`},
		"blanks":                                  {`{"type":"string"}`, `" \t\u00a0a b\n"`, `"a b"`},
		"blanks further in":                       {`{"type":"object","properties":{"a":{"items":{"type":"string"}}}}`, `{"a":[" x "]}`, `{"a":["x"]}`},
		"what the schema does not name":           {`{"type":"object","properties":{"a":{}}}`, `{"a":1,"b":2}`, `{"a":1}`},
		"what it does not name but welcomes":      {`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, `{"a":1,"b":" 2 "}`, `{"a":1,"b":" 2 "}`},
		"what it does not name but describes":     {`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}}`, `{"a":1,"b":" 2 "}`, `{"a":1,"b":2}`},
		"what it refuses":                         {`{"type":"object","additionalProperties":false}`, `{"b":2}`, `{}`},
		"a free object":                           {`{"type":"object"}`, `{"b":" 2 "}`, `{"b":" 2 "}`},
		"names by a pattern":                      {`{"type":"object","patternProperties":{"^x_":{"type":"integer"}}}`, `{"x_a":"1","y":2}`, `{"x_a":1}`},
		"names that only a condition knows":       {`{"type":"object","properties":{"a":{}},"if":{"required":["b"]},"then":{"properties":{"c":{"const":"1"}}},"dependentRequired":{"d":["e"]}}`, `{"a":1,"b":2,"c":" 1 ","d":4,"e":5,"f":6}`, `{"a":1,"b":2,"c":" 1 ","d":4,"e":5}`},
		"items by position":                       {`{"prefixItems":[{"type":"integer"}],"items":{"type":"boolean"}}`, `["1","yes","no"]`, `[1,true,false]`},
		"parts that hold together":                {`{"allOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"b":{"type":"boolean"}}}]}`, `{"a":"1","b":"no","c":1}`, `{"a":1,"b":false}`},
		"a choice with one branch for it":         {`{"anyOf":[{"type":"object","properties":{"n":{"type":"integer"}}},{"type":"null"}]}`, `{"n":"1","x":1}`, `{"n":1}`},
		"a choice between simple types":           {`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"5"`, `5`},
		"a choice with a string":                  {`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, `"5"`, `"5"`},
		"a lone value where both are taken":       {`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}`, `"a"`, `"a"`},
		"a choice by a tag":                       {`{"oneOf":[{"properties":{"k":{"const":"a"},"n":{"type":"integer"}}},{"properties":{"k":{"const":"b"},"n":{"type":"boolean"},"m":{}}}]}`, `{"k":" a","n":"1","m":1}`, `{"k":"a","n":1}`},
		"an undecided choice":                     {`{"anyOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"b":{"type":"boolean"}}}]}`, `{"a":"1","b":"yes","c":1}`, `{"a":"1","b":"yes"}`},
		"an undecided choice with a free branch":  {`{"anyOf":[{"type":"object"},{"type":"object","properties":{"b":{}}}]}`, `{"a":1}`, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, `{"properties":{"p":`+c.schema+`},"required":["p"]}`)
			args := arguments(t, `{"p":`+c.in+`}`)
			got := string(tool.EncodeJSON(s.Coerce(args)))
			if want := `{"p":` + c.want + `}`; got != want {
				t.Errorf("Coerce = %s\nwant     %s", got, want)
			}
			if now := string(tool.EncodeJSON(args)); now != string(tool.EncodeJSON(arguments(t, `{"p":`+c.in+`}`))) {
				t.Errorf("Coerce changed its argument to %s", now)
			}
		})
	}
}

func TestUnknownArgumentsAreDroppedAtTheTop(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`:                              `{}`,
		`{"type":"object","additionalProperties":true}`:  `{"x":1}`,
		`{"type":"object","unevaluatedProperties":{}}`:   `{"x":1}`,
		`{"type":"object","required":["x"]}`:             `{"x":1}`,
		`{"type":"object","additionalProperties":false}`: `{}`,
	} {
		if got := string(tool.EncodeJSON(parse(t, schema).Coerce(map[string]any{"x": json.Number("1")}))); got != want {
			t.Errorf("Coerce by %s = %s, want %s", schema, got, want)
		}
	}
	if got := parse(t, `{}`).Coerce(nil); got == nil || len(got) != 0 {
		t.Errorf("Coerce(nil) = %v, want an empty map", got)
	}
}

// laws are what Coerce promises.
func laws(t interface{ Fatalf(string, ...any) }, s *Schema, args map[string]any) {
	before := string(tool.EncodeJSON(args))
	once := s.Coerce(args)
	if after := string(tool.EncodeJSON(args)); after != before {
		t.Fatalf("Coerce by %s changed %s to %s", s.JSON(), before, after)
	}
	twice := s.Coerce(once)
	if !reflect.DeepEqual(once, twice) {
		t.Fatalf("by %s: %s coerced is %s, and again %s", s.JSON(), before, tool.EncodeJSON(once), tool.EncodeJSON(twice))
	}
	if s.Validate(args) == nil && !blanks(args) && sameKeys(args, once) {
		if faults := s.Validate(once); faults != nil {
			t.Fatalf("by %s: %s is valid, but coerced, %s is not: %q", s.JSON(), before, tool.EncodeJSON(once), faults)
		}
	}
	for _, line := range s.Validate(once) {
		if len([]rune(line)) > maxFault {
			t.Fatalf("fault of %d characters", len([]rune(line)))
		}
	}
	s.FillDefaults(once)
}

// blanks says whether a string in v has blanks around it.
func blanks(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v) != v
	case []any:
		return slices.ContainsFunc(v, blanks)
	case map[string]any:
		for _, value := range v {
			if blanks(value) {
				return true
			}
		}
	}
	return false
}

// sameKeys says whether nothing that is in a was dropped in b.
func sameKeys(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		for i := range a {
			if ok && i < len(b) && !sameKeys(a[i], b[i]) {
				return false
			}
		}
	case map[string]any:
		b, ok := b.(map[string]any)
		for k := range a {
			if _, there := b[k]; ok && (!there || !sameKeys(a[k], b[k])) {
				return false
			}
		}
	}
	return true
}

func FuzzCoerceAndValidate(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"n":{"type":"integer"},"b":{"type":"boolean"},"l":{"type":"array","items":{"type":"number"}}}}`, `{"n":"5","b":"yes","l":"[1]"}`},
		{`{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["a"]}`, `{"a":"1","x":2}`},
		{`{"properties":{"t":{"$ref":"#/$defs/T"}},"$defs":{"T":{"properties":{"t":{"$ref":"#/$defs/T"},"v":{"type":"integer","default":1}}}}}`, `{"t":{"t":{"v":"1.0"}}}`},
		{`{"oneOf":[{"properties":{"k":{"const":"a"}}},{"properties":{"k":{"const":"b"}}}],"additionalProperties":{"type":"array"}}`, `{"k":"a","x":null}`},
		{`{"properties":{"o":{"type":"object","nullable":true,"patternProperties":{"^x":{"type":["string","null"]}}}},"dependencies":{"o":["p"]}}`, `{"o":"{}","p":5.0}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		s, err := Parse(schema)
		if err != nil {
			return
		}
		// What is recursive gets its first level put in place again; everything else is as it was.
		if again, err := Parse(s.JSON()); err == nil && !strings.Contains(string(s.JSON()), "$defs") && string(again.JSON()) != string(s.JSON()) {
			t.Fatalf("%s read again is %s", s.JSON(), again.JSON())
		}
		v, err := jsontree.Parse(args)
		if err != nil || v.Kind != jsontree.Object {
			return
		}
		laws(t, s, v.Any().(map[string]any))
	})
}

func TestLawsOfCoercion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := `{"properties":{"a":` + someSchema(t, 3) + `,"b":` + someSchema(t, 2) + `}`
		if rapid.Bool().Draw(t, "required") {
			text += `,"required":["a"]`
		}
		s, err := Parse([]byte(text + `}`))
		if err != nil {
			t.Skip(err)
		}
		args := map[string]any{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID).Draw(t, "names") {
			args[name] = someValue(t, 3)
		}
		laws(t, s, args)
	})
}

func someSchema(t *rapid.T, depth int) string {
	simple := []string{
		`{}`, `{"type":"string"}`, `{"type":"integer"}`, `{"type":"number"}`, `{"type":"boolean"}`, `{"type":["integer","null"]}`,
		`{"type":"array"}`, `{"type":"object"}`, `{"enum":["a","b",1]}`, `{"const":"5"}`, `{"const":5}`, `{"type":"string","pattern":"^a"}`, `{"type":"integer","minimum":2}`,
		`{"type":"string","nullable":true}`, `true`, `false`,
	}
	kind := 0
	if depth > 0 {
		kind = rapid.IntRange(0, 6).Draw(t, "kind")
	}
	sub := func() string { return someSchema(t, depth-1) }
	switch kind {
	case 1:
		return `{"type":"array","items":` + sub() + `}`
	case 2:
		o := `{"type":"object","properties":{"a":` + sub() + `,"b":` + sub() + `}`
		o += rapid.SampledFrom([]string{``, `,"additionalProperties":false`, `,"additionalProperties":true`, `,"additionalProperties":{"type":"integer"}`, `,"required":["a"]`, `,"required":["c"]`}).Draw(t, "more")
		return o + `}`
	case 3:
		return `{"anyOf":[` + sub() + `,` + sub() + `]}`
	case 4:
		return `{"oneOf":[` + sub() + `,` + sub() + `,{"type":"null"}]}`
	case 5:
		return `{"allOf":[` + sub() + `,` + sub() + `]}`
	case 6:
		return `{"if":` + sub() + `,"then":` + sub() + `,"prefixItems":[` + sub() + `]}`
	default:
		return rapid.SampledFrom(simple).Draw(t, "schema")
	}
}

func someValue(t *rapid.T, depth int) any {
	simple := []any{nil, true, false, "a", "b", "5", "5.0", "5.5", "true", "No", "[1]", `{"a":1}`, " a ", "", json.Number("5"), json.Number("5.0"), json.Number("5.5"), json.Number("1e2"), json.Number("1")}
	kind := 0
	if depth > 0 {
		kind = rapid.IntRange(0, 3).Draw(t, "kind")
	}
	switch kind {
	case 1:
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			list = append(list, someValue(t, depth-1))
		}
		return list
	case 2:
		object := map[string]any{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID).Draw(t, "names") {
			object[name] = someValue(t, depth-1)
		}
		return object
	default:
		return rapid.SampledFrom(simple).Draw(t, "value")
	}
}

// Five properties of the usual types: what each call of a tool costs.
func BenchmarkValidate(b *testing.B) {
	s := parse(b, `{"type":"object","properties":{"name":{"type":"string","minLength":1},"mail":{"type":"string","format":"email"},"n":{"type":"integer","minimum":1},"lang":{"type":"string","enum":["pt","en"]},"ok":{"type":"boolean"}},"required":["name","n"],"additionalProperties":false}`)
	args := arguments(b, `{"name":"Ana","mail":"ana@example.com","n":3,"lang":"pt","ok":true}`)
	b.ReportAllocs()
	for b.Loop() {
		if s.Validate(args) != nil {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkCoerce(b *testing.B) {
	s := parse(b, `{"type":"object","properties":{"name":{"type":"string"},"mail":{"type":"string"},"n":{"type":"integer"},"lang":{"type":"string","enum":["pt","en"]},"ok":{"type":"boolean"}}}`)
	args := arguments(b, `{"name":"Ana","mail":"ana@example.com","n":"3","lang":"pt","ok":"true"}`)
	b.ReportAllocs()
	for b.Loop() {
		s.Coerce(args)
	}
}

func TestCoercedValuesPassWhereTheSlipWasTheOnlyFault(t *testing.T) {
	s := fromYAML(t, `parameters: {cep: {type: string, pattern: '^\d{8}$'}, lang: {type: string, enum: [pt, en], default: pt}, top: {type: integer, minimum: 1, optional: true}}`)
	args := s.Coerce(arguments(t, `{"cep":" 01001000 ","country":"BR","top":"5","lang":null}`))
	s.FillDefaults(args)
	if got := s.Validate(args); got != nil {
		t.Errorf("Validate = %q", got)
	}
	if diff := cmp.Diff(map[string]any{"cep": "01001000", "lang": "pt", "top": json.Number("5")}, args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	want := []string{`cep: does not match pattern '^\d{8}$'`, `lang: must be one of "pt", "en"`, `top: must be at least 1`}
	if diff := cmp.Diff(want, s.Validate(arguments(t, `{"top":0,"lang":"de","cep":"01001-000"}`))); diff != "" {
		t.Errorf("Validate (-want +got):\n%s", diff)
	}
}
