package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fencedBlock is a block of a document, with its language.
var fencedBlock = regexp.MustCompile("(?ms)^```(\\S*)\n(.*?)^```$")

// Every block of a document says what it is, so that none is left out by the tests that look for those of its kind.
func TestEveryBlockSaysWhatItIs(t *testing.T) {
	for _, document := range documents(t) {
		text := read(t, document)
		for _, m := range fencedBlock.FindAllStringSubmatch(text, -1) {
			switch m[1] {
			case "sh", "yaml", "python", "js", "go", "text":
			case "json":
				if !json.Valid([]byte(m[2])) {
					t.Errorf("%s: no valid JSON:\n%s", filepath.Base(document), m[2])
				}
			default:
				t.Errorf("%s: the block is of %q, want sh, yaml, json, python, js, go or text:\n%s", filepath.Base(document), m[1], m[2])
			}
		}
		// An indented block says nothing. Within a list such a line is just its item's.
		between := fencedBlock.ReplaceAllString(text, "")
		for _, m := range regexp.MustCompile(`(?m)^\n {4,}\S.*$`).FindAllStringIndex("\n"+between, -1) {
			before := strings.TrimRight(("\n" + between)[:m[0]], "\n")
			last := before[strings.LastIndexByte(before, '\n')+1:]
			if !strings.HasPrefix(last, " ") && !strings.HasPrefix(last, "- ") {
				t.Errorf("%s: a block that is indented: fence it:%s", filepath.Base(document), ("\n" + between)[m[0]:m[1]])
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// commandsIn are the command lines of a script, without its comments, its here-documents and what stands behind a pipe.
func commandsIn(script string) [][]string {
	script = regexp.MustCompile(`(?ms)<<'(\w+)'$.*?^\w+$`).ReplaceAllString(script, "")
	script = strings.ReplaceAll(script, "\\\n", " ")
	var all [][]string
	for line := range strings.Lines(script) {
		line = regexp.MustCompile(`(^|\s)#.*`).ReplaceAllString(strings.TrimSpace(line), "")
		line = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(line, "QUOTED") // no word of ours is quoted
		line = regexp.MustCompile(`\s\d?>.*|\s&$|\s\|.*`).ReplaceAllString(line, "")
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// What a document's commands name is there: subcommands and flags of the gateway, targets of make, files.
func TestCommandsInDocumentsAreThere(t *testing.T) {
	makefile := read(t, "../../Makefile")
	found := map[string]int{}
	for _, document := range documents(t) {
		text := read(t, document)
		name := filepath.Base(document)
		var lines [][]string
		for _, m := range fencedBlock.FindAllStringSubmatch(text, -1) {
			if m[1] == "sh" {
				lines = append(lines, commandsIn(m[2])...)
			}
		}
		for _, m := range regexp.MustCompile("`((?:gateway|make) [a-z][^`]*)`").FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
			lines = append(lines, strings.Fields(strings.NewReplacer("[", "", "]", "", "'", "").Replace(m[1])))
		}
		for _, words := range lines {
			switch {
			case filepath.Base(words[0]) == "gateway":
				checkGateway(t, name, words[1:])
			case len(words) > 3 && words[0] == "go" && words[1] == "run":
				checkGateway(t, name, words[3:])
			case words[0] == "make" && len(words) > 1:
				if !strings.Contains(makefile, "\n"+words[1]+":") {
					t.Errorf("%s: %q: there is no such target", name, words)
				}
			default:
				checkFiles(t, name, words)
				continue
			}
			found[filepath.Base(words[0])]++
		}
	}
	if found["gateway"] < 20 || found["make"] < 3 || found["go"] < 1 {
		t.Errorf("only %v commands were found", found)
	}
}

// checkGateway asserts that a command line of the gateway has a subcommand and flags that are there.
func checkGateway(t *testing.T, document string, args []string) {
	t.Helper()
	cmd, rest, err := root().Find(args)
	if err != nil || !cmd.HasParent() {
		t.Errorf("%s: gateway %q: there is no such command: %v", document, args, err)
		return
	}
	known := func(name string) bool {
		found := false
		for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			found = found || len(name) == 1 && set.ShorthandLookup(name) != nil || set.Lookup(name) != nil
		}
		return found
	}
	for _, word := range rest {
		if name := strings.TrimLeft(word, "-"); name != word && word != "-" { // which is stdin
			if name, _, _ = strings.Cut(name, "="); !known(name) {
				t.Errorf("%s: gateway %q: %s has no flag %s", document, args, cmd.CommandPath(), word)
			}
		}
	}
	if group := cmd.HasSubCommands() && !runsAlone(cmd); group && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		t.Errorf("%s: gateway %q: there is no such command", document, args)
	}
}

// runsAlone says whether a command with subcommands also does something by itself.
func runsAlone(cmd *cobra.Command) bool { return cmd.Name() == "runs" }

// checkFiles asserts that the files and folders that a command of another program names are there, and the program itself
// if it is one of the repository's.
func checkFiles(t *testing.T, document string, words []string) {
	t.Helper()
	for _, word := range words {
		if strings.HasPrefix(word, "deploy/") || strings.HasPrefix(word, "examples/") {
			if _, err := os.Stat(filepath.Join("../..", word)); err != nil {
				t.Errorf("%s: %q: %v", document, words, err)
			}
		}
	}
}
