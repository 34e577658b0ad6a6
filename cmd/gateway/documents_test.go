package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of providers names what shows each line: Go tests and golden conversations that are there.
func TestWhatTheTableOfProvidersNamesIsThere(t *testing.T) {
	data, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOfTheTree(t)
	found := 0
	for _, m := range regexp.MustCompile("(?m)^\\|.*\\| `([^`|]+)` \\|$").FindAllStringSubmatch(string(data), -1) {
		name := m[1]
		if strings.Contains(m[0], "http") || strings.Count(m[0], "|") != 5 {
			continue // another table
		}
		found++
		_, err := os.Stat(filepath.Join("testdata/conversations", name+".txtar"))
		if !tests[name] && err != nil {
			t.Errorf("there is neither a test nor a conversation %s", name)
		}
	}
	if found < 40 {
		t.Errorf("%d lines name what shows them", found)
	}
}

// What these documents promise is shown by tests and golden conversations that are there.
func TestWhatIsPromisedIsShown(t *testing.T) {
	tests := testsOfTheTree(t)
	for document, least := range map[string]int{"prompt-injection.md": 10, "security.md": 100} {
		data, err := os.ReadFile("../../docs/" + document)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, table := range strings.Split(string(data), "| what is promised | shown by |")[1:] {
			for line := range strings.Lines(strings.TrimLeft(table, "\n")) {
				cells := strings.Split(line, "|")
				if len(cells) < 4 { // the table is over
					break
				}
				for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[len(cells)-2], -1) {
					found++
					_, err := os.Stat(filepath.Join("testdata/conversations", m[1]+".txtar"))
					if !tests[m[1]] && err != nil {
						t.Errorf("%s: there is neither a test nor a conversation %s", document, m[1])
					}
				}
			}
		}
		if found < least {
			t.Errorf("%s names %d, want at least %d", document, found, least)
		}
	}
}

// What the document on reliability says is shown by tests that are there.
func TestTheTestsOfReliabilityAreThere(t *testing.T) {
	data, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOfTheTree(t)
	names := regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(string(data), -1)
	for _, m := range names {
		if !tests[m[1]] {
			t.Errorf("there is no test %s", m[1])
		}
	}
	if len(names) < 10 {
		t.Errorf("%d tests are named", len(names))
	}
}

// testsOfTheTree are the names of all Go tests.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	walk := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(data, -1) {
			tests[string(m[1])] = true
		}
		return err
	}
	for _, root := range []string{"../../internal", "."} {
		if err := filepath.WalkDir(root, walk); err != nil {
			t.Fatal(err)
		}
	}
	return tests
}

// heading is one of a document, link a link to somewhere in the tree.
var (
	heading = regexp.MustCompile("(?m)^#+ (.*)$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// Links between documents lead to files and headings that are there.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	text := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return fenced.ReplaceAllString(string(data), "")
	}
	found := 0
	for _, document := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text(document), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(m[1], "#")
			path := document
			if file != "" {
				path = filepath.Join(filepath.Dir(document), file)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: the link %s leads nowhere", filepath.Base(document), m[1])
				continue
			}
			if anchor != "" && !anchors(text(path))[anchor] {
				t.Errorf("%s: there is no heading %s", filepath.Base(document), m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("%d links", found)
	}
}

// anchors are the names of a document's headings, as they stand in links.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}

// pathInText is a file or folder of the repository that a document names, and a function in it.
var pathInText = regexp.MustCompile("`((?:internal|cmd|deploy|examples|docs)/[\\w./-]+)`(?: \\(`(\\w+)`\\))?")

// What documents say where to look is there.
func TestPathsInDocumentsAreThere(t *testing.T) {
	found := 0
	for _, document := range documents(t) {
		for _, m := range pathInText.FindAllStringSubmatch(read(t, document), -1) {
			path := filepath.Join("../..", m[1])
			found++
			if _, err := os.Stat(path); err != nil && !strings.Contains(m[1], "NAME") {
				t.Errorf("%s: there is no %s", filepath.Base(document), m[1])
				continue
			}
			if m[2] != "" && !regexp.MustCompile(`(?m)^func (\(.*\) )?`+m[2]+`\b`).MatchString(read(t, path)) {
				t.Errorf("%s: %s has no %s", filepath.Base(document), m[1], m[2])
			}
		}
	}
	if found < 40 {
		t.Errorf("%d paths found, want at least 40", found)
	}
}
