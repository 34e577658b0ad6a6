package sqltool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/tool"
)

// statement is an SQL text of the file, understood as far as a tool has to.
type statement struct {
	dialect dialect
	query   string // without what stands behind it: semicolon, comments
	tokens  []token
	verb    int  // index of the token that says what the statement does
	explain bool // it is only told how that would be done
}

var errStatements = errors.New("want exactly one statement")

// parse reads a query that has to be one statement.
func parse(query string, d dialect) (*statement, error) {
	tokens, err := scan(query, d)
	if err != nil {
		return nil, err
	}
	if strings.Contains(query, "\x00") {
		return nil, errors.New("a NUL character can't stand in SQL")
	}
	list := split(tokens)
	if len(list) != 1 {
		return nil, errStatements
	}
	tokens = list[0]
	s := &statement{dialect: d, query: query[:tokens[len(tokens)-1].end()], tokens: tokens}
	if first := tokens[0]; first.start > 0 && strings.Contains(query[:first.start], ";") {
		s.query = strings.Repeat(" ", first.start) + s.query[first.start:] // so that no semicolon stands before it
	}
	if err := s.balanced(); err != nil {
		return nil, err
	}
	return s, s.findVerb()
}

// split parts tokens at semicolons. Nothing between two of them is no statement.
func split(tokens []token) [][]token {
	var list [][]token
	from := 0
	for i, t := range tokens {
		if !t.is(";") {
			continue
		}
		if i > from {
			list = append(list, tokens[from:i])
		}
		from = i + 1
	}
	if from < len(tokens) {
		list = append(list, tokens[from:])
	}
	return list
}

// balanced refuses parentheses that would change the meaning of those that are put around the query.
func (s *statement) balanced() error {
	depth := 0
	for _, t := range s.tokens {
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return errors.New("the parentheses don't match")
	}
	return nil
}

// findVerb finds the keyword that says what the statement does: that of a WITH or an EXPLAIN stands behind it.
func (s *statement) findVerb() error {
	i := s.behindParentheses(0)
	if s.at(i).is("EXPLAIN") {
		s.explain = true
		i = s.behindParentheses(s.behindOptions(i + 1))
	}
	for s.at(i).is("WITH") {
		i = s.behindParentheses(s.behindWith(i))
	}
	if s.at(i).kind != word || s.at(i).text == "" {
		return errors.New("want a statement that begins with a keyword, such as SELECT")
	}
	s.verb = i
	return nil
}

func (s *statement) behindParentheses(i int) int {
	for s.at(i).is("(") {
		i++
	}
	return i
}

// behindOptions skips what an EXPLAIN may have before the statement: words, or a list in parentheses.
func (s *statement) behindOptions(i int) int {
	for s.at(i).is("ANALYZE", "ANALYSE", "VERBOSE", "QUERY", "PLAN") {
		i++
	}
	if s.at(i).is("(") && !s.at(i+1).is("SELECT", "WITH", "VALUES", "TABLE", "(") {
		return s.closing(i) + 1
	}
	return i
}

// behindWith is the index behind the list of a WITH: of the verb, or of a parenthesis before it. What is called like a
// verb in the list is a name: it stands behind a comma, the WITH or a RECURSIVE.
func (s *statement) behindWith(i int) int {
	for i++; i < len(s.tokens); i++ {
		t, before := s.at(i), s.at(i-1)
		switch {
		case t.is("(") && before.is(")"):
			return i
		case t.is("("):
			i = s.closing(i)
		case before.is("WITH", "RECURSIVE", ","):
		case t.is("SELECT", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"):
			return i
		}
	}
	return i
}

// closing is the index of the parenthesis that closes the one at i.
func (s *statement) closing(i int) int {
	for depth := 0; i < len(s.tokens); i++ {
		switch {
		case s.tokens[i].is("("):
			depth++
		case s.tokens[i].is(")"):
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// at is a token, an empty word where there is none.
func (s *statement) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{}
	}
	return s.tokens[i]
}

// selects says whether the statement can stand in another one's FROM.
func (s *statement) selects() bool {
	return !s.explain && s.at(s.verb).is("SELECT", "VALUES", "TABLE")
}

// counts says whether the number of rows that the statement changed means something.
func (s *statement) counts() bool {
	return !s.explain && s.at(s.verb).is("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE")
}

// effect is what the statement does to the database, as far as its text tells. A function that is not a well-known one
// may still write: the read-only transaction is what holds, this is for the file's author.
func (s *statement) effect() tool.Effect {
	if s.writes() != "" {
		return tool.Write
	}
	return tool.Read
}

// writes is what in the statement writes, "" when nothing is seen to.
func (s *statement) writes() string {
	if verb := s.at(s.verb); !verb.is("SELECT", "VALUES", "TABLE", "SHOW") {
		return strings.ToUpper(verb.text)
	}
	for i, t := range s.tokens {
		if t.kind != word {
			continue
		}
		before, after := s.at(i-1), s.at(i+1)
		name := strings.ToUpper(t.text)
		switch {
		case t.is("INTO"):
			return "SELECT INTO"
		case t.is("FOR") && after.is("UPDATE", "SHARE", "NO", "KEY") && s.dialect == postgres:
			return "FOR " + strings.ToUpper(after.text)
		case after.is("(") && slices.Contains(writers, strings.ToLower(t.text)):
			return strings.ToLower(t.text) + "()"
		case !before.is("(", ")"): // nothing else begins here
		case t.is("DELETE") && after.is("FROM"),
			t.is("INSERT", "REPLACE", "MERGE") && after.is("INTO", "OR"),
			t.is("UPDATE") && (after.kind == word || after.kind == quoted) && after.text != "":
			return name
		}
	}
	return ""
}

// writers are functions that change something, some of them even where the transaction may only read or is rolled
// back: sequences in another session's sight, locks, other backends, files of the server.
var writers = []string{
	"dblink", "dblink_connect", "dblink_exec", "dblink_send_query", "lo_create", "lo_creat", "lo_export", "lo_from_bytea",
	"lo_import", "lo_open", "lo_put", "lo_truncate", "lo_unlink", "load_extension", "lowrite", "nextval",
	"pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_unlock", "pg_advisory_unlock_all",
	"pg_advisory_unlock_shared", "pg_cancel_backend", "pg_create_restore_point", "pg_file_rename", "pg_file_unlink",
	"pg_file_write", "pg_logical_emit_message", "pg_notify", "pg_promote", "pg_reload_conf", "pg_rotate_logfile",
	"pg_switch_wal", "pg_terminate_backend", "pg_try_advisory_lock", "pg_try_advisory_lock_shared", "set_config", "setval",
}

// refused is why no tool may run the statement, whatever its effect, "" when one may.
func (s *statement) refused() string {
	verb := s.at(s.verb)
	switch {
	case verb.is("PRAGMA"):
		return "PRAGMA is not for a tool: select from pragma_table_info('t') and its like instead"
	case verb.is("ATTACH", "DETACH", "LOAD", "COPY", "VACUUM", "CHECKPOINT"):
		return strings.ToUpper(verb.text) + " is not for a tool: it reaches beyond the rows of the database"
	case verb.is("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"):
		return strings.ToUpper(verb.text) + " is not for a tool: a call is a transaction of its own"
	case verb.is("PREPARE", "EXECUTE", "DEALLOCATE", "DECLARE", "FETCH", "MOVE", "CLOSE", "SET", "RESET", "DISCARD", "LISTEN", "UNLISTEN"):
		return strings.ToUpper(verb.text) + " is not for a tool: its effect would stay on a connection that others use next"
	}
	return ""
}

// check is every fault of the statement in a tool of an effect.
func (s *statement) check(effect tool.Effect) []string {
	if text := s.refused(); text != "" {
		return []string{text}
	}
	var faults []string
	if what := s.writes(); what != "" && effect == tool.Read {
		faults = append(faults, fmt.Sprintf("the statement writes (%s), but the tool's effect is read: leave effect out, or set it to write", what))
	}
	for _, t := range s.tokens {
		if t.kind == foreign {
			faults = append(faults, fmt.Sprintf("%s: want :name, the name of a parameter, in the place of the database's own notation", t.text))
		}
	}
	return faults
}
