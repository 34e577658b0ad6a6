package sqltool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/tool"
)

// BenchmarkSelect bounds what the usual call costs: one row by its key, and a full page of twenty. With PostgreSQL it is
// three round trips on the loopback.
func BenchmarkSelect(b *testing.B) {
	script := "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC);\n"
	var rows []string
	for i := range 200 {
		rows = append(rows, fmt.Sprintf("(%d, 'name %d', %d.50)", i, i, i))
	}
	script += "INSERT INTO t VALUES " + strings.Join(rows, ", ")
	for _, d := range []*database{newSQLite(b, script), newPostgres(b, script)} {
		for name, query := range map[string]string{
			"one row":     "SELECT id, name, price FROM t WHERE id = :id",
			"twenty rows": "SELECT id, name, price FROM t WHERE id >= :id ORDER BY id",
		} {
			b.Run(d.name+"/"+name, func(b *testing.B) {
				made := d.newTool(b, fmt.Sprintf("query: %q", query), spec(tool.Read, "id"))
				c := tool.Call{Args: args(b, `{"id": 17}`)}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := made.Call(b.Context(), c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
