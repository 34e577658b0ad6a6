package sqltool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/tool"
)

const (
	callerPrefix   = "caller."
	idempotencyKey = "idempotency_key"
)

// bind puts the database's own parameters in the place of :name, :caller.name and :idempotency_key. Every other byte of
// the query stays. names are what is to be bound, without the colon, the first as parameter 1.
//
// A name is one parameter wherever it stands, with one exception: PostgreSQL can't tell the type of $1 from $1 IS NULL,
// and refuses (:q IS NULL OR name = :q), the usual way to write a filter that may be left out. There the name gets a
// second parameter, a text.
func (s *statement) bind() (sql string, names []string) {
	var b strings.Builder
	numbers := map[string]int{}
	from := 0
	for i, t := range s.tokens {
		if t.kind != parameter {
			continue
		}
		b.WriteString(s.query[from:t.start])
		from = t.end()
		if t.start > 0 && inName(s.query[t.start-1]) { // LIMIT:n is not LIMIT$1, which is a name
			b.WriteByte(' ')
		}
		suffix := ""
		if s.dialect == postgres && s.comparesToNull(i+1) {
			suffix = "::text"
		}
		n, known := numbers[t.text+suffix]
		if !known {
			names = append(names, t.text[1:])
			n = len(names)
			numbers[t.text+suffix] = n
		}
		b.WriteString(map[dialect]string{postgres: "$", sqlite: "?"}[s.dialect])
		b.WriteString(strconv.Itoa(n))
		b.WriteString(suffix)
	}
	b.WriteString(s.query[from:])
	return b.String(), names
}

// comparesToNull says whether an IS NULL, IS NOT NULL, ISNULL or NOTNULL begins at i.
func (s *statement) comparesToNull(i int) bool {
	if s.at(i).is("ISNULL", "NOTNULL") {
		return true
	}
	if !s.at(i).is("IS") {
		return false
	}
	if s.at(i + 1).is("NOT") {
		i++
	}
	return s.at(i + 1).is("NULL")
}

// limited is the statement with at most rows rows. Not all statements can have that: what is read is counted too.
//
// In SQLite the rows are put aside before the first is given out. The driver watches the deadline only up to the first
// row, and the second may be the one that takes forever.
func (s *statement) limited(sql string, rows int) string {
	switch {
	case !s.selects():
		return sql
	case s.dialect == sqlite:
		return fmt.Sprintf("WITH toolgate_rows AS MATERIALIZED (SELECT * FROM (\n%s\n) LIMIT %d) SELECT * FROM toolgate_rows", sql, rows)
	}
	return fmt.Sprintf("SELECT * FROM (\n%s\n) AS toolgate_rows LIMIT %d", sql, rows)
}

// checkNames is what is wrong with the parameters that a query names.
func checkNames(names []string, params map[string]tool.Param) []string {
	known := make([]string, 0, len(params))
	for name := range params {
		known = append(known, name)
	}
	slices.Sort(known)
	var faults []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		_, ok := params[name]
		switch {
		case ok, name == idempotencyKey, strings.HasPrefix(name, callerPrefix):
		case name == "caller":
			faults = append(faults, ":caller: want :caller.NAME, a field of the caller")
		default:
			message := fmt.Sprintf(":%s names no parameter", name)
			if near := suggest.Nearest(name, append(known, idempotencyKey), 1); len(near) > 0 {
				message += fmt.Sprintf(": did you mean :%s?", near[0])
			}
			faults = append(faults, message)
		}
	}
	return faults
}

// callerFields are the fields of the caller among names, sorted.
func callerFields(names []string) []string {
	var fields []string
	for _, name := range names {
		if field, ok := strings.CutPrefix(name, callerPrefix); ok {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// values are what a call binds to names. A parameter that is absent is null. A field that the caller lacks is an error,
// so that no comparison with it is skipped by accident.
func values(names []string, c tool.Call) ([]any, error) {
	list := make([]any, len(names))
	for i, name := range names {
		field, ofCaller := strings.CutPrefix(name, callerPrefix)
		switch {
		case ofCaller:
			if list[i] = c.Caller[field]; list[i] == nil {
				return nil, fmt.Errorf("the caller has no %s", field)
			}
		case name != idempotencyKey:
			list[i] = c.Args[name]
		case c.IdempotencyKey != "":
			list[i] = c.IdempotencyKey
		}
	}
	return list, nil
}
