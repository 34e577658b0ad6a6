package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/outbound/outboundtest"
	"github.com/toolgate/toolgate/internal/script"
)

// documentEnvironment is what the examples and documents may take from the environment.
func documentEnvironment(name string) (string, bool) {
	if strings.HasSuffix(name, "_SHA256") {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:]), true
	}
	if strings.HasSuffix(name, "_API_KEY") {
		return "sk-of-the-tests", true
	}
	v, ok := map[string]string{
		"POSTAL_URL":   "https://postal.example.com",
		"POSTAL_TOKEN": "token-of-the-tests",
		"CRM_URL":      "https://crm.example.com",
		"CRM_KEY":      "crm-key-of-the-tests",
		"COURT_DB":     "sqlite:court.db",
		"SHOP_URL":     "https://shop.example.com",
		"SHOP_KEY":     "shop-key-of-the-tests",
		"OTLP_TOKEN":   "token-of-the-collector",

		"CODE_HOST_TOKEN": "token-of-the-tests",
		"FILES_SERVER":    "./files-server",
	}[name]
	return v, ok
}

// trackerDocument is the OpenAPI document that a block names.
const trackerDocument = `openapi: 3.1.0
info: {title: Tracker, version: "1"}
paths:
  /issues/{id}:
    get:
      operationId: get_issue
      summary: Show one issue by its number.
      parameters: [{name: id, in: path, required: true, schema: {type: integer}, description: The number.}]
      responses: {"200": {description: The issue.}}
  /issues:
    post:
      operationId: create_issue
      summary: Open a new issue with a title.
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [title], properties: {title: {type: string, description: One line.}}}}}}
      responses: {"201": {description: The issue.}}
  /users:
    delete:
      operationId: delete_users_admin
      responses: {"204": {description: Gone.}}
`

// wired says what is wrong with a configuration, warnings included, up to a gateway made of it.
func wired(t *testing.T, name string, data []byte) error {
	t.Helper()
	a := outboundtest.NewAuthority(t)
	a.Issue(t, "gateway", time.Now().Add(time.Hour))
	dir := a.Dir
	if err := os.WriteFile(filepath.Join(dir, "openai.key"), []byte("sk-of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tracker.yaml"), []byte(trackerDocument), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys.yaml"), []byte(keyLines("customer")), 0o600); err != nil {
		t.Fatal(err)
	}
	return made(config.Parse(name, dir, data, documentEnvironment))
}

// made says what is wrong with a file, up to a gateway made of it.
func made(f *config.File) error {
	c, err := check(f)
	if err != nil {
		return err
	}
	if len(c.warnings) > 0 {
		return c.warnings
	}
	g, err := newGateway(c)
	if err == nil {
		g.close()
	}
	return err
}

// exampleFiles are the configurations of the examples.
func exampleFiles(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../../examples/*.yaml", "../../examples/*/gateway.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no examples in %s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

// exampleFolders are the folders of the examples, each a whole one.
func exampleFolders(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "internal" { // which has the programs that several of them start
			names = append(names, e.Name())
		}
	}
	if len(names) < 9 {
		t.Fatalf("only %q are there", names)
	}
	return names
}

// The list of examples in the guide is whole.
func TestTheGuideListsTheExamples(t *testing.T) {
	guide := read(t, "../../docs/guide.md")
	for _, name := range exampleFolders(t) {
		if !strings.Contains(guide, "\n| ["+name+"](../examples/"+name+") | ") {
			t.Errorf("docs/guide.md does not list %s", name)
		}
	}
}

func TestExamplesAreTaken(t *testing.T) {
	for _, file := range exampleFiles(t) {
		t.Run(strings.TrimPrefix(file, "../../examples/"), func(t *testing.T) {
			if err := made(config.Load(file, documentEnvironment)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The first line of a yaml block in a document says what it is; one without such a line is a whole gateway.yaml.
const (
	blockPart   = "# part of gateway.yaml" // taken once it has upstreams
	blockScript = "# a script for gateway mock"
	// Another program's file, which TestLiteLLM of internal/e2e runs.
	blockLiteLLM = "# config.yaml of LiteLLM"
)

// withUpstreams completes a part that has none.
func withUpstreams(part string) string {
	if strings.Contains(part, "\nupstreams:") {
		return part
	}
	return part + "\nupstreams: {openai: {base_url: https://api.openai.com/v1, api_key: \"${OPENAI_API_KEY}\"}}\n"
}

// block is a fenced block of a document.
var block = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// documents are those of the repository's root, of docs and of the examples.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../examples/*/README.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, files...)
	}
	return all
}

func TestYAMLInDocumentsIsTaken(t *testing.T) {
	found := 0
	for _, document := range documents(t) {
		data, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllSubmatchIndex(data, -1) {
			found++
			at := strings.Count(string(data[:m[2]]), "\n") // so that a fault's line is about that of the document
			text := strings.Repeat("\n", at) + string(data[m[2]:m[3]])
			checkBlock(t, filepath.Base(document), text)
		}
	}
	if found == 0 {
		t.Error("no yaml block in any document")
	}
}

func checkBlock(t *testing.T, document, text string) {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n")
	var err error
	switch first {
	case blockScript:
		_, err = script.Parse(document, []byte(text))
	case blockLiteLLM:
	case blockPart:
		err = wired(t, document, []byte(withUpstreams(text)))
	default:
		err = wired(t, document, []byte(text))
	}
	if err != nil {
		t.Error(err)
	}
}
