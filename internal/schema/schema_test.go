package schema

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryFormOfParametersIsOneJSONSchema(t *testing.T) {
	const named = "schemas: {order: {type: object, properties: {total: {type: number}, note: {type: string, nullable: true}}, required: [total]}, cep: {type: string, pattern: '^\\d{8}$'}}\n"
	for name, c := range map[string]struct{ yaml, want string }{
		"nothing":          {``, `{"type":"object","properties":{}}`},
		"null":             {`parameters:`, `{"type":"object","properties":{}}`},
		"an empty mapping": {`parameters: {}`, `{"type":"object","properties":{}}`},
		"text":             {`parameters: text`, `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`},
		"type words": {
			`parameters: {subtotal: number, note: string?, n: integer, b: boolean, l: array, o: object}`,
			`{"type":"object","properties":{"subtotal":{"type":"number"},"note":{"type":["string","null"]},"n":{"type":"integer"},"b":{"type":"boolean"},"l":{"type":"array"},"o":{"type":"object"}},"required":["subtotal","n","b","l","o"]}`,
		},
		"schemas of properties": {
			`parameters: {id: {type: string}, n: {type: integer, default: 3}, x: {type: string, optional: true}, y: {type: string, optional: false}, z: {type: "number?", description: Z}}`,
			`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer","default":3},"x":{"type":"string"},"y":{"type":"string"},"z":{"type":["number","null"],"description":"Z"}},"required":["id","y"]}`,
		},
		"only optional ones": {`parameters: {x: string?}`, `{"type":"object","properties":{"x":{"type":["string","null"]}}}`},
		"a property called type": {
			`parameters: {type: string, properties: number}`,
			`{"type":"object","properties":{"type":{"type":"string"},"properties":{"type":"number"}},"required":["type","properties"]}`,
		},
		"a property called type with a schema": {
			`parameters: {type: {type: object}, required: boolean}`,
			`{"type":"object","properties":{"type":{"type":"object"},"required":{"type":"boolean"}},"required":["type","required"]}`,
		},
		"a whole schema": {
			`parameters: {type: object, required: [a], properties: {a: {type: string, minLength: 1}}, additionalProperties: false}`,
			`{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":1}},"additionalProperties":false}`,
		},
		"a whole schema without properties":      {`parameters: {title: T, type: object}`, `{"title":"T","type":"object","properties":{}}`},
		"a whole schema without its type":        {`parameters: {properties: {a: {type: string}}, required: [a]}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		"a whole schema in capitals":             {`parameters: {type: OBJECT, properties: {a: {type: STRING}, b: {type: [Integer, NULL]}}}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["integer","null"]}}}`},
		"null among the types, as YAML reads it": {`parameters: {a: {type: [string, null]}}`, `{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`},
		"a choice at the top": {
			`parameters: {anyOf: [{type: object, properties: {a: {type: string}}}, {type: object, properties: {b: {type: string}}}]}`,
			`{"type":"object","properties":{},"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]}`,
		},
		"parts at the top are put together": {
			named + `parameters: {description: D, allOf: [{$ref: '#/schemas/order'}, {type: object, properties: {who: {type: string}}, required: [who]}]}`,
			`{"type":"object","description":"D","properties":{"total":{"type":"number"},"note":{"type":["string","null"]},"who":{"type":"string"}},"required":["total","who"]}`,
		},
		"parts that say more stay parts": {
			`parameters: {allOf: [{type: object, properties: {a: {type: string}}, minProperties: 1}]}`,
			`{"type":"object","properties":{},"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"minProperties":1}]}`,
		},
		"a named schema": {
			named + `parameters: {$ref: '#/schemas/order'}`,
			`{"type":"object","properties":{"total":{"type":"number"},"note":{"type":["string","null"]}},"required":["total"]}`,
		},
		"a named schema in a property": {
			named + `parameters: {code: {$ref: '#/schemas/cep', description: Where to., optional: true}}`,
			`{"type":"object","properties":{"code":{"type":"string","pattern":"^\\d{8}$","description":"Where to."}}}`,
		},
		"a part of a named schema": {
			named + `parameters: {sum: {$ref: '#/schemas/order/properties/total'}}`,
			`{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`,
		},
		"a JSON file": {
			`parameters: {$file: lead.schema.json}`,
			`{"type":"object","properties":{"lead":{"type":"object","properties":{"mail":{"type":"string"}},"required":["mail"]}},"required":["lead"]}`,
		},
		"a YAML file in a property": {
			`parameters: {size: {$file: size.yaml, description: How large.}}`,
			`{"type":"object","properties":{"size":{"type":"integer","minimum":1,"description":"How large."}},"required":["size"]}`,
		},
		"numbers keep their spelling": {
			`parameters: {n: {type: number, minimum: 1.10, maximum: 9007199254740993, multipleOf: 1e-2}}`,
			`{"type":"object","properties":{"n":{"type":"number","minimum":1.10,"maximum":9007199254740993,"multipleOf":1e-2}},"required":["n"]}`,
		},
		"what looks like a schema in a value is left alone": {
			`parameters: {o: {type: object, default: {$ref: x, nullable: true, type: STRING}, enum: [{$ref: x, nullable: true, type: STRING}]}}`,
			`{"type":"object","properties":{"o":{"type":"object","default":{"$ref":"x","nullable":true,"type":"STRING"},"enum":[{"$ref":"x","nullable":true,"type":"STRING"}]}}}`,
		},
		"characters of HTML stay": {
			`parameters: {a: {type: string, description: "<b> & 'c'"}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"<b> & 'c'"}},"required":["a"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(fromYAML(t, c.yaml).JSON()); got != c.want {
				t.Errorf("JSON() = %s\nwant     %s", got, c.want)
			}
		})
	}
}

func TestForeignHabitsBecomePlainJSONSchema(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nullable":                    {`{"type":"string","nullable":true}`, `{"type":["string","null"]}`},
		"nullable false":              {`{"type":"string","nullable":false}`, `{"type":"string"}`},
		"nullable twice":              {`{"type":["string","null"],"nullable":true}`, `{"type":["string","null"]}`},
		"nullable with an enum":       {`{"type":"string","enum":["a"],"nullable":true}`, `{"type":["string","null"],"enum":["a",null]}`},
		"nullable without a type":     {`{"nullable":true,"description":"D"}`, `{"description":"D"}`},
		"nullable with a constant":    {`{"const":"a","nullable":true}`, `{"anyOf":[{"const":"a"},{"type":"null"}]}`},
		"nullable beside a reference": {`{"$ref":"#/components/schemas/S","nullable":true,"description":"D"}`, `{"type":["string","null"],"maxLength":3,"description":"D"}`},
		"nullable around a reference": {
			`{"allOf":[{"$ref":"#/components/schemas/S"}],"nullable":true,"title":"T"}`,
			`{"title":"T","anyOf":[{"allOf":[{"type":"string","maxLength":3}]},{"type":"null"}]}`,
		},
		"types in capitals":             {`{"type":"ARRAY","items":{"type":"INTEGER"}}`, `{"type":"array","items":{"type":"integer"}}`},
		"OpenAPI's own keywords":        {`{"type":"string","example":"x","xml":{},"externalDocs":{},"discriminator":{}}`, `{"type":"string"}`},
		"properties with such names":    {`{"type":"object","properties":{"example":{"type":"string"},"xml":{"type":"string"},"$ref":{"type":"string"},"nullable":{"type":"boolean"}}}`, `{"type":"object","properties":{"example":{"type":"string"},"xml":{"type":"string"},"$ref":{"type":"string"},"nullable":{"type":"boolean"}}}`},
		"an exclusive bound of draft 4": {`{"type":"number","minimum":1,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false}`, `{"type":"number","exclusiveMinimum":1,"maximum":5}`},
		"a list of items":               {`{"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"integer"}}`, `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`},
		"additional items of nothing":   {`{"type":"array","items":{"type":"string"},"additionalItems":false}`, `{"type":"array","items":{"type":"string"}}`},
		"notes of the author":           {`{"$comment":"c","$id":"x","$anchor":"a","type":"string"}`, `{"type":"string"}`},
		"a recursive reference of 2019": {`{"$recursiveRef":"#/components/schemas/S"}`, `{"type":"string","maxLength":3}`},
		"checks beside a reference":     {`{"$ref":"#/components/schemas/S","minLength":1}`, `{"type":"string","maxLength":3,"minLength":1}`},
		"a check on both sides":         {`{"$ref":"#/components/schemas/S","maxLength":2}`, `{"maxLength":2,"allOf":[{"type":"string","maxLength":3}]}`},
		"properties on both sides":      {`{"$ref":"#/components/schemas/O","properties":{"b":{}}}`, `{"properties":{"b":{}},"allOf":[{"type":"object","additionalProperties":false}]}`},
		"required in a property":        {`{"type":"string","required":true}`, `{"type":"string"}`},
		"an empty list of required":     {`{"type":"object","required":[]}`, `{"type":"object"}`},
		"an anchor":                     {`{"$ref":"#named"}`, `{"type":"boolean"}`},
		"true as a schema":              {`true`, `true`},
		"keys in the order they came":   {`{"description":"D","maximum":3,"type":"integer","minimum":1}`, `{"description":"D","maximum":3,"type":"integer","minimum":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, `{"type":"object","properties":{"p":`+c.in+`},"components":{"schemas":{"S":{"type":"string","maxLength":3},"O":{"type":"object","additionalProperties":false}}},"$defs":{"x":{"$anchor":"named","type":"boolean"}}}`)
			if got := string(s.Property("p")); got != c.want {
				t.Errorf("Property(p) = %s\nwant          %s", got, c.want)
			}
			for _, gone := range []string{"components", "$defs"} {
				if strings.Contains(string(s.JSON()), gone) {
					t.Errorf("JSON() = %s, want it without %s", s.JSON(), gone)
				}
			}
		})
	}
}

func TestOlderDraftsAreReadByTheirOwnRules(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"checks beside a reference are ignored up to draft 7": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"p":{"$ref":"#/definitions/S","minLength":1,"description":"D"}},"definitions":{"S":{"type":"string"}}}`,
			`{"type":"object","properties":{"p":{"type":"string","description":"D"}}}`,
		},
		"id is an address in draft 4": {
			`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y","type":"object","properties":{"p":{"$ref":"http://x/y#/definitions/S"}},"definitions":{"S":{"id":"#s","type":"string"}}}`,
			`{"type":"object","properties":{"p":{"type":"string"}}}`,
		},
		"an anchor is an id in draft 6": {
			`{"$schema":"http://json-schema.org/draft-06/schema","type":"object","properties":{"p":{"$ref":"#s"}},"definitions":{"S":{"$id":"#s","type":"string"}}}`,
			`{"type":"object","properties":{"p":{"type":"string"}}}`,
		},
		"dependencies stay": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":["b"],"b":{"required":["a"]}}}`,
			`{"type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":["b"],"b":{"required":["a"]}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(parse(t, c.in).JSON()); got != c.want {
				t.Errorf("JSON() = %s\nwant     %s", got, c.want)
			}
		})
	}
}

func TestRecursiveSchemasStayButTheirFirstNamesAreConcrete(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a tree": {
			`{"type":"object","properties":{"root":{"$ref":"#/$defs/Node"}},"required":["root"],"$defs":{"Node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}`,
			`{"type":"object","properties":{"root":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}},"required":["root"],"$defs":{"Node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}`,
		},
		"the root": {
			`{"type":"object","properties":{"sub":{"$ref":"#"}}}`,
			`{"type":"object","properties":{"sub":{"$ref":"#/$defs/root"}},"$defs":{"root":{"type":"object","properties":{"sub":{"$ref":"#/$defs/root"}}}}}`,
		},
		"a root that is a reference": {
			`{"$ref":"#/definitions/T","definitions":{"T":{"type":"object","properties":{"t":{"$ref":"#/definitions/T"}}}}}`,
			`{"type":"object","properties":{"t":{"$ref":"#/$defs/T"}},"$defs":{"T":{"type":"object","properties":{"t":{"$ref":"#/$defs/T"}}}}}`,
		},
		"an id instead of a place, as TypeBox writes it": {
			`{"type":"object","properties":{"t":{"$id":"T0","properties":{"t":{"$ref":"T0"}}}}}`,
			`{"type":"object","properties":{"t":{"properties":{"t":{"properties":{"t":{"$ref":"#/$defs/T0"}}}}}},"$defs":{"T0":{"properties":{"t":{"$ref":"#/$defs/T0"}}}}}`,
		},
		"two that need each other": {
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"properties":{"b":{"$ref":"#/$defs/B"}}},"B":{"properties":{"a":{"$ref":"#/$defs/A"}}}}}`,
			`{"type":"object","properties":{"a":{"properties":{"b":{"$ref":"#/$defs/B"}}}},"$defs":{"B":{"properties":{"a":{"$ref":"#/$defs/A"}}},"A":{"properties":{"b":{"$ref":"#/$defs/B"}}}}}`,
		},
		"what is not recursive within is put in place": {
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A"},"s":{"$ref":"#/$defs/S"}}},"S":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"properties":{"a":{"$ref":"#/$defs/A"},"s":{"type":"string"}}}},"$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A"},"s":{"type":"string"}}}}}`,
		},
		"a description beside an inner reference": {
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A","description":"D"}}}}}`,
			`{"type":"object","properties":{"a":{"properties":{"a":{"$ref":"#/$defs/A","description":"D"}}}},"$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A","description":"D"}}}}}`,
		},
		"odd names": {
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/a~1b%20c"}},"$defs":{"a/b c":{"properties":{"a":{"$ref":"#/$defs/a~1b%20c"}}}}}`,
			`{"type":"object","properties":{"a":{"properties":{"a":{"$ref":"#/$defs/a_b_c"}}}},"$defs":{"a_b_c":{"properties":{"a":{"$ref":"#/$defs/a_b_c"}}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, c.in)
			if got := string(s.JSON()); got != c.want {
				t.Errorf("JSON() = %s\nwant     %s", got, c.want)
			}
			again := parse(t, string(s.JSON()))
			if cmp.Diff(s.Properties(), again.Properties()) != "" {
				t.Errorf("read again it has %v, want %v", again.Properties(), s.Properties())
			}
		})
	}
}

func TestNamedSchemasMayReferToEachOtherAndThemselves(t *testing.T) {
	s := fromYAML(t, `
schemas:
  tree: {type: object, properties: {leaf: {$ref: '#/schemas/leaf'}, next: {$ref: '#/schemas/tree'}, own: {$ref: '#/$defs/own'}}, $defs: {own: {type: boolean}}}
  leaf: {type: string}
parameters: {t: {$ref: '#/schemas/tree'}}
`)
	want := `{"type":"object","properties":{"t":{"type":"object","properties":{"leaf":{"type":"string"},"next":{"$ref":"#/$defs/tree"},"own":{"type":"boolean"}}}},"required":["t"],` +
		`"$defs":{"tree":{"type":"object","properties":{"leaf":{"type":"string"},"next":{"$ref":"#/$defs/tree"},"own":{"type":"boolean"}}}}}`
	if got := string(s.JSON()); got != want {
		t.Errorf("JSON() = %s\nwant     %s", got, want)
	}
	args := arguments(t, `{"t":{"next":{"next":{"leaf":5}}}}`)
	if got := s.Validate(args); cmp.Diff(got, []string{"t.next.next.leaf: must be a string, got a number"}) != "" {
		t.Errorf("Validate = %q", got)
	}
}

var update = flag.Bool("update", false, "rewrite the messages in testdata/bad")

// Each file in testdata/bad ends with the messages that it must give.
func TestFaultsOfTheFileNameTheirPlace(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	const mark = "# want: "
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, rest, _ := strings.Cut(string(data), mark)
			want := strings.Split(strings.TrimSuffix(rest, "\n"), "\n"+mark)
			s, f := readYAML(t, text)
			var got []string
			for _, p := range f.Problems() {
				got = append(got, p.String())
			}
			for _, p := range f.Warnings() {
				got = append(got, "warning "+p.String())
			}
			if *update {
				text += mark + strings.Join(got, "\n"+mark) + "\n"
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if (s == nil) != (f.Problems() != nil) {
				t.Errorf("schema = %v, want one exactly if there is no problem", s)
			}
		})
	}
}

func TestForeignSchemasThatCanNotBeUsedAreErrors(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
	for name, c := range map[string]struct{ in, want string }{
		"no JSON":                   {`{`, "not valid JSON at character 2: the text ends inside an object"},
		"a key twice":               {`{"type":"object","type":"object"}`, `the key "type" stands twice`},
		"a list":                    {`[]`, "a schema is an object, got a list"},
		"a string":                  {`{"type":"string"}`, "type: parameters must be an object: want the type object"},
		"false":                     {`false`, "a schema is an object, got a boolean"},
		"a file":                    {`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `properties.a.$ref: the reference "file:///etc/passwd" leaves the schema: only references that start with # are followed`},
		"an address":                {`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json#/x"}}}`, `properties.a.$ref: the reference "https://example.com/s.json#/x" leaves the schema: only references that start with # are followed`},
		"a neighbour":               {`{"type":"object","properties":{"a":{"$ref":"other.json"}}}`, `properties.a.$ref: the reference "other.json" leaves the schema: only references that start with # are followed`},
		"a named one":               {`{"type":"object","properties":{"a":{"$ref":"#/schemas/x"}}}`, `properties.a.$ref: the reference "#/schemas/x" points to nothing`},
		"a reference to nothing":    {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}`, `properties.a.$ref: the reference "#/$defs/A" points to nothing`},
		"a reference to a name":     {`{"type":"object","title":"T","properties":{"a":{"$ref":"#/title"}}}`, `properties.a.$ref: the reference "#/title" points to a string, which is no schema`},
		"an unknown type":           {`{"type":"object","properties":{"a":{"type":"strnig"}}}`, `properties.a.type: unknown type "strnig": did you mean "string"?`},
		"a wrong keyword":           {`{"type":"object","properties":{"a":{"minLength":"x"}}}`, `properties.a.minLength: must be an integer, got a string`},
		"several faults":            {`{"type":"object","properties":{"a":{"minLength":-1},"b":{"enum":1}}}`, `properties.a.minLength: must be at least 0; properties.b.enum: must be a list, got a number`},
		"a schema that never ends":  {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`, `the schema "B" refers to itself without end`},
		"an endless part":           {`{"type":"object","allOf":[{"$ref":"#"}]}`, `the schema "root" refers to itself without end`},
		"schemas that are too deep": {deep, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse([]byte(c.in))
			if s != nil || err == nil || c.want != "" && err.Error() != c.want {
				t.Errorf("Parse = %v, %v\nwant %s", s, err, c.want)
			}
		})
	}
}

// A schema of a few lines that doubles with each reference must not fill the memory.
func TestReferencesThatMultiplyAreStopped(t *testing.T) {
	for name, text := range map[string]string{
		"doubling":           doubling(25, `{"type":"object","properties":{"a":{"$ref":"#/$defs/d%[2]d"},"b":{"$ref":"#/$defs/d%[2]d"}}}`),
		"doubling in parts":  doubling(25, `{"allOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`),
		"a large one, often": `{"type":"object","properties":{` + repeated(50, `"p%d":{"$ref":"#/$defs/big"}`) + `},"$defs":{"big":{"description":"` + strings.Repeat("x", 10000) + `"}}}`,
		"many small ones":    `{"type":"object","properties":{` + repeated(6000, `"p%d":{}`) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(text))
			if err == nil || !strings.Contains(err.Error(), "once its references are in place") {
				t.Errorf("Parse = %v, want it to be too large", err)
			}
		})
	}
	everyone := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + repeated(30, `"d%d":{"properties":{`+strings.ReplaceAll(repeated(30, `"p%d":{"$ref":"#/$defs/d%[1]d"}`), "%", "%%")+`}}`) + `}}`
	s := parse(t, everyone)
	if len(s.JSON()) > 3*len(everyone) {
		t.Errorf("30 schemas that all refer to each other became %d bytes from %d", len(s.JSON()), len(everyone))
	}
}

func doubling(n int, format string) string {
	defs := ""
	for i := range n {
		defs += fmt.Sprintf(`"d%d":`+format+`,`, i, i+1)
	}
	return `{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + defs + fmt.Sprintf(`"d%d":{"type":"string"}}}`, n)
}

func repeated(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

func TestWhatForeignSchemasCanSpareIsDroppedWithAWarning(t *testing.T) {
	s := parse(t, `{"$schema":"https://example.com/mine","type":"object","properties":{
		"a":{"type":"string","pattern":"^(?!x)"},
		"b":{"type":"integer","default":"five"},
		"c":{"type":"object","patternProperties":{"(?<=a)b":{"type":"string"},"^x":{"type":"string"}}},
		"d":{"type":"string","required":true}}}`)
	want := `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"object","patternProperties":{"^x":{"type":"string"}}},"d":{"type":"string"}}}`
	if got := string(s.JSON()); got != want {
		t.Errorf("JSON() = %s\nwant     %s", got, want)
	}
	warnings := []string{
		"$schema: is no draft of JSON Schema that is known: 4, 6, 7, 2019-09 and 2020-12 are",
		"properties.a.pattern: dropped: the pattern is no RE2 expression (no look-around, no back-references): invalid or unsupported Perl syntax: `(?!`",
		"properties.c.patternProperties.(?<=a)b: dropped: the pattern is no RE2 expression (no look-around, no back-references): invalid named capture: `(?<=a)b`",
		"properties.d.required: dropped: want a list of names on the object around it; the short form of parameters has `optional: true`",
		"properties.b.default: dropped: the default is refused by its own schema: must be an integer, got a string",
	}
	if diff := cmp.Diff(warnings, s.Warnings()); diff != "" {
		t.Errorf("Warnings() (-want +got):\n%s", diff)
	}
	args := map[string]any{}
	if s.FillDefaults(args); len(args) != 0 {
		t.Errorf("the dropped default was filled in: %v", args)
	}
}

func TestPropertiesAndOptional(t *testing.T) {
	s := fromYAML(t, `parameters: {z: string, a: {type: integer, default: 1}, m: boolean?, q: {type: string, optional: true}}`)
	if got := s.Properties(); cmp.Diff(got, []string{"z", "a", "m", "q"}) != "" {
		t.Errorf("Properties() = %v, want the order of the file", got)
	}
	for name, want := range map[string]bool{"z": false, "a": true, "m": true, "q": true, "unknown": true} {
		if got := s.Optional(name); got != want {
			t.Errorf("Optional(%s) = %v, want %v", name, got, want)
		}
	}
	if got := string(s.Property("a")); got != `{"type":"integer","default":1}` {
		t.Errorf("Property(a) = %s", got)
	}
	if got := s.Property("unknown"); got != nil {
		t.Errorf("Property(unknown) = %s, want nil", got)
	}
	branches := parse(t, `{"properties":{"a":{}},"anyOf":[{"properties":{"b":{}}},{"properties":{"c":{}}}],"allOf":[{"properties":{"d":{}},"required":["d"],"minProperties":1}]}`)
	if got := branches.Properties(); cmp.Diff(got, []string{"a", "d", "b", "c"}) != "" {
		t.Errorf("Properties() = %v, want those of the branches, too", got)
	}
	if branches.Optional("d") {
		t.Error("Optional(d) = true, want false: a part requires it")
	}
}

func TestHiddenParametersAreGoneFromSightAndNothingElse(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"q":{"type":"string"},"level":{"type":"integer"},"tree":{"$ref":"#/$defs/T"}},
		"required":["level","q"],"default":{"level":1},"examples":[{"q":"x","level":2}],
		"dependentRequired":{"level":["q"],"q":["level"]},"not":{"required":["level"]},
		"anyOf":[{"required":["level"]},{"properties":{"level":{"minimum":3}}}],
		"$defs":{"T":{"properties":{"t":{"$ref":"#/$defs/T"}}}}}`)
	hidden := s.Hide("level", "tree", "no_such")
	want := `{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"dependentRequired":{"q":[]},"anyOf":[{},{"properties":{}}]}`
	if got := string(hidden.JSON()); got != want {
		t.Errorf("JSON() = %s\nwant     %s", got, want)
	}
	if !strings.Contains(string(s.JSON()), "level") {
		t.Error("Hide changed the schema that it was called on")
	}
	if cmp.Diff(s.Properties(), hidden.Properties()) != "" || hidden.Optional("level") {
		t.Error("a hidden parameter is not known any more")
	}
	if got := string(hidden.Hide("q").Hide().JSON()); strings.Contains(got, "level") || strings.Contains(got, `"q"`) || !strings.Contains(got, `"properties":{}`) {
		t.Errorf("JSON() = %s, want both gone and properties there", got)
	}
	only := fromYAML(t, `parameters: {level: integer}`).Hide("level")
	if got := string(only.JSON()); got != `{"type":"object","properties":{}}` {
		t.Errorf("JSON() = %s, want no parameters", got)
	}
	if got := only.Validate(arguments(t, `{"level":"x"}`)); len(got) != 1 {
		t.Errorf("Validate = %q, want the hidden parameter checked", got)
	}
}
