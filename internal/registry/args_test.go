package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
	"github.com/toolgate/toolgate/internal/tool"
)

// inString is text as it stands under `arguments`: in a JSON string.
func inString(text string) json.RawMessage { return tool.EncodeJSON(text) }

func TestReadArgumentsTakesWhatProvidersSend(t *testing.T) {
	for name, c := range map[string]struct {
		raw  json.RawMessage
		want string
	}{
		"nothing at all":                      {nil, `{}`},
		"null":                                {json.RawMessage(`null`), `{}`},
		"an empty string":                     {inString(``), `{}`},
		"blanks":                              {inString(" \n\t"), `{}`},
		"null in a string":                    {inString(`null`), `{}`},
		"an empty object":                     {inString(`{}`), `{}`},
		"an object in a string":               {inString(`{"a":1}`), `{"a":1}`},
		"an object":                           {json.RawMessage(`{"a": 1}`), `{"a":1}`},
		"blanks around it":                    {inString("\n {\"a\":1} \n"), `{"a":1}`},
		"a byte order mark before it":         {inString("\uFEFF{\"a\":1}"), `{"a":1}`},
		"a string in the string":              {inString(`"{\"a\":1}"`), `{"a":1}`},
		"an empty string in the string":       {inString(`""`), `{}`},
		"an empty object before it":           {inString(`{}{"a":1}`), `{"a":1}`},
		"many empty objects before it":        {inString(`{} {}{ } {"a":1}`), `{"a":1}`},
		"an empty object after it":            {inString(`{"a":1}{}`), `{"a":1}`},
		"only empty objects":                  {inString(`{}{}`), `{}`},
		"a code fence":                        {inString("```json\n{\"a\":1}\n```"), `{"a":1}`},
		"a code fence without a language":     {inString("```\n{\"a\":1}```"), `{"a":1}`},
		"a code fence on one line":            {inString("```json{\"a\":1}```"), `{"a":1}`},
		"a code fence that is not closed":     {inString("```json\n{\"a\":1}"), `{"a":1}`},
		"an empty code fence":                 {inString("```json\n```"), `{}`},
		"a special token behind it":           {inString(`{"a":1}<|call|>`), `{"a":1}`},
		"several special tokens":              {inString("{\"a\":1} <|im_end|>\n</s> "), `{"a":1}`},
		"a full-width token":                  {inString(`{"a":1}<｜tool▁call▁end｜>`), `{"a":1}`},
		"a closing tag":                       {inString("{\"a\":1}\n</tool_call>"), `{"a":1}`},
		"only a special token":                {inString(`<|call|>`), `{}`},
		"a token in a fence":                  {inString("```\n{\"a\":1}\n```<|call|>"), `{"a":1}`},
		"token and fence inside a value":      {inString("{\"a\":\"```<|call|>\"}"), "{\"a\":\"```<|call|>\"}"},
		"keys in another order":               {inString(`{"b":{"d":1,"c":2},"a":[]}`), `{"a":[],"b":{"c":2,"d":1}}`},
		"an escaped key":                      {inString(`{"\u0061":1}`), `{"a":1}`},
		"numbers keep their spelling":         {inString(`{"a":[5,5.0,5e0,1.10,9007199254740993]}`), `{"a":[5,5.0,5e0,1.10,9007199254740993]}`},
		"characters of HTML stay as they are": {inString(`{"a":"<b>&"}`), `{"a":"<b>&"}`},
		"keys that differ in case":            {inString(`{"a":1,"A":2}`), `{"A":2,"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			args, canonical, err := ReadArguments(c.raw)
			if err != nil {
				t.Fatal(err)
			}
			if canonical != c.want {
				t.Errorf("canonical = %s, want %s", canonical, c.want)
			}
			if got := string(tool.EncodeJSON(args)); got != c.want {
				t.Errorf("args = %s, want %s", got, c.want)
			}
		})
	}
}

func TestReadArgumentsRepairsNothingElse(t *testing.T) {
	deep := strings.Repeat(`{"a":`, jsontree.MaxDepth+1) + `1` + strings.Repeat(`}`, jsontree.MaxDepth+1)
	for name, c := range map[string]struct {
		raw  json.RawMessage
		want string
	}{
		"single quotes":           {inString(`{'city': Paris,}`), "not valid JSON at character 2: keys stand in double quotes, not single ones"},
		"a bare value":            {inString(`{"city": Paris}`), "not valid JSON at character 10: this is no JSON value; strings stand in double quotes"},
		"a comma too many":        {inString(`{"a":1,}`), "not valid JSON at character 8: a comma before }"},
		"an end in the middle":    {inString(`{"title": "Q2", "body": "Revenue`), "not valid JSON at character 33: the text ends inside a string"},
		"a fault in a fence":      {inString("```json\n{a:1}\n```"), "not valid JSON at character 10: a key in double quotes is missing"},
		"prose":                   {inString(`call it with a=1`), "not valid JSON at character 1: this is no JSON value; strings stand in double quotes"},
		"a list":                  {json.RawMessage(`[1]`), "arguments must be one JSON object, got a list"},
		"a list in a string":      {inString(`[{"a":1}]`), "arguments must be one JSON object, got a list"},
		"a number":                {json.RawMessage(`7`), "arguments must be one JSON object, got a number"},
		"a boolean in a string":   {inString(`true`), "arguments must be one JSON object, got a boolean"},
		"a string three deep":     {inString(`"\"{}\""`), "arguments must be one JSON object, got a string"},
		"a string of words":       {inString(`"Paris"`), "not valid JSON at character 1: this is no JSON value; strings stand in double quotes"},
		"two objects":             {inString(`{"a":1}{"a":1}`), "arguments must be one JSON object, got two"},
		"an object and a list":    {inString(`{"a":1}[]`), "arguments must be one JSON object, got a list"},
		"an object and null":      {inString(`{"a":1} null`), "arguments must be one JSON object, got null"},
		"words after the object":  {inString(`{"a":1} is what I want`), "arguments must be one JSON object, with no text after it"},
		"a key twice":             {inString(`{"x":1,"x":2}`), `the argument "x" stands twice`},
		"a key twice, escaped":    {inString(`{"x":1,"\u0078":1}`), `the argument "x" stands twice`},
		"a key twice further in":  {inString(`{"to":[{"mail":1,"mail":2}]}`), `the argument "to[0].mail" stands twice`},
		"a key twice, unquoted":   {json.RawMessage(`{"x":1,"x":2}`), `the argument "x" stands twice`},
		"too deep":                {inString(deep), "arguments must not be nested deeper than 64 levels"},
		"too large":               {inString(`{"a":"` + strings.Repeat("x", MaxArguments) + `"}`), "arguments must be smaller than 1 MiB"},
		"a number without limits": {inString(`{"a":1e999999999}`), "not valid JSON at character 6: the number is too large"},
		"not even JSON outside":   {json.RawMessage(`{"a"`), "not valid JSON at character 5: a colon is missing after the key"},
	} {
		t.Run(name, func(t *testing.T) {
			args, canonical, err := ReadArguments(c.raw)
			if err == nil || err.Error() != c.want {
				t.Errorf("error = %v, want %s", err, c.want)
			}
			if args != nil || canonical != "{}" {
				t.Errorf("args, canonical = %v, %s, want none and {}", args, canonical)
			}
		})
	}
}

func TestLongKeysAreNotRepeatedInErrors(t *testing.T) {
	key := strings.Repeat("k", 5000)
	_, _, err := ReadArguments(inString(`{"` + key + `":1,"` + key + `":2}`))
	if err == nil || len(err.Error()) > 150 {
		t.Errorf("error has %d bytes, want a short one", len(err.Error()))
	}
}

// An argument object, dressed in any of the ways that are taken, has one canonical text.
func TestCanonicalIsTheSameHoweverWritten(t *testing.T) {
	object := rapid.MapOf(rapid.String(), rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int(), func(i int) any { return i }),
		rapid.Map(rapid.SliceOf(rapid.Bool()), func(b []bool) any { return b }),
	))
	dress := []func(string) json.RawMessage{
		func(s string) json.RawMessage { return json.RawMessage(s) },
		inString,
		func(s string) json.RawMessage { return inString("  " + s + "\n") },
		func(s string) json.RawMessage { return inString(string(inString(s))) },
		func(s string) json.RawMessage { return inString("{}" + s) },
		func(s string) json.RawMessage { return inString("```json\n" + s + "\n```") },
		func(s string) json.RawMessage { return inString(s + "<|call|>") },
	}
	rapid.Check(t, func(t *rapid.T) {
		o := object.Draw(t, "object")
		plain := string(tool.EncodeJSON(o))
		indented, _ := json.MarshalIndent(o, "", "  ") // escapes < > &, too
		for i, d := range dress {
			for _, text := range []string{plain, string(indented)} {
				_, canonical, err := ReadArguments(d(text))
				if err != nil || canonical != plain {
					t.Fatalf("dress %d of %s: %s, %v", i, text, canonical, err)
				}
			}
		}
	})
}

func TestNormalizeName(t *testing.T) {
	tools := map[string]bool{"get_weather": true, "functions": true, "tools_list": true, "a-b": true}
	for name, c := range map[string]struct{ in, want string }{
		"a known name":                {"get_weather", "get_weather"},
		"a namespace":                 {"functions.get_weather", "get_weather"},
		"a namespace, singular":       {"function.get_weather", "get_weather"},
		"tools.":                      {"tools.get_weather", "get_weather"},
		"Gemini's with a dot":         {"default_api.get_weather", "get_weather"},
		"Gemini's with a colon":       {"default_api:get_weather", "get_weather"},
		"two namespaces":              {"default_api.functions.get_weather", "get_weather"},
		"blanks":                      {" get_weather\n", "get_weather"},
		"quotes":                      {"\"get_weather\"", "get_weather"},
		"backticks around all":        {"`functions.get_weather`", "get_weather"},
		"parentheses":                 {"get_weather()", "get_weather"},
		"a channel token":             {"get_weather<|channel|>commentary", "get_weather"},
		"a token in front":            {"<|start|>get_weather", "get_weather"},
		"tokens on both sides":        {"<|x|> functions.get_weather <|constrain|>json", "get_weather"},
		"half a token":                {"get_weather<|chan", "get_weather"},
		"a full-width token":          {"get_weather<｜tool▁sep｜>", "get_weather"},
		"a name that is a namespace":  {"functions", "functions"},
		"another name, unknown":       {"functions.get_wether", "functions.get_wether"},
		"nothing left":                {"<|call|>", "<|call|>"},
		"only the prefix":             {"tools.", "tools."},
		"a name that holds a prefix":  {"my_tools.get_weather", "my_tools.get_weather"},
		"parentheses with arguments":  {"get_weather({})", "get_weather({})"},
		"no name at all":              {"", ""},
		"a text instead of a name":    {strings.Repeat("()", 5000), strings.Repeat("()", 5000)},
		"a long text behind a token":  {"a-b<|message|>" + strings.Repeat("x", 5000), "a-b"},
		"a name in another case":      {"Get_Weather", "Get_Weather"},
		"quotes around parentheses":   {"'get_weather()'", "get_weather"},
		"a known name with a _prefix": {"tools_list", "tools_list"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NormalizeName(c.in, func(n string) bool { return tools[n] }); got != c.want {
				t.Errorf("NormalizeName(%.60q) = %.60q, want %.60q", c.in, got, c.want)
			}
		})
	}
}

// Whatever is taken, its canonical text reads back to itself and to the same arguments; and what encoding/json takes
// as an object that has no key twice is taken and means the same.
func FuzzReadArguments(f *testing.F) {
	for _, s := range []string{
		``, `null`, `"{}"`, `{"a":1}`, `"{\"a\":1}"`, `"\"{\\\"a\\\":1}\""`, `"{}{\"a\":1}"`, "\"```json\\n{\\\"a\\\":[1.0]}\\n```\"",
		`"{\"a\":1}<|call|>"`, `{"a":1,"a":2}`, `"{'a':1}"`, `[1]`, `{"a":{"b":[null,true,"\u00e9<"]}}`, "\"\xff\"", `"\ufeff{}"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, canonical, err := ReadArguments(raw)
		if err == nil {
			again, c, err := ReadArguments(json.RawMessage(canonical))
			if err != nil || c != canonical || !reflect.DeepEqual(args, again) {
				t.Fatalf("%q: canonical %s reads as %s, %v", raw, canonical, c, err)
			}
			if _, c, err := ReadArguments(inString(canonical)); err != nil || c != canonical {
				t.Fatalf("%q: canonical %s in a string reads as %s, %v", raw, canonical, c, err)
			}
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var want map[string]any
		if !json.Valid(raw) || d.Decode(&want) != nil || want == nil {
			return
		}
		_, perr := jsontree.Parse(raw)
		var syntax *jsontree.SyntaxError
		if perr != nil && !errors.As(perr, &syntax) || syntax != nil && strings.Contains(syntax.Reason, "too large") {
			return // a key twice, or beyond the bounds
		}
		if err != nil || !reflect.DeepEqual(args, want) {
			t.Fatalf("%q: %v, encoding/json reads %v\n%s", raw, err, want, cmp.Diff(want, args))
		}
	})
}

// The usual case: some 200 bytes of arguments in a string, as OpenAI sends them.
func BenchmarkReadArguments(b *testing.B) {
	raw := inString(`{"name":"Ana Souza","mail":"ana@example.com","items":[{"sku":"A-100","count":2},{"sku":"B-7","count":1}],` +
		`"address":{"city":"São Paulo","zip":"01001-000"},"express":true,"total":149.90}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, _, err := ReadArguments(raw); err != nil {
			b.Fatal(err)
		}
	}
}
