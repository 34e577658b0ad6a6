package structured

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// format is that of a schema.
func format(t testing.TB, schema string) *Format {
	t.Helper()
	f, err := Read(json.RawMessage(`{"type":"json_schema","json_schema":{"name":"a","schema":` + schema + `}}`))
	if err != nil || f == nil {
		t.Fatalf("Read() = %v, %v", f, err)
	}
	return f
}

const address = `{"type":"object","properties":{"city":{"type":"string"},"n":{"type":"integer"},"state":{"enum":["SP","RJ"]}},"required":["city"],"additionalProperties":false}`

func TestRead(t *testing.T) {
	for _, tt := range []struct{ name, format, want string }{
		{"no format", ``, "none"},
		{"text", `{"type":"text"}`, "none"},
		{"any object", `{"type":"json_object"}`, "none"},
		{"a schema", `{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":` + address + `}}`, ""},
		{"no schema in it", `{"type":"json_schema","json_schema":{"name":"a"}}`, "response_format.json_schema.schema: want a JSON Schema"},
		{"one that is none", `{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{"a":{"type":"text"}}}}}`, "response_format.json_schema.schema: "},
		{"one that refers to an address", `{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{"a":{"$ref":"https://example.com/a"}}}}}`, "response_format.json_schema.schema: "},
	} {
		f, err := Read(json.RawMessage(tt.format))
		switch {
		case tt.want == "none":
			if f != nil || err != nil {
				t.Errorf("%s: Read() = %v, %v, want nothing", tt.name, f, err)
			}
		case tt.want == "":
			if f == nil || err != nil {
				t.Errorf("%s: Read() = %v, %v", tt.name, f, err)
			}
		case err == nil || !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: Read() = %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A schema that is not an object's is put into one for the tool: what it refers to is still the same.
func TestReferencesOfASchemaThatIsPutIntoAnObject(t *testing.T) {
	for _, tt := range []struct{ name, schema, fits, not string }{
		{"a list of itself", `{"type":"array","items":{"anyOf":[{"type":"integer"},{"$ref":"#"}]}}`, `[1,[2,[]]]`, `[1,{"answer":[2]}]`},
		{"one of several", `{"anyOf":[{"type":"number"},{"type":"object","properties":{"left":{"$ref":"#"}},"required":["left"]}]}`, `{"left":{"left":2}}`, `{"left":{"answer":2}}`},
		{"a part", `{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"},"more":{"type":"array","items":{"$ref":"#/items"}}},"required":["n"]}}`, `[{"n":1,"more":[{"n":2}]}]`, `[{"n":1,"more":[{}]}]`},
		{"from a definition", `{"type":"array","items":{"$ref":"#/$defs/a"},"$defs":{"a":{"anyOf":[{"type":"integer"},{"$ref":"#"}]}}}`, `[1,[2]]`, `[1,["x"]]`},
		{"a list by reference", `{"$ref":"#/$defs/l","$defs":{"l":{"type":"array","items":{"type":"integer"}}}}`, `[1]`, `["x"]`},
		{"a list by reference and its own name", `{"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"array","items":{"$ref":"#/definitions/a~1b"}}}}`, `[[],[[]]]`, `[1]`},
		{"a list by a part", `{"allOf":[{"type":"array"},{"minItems":2}]}`, `[1,2]`, `[1]`},
		{"names that look like keywords", `{"type":"array","items":{"type":"object","properties":{"$ref":{"type":"string"},"enum":{"$ref":"#"}}}}`, `[{"$ref":"#","enum":[{}]}]`, `[{"enum":{"answer":[]}}]`},
		{"values that look like references", `{"enum":[{"$ref":"#"}]}`, `{"$ref":"#"}`, `{"$ref":"#/properties/answer"}`},
	} {
		f := format(t, tt.schema)
		for _, text := range []string{tt.fits, tt.not} {
			want := text == tt.fits
			if got, err := f.FromText(text); (err == nil && got == text) != want {
				t.Errorf("%s: FromText(%s) = %q, %v", tt.name, text, got, err)
			}
			if got, err := f.FromArguments(json.RawMessage(`{"answer":` + text + `}`)); (err == nil && got == text) != want {
				t.Errorf("%s: FromArguments(%s) = %q, %v", tt.name, text, got, err)
			}
		}
	}
}

// Schemas without an end are told of, and cost nothing.
func TestReadEnds(t *testing.T) {
	doubling := `{"allOf":[{"$ref":"#/$defs/a0"}],"$defs":{`
	for i := range 40 {
		doubling += fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling += `"a40":{"type":"array"}}}`
	for _, schema := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{"$ref":"#/$defs/none"}`, doubling} {
		if f, err := Read(json.RawMessage(`{"type":"json_schema","json_schema":{"schema":` + schema + `}}`)); err == nil {
			t.Logf("Read(%.60s) = %s", schema, f.schema.JSON())
		}
	}
}

func TestFaultsOfASchemaAreNamedAsTheClientSeesThem(t *testing.T) {
	_, err := Read(json.RawMessage(`{"type":"json_schema","json_schema":{"schema":{"type":"array","items":{"type":"strin"}}}}`))
	if err == nil || !strings.Contains(err.Error(), "schema: items.type: ") {
		t.Errorf("Read() = %v", err)
	}
}

func TestFromText(t *testing.T) {
	list := format(t, `{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}`)
	either := format(t, `{"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]}`)
	object := format(t, address)
	for _, tt := range []struct {
		name       string
		f          *Format
		text, want string // the answer, or "! " and a fault
	}{
		{"as it is", object, ` {"n": 1, "city": "R\u00edo"}` + "\n", `{"n": 1, "city": "R\u00edo"}`},
		{"in a fence", object, "Here:\n```json\n{\"city\":\"Rio\"}\n```\nMore?", `{"city":"Rio"}`},
		{"in prose", object, `The answer is {"city":"Rio"}, I think.`, `{"city":"Rio"}`},
		{"behind braces that are none", object, `In {braces}: {"city":"Rio"}`, `{"city":"Rio"}`},
		{"the first that fits", object, `{"town":"Rio"} or {"city":"Rio"} or {"city":"Sampa"}`, `{"city":"Rio"}`},
		{"behind a byte order mark", object, "\ufeff{\"city\":\"Rio\"}", `{"city":"Rio"}`},
		{"coerced", object, `{"city":"Rio ","n":"7","more":1}`, `{"city":"Rio","n":7}`},
		{"the faults of the first one", object, `{"state":"XX"} {"city":1.5}`, `! city: is required; state: must be one of "SP", "RJ"`},
		{"nothing", object, "I do not know.", "! want JSON that fits the schema, found none"},
		{"empty", object, " \n", "! want JSON that fits the schema, got an empty text"},
		{"cut", object, `{"city":"Ri`, "! want JSON that fits the schema, found none"},
		{"a key that stands twice", object, `{"city":"Rio","city":"Sampa"}`, "! "},
		{"a list", list, "[1, 2]", "[1, 2]"},
		{"a list in prose", list, "It is [1,2].", "[1,2]"},
		{"a list with faults", list, `[1,"x"]`, "! [1]: must be an integer"},
		{"a text", either, `"x"`, `"x"`},
		{"an object of several", either, `{"a":1}`, `{"a":1}`},
		{"many brackets", object, strings.Repeat("{", 1<<17), "! want JSON"},
	} {
		got, err := tt.f.FromText(tt.text)
		if err != nil {
			got = "! " + strings.TrimPrefix(err.Error(), "invalid answer for final_answer: ")
		}
		if got != tt.want && (err == nil || tt.want == "" || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: FromText() = %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestFromArguments(t *testing.T) {
	object, list := format(t, address), format(t, `{"type":"array","items":{"type":"integer"}}`)
	for _, tt := range []struct {
		f         *Format
		raw, want string
	}{
		{object, `"{ \"city\": \"Rio\" }"`, `{ "city": "Rio" }`},
		{object, `{"city":"Rio"}`, `{"city":"Rio"}`},
		{object, `"\"{\\\"city\\\":\\\"Rio\\\"}\""`, `{"city":"Rio"}`},
		{object, "\"```json\\n{\\\"city\\\":\\\"Rio\\\"}\\n```\"", `{"city":"Rio"}`},
		{object, `"{\"n\":1}"`, "! city: is required"},
		{object, `"{"`, "! "},
		{object, ``, "! city: is required"},
		{list, `"{\"answer\":[1,2]}"`, `[1,2]`},
		{list, `"{\"answer\":[\"x\"]}"`, "! answer[0]: must be an integer"},
	} {
		got, err := tt.f.FromArguments(json.RawMessage(tt.raw))
		if err != nil {
			got = "! " + strings.TrimPrefix(err.Error(), "invalid answer for final_answer: ")
		}
		if got != tt.want && (err == nil || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: FromArguments() = %s, want %s", tt.raw, got, tt.want)
		}
	}
}

func TestDeclaration(t *testing.T) {
	f := format(t, `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`)
	got := gjson.ParseBytes(f.Declaration("final_answer"))
	if got.Get("function.name").String() != "final_answer" || got.Get("function.parameters").Raw != `{"type":"object","properties":{"a":{"type":"string"}}}` {
		t.Errorf("Declaration() = %s, want the reference in place", got)
	}
}

// Whatever a text says around it, an answer that fits is found, and nothing else is one.
func TestAnAnswerIsFoundInAnyProse(t *testing.T) {
	f := format(t, address)
	rapid.Check(t, func(t *rapid.T) {
		city := rapid.String().Draw(t, "city")
		answer, err := json.Marshal(map[string]any{"city": city, "n": rapid.Int().Draw(t, "n")})
		if err != nil {
			t.Fatal(err)
		}
		prose := rapid.StringMatching(`[^{]{0,30}`)
		got, err := f.FromText(prose.Draw(t, "before") + string(answer) + prose.Draw(t, "behind"))
		if err != nil || got != string(answer) {
			t.Fatalf("FromText() = %s, %v, want %s", got, err, answer)
		}
	})
}

func FuzzFromText(f *testing.F) {
	for _, seed := range []string{`{"city":"Rio"}`, "```json\n{}\n```", `[1,2]`, `{"a":{"city":"x"}}`, "{{{", `"x"`} {
		f.Add(seed)
	}
	formats := []*Format{format(f, address), format(f, `{"type":"array","items":{"type":"integer"}}`)}
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range formats {
			answer, err := format.FromText(text)
			if err != nil {
				continue
			}
			if again, err := format.FromText(answer); err != nil || again != answer {
				t.Errorf("%q has the answer %q, in which there is %q, %v", text, answer, again, err)
			}
		}
	})
}
