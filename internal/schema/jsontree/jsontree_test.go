package jsontree

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsReadIsWrittenBack(t *testing.T) {
	for name, text := range map[string]string{
		"keys keep their order":                 `{"z":1,"a":2,"m":{"y":[],"b":{}}}`,
		"numbers keep their spelling":           `[1.10,9007199254740993,-0,1e3,5.0,2E-7,123456789012345678901234567890]`,
		"characters of HTML are not escaped":    `"<a href='x'>&</a>"`,
		"words and an empty key":                `{"":[true,false,null]}`,
		"controls and separators stay escaped":  `"\u0000\u001f\n\r\t\"\\\u2028"`,
		"other characters stand as they are":    `"São Paulo 日本 🙂"`,
		"a member that looks like a number key": `{"0":"x","00":"y"}`,
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(v.JSON()); got != text {
				t.Errorf("JSON() = %s, want %s", got, text)
			}
		})
	}
}

func TestErrorsSayWhereAndWhat(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                       {" ", "character 2: the text ends where a value is due"},
		"single quotes around a key":    {`{'a':1}`, "character 2: keys stand in double quotes, not single ones"},
		"single quotes around a value":  {`{"a":'b'}`, "character 6: strings stand in double quotes, not single ones"},
		"a bare word":                   {`{"a": Paris}`, "character 7: this is no JSON value; strings stand in double quotes"},
		"a word that goes on":           {`trueish`, "character 1: this is no JSON value; strings stand in double quotes"},
		"a bare key":                    {`{a:1}`, "character 2: a key in double quotes is missing"},
		"a comma before the end":        {`{"a":1,}`, "character 8: a comma before }"},
		"a comma before a list's end":   {`[1, ]`, "character 5: a comma before ]"},
		"no comma":                      {`{"a":1 "b":2}`, "character 8: a comma or } is missing"},
		"no colon":                      {`{"a" 1}`, "character 6: a colon is missing after the key"},
		"no value":                      {`{"a":}`, "character 6: a value is missing before }"},
		"an end inside an object":       {`{"a":1`, "character 7: the text ends inside an object"},
		"an end after a comma":          {`{"a":1,`, "character 8: the text ends inside an object"},
		"an end inside a list":          {`[1`, "character 3: the text ends inside a list"},
		"an end inside a string":        {`{"a":"x\"`, "character 10: the text ends inside a string"},
		"a raw line break in a string":  {"{\"a\":\"x\ny\"}", "character 8: a line break or control character inside a string must be escaped"},
		"a wrong escape":                {`{"a":"\x"}`, "character 6: the string has a wrong escape"},
		"a leading zero":                {`[007]`, "character 2: a wrong number"},
		"a plus":                        {`[+1]`, "character 2: this is no JSON value; strings stand in double quotes"},
		"a bare fraction":               {`[1.]`, "character 2: a wrong number"},
		"a minus alone":                 {`[-]`, "character 2: a wrong number"},
		"an exponent without digits":    {`[1e+]`, "character 2: a wrong number"},
		"an exponent no one can spell":  {`[1e99999999999999999999]`, "character 2: the number is too large"},
		"more digits than are sensible": {`[` + strings.Repeat("1", 1001) + `]`, "character 2: the number is too large"},
		"characters, not bytes":         {`{"é":'x'}`, "character 6: strings stand in double quotes, not single ones"},
		"text after the value":          {`{} x`, "character 4: there is more text after the value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || err.Error() != "not valid JSON at "+c.want {
				t.Errorf("Parse(%s) = %v, want %s", c.text, err, c.want)
			}
		})
	}
}

func TestDuplicateKeysAreFoundWhereverAndHoweverWritten(t *testing.T) {
	many := `{"k0":0`
	for k := range strings.FieldsSeq("k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k4") {
		many += `,"` + k + `":0`
	}
	for text, path := range map[string]string{
		`{"a":1,"a":1}`:                 "a",
		`{"a":1,"\u0061":2}`:            "a",
		`{"x":[{},{"b":{"c":1,"c":2`:    "x[1].b.c",
		`[[{"":1,"":2}]]`:               "[0][0].",
		many + `}`:                      "k4",
		`{"a":{"x":1},"b":{"x":1,"x":2`: "b.x",
	} {
		_, err := Parse([]byte(text))
		var twice *DuplicateError
		if !errors.As(err, &twice) || twice.Path != path {
			t.Errorf("Parse(%s) = %v, want a duplicate %q", text, err, path)
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat(`[`, n) + strings.Repeat(`]`, n)) }
	if _, err := Parse(nested(MaxDepth)); err != nil {
		t.Errorf("Parse of %d levels: %v, want none", MaxDepth, err)
	}
	var deep *DepthError
	if _, err := Parse(nested(MaxDepth + 1)); !errors.As(err, &deep) {
		t.Errorf("Parse of %d levels: %v, want a DepthError", MaxDepth+1, err)
	}
	// The bound must hold before the text ends: a million brackets are refused at the 65th.
	if _, err := Parse(bytes.Repeat([]byte(`{"a":`), 1<<20)); !errors.As(err, &deep) {
		t.Errorf("Parse of open brackets: %v, want a DepthError", err)
	}
}

func TestReaderReadsOneAfterTheOther(t *testing.T) {
	r := NewReader(` {} [1]"x" 2 `)
	var got []string
	for r.More() {
		v, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(v.JSON()))
	}
	if want := []string{`{}`, `[1]`, `"x"`, `2`}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What Parse takes, encoding/json takes and reads alike, and writing it back changes nothing but blanks and escapes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,2.50,"x\u00e9\ud83d"],"b":null}`, `"\ufffd\u2028<"`, `[1e5,-0]`, "\"\xff\xfe\"", `{'a'}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var want any
		if err != nil {
			var syntax *SyntaxError
			if errors.As(err, &syntax) && syntax.Reason != "the number is too large" && json.Valid(data) {
				t.Fatalf("Parse(%q) = %v, but it is valid", data, err)
			}
			return
		}
		if derr := d.Decode(&want); derr != nil {
			t.Fatalf("Parse takes %q, encoding/json says %v", data, derr)
		}
		if got := v.Any(); !reflect.DeepEqual(got, want) {
			t.Fatalf("Any() = %#v, encoding/json reads %#v", got, want)
		}
		again, err := Parse(v.JSON())
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Fatalf("%q written as %q reads differently: %v", data, v.JSON(), err)
		}
	})
}
