package sqltool

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kinds are what a listing of tokens writes before each: literals and quoted names are one token whatever is in them.
var kinds = map[kind]string{word: "w ", quoted: "q ", literal: "l ", parameter: "p ", foreign: "f ", sign: "s "}

func listing(tokens []token) string {
	var list []string
	for _, t := range tokens {
		list = append(list, kinds[t.kind]+t.text)
	}
	return strings.Join(list, "\n")
}

func TestTokens(t *testing.T) {
	const both = "both"
	tests := []struct {
		name, dialect, query string
		want                 []string
	}{
		{"words and signs", both, "SELECT a_1, é FROM t;", []string{"w SELECT", "w a_1", "s ,", "w é", "w FROM", "w t", "s ;"}},
		{"a parameter", both, "a=:a1_é+1", []string{"w a", "s =", "p :a1_é", "s +", "l 1"}},
		{"a field of the caller", both, ":caller.level :caller .x :caller.1", []string{"p :caller.level", "p :caller", "s .", "w x", "p :caller", "s .", "l 1"}},
		{"a field of another name", both, ":a.b", []string{"p :a", "s .", "w b"}},
		{"a literal", both, "':a' 'it''s :a' ''", []string{"l ':a'", "l 'it''s :a'", "l ''"}},
		{"a backslash ends nothing", both, `'\' :a`, []string{`l '\'`, "p :a"}},
		{"a quoted name", both, `":a" "x"":a"`, []string{`q ":a"`, `q "x"":a"`}},
		{"a blob", both, "x'00' X'0A'", []string{"l x'00'", "l X'0A'"}},
		{"a line comment", both, "1 -- :a ' \n2--", []string{"l 1", "l 2"}},
		{"a block comment", both, "1/* :a ' */2", []string{"l 1", "l 2"}},
		{"a comment inside of an operator", both, "1+--:a\n2*/*:b*/3", []string{"l 1", "s +", "l 2", "s *", "l 3"}},
		{"no comment", both, "1 - -1 / *", []string{"l 1", "s -", "s -", "l 1", "s /", "s *"}},
		{"numbers", both, "1.5 1e5 0x1F 1_000", []string{"l 1.5", "l 1e5", "l 0x1F", "l 1_000"}},
		{"a parameter right behind a number", both, "1:a", []string{"l 1", "p :a"}},
		{"a lone colon", both, "a : b :", []string{"w a", "s :", "w b", "s :"}},
		{"a dollar inside of a name", both, "a$b$c", []string{"w a$b$c"}},

		{"nested comments", "postgres", "1/* /* :a */ :b */2", []string{"l 1", "l 2"}},
		{"a comment that a carriage return ends", "postgres", "1--x\r:a", []string{"l 1", "p :a"}},
		{"escapes", "postgres", `E'\':a' e'\\' :a`, []string{`l E'\':a'`, `l e'\\'`, "p :a"}},
		{"no escapes but in E", "postgres", `b'\' N'\' U&'\' :a`, []string{`l b'\'`, `l N'\'`, `l U&'\'`, "p :a"}},
		{"a name in Unicode", "postgres", `U&"d\0061:a" U & "b"`, []string{`q U&"d\0061:a"`, "w U", "s &", `q "b"`}},
		{"a dollar quote", "postgres", "$$:a$$ $x$ :a $$ $y$ $x$:b", []string{"l $$:a$$", "l $x$ :a $$ $y$ $x$", "p :b"}},
		{"a dollar quote needs a tag that is a name", "postgres", "$ x$ $1$", []string{"s $", "w x$", "f $1", "s $"}},
		{"a cast", "postgres", "a::int :a::text", []string{"w a", "s ::", "w int", "p :a", "s ::", "w text"}},
		{"a slice", "postgres", "a[1:2] a[:b]", []string{"w a", "s [", "l 1", "s :", "l 2", "s ]", "w a", "s [", "p :b", "s ]"}},
		{"a named argument", "postgres", "f(a := :a)", []string{"w f", "s (", "w a", "s :", "s =", "p :a", "s )"}},
		{"operators of its own", "postgres", "a ?| b @> `c`", []string{"w a", "s ?", "s |", "w b", "s @", "s >", "s `", "w c", "s `"}},
		{"parameters of its own", "postgres", "$1 $23", []string{"f $1", "f $23"}},

		{"no nested comments", "sqlite", "1/* /* :a */ :b", []string{"l 1", "p :b"}},
		{"a comment that a carriage return does not end", "sqlite", "1--x\r:a\n2", []string{"l 1", "l 2"}},
		{"no escapes", "sqlite", `e'\' :a`, []string{"w e", `l '\'`, "p :a"}},
		{"more quotes", "sqlite", "`:a` [x:a'] `b``:c`", []string{"q `:a`", "q [x:a']", "q `b``:c`"}},
		{"no dollar quotes", "sqlite", "$$ $x$", []string{"f $$", "f $x$"}},
		{"parameters of SQLite", "sqlite", "? ?1 @a $a #a", []string{"f ?", "f ?1", "f @a", "f $a", "f #a"}},
	}
	for _, tt := range tests {
		for _, d := range []dialect{postgres, sqlite} {
			name := []string{"postgres", "sqlite"}[d]
			if tt.dialect != both && tt.dialect != name {
				continue
			}
			t.Run(tt.name+" in "+name, func(t *testing.T) {
				tokens, err := scan(tt.query, d)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(strings.Join(tt.want, "\n"), listing(tokens)); diff != "" {
					t.Errorf("scan(%q) (-want +got)\n%s", tt.query, diff)
				}
			})
		}
	}
}

func TestWhatHasNoEnd(t *testing.T) {
	tests := []struct {
		query string
		in    []dialect
		want  error
	}{
		{"SELECT ':a", []dialect{postgres, sqlite}, errOpenQuote},
		{`SELECT ":a`, []dialect{postgres, sqlite}, errOpenQuote},
		{"SELECT 'a''", []dialect{postgres, sqlite}, errOpenQuote},
		{"SELECT /* :a", []dialect{postgres, sqlite}, errOpenComment},
		{"SELECT /*/", []dialect{postgres, sqlite}, errOpenComment},
		{"SELECT /* /* */", []dialect{postgres}, errOpenComment},
		{`SELECT E'\'`, []dialect{postgres}, errOpenQuote},
		{`SELECT U&'a`, []dialect{postgres}, errOpenQuote},
		{"SELECT $x$ $X$", []dialect{postgres}, errOpenQuote},
		{"SELECT [a", []dialect{sqlite}, errOpenQuote},
		{"SELECT `a", []dialect{sqlite}, errOpenQuote},
		{"SELECT x'0", []dialect{sqlite}, errOpenQuote},
	}
	for _, tt := range tests {
		for _, d := range tt.in {
			if _, err := scan(tt.query, d); !errors.Is(err, tt.want) {
				t.Errorf("scan(%q, %d): error %v, want %v", tt.query, d, err, tt.want)
			}
		}
	}
}

// FuzzScan: tokens stand in order and are what the query has there, and between them are blanks and comments alone.
func FuzzScan(f *testing.F) {
	for _, query := range []string{"SELECT ':a' FROM t -- x\n", "$x$ :a $x$ /* */ [b]", "E'\\'' U&\"x\" 1.e-5 a::b", "`é`?1:a"} {
		f.Add(query, true)
		f.Add(query, false)
	}
	f.Fuzz(func(t *testing.T, query string, toSQLite bool) {
		d := postgres
		if toSQLite {
			d = sqlite
		}
		tokens, err := scan(query, d)
		at := 0
		for _, token := range tokens {
			if token.text == "" || token.start < at || query[token.start:token.end()] != token.text {
				t.Fatalf("token %+v behind %d of %q", token, at, query)
			}
			wantBetween(t, query[at:token.start])
			at = token.end()
		}
		wantBetween(t, query[at:])
		if err == nil {
			again, err := scan(query+"\n", d)
			if err != nil || !slices.Equal(again, tokens) {
				t.Fatalf("a line break behind %q changes its tokens: %v, %v", query, again, err)
			}
		}
	})
}

func wantBetween(t *testing.T, text string) {
	t.Helper()
	text = strings.TrimLeft(text, " \t\r\n\f\v")
	if text != "" && !strings.HasPrefix(text, "--") && !strings.HasPrefix(text, "/*") {
		t.Fatalf("%q is in no token", text)
	}
}
