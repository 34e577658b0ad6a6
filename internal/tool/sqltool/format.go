package sqltool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The formats of a result.
const (
	formatJSON  = "json"
	formatTable = "table"
)

// noRows is what the model reads of a result without rows. That is a good result: it has learned something.
const noRows = "no rows match"

// text is the result as the model reads it.
func (r *result) text(p *plan) string {
	switch {
	case len(r.columns) == 0 && p.counts:
		return affected(r.changed)
	case len(r.columns) == 0 && len(r.rows) == 0:
		return "done"
	case len(r.rows) == 0:
		return noRows
	}
	names := distinct(r.columns)
	var b strings.Builder
	if p.format == formatTable {
		writeTable(&b, names, r.rows)
	} else {
		writeJSON(&b, names, r.rows)
	}
	if r.more {
		b.WriteByte('\n')
		b.WriteString(moreRows(len(r.rows)))
	}
	return b.String()
}

func affected(n int64) string {
	if n == 1 {
		return "1 row affected"
	}
	return fmt.Sprintf("%d rows affected", n)
}

func moreRows(shown int) string {
	if shown == 1 {
		return "[more rows: only the first is shown]"
	}
	return fmt.Sprintf("[more rows: only the first %d are shown]", shown)
}

// distinct are the names of columns with a number behind those that came before: a, a_2, a_3. A name of the query's own
// is never changed for one that is made here.
func distinct(columns []string) []string {
	count := map[string]int{}
	for _, name := range columns {
		count[name]++
	}
	seen := map[string]bool{}
	names := make([]string, len(columns))
	for i, name := range columns {
		unique := name
		for n := 2; seen[unique] || unique != name && count[unique] > 0; n++ {
			unique = name + "_" + strconv.Itoa(n)
		}
		seen[unique] = true
		names[i] = unique
	}
	return names
}

// writeJSON writes rows as a list of objects whose keys stand in the order of the columns. The values are JSON.
func writeJSON(b *strings.Builder, names []string, rows [][]string) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = jsonText(name) + ":"
	}
	b.WriteByte('[')
	for i, row := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('{')
		for j, value := range row {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(keys[j])
			b.WriteString(value)
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
}

// widest is up to which width the cells of a column are filled up, so that one long text does not blow up all rows.
const widest = 40

// writeTable writes rows as a table in Markdown, aligned as far as widest goes.
func writeTable(b *strings.Builder, names []string, rows [][]string) {
	lines := make([][]string, 0, len(rows)+1)
	lines = append(lines, cells(names, func(s string) string { return s }))
	for _, row := range rows {
		lines = append(lines, cells(row, plainText))
	}
	widths := make([]int, len(names))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], 3, min(utf8.RuneCountInString(cell), widest))
		}
	}
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, cell := range line {
			b.WriteString("| ")
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", max(0, widths[j]-utf8.RuneCountInString(cell))))
			b.WriteByte(' ')
		}
		b.WriteByte('|')
		if i == 0 {
			b.WriteByte('\n')
			for _, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+2))
			}
			b.WriteByte('|')
		}
	}
}

var cellEscaper = strings.NewReplacer("|", `\|`, "\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// cells are texts that keep to their place in a table.
func cells(texts []string, plain func(string) string) []string {
	line := make([]string, len(texts))
	for i, text := range texts {
		line[i] = cellEscaper.Replace(plain(text))
	}
	return line
}

// plainText is a JSON value as a cell shows it: a text without its quotes, anything else as it is.
func plainText(value string) string {
	if !strings.HasPrefix(value, `"`) {
		return value
	}
	var text string
	if err := json.Unmarshal([]byte(value), &text); err != nil {
		return value
	}
	return text
}
