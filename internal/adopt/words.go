// Package adopt makes the YAML of a configuration from what documentation gives: a tool of a curl command, MCP servers of
// the JSON of other programs, an entry under `openapi` of what a survey found in a document. It reads text and gives text: nothing is run and nothing is asked.
package adopt

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// command is the curl of a piece of shell, with its quotes resolved.
type command struct {
	args  []string
	stdin string // of a here-document
	notes []string
}

var errNoCurl = errors.New("there is no curl command in it")

// readCommand finds the first curl of a text. Nothing of it is carried out: a variable stays as ${NAME}, and a command
// substitution is a fault.
func readCommand(text string) (command, error) {
	text = strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")), "$ ") // the prompt of documentation
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text+"\n"), "")
	if err != nil {
		return command{}, fmt.Errorf("reading the command as a shell does: %w", err)
	}
	var c command
	var failed error
	found, beside := false, false
	syntax.Walk(file, func(n syntax.Node) bool {
		s, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		call, ok := s.Cmd.(*syntax.CallExpr)
		switch {
		case !ok:
			return true
		case len(call.Args) == 0:
			return false
		case found || path.Base(call.Args[0].Lit()) != "curl":
			beside = true
			return false
		}
		found = true
		c, failed = readCall(s, call)
		return false
	})
	switch {
	case failed != nil:
		return command{}, failed
	case !found:
		return command{}, errNoCurl
	case beside:
		c.notes = append(c.notes, "other commands beside the first curl are left out; what jq does to the reply can stand under http.result")
	}
	return c, nil
}

func readCall(s *syntax.Stmt, call *syntax.CallExpr) (command, error) {
	cfg := &expand.Config{Env: expand.FuncEnviron(func(name string) string {
		if name == "IFS" {
			return "" // the usual one
		}
		return "${" + name + "}"
	})}
	var c command
	for _, w := range call.Args[1:] {
		list, err := unquoted(cfg, w)
		if err != nil {
			return command{}, fmt.Errorf("reading the command as a shell does: %w", err)
		}
		c.args = append(c.args, list...)
	}
	for _, r := range s.Redirs {
		switch {
		case r.Hdoc != nil:
			text, err := expand.Document(cfg, r.Hdoc)
			if err != nil {
				return command{}, fmt.Errorf("reading the here-document: %w", err)
			}
			c.stdin = text
		case r.Op == syntax.WordHdoc:
			list, err := unquoted(cfg, r.Word)
			if err != nil {
				return command{}, fmt.Errorf("reading the here-string: %w", err)
			}
			c.stdin = strings.Join(list, " ")
		}
	}
	return c, nil
}

// unquoted is what a shell makes of a word: mostly one, without its quotes. No file is looked for, and a leading tilde stays.
func unquoted(cfg *expand.Config, w *syntax.Word) ([]string, error) {
	if text := w.Lit(); strings.HasPrefix(text, "~") {
		return []string{text}, nil
	}
	return expand.Fields(cfg, w)
}
