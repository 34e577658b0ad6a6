package sqltool

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/tool"
)

func TestBind(t *testing.T) {
	tests := []struct {
		name, query    string
		postgres, lite string
		names          []string
	}{
		{"one", "SELECT :a", "SELECT $1", "SELECT ?1", []string{"a"}},
		{"a name twice is one parameter", "SELECT :a, :b, :a", "SELECT $1, $2, $1", "SELECT ?1, ?2, ?1", []string{"a", "b"}},
		{"a name that begins another", "SELECT :ab, :a", "SELECT $1, $2", "SELECT ?1, ?2", []string{"ab", "a"}},
		{"caller and key", "SELECT :caller.id, :idempotency_key", "SELECT $1, $2", "SELECT ?1, ?2", []string{"caller.id", "idempotency_key"}},
		{"right behind a word", "SELECT 1 LIMIT:a", "SELECT 1 LIMIT $1", "SELECT 1 LIMIT ?1", []string{"a"}},
		{"right behind a number", "SELECT 1:a", "SELECT 1 $1", "SELECT 1 ?1", []string{"a"}},
		{"literals stay", "SELECT ':a', \":a\", x':a', :a", "SELECT ':a', \":a\", x':a', $1", "SELECT ':a', \":a\", x':a', ?1", []string{"a"}},
		{"comments stay", "SELECT /* :a */ :a -- :b\n", "SELECT /* :a */ $1", "SELECT /* :a */ ?1", []string{"a"}},
		{"the end is cut off", "SELECT :a ; -- ; :b", "SELECT $1", "SELECT ?1", []string{"a"}},
		{"the beginning is blanked", ";SELECT :a", " SELECT $1", " SELECT ?1", []string{"a"}},
		{"a cast stays", "SELECT :a::int, b::text", "SELECT $1::int, b::text", "SELECT ?1::int, b::text", []string{"a"}},
		{"dollar quotes stay in PostgreSQL", "SELECT $x$ :a $x$, :b", "SELECT $x$ :a $x$, $1", "SELECT $x$ ?1 $x$, ?2", nil},
		{"brackets are quotes in SQLite", "SELECT [:a], :b", "SELECT [$1], $2", "SELECT [:a], ?1", nil},
		{"IS NULL has a parameter of its own in PostgreSQL", "WHERE :a IS NULL OR x = :a OR :a is  not\nnull", "WHERE $1::text IS NULL OR x = $2 OR $1::text is  not\nnull", "WHERE ?1 IS NULL OR x = ?1 OR ?1 is  not\nnull", nil},
		{"ISNULL too", "WHERE :a ISNULL OR :a NOTNULL", "WHERE $1::text ISNULL OR $1::text NOTNULL", "WHERE ?1 ISNULL OR ?1 NOTNULL", nil},
		{"other IS don't", "WHERE :a IS DISTINCT FROM x OR :a IS NOT TRUE", "WHERE $1 IS DISTINCT FROM x OR $1 IS NOT TRUE", "WHERE ?1 IS DISTINCT FROM x OR ?1 IS NOT TRUE", []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for d, want := range map[dialect]string{postgres: tt.postgres, sqlite: tt.lite} {
				s, err := parse(tt.query, d)
				if err != nil {
					t.Fatal(err)
				}
				got, names := s.bind()
				if got != want {
					t.Errorf("bind(%q) = %q, want %q", tt.query, got, want)
				}
				if tt.names != nil && !slices.Equal(names, tt.names) {
					t.Errorf("names %q, want %q", names, tt.names)
				}
			}
		})
	}
}

// FuzzBind: every byte outside of parameters stays, and what is written for a parameter is read as the database's own.
func FuzzBind(f *testing.F) {
	for _, query := range []string{"SELECT :a, ':a', :b::int", "SELECT $$:a$$ || :a IS NULL", "SELECT/*:a*/:a--:b\n,[:c]", "SELECT a:b:c.d:caller.x", "SELECT :a$b$ :c $b$"} {
		f.Add(query, true)
		f.Add(query, false)
	}
	f.Fuzz(func(t *testing.T, query string, toSQLite bool) {
		d, mark := postgres, "$"
		if toSQLite {
			d, mark = sqlite, "?"
		}
		s, err := parse(query, d)
		if err != nil {
			return
		}
		sql, names := s.bind()
		// Walk along both: what stands between parameters is equal, and each parameter has become a number.
		rest, at := sql, 0
		for _, p := range s.tokens {
			if p.kind != parameter {
				continue
			}
			before := s.query[at:p.start]
			if !strings.HasPrefix(rest, before) {
				t.Fatalf("bind(%q) = %q: %q is gone", query, sql, before)
			}
			rest, at = rest[len(before):], p.end()
			rest = strings.TrimPrefix(rest, " "+mark)
			rest = strings.TrimPrefix(rest, mark)
			n := span(rest, isDigit)
			if n == 0 {
				t.Fatalf("bind(%q) = %q: no number for %s", query, sql, p.text)
			}
			var number int
			if _, err := fmt.Sscan(rest[:n], &number); err != nil || number < 1 || number > len(names) || names[number-1] != p.text[1:] {
				t.Fatalf("bind(%q) = %q: %s is %s of %q", query, sql, p.text, rest[:n], names)
			}
			rest = rest[n:]
			if d == postgres && !strings.HasPrefix(s.query[at:], "::text") {
				rest = strings.TrimPrefix(rest, "::text")
			}
		}
		if rest != s.query[at:] {
			t.Fatalf("bind(%q) = %q: ends in %q, want %q", query, sql, rest, s.query[at:])
		}
		// The database reads the same tokens, with its own parameters in the place of ours.
		again, err := scan(sql, d)
		if err != nil {
			t.Fatalf("bind(%q) = %q: %v", query, sql, err)
		}
		count := func(tokens []token, k kind) (n int) {
			for _, t := range tokens {
				if t.kind == k {
					n++
				}
			}
			return n
		}
		if ours, theirs := count(s.tokens, parameter), count(again, foreign)-count(s.tokens, foreign); ours != theirs {
			t.Fatalf("bind(%q) = %q: %d parameters, want %d", query, sql, theirs, ours)
		}
		if count(again, parameter) != 0 || count(again, literal) != count(s.tokens, literal) || count(again, quoted) != count(s.tokens, quoted) {
			t.Fatalf("bind(%q) = %q changes literals", query, sql)
		}
	})
}

// TestBindLeavesAlone: whatever is put together of literals, comments, quotes and parameters, the parameters alone change.
func TestBindLeavesAlone(t *testing.T) {
	inert := map[dialect][]string{
		postgres: {"':a'", "E'\\':a'", `":a"`, "/*:a*/", "--:a\n", "$$:a$$", "$t$ :a $$ $t$", "x::int", "[1:2]", "U&':a'", "'it''s :a'", "a$b", "(1)", ",", "=", "/*/*:a*/*/"},
		sqlite:   {"':a'", `":a"`, "/*:a*/", "--:a\n", "`:a`", "[:a]", "x':a'", "'it''s :a'", "a$b", "(1)", ",", "=", "/*/*:a*/"},
	}
	rapid.Check(t, func(t *rapid.T) {
		for d, pieces := range inert {
			query, want := "SELECT", "SELECT"
			for range rapid.IntRange(1, 12).Draw(t, "pieces") {
				if rapid.Bool().Draw(t, "parameter") {
					query += " :p "
					want += map[dialect]string{postgres: " $1 ", sqlite: " ?1 "}[d]
					continue
				}
				piece := " " + rapid.SampledFrom(pieces).Draw(t, "piece") + " "
				query += piece
				want += piece
			}
			s, err := parse(query, d)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := s.bind()
			want = want[:min(len(want), len(got))] // blanks and comments at the end are cut off
			if got != want {
				t.Fatalf("bind(%q) = %q, want %q", query, got, want)
			}
		}
	})
}

func TestValues(t *testing.T) {
	c := tool.Call{
		Args:           map[string]any{"a": "x", "idempotency_key": "the model's", "null": nil},
		Caller:         map[string]any{"id": "ana", "none": nil},
		IdempotencyKey: "tg_1",
	}
	got, err := values([]string{"a", "b", "null", "caller.id", "idempotency_key"}, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"x", nil, nil, "ana", "tg_1"}, got); diff != "" {
		t.Errorf("values (-want +got)\n%s", diff)
	}
	c.IdempotencyKey = ""
	if got, err := values([]string{"idempotency_key"}, c); err != nil || got[0] != nil {
		t.Errorf("without a key: %v, %v; want NULL, not what the model wrote", got, err)
	}
	for _, field := range []string{"level", "none"} {
		if got, err := values([]string{"caller." + field}, c); err == nil {
			t.Errorf("a field that the caller lacks is bound as %v", got)
		}
	}
}
