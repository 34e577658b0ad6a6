package sqltool

import "testing"

func TestStatements(t *testing.T) {
	for query, want := range map[string]int{
		"":                                  0,
		" ; ":                               0,
		"SELECT 1":                          1,
		"SELECT 1;":                         1,
		"SELECT 1; SELECT 2":                2,
		"SELECT ';'; -- ; more\n":           1,
		"SELECT 'it''s;' /* ; /* ; */ ; */": 1,
		`SELECT ";" FROM "a;b"`:             1,
		"SELECT $$;$$, $x$ ; $$ $x$":        1,
		"SELECT $1; DROP TABLE t":           2,
		"-- only a comment":                 0,
		"SELECT 'open ;":                    1,
	} {
		if got := Statements(query); got != want {
			t.Errorf("Statements(%q) = %d, want %d", query, got, want)
		}
	}
}

func FuzzStatements(f *testing.F) {
	f.Add("SELECT 1; SELECT '")
	f.Fuzz(func(t *testing.T, query string) {
		n := Statements(query)
		if m := Statements(query + "\n;SELECT 1"); m < n || m > n+1 {
			t.Errorf("%d statements, with one more %d", n, m)
		}
	})
}
