// Package structured is answers that have to fit a JSON Schema, as response_format asks for them: it reads the schema,
// makes of it the tool whose call is the answer, and finds and checks the answer in what a model wrote.
package structured

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/schema"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
	"github.com/toolgate/toolgate/internal/tool"
)

// ToolName is the name of the tool whose call is the answer.
const ToolName = "final_answer"

// Format is a schema that the answer has to fit. Immutable.
type Format struct {
	description string
	schema      *schema.Schema
	wrapped     bool // the schema is no object's: the answer is the one property of an object, as tools take objects alone
}

// wrapper is the property that holds an answer which is no object.
const wrapper = "answer"

// Read reads a request's response_format. It gives nil where that asks for no schema. The error says what is wrong with
// one that does.
func Read(responseFormat json.RawMessage) (*Format, error) {
	root := gjson.ParseBytes(responseFormat)
	if root.Get("type").String() != "json_schema" {
		return nil, nil
	}
	given := root.Get("json_schema.schema")
	if !given.IsObject() {
		return nil, errors.New("response_format.json_schema.schema: want a JSON Schema, an object")
	}
	f := &Format{description: root.Get("json_schema.description").String()}
	raw := json.RawMessage(given.Raw)
	looks := maxLooks
	if tree, err := jsontree.Parse(raw); err == nil && !isObject(tree, tree, &looks) {
		f.wrapped, raw = true, wrap(tree)
	}
	var err error
	if f.schema, err = schema.Parse(raw); err != nil {
		text := err.Error()
		if f.wrapped {
			text = strings.ReplaceAll(text, "properties."+wrapper+".", "")
		}
		return nil, errors.New("response_format.json_schema.schema: " + text)
	}
	return f, nil
}

// isObject says whether a schema is of objects as it stands, by what it refers to, or by a part of its allOf. What it
// can't tell within the looks that are left is taken for one: the schema's own reader says what is wrong with it.
func isObject(root, v *jsontree.Value, looks *int) bool {
	for ; ; *looks-- {
		if *looks <= 0 {
			return true
		}
		ref := v.Get("$ref")
		if !ref.Is(jsontree.String) {
			break
		}
		if v = find(root, ref.Text); v == nil {
			return true
		}
	}
	*looks--
	if t := v.Get("type"); t != nil {
		return t.IsText("object")
	}
	if v.Get("properties") != nil {
		return true
	}
	all := v.Get("allOf")
	return all.Is(jsontree.List) && slices.ContainsFunc(all.Items, func(one *jsontree.Value) bool { return isObject(root, one, looks) })
}

// maxLooks bounds the schemas that isObject looks at.
const maxLooks = 256

// find is what a local reference refers to, nil where that is nothing.
func find(root *jsontree.Value, ref string) *jsontree.Value {
	at, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	v := root
	for i, key := range strings.Split(at, "/") {
		if i == 0 {
			if key != "" {
				return nil
			}
			continue
		}
		if v = v.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(key)); v == nil {
			return nil
		}
	}
	return v
}

// wrap is a schema of objects with the one given as its property. The definitions stay at the top, where references
// look for them; references to anything else follow what they refer to.
func wrap(given *jsontree.Value) json.RawMessage {
	out := &jsontree.Value{Kind: jsontree.Object}
	out.Set("type", jsontree.Text("object"))
	out.Set("properties", &jsontree.Value{Kind: jsontree.Object, Members: []jsontree.Member{{Key: wrapper, Value: given}}})
	out.Set("required", jsontree.Texts(wrapper))
	out.Set("additionalProperties", jsontree.Boolean(false))
	moveReferences(given, false)
	for _, key := range []string{"$defs", "definitions"} {
		if defs := given.Get(key); defs != nil {
			given.Delete(key)
			out.Set(key, defs)
		}
	}
	return out.JSON()
}

// moveReferences makes the local references of a schema those of the same schema inside the wrapper. names says that v
// is no schema but a map of them, whose keys are anybody's.
func moveReferences(v *jsontree.Value, names bool) {
	for _, item := range v.Items {
		moveReferences(item, false)
	}
	for i, m := range v.Members {
		switch {
		case names:
			moveReferences(m.Value, false)
		case m.Key == "$ref" && m.Value.Is(jsontree.String):
			rest, local := strings.CutPrefix(m.Value.Text, "#")
			if local && (rest == "" || rest[0] == '/') && !strings.HasPrefix(rest, "/$defs/") && !strings.HasPrefix(rest, "/definitions/") {
				v.Members[i].Value = jsontree.Text("#/properties/" + wrapper + strings.TrimSuffix(rest, "/"))
			}
		case m.Key == "enum", m.Key == "const", m.Key == "default", m.Key == "example", m.Key == "examples": // values, no schemas
		default:
			moveReferences(m.Value, m.Key == "properties" || m.Key == "patternProperties" || m.Key == "dependentSchemas" || m.Key == "$defs" || m.Key == "definitions")
		}
	}
}

// Declaration is the tool whose call is the answer, as a request's tools have it.
func (f *Format) Declaration(name string) json.RawMessage {
	description := "Give the final answer to the user, as the arguments of this call. Call it last, once the results of the other tools are there; never guess a value."
	if f.description != "" {
		description += " " + f.description
	}
	b := append([]byte(`{"type":"function","function":{"name":`), chat.Quote(name)...)
	b = append(append(b, `,"description":`...), chat.Quote(description)...)
	b = append(append(b, `,"parameters":`...), f.schema.JSON()...)
	return append(b, '}', '}')
}

// Invalid is an answer that does not fit, for the model to read.
type Invalid struct{ Faults []string }

func (e *Invalid) Error() string {
	return "invalid answer for " + ToolName + ": " + strings.Join(e.Faults, "; ")
}

// FromArguments is the answer in the arguments of a call, the JSON value that stood there. Its error is *Invalid.
func (f *Format) FromArguments(raw json.RawMessage) (string, error) {
	args, canonical, err := registry.ReadArguments(raw)
	if err != nil {
		return "", &Invalid{[]string{err.Error()}}
	}
	text := canonical
	if own := plain(raw); own != "" { // as the model wrote it
		text = own
	}
	return f.check(args, text)
}

// plain is the object that raw is, or holds as a text, "" where it is anything else.
func plain(raw json.RawMessage) string {
	v := gjson.ParseBytes(raw)
	text := v.Raw
	if v.Type == gjson.String {
		text = v.Str
	}
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return ""
	}
	return text
}

// check holds an object against the schema, first as it is, then with its values coerced. text is the object as JSON.
func (f *Format) check(args map[string]any, text string) (string, error) {
	faults := f.schema.Validate(args)
	if len(faults) > 0 {
		coerced := f.schema.Coerce(args)
		if len(f.schema.Validate(coerced)) > 0 {
			return "", &Invalid{faults}
		}
		text = string(tool.EncodeJSON(coerced))
	}
	if f.wrapped {
		return gjson.Get(text, wrapper).Raw, nil
	}
	return text, nil
}

// Bare is an error without the wrapper's name, which the client and who writes a text never saw.
func (f *Format) Bare(err error) error {
	invalid, ok := errors.AsType[*Invalid](err)
	if !ok || !f.wrapped {
		return err
	}
	out := make([]string, len(invalid.Faults))
	for i, fault := range invalid.Faults {
		out[i] = strings.TrimLeft(strings.TrimPrefix(fault, wrapper), ".: ")
	}
	return &Invalid{out}
}

const (
	maxText       = 4 << 20 // bytes of a text that is looked through
	maxCandidates = 64
)

// FromText is the answer in a text: all of it, or the first part of it that fits: in a code fence, or inside prose. Its
// error is *Invalid: the faults of what comes nearest to an answer.
func (f *Format) FromText(text string) (string, error) {
	if len(text) > maxText {
		return "", &Invalid{[]string{fmt.Sprintf("want a JSON text below %d MiB", maxText>>20)}}
	}
	none := "want JSON that fits the schema, found none"
	if strings.TrimSpace(text) == "" {
		none = "want JSON that fits the schema, got an empty text"
	}
	invalid := &Invalid{[]string{none}}
	first := true
	for _, c := range f.candidates(text) {
		answer, err := f.candidate(c)
		if err == nil {
			return answer, nil
		}
		if e, ok := errors.AsType[*Invalid](err); ok && first {
			invalid, first = e, false
		}
	}
	return "", invalid
}

// candidate checks one JSON text.
func (f *Format) candidate(text string) (string, error) {
	if f.wrapped {
		text = `{"` + wrapper + `":` + text + `}`
	}
	args, _, err := registry.ReadArguments(json.RawMessage(text))
	if err != nil {
		return "", &Invalid{[]string{err.Error()}}
	}
	answer, err := f.check(args, text)
	return answer, f.Bare(err)
}

// candidates are the JSON texts in a text, outermost ones in order: all of it, or those that begin with a bracket.
func (f *Format) candidates(text string) []string {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if f.wrapped && json.Valid([]byte(text)) || strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		return []string{text}
	}
	starts := "{"
	if f.wrapped {
		starts = "{["
	}
	var found []string
	for range maxCandidates {
		i := strings.IndexAny(text, starts)
		if i < 0 {
			break
		}
		text = text[i:]
		d := json.NewDecoder(strings.NewReader(text))
		var v json.RawMessage
		if d.Decode(&v) != nil {
			text = text[1:]
			continue
		}
		found = append(found, string(bytes.TrimSpace(v)))
		text = text[d.InputOffset():]
	}
	return found
}
