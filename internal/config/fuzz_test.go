package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParse: whatever the bytes, reading ends soon and without a panic; every problem has a place; a file without
// problems is valid JSON, in which every Node is found at its path; and no problem shows what a variable holds.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range seeds {
		data, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(good))
	f.Add([]byte("%YAML 1.2\n---\na: !!str &x |\n  ${SECRET}\n? b\n: *x\n<<: {c: >-\n  y}\n...\n"))
	f.Add([]byte("{\"a\": [1.0, \"\\u0000\", null, {}],\t\"<<\": \"$${}\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		file := Parse("f", "testdata", data, environment)
		raw := file.Root().JSON()
		if file.Problems() == nil {
			if !json.Valid(raw) {
				t.Fatalf("%q becomes invalid JSON: %s", data, raw)
			}
			var b bytes.Buffer
			if err := json.Compact(&b, raw); err != nil || !bytes.Equal(b.Bytes(), raw) {
				t.Fatalf("%q becomes JSON that is not compact: %s", data, raw)
			}
		}
		file.Decode(&sample{})
		for _, p := range append(file.Problems(), file.Warnings()...) {
			if p.Pos.Line < 1 || p.Pos.Col < 1 || p.File != "f" || p.Message == "" {
				t.Fatalf("%q: no place or no words: %#v", data, p)
			}
			if strings.Contains(p.Message, "s3cret-value") && !bytes.Contains(data, []byte("s3cret-value")) {
				t.Fatalf("%q: shows a secret: %s", data, p)
			}
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("%q took %v", data, took)
		}
	})
}

// FuzzJSON: valid JSON comes out as it went in, but for blanks and doubled keys.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.50,1e+3,true,null,"\u00e9\ud83d\ude00\n<&>"],"":{"<<":{}}}`, `[]`, ` "x"`, `[[],{},"\ud800"]`, `0`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want any
		if !json.Valid(data) || bytes.Contains(data, []byte("${")) || bytes.Contains(data, []byte{0x7f}) || json.Unmarshal(data, &want) != nil {
			return
		}
		file := Parse("f", ".", data, environment)
		if file.Problems() != nil { // a doubled key, too deep, ...
			return
		}
		if want == nil {
			want = map[string]any{}
		}
		var got any
		if err := json.Unmarshal(file.Root().JSON(), &got); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		a, b := encode(want), encode(got)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q becomes %s", data, b)
		}
	})
}

// FuzzSubstitution: in a quoted scalar, ${X} gives exactly the value of X between what stands around it, a doubled
// dollar gives the text itself, and a text without ${ stays as it is.
func FuzzSubstitution(f *testing.F) {
	f.Add("before ", "a: b # ${Y} $${Z} \"'\n\t", " after")
	f.Add("$", "${X}", "}")
	f.Add("", "0123", "")
	f.Fuzz(func(t *testing.T, before, value, after string) {
		for _, s := range []string{before, value, after} {
			if !utf8.ValidString(s) {
				return
			}
		}
		if strings.Contains(before+"|"+after, "${") || strings.HasSuffix(before, "$") || strings.Contains(before+after, "\x7f") {
			return
		}
		lookup := func(name string) (string, bool) { return value, name == "X" }
		list := encode([]string{before + "${X}" + after, before + "$${X}" + after, before + after})
		file := Parse("f", ".", list, lookup)
		if file.Problems() != nil {
			t.Fatal(file.Problems())
		}
		var got [3]string
		if err := json.Unmarshal(file.Root().JSON(), &got); err != nil {
			t.Fatal(err)
		}
		if want := [3]string{before + value + after, before + "${X}" + after, before + after}; got != want {
			t.Errorf("%s with X=%q is %q, want %q", list, value, got, want)
		}
	})
}
