package sqltool

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	rows := [][]string{{"1", `"Ana"`, "null"}, {"-2.50", `"a|b\nc \"é\" <&>"`, `{"x":[1,2]}`}}
	columns := []string{"id", "name", "id"}
	tests := []struct {
		name string
		r    result
		p    plan
		want string
	}{
		{"json", result{columns: columns, rows: rows}, plan{}, `[{"id":1,"name":"Ana","id_2":null},{"id":-2.50,"name":"a|b\nc \"é\" <&>","id_2":{"x":[1,2]}}]`},
		{"a table", result{columns: columns, rows: rows}, plan{format: "table"}, strings.Join([]string{
			`| id    | name            | id_2        |`,
			`|-------|-----------------|-------------|`,
			`| 1     | Ana             | null        |`,
			`| -2.50 | a\|b c "é" <&>  | {"x":[1,2]} |`,
		}, "\n")},
		{"more rows", result{columns: columns[:1], rows: [][]string{{"1"}, {"2"}}, more: true}, plan{}, "[{\"id\":1},{\"id\":2}]\n[more rows: only the first 2 are shown]"},
		{"more rows than one", result{columns: columns[:1], rows: [][]string{{"1"}}, more: true}, plan{format: "table"}, "| id  |\n|-----|\n| 1   |\n[more rows: only the first is shown]"},
		{"no rows", result{columns: columns}, plan{}, "no rows match"},
		{"no rows of a write", result{columns: columns}, plan{write: true, counts: true}, "no rows match"},
		{"a change", result{changed: 1}, plan{write: true, counts: true}, "1 row affected"},
		{"changes", result{changed: 0}, plan{write: true, counts: true}, "0 rows affected"},
		{"what counts nothing", result{changed: 7}, plan{write: true}, "done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.r.text(&tt.p)
			if tt.p.format == "table" {
				// Pads may differ, what stands between the bars may not.
				if diff := cmp.Diff(trimmed(tt.want), trimmed(got)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				return
			}
			if got != tt.want {
				t.Errorf("text %s\nwant %s", got, tt.want)
			}
		})
	}
}

func trimmed(table string) string {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "¦"), "|")
		for j, cell := range cells {
			cells[j] = strings.Trim(cell, " -")
		}
		lines[i] = strings.Join(cells, "|")
	}
	return strings.Join(lines, "\n")
}

func TestATableIsAligned(t *testing.T) {
	var b strings.Builder
	writeTable(&b, []string{"n", "text"}, [][]string{{"1", `"ééé"`}, {"22222", `"x"`}})
	want := "| n     | text |\n|-------|------|\n| 1     | ééé  |\n| 22222 | x    |"
	if got := b.String(); got != want {
		t.Errorf("table\n%s\nwant\n%s", got, want)
	}
}

func TestOneLongCellDoesNotFillUpTheOthers(t *testing.T) {
	var b strings.Builder
	long := strings.Repeat("x", 5000)
	writeTable(&b, []string{"a"}, [][]string{{`"` + long + `"`}, {"1"}, {"2"}})
	if n := b.Len(); n > 5000+4*60 {
		t.Errorf("%d bytes for one cell of 5000", n)
	}
}

func TestDistinctNames(t *testing.T) {
	for _, tt := range []struct{ columns, want []string }{
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"a", "a", "a"}, []string{"a", "a_2", "a_3"}},
		{[]string{"a", "a_2", "a"}, []string{"a", "a_2", "a_3"}},
		{[]string{"a", "a", "a_2"}, []string{"a", "a_3", "a_2"}},
		{[]string{"", ""}, []string{"", "_2"}},
	} {
		if diff := cmp.Diff(tt.want, distinct(tt.columns)); diff != "" {
			t.Errorf("distinct(%q) (-want +got)\n%s", tt.columns, diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a_2", "a_2_2", "a_3", "b", ""}), 1, 8).Draw(t, "columns")
		seen := map[string]bool{}
		for i, name := range distinct(columns) {
			if seen[name] || !strings.HasPrefix(name, columns[i]) {
				t.Fatalf("distinct(%q) = %q", columns, distinct(columns))
			}
			seen[name] = true
		}
	})
}

func TestValuesAsJSON(t *testing.T) {
	for got, want := range map[string]string{
		jsonFloat(1.5):                        `1.5`,
		jsonFloat(5):                          `5`,
		jsonFloat(math.Inf(1)):                `"Infinity"`,
		jsonFloat(math.Inf(-1)):               `"-Infinity"`,
		jsonFloat(math.NaN()):                 `"NaN"`,
		jsonNumber("12345678901234567890.10"): `12345678901234567890.10`,
		jsonNumber("-0.5"):                    `-0.5`,
		jsonNumber("1e+20"):                   `1e+20`,
		jsonNumber("NaN"):                     `"NaN"`,
		jsonNumber("-Infinity"):               `"-Infinity"`,
		jsonNumber(""):                        `""`,
		// Go 1.27 writes the replacement as it is, Go 1.26 as an escape.
		strings.ReplaceAll(jsonText("<a> & \"b\"\n\xff"), "\ufffd", `\ufffd`): `"<a> & \"b\"\n\ufffd"`,
		jsonInline(`{"b": 1,  "a": [1.10, "<"]}`):                             `{"b":1,"a":[1.10,"<"]}`,
		jsonInline(`{`):                                                 `"{"`,
		jsonBlob(nil):                                                   `""`,
		jsonBlob([]byte("plain\ttext é\n")):                             `"plain\ttext é\n"`,
		jsonBlob([]byte{0, 255}):                                        `"base64:AP8="`,
		jsonBlob([]byte("a\x00b")):                                      `"base64:YQBi"`,
		jsonBlob(make([]byte, 257)):                                     `"[binary, 257 bytes]"`,
		jsonTime(time.Unix(0, 5).UTC()):                                 `"1970-01-01T00:00:00.000000005Z"`,
		plainText(`"a \"b\""`):                                          `a "b"`,
		plainText(`["a"]`):                                              `["a"]`,
		sqliteValue(int64(1), "BOOLEAN"):                                `true`,
		sqliteValue(int64(2), "BOOLEAN"):                                `2`,
		sqliteValue(int64(1), "INTEGER"):                                `1`,
		sqliteValue(int64(math.MaxInt64), ""):                           `9223372036854775807`,
		sqliteValue(`{"a": 1}`, "JSON"):                                 `{"a":1}`,
		sqliteValue(`{"a": 1}`, "TEXT"):                                 `"{\"a\": 1}"`,
		sqliteValue(nil, "TEXT"):                                        `null`,
		rfc3339("2026-01-02 03:04:05.678+00"):                           "2026-01-02T03:04:05.678Z",
		rfc3339("2026-01-02 03:04:05-03"):                               "2026-01-02T03:04:05-03:00",
		rfc3339("2026-01-02 03:04:05+05:30"):                            "2026-01-02T03:04:05+05:30",
		rfc3339("2026-01-02 03:04:05"):                                  "2026-01-02T03:04:05",
		rfc3339("0044-03-15 12:00:00+00 BC"):                            "0044-03-15 12:00:00+00 BC",
		rfc3339("1800-01-01 00:00:00+00:53:28"):                         "1800-01-01 00:00:00+00:53:28",
		rfc3339("10000-01-01 00:00:00+00"):                              "10000-01-01 00:00:00+00",
		rfc3339("infinity"):                                             "infinity",
		bytea(`\x00ff`):                                                 `"base64:AP8="`,
		bytea(`\x6869`):                                                 `"hi"`,
		string(postgresArgument(nil, 0)):                                "",
		string(postgresArgument(true, 0)):                               "true",
		string(postgresArgument(json.Number("1.10"), 0)):                "1.10",
		string(postgresArgument(argument(map[string]any{"a": "<"}), 0)): `{"a":"<"}`,
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if postgresArgument("", 0) == nil {
		t.Error("an empty text is NULL")
	}
}

func TestArguments(t *testing.T) {
	for _, tt := range []struct{ in, want any }{
		{json.Number("9007199254740993"), int64(9007199254740993)},
		{json.Number("-5"), int64(-5)},
		{json.Number("18446744073709551616"), "18446744073709551616"},
		{json.Number("1.5"), 1.5},
		{json.Number("5.0"), 5.0},
		{2.5, 2.5},
		{7, int64(7)},
		{true, true},
		{"x", "x"},
		{nil, nil},
		{[]any{json.Number("1"), "a"}, `[1,"a"]`},
		{map[string]any{"b": json.Number("1.10"), "a": nil}, `{"a":null,"b":1.10}`},
	} {
		if diff := cmp.Diff(tt.want, sqliteArgument(argument(tt.in))); diff != "" {
			t.Errorf("%#v (-want +got)\n%s", tt.in, diff)
		}
	}
}

func TestArrays(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{}", "[]"},
		{"{1,-2,NULL}", "[1,-2,null]"},
		{"{{1,2},{3,4}}", "[[1,2],[3,4]]"},
		{"[0:1]={5,6}", "[5,6]"},
		{"[1:1][-2:-1]={{5,6}}", "[[5,6]]"},
		{"{1", `"{1"`},
		{"{1}x", `"{1}x"`},
		{`{"1`, `"{\"1"`},
		{"", `""`},
	} {
		if got := jsonArray(tt.text, ',', jsonNumber); got != tt.want {
			t.Errorf("jsonArray(%s) = %s, want %s", tt.text, got, tt.want)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{`{a,"b c","NULL",NULL,"q\"\\","{x,y}",""}`, `["a","b c","NULL",null,"q\"\\","{x,y}",""]`},
	} {
		if got := jsonArray(tt.text, ',', jsonText); got != tt.want {
			t.Errorf("jsonArray(%s) = %s, want %s", tt.text, got, tt.want)
		}
	}
	if got, want := jsonArray("{(1,2),(0,0);(3,4),(1,1)}", ';', jsonText), `["(1,2),(0,0)","(3,4),(1,1)"]`; got != want {
		t.Errorf("boxes %s, want %s", got, want)
	}
}

// FuzzArrays: a list that was written as an array is read as the same list, and any text is read as JSON.
func FuzzArrays(f *testing.F) {
	f.Add(`a"b\c`, "{NULL}", "{a,\"b\",{c}}")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		a, b = strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, "")
		literal := arrayLiteral([]any{a, nil, b})
		if got, want := jsonArray(literal, ',', jsonText), "["+jsonText(a)+",null,"+jsonText(b)+"]"; got != want {
			t.Errorf("%s is read as %s, want %s", literal, got, want)
		}
		if got := jsonArray(text, ',', jsonText); !json.Valid([]byte(got)) {
			t.Errorf("jsonArray(%q) = %s", text, got)
		}
	})
}
