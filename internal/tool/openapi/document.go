package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// maxDocument is the size up to which a document is read.
const maxDocument = 8 << 20

// document is an OpenAPI document. It is read-only.
type document struct {
	root *jsontree.Value
}

// readDocument reads the file at path, relative to the folder of n's file. What is wrong is reported at n's spec; then
// it is nil.
func readDocument(n *config.Node, path string) *document {
	at := n.Get("spec")
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(n.Dir(), full)
	}
	data, err := config.ReadFile(full, maxDocument)
	n.Uses(full, data)
	if errors.Is(err, config.ErrTooLarge) {
		err = fmt.Errorf("%w: cut it down to the paths that are wanted", err)
	}
	if err != nil {
		at.Fail("%s can't be read: %v", path, err)
		return nil
	}
	root, err := parse(data)
	if err != nil {
		at.Fail("%s: %v", path, err)
		return nil
	}
	doc := &document{root}
	if err := doc.check(); err != nil {
		at.Fail("%s: %v", path, err)
		return nil
	}
	return doc
}

// parse reads JSON or YAML.
func parse(data []byte) (*jsontree.Value, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, errors.New("want UTF-8")
	}
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) == 0 || text[0] != '{' || !json.Valid(data) {
		return parseYAML(data)
	}
	root, err := jsontree.Parse(data)
	if twice, ok := errors.AsType[*jsontree.DuplicateError](err); ok {
		return nil, fmt.Errorf("line %d: %w", lineOf(data, twice.Char), err)
	}
	if wrong, ok := errors.AsType[*jsontree.SyntaxError](err); ok {
		return nil, fmt.Errorf("line %d: %s", lineOf(data, wrong.Char), wrong.Reason)
	}
	return root, err
}

// lineOf is the line of a character, both counted from 1.
func lineOf(data []byte, char int) int {
	line := 1
	for _, c := range string(data) {
		if char--; char <= 0 {
			break
		}
		if c == '\n' {
			line++
		}
	}
	return line
}

// check says whether this is a document that tools can be made of.
func (d *document) check() error {
	if !d.root.Is(jsontree.Object) {
		return errors.New("this is no OpenAPI document: want a mapping")
	}
	if v := d.root.Get("swagger"); v != nil {
		return fmt.Errorf("this is Swagger %s: convert it to OpenAPI 3 first (swagger2openapi does)", text(v))
	}
	version := d.root.Get("openapi")
	switch {
	case version == nil:
		return errors.New("this is no OpenAPI document: it has no key openapi")
	case !strings.HasPrefix(text(version), "3."):
		return fmt.Errorf("OpenAPI %s is not known: want 3.0 or 3.1", text(version))
	}
	if paths := d.root.Get("paths"); paths != nil && !paths.Is(jsontree.Object) && !paths.Is(jsontree.Null) {
		return errors.New("paths must be a mapping of paths to operations")
	}
	return nil
}

// text is the text of a scalar, "" for anything else.
func text(v *jsontree.Value) string {
	if v == nil {
		return ""
	}
	return v.Text
}

// isTrue says whether v is true. Some documents have the word as a text.
func isTrue(v *jsontree.Value) bool {
	return (v.Is(jsontree.Bool) || v.Is(jsontree.String)) && v.Text == "true"
}

// members are the entries of an object, nil for anything else.
func members(v *jsontree.Value) []jsontree.Member {
	if !v.Is(jsontree.Object) {
		return nil
	}
	return v.Members
}

// items are those of a list, nil for anything else.
func items(v *jsontree.Value) []*jsontree.Value {
	if !v.Is(jsontree.List) {
		return nil
	}
	return v.Items
}

// find is what a reference points to. Only references within the document are followed; home is the schema that the
// reference stands in, whose own $defs some writers refer to as if it were the document.
func (d *document) find(ref string, home *jsontree.Value) (*jsontree.Value, error) {
	fragment, inside := strings.CutPrefix(ref, "#")
	switch {
	case !inside && strings.Contains(ref, "://"):
		return nil, fmt.Errorf("it refers to another address (%s), which is not followed: bundle the document into one file first", cut(ref, 100))
	case !inside:
		return nil, fmt.Errorf("it refers to another file (%s), which is not followed: bundle the document into one file first", cut(ref, 100))
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("the reference %s is none within the document", cut(ref, 100))
	}
	for _, root := range []*jsontree.Value{d.root, home} {
		if v := step(root, pointer); v != nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("the reference %s points to nothing", cut(ref, 100))
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~") // RFC 6901, section 4

func step(v *jsontree.Value, pointer string) *jsontree.Value {
	if pointer == "" {
		return v
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		if v.Is(jsontree.List) {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v.Items) {
				return nil
			}
			v = v.Items[i]
			continue
		}
		v = v.Get(unescape.Replace(token))
	}
	return v
}

// maxHops is how many references may lead from one to the next.
const maxHops = 32

// follow is v, or what it refers to where it is a reference: a parameter, a body, a path item.
func (d *document) follow(v *jsontree.Value) (*jsontree.Value, error) {
	for range maxHops {
		ref := v.Get("$ref")
		if !ref.Is(jsontree.String) {
			return v, nil
		}
		next, err := d.find(ref.Text, nil)
		if err != nil {
			return nil, err
		}
		v = next
	}
	return nil, errors.New("its references go round in a circle")
}
